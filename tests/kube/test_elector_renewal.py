"""A renewal that takes long, or is never answered: what it is worth, and what is tried beside it."""

import asyncio
from typing import Any

import pytest

from berth_crds.client import api, errors
from berth_operator.kube import elector
from kube.elections import QUICK, candidate, holding
from support import clock
from testbed import waiting

pytestmark = pytest.mark.usefixtures("no_leader")


async def test_a_renewal_counts_from_when_it_was_sent(
    session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may have written it when it was sent: what the answer took is not ours to lead (I7)."""
    time_ = clock.Clock()
    leader = candidate(session, "a_x", time_=time_)
    await leader.campaign()
    write = session.replace

    async def slow(*what: Any, **where: Any) -> bytes:
        answer = await write(*what, **where)
        time_.advance(1.5)
        return answer

    monkeypatch.setattr(session, "replace", slow)
    assert leader._held is not None
    await leader._renew(leader._held)
    renewed = time_.now - 1.5

    time_.now = renewed + 3.9
    assert leader.leads()
    time_.now = renewed + 4.1
    assert not leader.leads()


async def test_a_renewal_that_is_never_answered_does_not_cost_the_lead(
    session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection may die without a word: another attempt is made in time, over another one."""
    leader = candidate(session, "a_x", timing=QUICK)
    await leader.campaign()
    write, lost = session.replace, asyncio.Event()

    async def once_lost(*what: Any, **where: Any) -> bytes:
        if not lost.is_set():
            lost.set()
            await asyncio.Event().wait()
        return await write(*what, **where)

    monkeypatch.setattr(session, "replace", once_lost)
    async with holding(leader) as task:
        await asyncio.sleep(2 * QUICK.renew_deadline)
        assert not task.done()

    assert lost.is_set()
    assert leader.leads()


async def test_a_server_that_is_slow_does_not_cost_the_lead(
    session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal that takes most of its time is a renewal, and the next one follows at once."""
    leader = candidate(session, "a_x", timing=elector.Timing(duration=3.0, renew_deadline=2.0, retry=0.5))
    await leader.campaign()
    write, tried = session.replace, 0

    async def slow(*what: Any, **where: Any) -> bytes:
        nonlocal tried
        tried += 1
        await asyncio.sleep(1.2 if tried % 3 == 1 else 0.0)
        return await write(*what, **where)

    monkeypatch.setattr(session, "replace", slow)
    async with holding(leader) as task:
        await waiting.eventually(lambda: asyncio.sleep(0, tried > 6), what="two slow renewals")
        assert not task.done()
        assert leader.leads()


async def test_a_second_attempt_outlasts_the_first(session: api.Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the first connection turns out to be broken does not end what is sent over another one."""
    leader = candidate(session, "a_x", timing=QUICK)
    await leader.campaign()
    write, tried, broken = session.replace, 0, asyncio.Event()

    async def late(*what: Any, **where: Any) -> bytes:
        nonlocal tried
        tried += 1
        if tried == 1:
            await broken.wait()
            raise errors.Unreachable("the connection was reset", ambiguous=True)
        broken.set()
        for _ in range(3):
            await asyncio.sleep(0)
        return await write(*what, **where)

    monkeypatch.setattr(session, "replace", late)
    assert leader._held is not None
    await leader._renew(leader._held)

    assert tried == 2
    assert leader.confirmed()


async def test_a_renewal_that_was_made_before_its_second_attempt_counts_from_the_first(
    session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt is written and its answer lost: the conflict of the second one tells so."""
    time_ = clock.Clock()
    leader = candidate(session, "a_x", time_=time_)
    await leader.campaign()
    write = session.replace

    async def unheard(*what: Any, **where: Any) -> bytes:
        await write(*what, **where)
        return await write(*what, **where)

    time_.advance(3.0)
    monkeypatch.setattr(session, "replace", unheard)
    assert leader._held is not None
    await leader._renew(leader._held)
    time_.advance(3.0)

    assert leader.leads()
