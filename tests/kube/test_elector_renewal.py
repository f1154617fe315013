"""A renewal: what it writes, what it is worth when it takes long, and what is tried beside it."""

import asyncio
import functools
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import api, errors, resources
from berth_operator.kube import elector
from kube.elections import QUICK, candidate, change, holding, leader, read, renew, until_written
from support import clock

pytestmark = pytest.mark.usefixtures("no_leader")

Write = Callable[[], Awaitable[bytes]]
Renewal = Callable[[Write, int], Awaitable[bytes]]  # Given a write and its number.
Intercept = Callable[[Renewal], None]

# ---------------------------------------------------------------- what it writes


async def test_a_renewal_puts_our_part_right_and_leaves_that_of_others(
    session: api.Api, admin: api.Api
) -> None:
    """The renew time moves, an edited duration is put right, and labels and annotations stay."""
    holder = await leader(session, timing=QUICK)
    await change(admin, lease_duration_seconds=3600)
    path = resources.LEASES.path(names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)
    meta = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    await admin.send("PATCH", path, body=msgspec.json.encode({"metadata": meta}), content=api.MERGE_PATCH)
    edited = await read(admin)

    async with holding(holder) as task:
        after = await until_written(admin, edited)
        assert not task.done()

    assert after.spec.renew_time != edited.spec.renew_time
    assert after.spec == msgspec.structs.replace(
        edited.spec, renew_time=after.spec.renew_time, lease_duration_seconds=2
    )
    assert after.metadata.labels == {"team": "a"}
    assert after.metadata.annotations["note"] == "b"
    assert holder.leads()


async def test_the_last_term_that_can_be_counted_has_a_successor(session: api.Api, admin: api.Api) -> None:
    """The number begins anew; what makes the term another one is the name of its holder."""
    await (await leader(session)).release(clean=True)
    await change(admin, lease_transitions=elector.MOST_TRANSITIONS)

    term = await candidate(session, "b_x").campaign()

    assert term.name == "b_x/1"
    assert (await read(admin)).spec.lease_transitions == 1


async def test_a_declaration_is_written_at_once_and_inherited(session: api.Api, admin: api.Api) -> None:
    """It does not wait for the next renewal, and who takes over hands it on until it declares anything."""
    first = candidate(session, "a_x", timing=elector.Timing(60.0, 40.0, 30.0))
    terms, declared = [await first.campaign()], []
    async with holding(first):
        for declaration in ("first", "second"):
            await asyncio.wait_for(first.declare(declaration), 5)
            declared.append((await read(admin)).metadata.annotations[names.IN_FLIGHT])
    for name in ("b_x", "c_x"):
        await change(admin, holder_identity="")
        terms.append(await candidate(session, name).campaign())

    assert declared == ["first", "second"]
    assert [term.inherited for term in terms] == [None, "second", "second"]


async def test_what_is_known_of_agents_rides_on_renewals_and_is_inherited(
    session: api.Api, admin: api.Api
) -> None:
    """It costs no write; and who takes over hands it on until it knows more itself."""
    known: list[int | None] = [None]
    first = candidate(session, "a_x", stale_revision=lambda: known[-1])
    terms, noted = [await first.campaign()], []
    for revision in (None, 5, 9, 0, 7):
        known.append(revision)
        await renew(first)
        noted.append((await read(admin)).metadata.annotations.get(names.UNRENEWED))
    await first.release(clean=True)
    for name in ("b_x", "c_x"):
        following = candidate(session, name)
        terms.append(await following.campaign())
        await renew(following)
        await change(admin, holder_identity="")

    assert noted == [None, "5", "9", None, "7"]
    assert [term.stale_revision for term in terms] == [0, 7, 7]


@pytest.mark.parametrize("text", ["9" * 30, "soon", "-1", ""])
async def test_what_somebody_else_wrote_of_agents_keeps_nobody_from_leading(
    text: str, session: api.Api, admin: api.Api
) -> None:
    """It is not inherited, and the next renewal takes it out."""
    await (await leader(session)).release(clean=True)
    path = resources.LEASES.path(names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)
    meta = {"annotations": {names.UNRENEWED: text}}
    await admin.send("PATCH", path, body=msgspec.json.encode({"metadata": meta}), content=api.MERGE_PATCH)

    term = await candidate(session, "b_x").campaign()

    assert term.stale_revision == 0
    assert names.UNRENEWED not in (await read(admin)).metadata.annotations


async def test_a_doubt_is_settled_by_a_renewal_that_began_after_it(session: api.Api) -> None:
    """Until then nothing may be sent, and it is made at once."""
    holder = await leader(session, timing=elector.Timing(60.0, 40.0, 30.0))
    renewed = asyncio.Event()
    steady = holder.confirmed()

    task = asyncio.create_task(holder.keep_renewing(renewed.set))
    holder.doubt()
    doubtful = holder.confirmed()
    await asyncio.wait_for(renewed.wait(), 5)
    task.cancel()

    assert (steady, doubtful, holder.confirmed()) == (True, False, True)
    assert holder.leads()


# ---------------------------------------------------------------- what it is worth


@pytest.fixture
def intercept(session: api.Api, monkeypatch: pytest.MonkeyPatch) -> Intercept:
    """Lend what has a function carry out the renewals."""

    def intercept(renewal: Renewal) -> None:
        write, attempts = session.replace, itertools.count(1)

        async def replace(*what: Any, **where: Any) -> bytes:
            return await renewal(functools.partial(write, *what, **where), next(attempts))

        monkeypatch.setattr(session, "replace", replace)

    return intercept


async def test_a_renewal_counts_from_when_it_was_sent(session: api.Api, intercept: Intercept) -> None:
    """The server may have written it when it was sent: what the answer took is not ours to lead (I7)."""
    time_ = clock.Clock()
    holder = await leader(session, time_=time_)

    @intercept
    async def slow(write: Write, _: int) -> bytes:
        answer = await write()
        time_.advance(1.5)
        return answer

    await renew(holder)

    time_.advance(3.9 - 1.5)
    assert holder.leads()
    time_.advance(0.2)
    assert not holder.leads()


async def test_a_renewal_that_is_late_goes_before_binds(session: api.Api, intercept: Intercept) -> None:
    """They would keep a busy server from answering it in time; one that was just sent holds nothing up."""
    time_ = clock.Clock()
    holder = await leader(session, time_=time_)
    confirmed: list[bool] = []

    @intercept
    async def slow(write: Write, _: int) -> bytes:
        answer = await write()
        for seconds in (0.4, 0.2):
            time_.advance(seconds)
            confirmed.append(holder.confirmed())
        return answer

    await renew(holder)

    assert confirmed == [True, False]
    assert holder.confirmed()


@pytest.mark.parametrize("broken", [False, True], ids=["is never answered", "turns out to be broken"])
async def test_a_second_attempt_outlasts_one_that(
    session: api.Api, intercept: Intercept, *, broken: bool
) -> None:
    """A connection may die without a word: another attempt is made in time, over another one."""
    holder, second = await leader(session, timing=QUICK), asyncio.Event()

    @intercept
    async def first_is_lost(write: Write, attempt: int) -> bytes:
        if attempt == 1:
            await (second if broken else asyncio.Event()).wait()
            raise errors.Unreachable("the connection was reset", ambiguous=True)
        second.set()
        for _ in range(3):
            await asyncio.sleep(0)
        return await write()

    await renew(holder)

    assert second.is_set()
    assert holder.confirmed()


async def test_a_renewal_that_was_made_before_its_second_attempt_counts_from_the_first(
    session: api.Api, intercept: Intercept
) -> None:
    """The first attempt is written and its answer lost: the conflict of the second one tells so."""
    time_ = clock.Clock()
    holder = await leader(session, time_=time_)

    @intercept
    async def first_is_unheard(write: Write, attempt: int) -> bytes:
        if attempt == 1:
            await write()
        return await write()

    time_.advance(3.0)
    await renew(holder)
    time_.advance(3.0)

    assert holder.leads()
    assert not holder.confirmed()
    await renew(holder)
    assert holder.confirmed(), "the next renewal is of the revision that was read"
