"""One leader at a time: the Lease on a real API server, with clocks and wires that the test controls."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import api, connection, errors, lease, resources
from berth_operator import settings
from berth_operator.kube import elector, terms
from kube.conftest import Wired
from kube.elections import (
    PATIENT,
    QUICK,
    TIMING,
    candidate,
    change,
    holding,
    leader,
    read,
    renew,
    until_written,
)
from support import clock, stub
from testbed import waiting

pytestmark = pytest.mark.usefixtures("no_leader")

# ---------------------------------------------------------------- winning


async def test_the_first_one_wins(session: api.Api, admin: api.Api) -> None:
    """Without a Lease the candidate makes one; it says who holds it, for how long, and the first term."""
    term = await candidate(session, "a_1").campaign()

    found = (await read(admin)).spec
    assert term == terms.Term("a_1/1", clean=False)
    assert (found.holder_identity, found.lease_duration_seconds, found.lease_transitions) == ("a_1", 6, 1)
    assert found.acquire_time
    assert found.renew_time


async def test_one_of_many_wins(session: api.Api, admin: api.Api) -> None:
    """Of candidates who see the same free Lease, or one that has lapsed, exactly one gets it."""
    time_ = clock.Clock()
    crowd = [candidate(session, f"c{number}_x", time_=time_) for number in range(12)]

    for transitions in (1, 2):
        terms = await asyncio.gather(*(one.try_acquire() for one in crowd))
        (winner,) = [term for term in terms if term is not None]
        assert winner.name == f"{(await read(admin)).spec.holder_identity}/{transitions}"
        crowd = [one for one in crowd if not one.leads()]
        assert not any(await asyncio.gather(*(one.try_acquire() for one in crowd)))
        time_.advance(6.1)


@pytest.mark.parametrize(
    ("theirs", "edited", "ours", "seconds"),
    [
        pytest.param(TIMING, None, TIMING, 6.0, id="ours"),
        pytest.param(elector.Timing(7.2, 7.1, 1.0), None, QUICK, 8.0, id="a longer one, rounded up"),
        pytest.param(TIMING, 3600, TIMING, settings.LONGEST_LEASE_SECONDS, id="at most a minute"),
    ],
)
async def test_a_silent_leader_is_replaced_after_the_whole_duration(
    session: api.Api,
    admin: api.Api,
    theirs: elector.Timing,
    edited: int | None,
    ours: elector.Timing,
    seconds: float,
) -> None:
    """The Lease must not have changed for its duration as we watched, whatever times stand in it."""
    time_ = clock.Clock()
    await leader(session, "old_x", timing=theirs)
    if edited is not None:
        await change(admin, lease_duration_seconds=edited)
    next_ = candidate(session, "new_x", time_=time_, timing=ours)

    assert await next_.try_acquire() is None
    time_.advance(seconds)
    assert await next_.try_acquire() is None
    time_.advance(0.1)
    assert await next_.try_acquire() == terms.Term("new_x/2", clean=False, lapsed=True)


async def test_who_stands_by_prepares_before_the_lease_lapses(session: api.Api) -> None:
    """It is told once, a second ahead; a renewal at the last moment calls it off."""
    time_ = clock.Clock()
    told: list[float] = []
    old = await leader(session, "old_x")
    next_ = candidate(session, "new_x", time_=time_, lapsing=told.append)

    assert await next_.try_acquire() is None
    time_.advance(TIMING.duration - TIMING.retry)
    assert await next_.try_acquire() is None
    assert told == []
    for _ in range(2):
        time_.advance(0.25)
        assert await next_.try_acquire() is None
    assert told == [0.75]
    await renew(old)
    time_.advance(TIMING.retry)
    assert await next_.try_acquire() is None
    assert told == [0.75]


async def test_who_stands_by_leads_soon_after_the_last_renewal(
    session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees a renewal within a quarter of a period, and that the Lease lapsed within another."""
    time_ = clock.Clock()
    renewed: list[float] = []
    old = await leader(session, "old_x")

    async def sleep(seconds: float) -> None:
        if not renewed and time_() > 1002.3:
            await renew(old)
            renewed.append(time_())
        time_.advance(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await candidate(session, "new_x", time_=time_).campaign()

    assert TIMING.duration <= time_() - renewed[0] <= TIMING.duration + TIMING.retry / 2


async def test_every_renewal_starts_the_wait_anew(session: api.Api) -> None:
    """A leader that renews in time is never replaced, however slow its clock or ours."""
    ours, theirs = clock.Clock(), clock.Clock(5.0)
    old = await leader(session, "old_x", time_=theirs)
    next_ = candidate(session, "new_x", time_=ours)

    for _ in range(3):
        assert await next_.try_acquire() is None
        ours.advance(5.9)
        assert await next_.try_acquire() is None
        theirs.advance(0.001)
        await renew(old)

    assert await next_.try_acquire() is None


@pytest.mark.parametrize("released", ["clean", "unclean", ""], ids=["clean", "unclean", "emptied by hand"])
async def test_an_empty_lease_lets_the_next_one_in(session: api.Api, admin: api.Api, released: str) -> None:
    """Nobody waits, transitions rise, and only after a clean release no bind is known to be under way."""
    first, second = await leader(session), candidate(session, "b_x")
    assert await second.try_acquire() is None

    await (first.release(clean=released == "clean") if released else change(admin, holder_identity=""))
    assert (await read(admin)).spec.holder_identity in {None, ""}
    term = await second.try_acquire()

    assert term == terms.Term("b_x/2", clean=released == "clean")
    assert first.leads() is not bool(released)
    assert second.leads()


class AnswerLosingApi(api.Api):
    """A session that loses the answer to its next write."""

    loses = True

    async def send(self, method: str, path: str, **rest: Any) -> bytes:
        """Send, and lose the answer."""
        body = await super().send(method, path, **rest)
        if self.loses and method != "GET":
            self.loses = False
            raise errors.Unreachable("the answer was lost", ambiguous=True)
        return body


@pytest.mark.parametrize("there", [False, True], ids=["a new Lease", "a released Lease"])
async def test_a_win_whose_answer_was_lost_is_recognised(
    account: Path, session: api.Api, admin: api.Api, *, there: bool
) -> None:
    """A candidate that took the Lease without knowing takes it again, and does not wait for itself."""
    if there:
        await (await leader(session, "former_x")).release(clean=True)

    async with AnswerLosingApi(connection.load(account), agent="test-losing") as losing:
        runner = candidate(losing, "a_x")
        with pytest.raises(errors.Unreachable):
            await runner.try_acquire()
        assert not runner.leads()
        term = await runner.try_acquire()

    # Not clean, for the predecessor's end is not remembered; and each acquisition is a term of its own.
    assert term == terms.Term(f"a_x/{3 if there else 2}", clean=False)
    assert (await read(admin)).spec.lease_transitions == (3 if there else 2)


async def test_trouble_does_not_end_a_campaign(wired: Wired) -> None:
    """While the server cannot be reached the candidate goes on trying."""
    wired.wire.refuse()
    campaign = asyncio.create_task(candidate(wired.session, "a_x", timing=QUICK).campaign())
    done, _ = await asyncio.wait([campaign], timeout=0.3)
    assert not done

    await wired.wire.accept()

    assert (await campaign).name == "a_x/1"


# ---------------------------------------------------------------- keeping


@pytest.mark.parametrize("retry", [0.1, 0.8], ids=["tried often", "tried once in the time"])
@pytest.mark.parametrize("trouble", ["silence", "refusal", "no answers"])
async def test_a_leader_cut_off_stops_before_anybody_else_can_lead(
    wired: Wired, session: api.Api, trouble: str, retry: float
) -> None:
    """Without a renewal the lead is lost within the renew deadline, and the next one wins after that."""
    old = await leader(
        wired.session, "old_x", timing=elector.Timing(QUICK.duration, QUICK.renew_deadline, retry)
    )

    async with holding(old) as task:
        if trouble == "refusal":
            wired.wire.refuse()
            wired.wire.cut()
        else:
            wired.wire.hold(answers_only=trouble == "no answers")
        campaign = asyncio.create_task(candidate(session, "new_x", timing=QUICK).campaign())
        with pytest.raises(elector.LeadershipLost, match=r"was not renewed for 0\.9 s"):
            await task
        assert not old.leads()
        assert not campaign.done()
        await campaign


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"holder_identity": "thief"}, "thief holds the Lease now", id="the holder"),
        # The fence would refuse every bind of the leader, for ever.
        pytest.param({"lease_transitions": 9}, "changed the term", id="the term"),
    ],
)
async def test_a_lease_that_somebody_changed_is_lost_at_once(
    session: api.Api, admin: api.Api, spec: dict[str, Any], message: str
) -> None:
    """The leader stops at its next renewal, long before the deadline."""
    old = await leader(session, timing=PATIENT)
    await change(admin, **spec)

    with pytest.raises(elector.LeadershipLost, match=message):
        await asyncio.wait_for(old.keep_renewing(), 5)


LEASE = resources.LEASES.path(names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)
LEASES = resources.LEASES.path(namespace=names.SYSTEM_NAMESPACE)


def as_stored(version: str, holder: str = "a_x") -> dict[str, object]:
    """Return the Lease as a server would show it."""
    return {
        "metadata": {"name": names.LEADER_LEASE, "resourceVersion": version},
        "spec": {"holderIdentity": holder, "leaseTransitions": 1, "leaseDurationSeconds": 6},
    }


async def test_a_404_of_a_proxy_is_no_deleted_lease(server: stub.Stub, stub_session: api.Api) -> None:
    """Where something between us and the server has no backend for a moment, the lead goes on meanwhile."""
    server.on("GET", LEASE, stub.status(404, "none", reason="NotFound"))
    server.on("POST", LEASES, stub.thing(as_stored("5"), code=201))
    server.on("PUT", LEASE, stub.raw(b"default backend - 404", code=404))
    old = await leader(stub_session, timing=elector.Timing(2.0, 1.0, 0.1))

    with pytest.raises(elector.LeadershipLost, match="not renewed for 1 s"):
        await asyncio.wait_for(old.keep_renewing(), 5)


async def test_a_deleted_lease_is_made_anew_by_its_holder(session: api.Api, admin: api.Api) -> None:
    """A Lease that somebody deleted comes back with the next renewal, under the same term."""
    holder = await leader(session, timing=PATIENT)
    before = await read(admin)
    await admin.delete(resources.LEASES, names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)

    async def back() -> lease.Lease | None:
        with contextlib.suppress(errors.NotFound):
            return await read(admin)
        return None

    async with holding(holder) as task:
        after = await waiting.eventually(back, what="the Lease to be back", seconds=5)
        assert not task.done()

    assert after.metadata.uid != before.metadata.uid
    assert after.spec.holder_identity == "a_x"
    assert after.spec.lease_transitions == before.spec.lease_transitions


# ---------------------------------------------------------------- after a restore


async def test_a_leader_finds_out_that_the_server_was_restored(
    server: stub.Stub, stub_session: api.Api
) -> None:
    """Its renewal is refused, and the Lease that stands there is an earlier one of its own."""
    server.on("GET", LEASE, stub.status(404, "none", reason="NotFound"), stub.thing(as_stored("7")))
    server.on("POST", LEASES, stub.thing(as_stored("20"), code=201))
    server.on("PUT", LEASE, stub.status(409, "another revision"), stub.thing(as_stored("8")))
    holder = await leader(stub_session, timing=PATIENT)
    renewed = asyncio.Event()

    task = asyncio.create_task(holder.keep_renewing(renewed.set))
    await asyncio.wait_for(renewed.wait(), 5)
    task.cancel()

    assert stub_session.history.restores == 1
    assert holder.leads()


async def test_who_stands_by_finds_it_out_too(server: stub.Stub, stub_session: api.Api) -> None:
    """The Lease that it looks at all the time is an earlier one."""
    server.on("GET", LEASE, stub.thing(as_stored("20", "old_x")), stub.thing(as_stored("7", "old_x")))
    next_ = candidate(stub_session, "new_x", time_=clock.Clock())

    assert await next_.try_acquire() is None
    assert await next_.try_acquire() is None

    assert stub_session.history.restores == 1


# ---------------------------------------------------------------- giving up


async def test_a_release_during_a_renewal_is_in_order(wired: Wired, admin: api.Api) -> None:
    """A renewal under way neither keeps the Lease from being released nor takes the release for a theft."""
    holder = await leader(wired.session, timing=elector.Timing(6.0, 4.0, 0.1))
    before = await read(admin)

    async with holding(holder) as task:
        wired.wire.hold(answers_only=True)
        await until_written(admin, before)
        release = asyncio.create_task(holder.release(clean=True))
        done, _ = await asyncio.wait([release], timeout=0.3)
        wired.wire.resume()
        await release
        await asyncio.wait_for(task, 5)

    assert not done
    assert (await read(admin)).spec.holder_identity in {None, ""}


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        pytest.param({"renew_time": "2030-01-01T00:00:00.000000Z"}, "", id="our own renewal is given up"),
        pytest.param({"holder_identity": "winner"}, "winner", id="that of another is left alone"),
    ],
)
async def test_a_release_of_another_revision(
    session: api.Api, admin: api.Api, spec: dict[str, Any], left: str
) -> None:
    """Whether the answer to our last renewal was lost, or the whole Lease, the release finds out."""
    holder = await leader(session)
    await change(admin, **spec)

    await holder.release(clean=True)

    assert ((await read(admin)).spec.holder_identity or "") == left


async def test_a_release_that_cannot_be_written_ends_all_the_same(wired: Wired) -> None:
    """Without a server the release gives up in time, and the Lease lapses by itself."""
    holder = await leader(wired.session, timing=QUICK)
    wired.wire.hold()

    await asyncio.wait_for(holder.release(clean=True), 20)
