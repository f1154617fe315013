"""What a leader has to know of the one before it goes through the hands of one that never led."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from berth_crds import tasks
from berth_crds.client import api, connection
from berth_operator.kube import terms
from kube.elections import candidate, leader, read


class LateApi(api.Api):
    """A session whose first write waits until it may go on: before it is sent, or before it is answered."""

    def __init__(self, link: connection.Connection, *, before: bool) -> None:
        super().__init__(link, agent="test-late")
        self.reached, self.may_go_on = asyncio.Event(), asyncio.Event()
        self._before = before

    async def send(self, method: str, path: str, **rest: Any) -> bytes:
        """Send, and wait on one side of that."""
        if method == "GET":
            return await super().send(method, path, **rest)
        if self._before:
            await self._wait()
        body = await super().send(method, path, **rest)
        if not self._before:
            await self._wait()
        return body

    async def _wait(self) -> None:
        self.reached.set()
        await self.may_go_on.wait()


@pytest.mark.usefixtures("no_leader")
@pytest.mark.parametrize("clean", [True, False], ids=["after a clean end", "after another"])
@pytest.mark.parametrize("before", [True, False], ids=["before its write", "before the answer"])
async def test_a_campaign_that_is_cut_short_keeps_nobody_waiting(
    account: Path, session: api.Api, *, clean: bool, before: bool
) -> None:
    """What it takes goes back as it was: the next leader has it at once, and knows how the last one ended."""
    await (await leader(session)).release(clean=clean)

    async with LateApi(connection.load(account), before=before) as late:
        runner = candidate(late, "b_x")
        campaign = asyncio.create_task(runner.campaign())
        await late.reached.wait()
        await tasks.end([campaign])
        late.may_go_on.set()
        await runner.withdraw()

    assert await candidate(session, "c_x").try_acquire() == terms.Term("c_x/3", clean=clean)


@pytest.mark.usefixtures("no_leader")
async def test_a_late_write_that_is_refused_is_nobodys_trouble(account: Path, session: api.Api) -> None:
    """Another has taken the Lease meanwhile, and nobody reads the answer any more: nothing is logged."""
    await (await leader(session)).release(clean=True)
    lost: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))

    async with LateApi(connection.load(account), before=True) as late:
        runner = candidate(late, "b_x")
        campaign = asyncio.create_task(runner.campaign())
        await late.reached.wait()
        await tasks.end([campaign])
        await candidate(session, "c_x").try_acquire()
        late.may_go_on.set()
        assert runner._acquiring is not None
        await asyncio.wait([runner._acquiring])
        runner._acquiring = None
        gc.collect()

    assert lost == []


@pytest.mark.usefixtures("no_leader")
async def test_a_campaign_that_took_nothing_leaves_the_lease_alone(session: api.Api, admin: api.Api) -> None:
    """Somebody else leads."""
    await leader(session)
    runner = candidate(session, "b_x")
    assert await runner.try_acquire() is None
    before = await read(admin)

    await runner.withdraw()

    assert await read(admin) == before


@pytest.mark.parametrize(
    ("term", "waits"),
    [
        pytest.param(terms.Term("b_x/2", clean=True), False, id="released"),
        pytest.param(terms.Term("b_x/2", clean=False, inherited="100"), True, id="released amid binds"),
        pytest.param(terms.Term("b_x/2", clean=False, lapsed=True, inherited="100"), False, id="lapsed"),
        pytest.param(terms.Term("b_x/2", clean=False, lapsed=True), True, id="lapsed, of an older version"),
    ],
)
def test_only_binds_that_cannot_be_made_void_are_waited_for(term: terms.Term, *, waits: bool) -> None:
    """They may still be sent, or name no revision."""
    assert term.waits_for_binds is waits
