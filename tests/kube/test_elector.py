"""One leader at a time: the Lease on a real API server, clocks and wires in the test's hand."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import api, connection, errors, lease, resources
from berth_operator.kube import elector
from kube.conftest import Wired
from kube.elections import QUICK, candidate, change, holding, read, until_written
from support import clock, stub
from testbed import waiting

pytestmark = pytest.mark.usefixtures("no_leader")

# ---------------------------------------------------------------- winning


async def test_the_first_one_wins(session: api.Api, admin: api.Api) -> None:
    """Without a Lease the candidate makes one; it says who holds it, for how long, and the first term."""
    term = await candidate(session, "a_1").campaign()

    found = (await read(admin)).spec
    assert term == elector.Term("a_1/1", clean=False)
    assert (found.holder_identity, found.lease_duration_seconds, found.lease_transitions) == ("a_1", 6, 1)
    assert found.acquire_time
    assert found.renew_time


async def test_one_of_many_wins(session: api.Api, admin: api.Api) -> None:
    """Of candidates who see the same free Lease, exactly one gets it: the server decides."""
    crowd = [candidate(session, f"c{at}_x") for at in range(12)]

    terms = await asyncio.gather(*(one.try_acquire() for one in crowd))

    (winner,) = [term for term in terms if term is not None]
    assert winner.name == f"{(await read(admin)).spec.holder_identity}/1"


async def test_one_of_many_wins_a_lapsed_lease(session: api.Api, admin: api.Api) -> None:
    """So it is when the Lease has lapsed: a write on a revision that is no more loses."""
    time_ = clock.Clock()
    await candidate(session, "old_x", time_=time_).campaign()
    crowd = [candidate(session, f"c{at}_x", time_=time_) for at in range(12)]
    assert not any(await asyncio.gather(*(one.try_acquire() for one in crowd)))
    time_.advance(6.1)

    terms = await asyncio.gather(*(one.try_acquire() for one in crowd))

    (winner,) = [term for term in terms if term is not None]
    assert winner.name == f"{(await read(admin)).spec.holder_identity}/2"


async def test_a_silent_leader_is_replaced_after_the_whole_duration(session: api.Api) -> None:
    """The Lease must not have changed for all its duration as we watched, whatever times stand in it."""
    time_ = clock.Clock()
    await candidate(session, "old_x").campaign()
    next_ = candidate(session, "new_x", time_=time_)

    assert await next_.try_acquire() is None
    time_.advance(6.0)
    assert await next_.try_acquire() is None
    time_.advance(0.1)
    term = await next_.try_acquire()

    assert term == elector.Term("new_x/2", clean=False)


async def test_every_renewal_starts_the_wait_anew(session: api.Api) -> None:
    """A leader that renews in time is never replaced, however slow its clock or ours."""
    ours, theirs = clock.Clock(), clock.Clock(5.0)
    leader = candidate(session, "old_x", time_=theirs)
    await leader.campaign()
    next_ = candidate(session, "new_x", time_=ours)

    for _ in range(3):
        assert await next_.try_acquire() is None
        ours.advance(5.9)
        assert await next_.try_acquire() is None
        theirs.advance(0.001)
        assert leader._held is not None
        await leader._renew(leader._held)

    assert await next_.try_acquire() is None


async def test_the_longer_duration_counts(session: api.Api) -> None:
    """A candidate with shorter settings respects the duration that the leader has promised, rounded up."""
    time_ = clock.Clock()
    longer = elector.Timing(duration=7.2, renew_deadline=7.1, retry=1.0)
    await candidate(session, "old_x", timing=longer).campaign()
    next_ = candidate(session, "new_x", time_=time_, timing=QUICK)

    assert await next_.try_acquire() is None
    time_.advance(7.9)
    early = await next_.try_acquire()
    time_.advance(0.2)
    late = await next_.try_acquire()

    assert early is None
    assert late is not None


async def test_a_clean_release_lets_the_next_one_in(session: api.Api, admin: api.Api) -> None:
    """After a release nobody waits, the next term knows that the last ended in order, transitions rise."""
    time_ = clock.Clock()
    first, second = candidate(session, "a_x", time_=time_), candidate(session, "b_x", time_=time_)
    await first.campaign()
    assert await second.try_acquire() is None

    await first.release()
    assert (await read(admin)).spec.holder_identity in {None, ""}
    term = await second.try_acquire()

    assert term == elector.Term("b_x/2", clean=True)
    assert not first.leads()
    assert second.leads()


class Deaf(api.Api):
    """A session that does not hear the answer to its next write."""

    deaf = True

    async def send(self, method: str, path: str, **rest: Any) -> bytes:
        """Send, and lose the answer."""
        body = await super().send(method, path, **rest)
        if self.deaf and method != "GET":
            self.deaf = False
            raise errors.Unreachable("the answer was lost", ambiguous=True)
        return body


@pytest.mark.parametrize("there", [False, True], ids=["a new Lease", "a released Lease"])
async def test_a_win_that_was_not_heard_is_recognised(
    account: Path, session: api.Api, admin: api.Api, *, there: bool
) -> None:
    """A candidate that took the Lease without hearing so takes it again, and does not wait for itself."""
    if there:
        former = candidate(session, "former_x")
        await former.campaign()
        await former.release()

    async with Deaf(connection.load(account), agent="test-deaf") as deaf:
        runner = candidate(deaf, "a_x")
        with pytest.raises(errors.Unreachable):
            await runner.try_acquire()
        assert not runner.leads()
        term = await runner.try_acquire()

    # Not clean, for the predecessor's end is not remembered; and each acquisition is a term of its own.
    assert term == elector.Term(f"a_x/{3 if there else 2}", clean=False)
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


async def test_a_leader_renews(session: api.Api, admin: api.Api) -> None:
    """While it holds, the renew time moves and nothing else does."""
    leader = candidate(session, "a_x", timing=QUICK)
    await leader.campaign()
    before = await read(admin)

    async with holding(leader) as task:
        after = await until_written(admin, before)
        assert not task.done()

    assert after.spec.renew_time != before.spec.renew_time
    assert after.spec.lease_transitions == before.spec.lease_transitions
    assert after.spec.acquire_time == before.spec.acquire_time
    assert leader.leads()


@pytest.mark.parametrize("retry", [0.1, 0.8], ids=["tried often", "tried once in the time"])
@pytest.mark.parametrize("trouble", ["silence", "refusal", "no answers"])
async def test_a_leader_cut_off_stops_before_anybody_else_can_lead(
    wired: Wired, session: api.Api, trouble: str, retry: float
) -> None:
    """Without a renewal the lead is lost within the renew deadline, and the next one wins after that."""
    timing = elector.Timing(QUICK.duration, QUICK.renew_deadline, retry)
    leader, next_ = (
        candidate(wired.session, "old_x", timing=timing),
        candidate(session, "new_x", timing=QUICK),
    )
    await leader.campaign()
    loop = asyncio.get_running_loop()

    async with holding(leader) as task:
        if trouble == "refusal":
            wired.wire.refuse()
            wired.wire.cut()
        else:
            wired.wire.hold(answers_only=trouble == "no answers")
        cut_off = loop.time()
        campaign = asyncio.create_task(next_.campaign())
        with pytest.raises(elector.LeadershipLost, match=r"was not renewed for 0\.9 s"):
            await task
        lost = loop.time()
        assert not leader.leads()
        assert not campaign.done()
        await campaign
        won = loop.time()

    assert lost - cut_off < QUICK.renew_deadline + 0.2
    assert won > lost


async def test_a_renewal_whose_answer_was_lost_is_recognised(wired: Wired, admin: api.Api) -> None:
    """The server has the renewal, we have not heard: the Lease is read again, and the lead goes on."""
    leader = candidate(wired.session, "a_x", timing=elector.Timing(3.0, 2.0, 0.1))
    await leader.campaign()
    before = await read(admin)

    async with holding(leader) as task:
        wired.wire.hold(answers_only=True)
        unheard = await until_written(admin, before)
        wired.wire.cut()
        wired.wire.resume()
        await until_written(admin, unheard)
        assert not task.done()

    assert leader.leads()


async def test_a_stolen_lease_is_lost_at_once(session: api.Api, admin: api.Api) -> None:
    """When somebody else has the Lease, the leader stops at its next renewal, long before the deadline."""
    leader = candidate(session, "a_x", timing=elector.Timing(60.0, 40.0, 0.1))
    await leader.campaign()
    await change(admin, holder_identity="thief")

    with pytest.raises(elector.LeadershipLost, match="thief holds the Lease now"):
        await asyncio.wait_for(leader.hold(), 5)


async def test_a_term_that_somebody_changed_is_lost(wired: Wired, admin: api.Api) -> None:
    """With another number in the Lease the fence would refuse every bind of the leader, for ever."""
    leader = candidate(wired.session, "a_x", timing=elector.Timing(60.0, 40.0, 0.1))
    await leader.campaign()
    await change(admin, lease_transitions=9)

    with pytest.raises(elector.LeadershipLost, match="changed the term"):
        await asyncio.wait_for(leader.hold(), 5)


async def test_only_a_holder_that_ended_in_order_spares_the_next_one_the_wait(
    session: api.Api, admin: api.Api
) -> None:
    """A person may take the name out of the Lease while its holder's binds are under way."""
    first, second, third = (candidate(session, f"{name}_x") for name in "abc")
    await first.campaign()
    await change(admin, holder_identity="")
    forced = await second.campaign()
    await second.release()
    handed = await third.campaign()

    assert (forced.clean, handed.clean) == (False, True)


async def test_a_404_of_a_proxy_is_no_deleted_lease() -> None:
    """Where something between us and the server has no backend for a moment, the lead goes on meanwhile."""
    where = resources.LEASES.path(names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)
    held = {"metadata": {"resourceVersion": "5"}, "spec": {"holderIdentity": "a_x", "leaseTransitions": 1}}
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", where, stub.status(404, "none", reason="NotFound"))
        server.on("POST", resources.LEASES.path(namespace=names.SYSTEM_NAMESPACE), stub.thing(held, code=201))
        server.on("PUT", where, stub.raw(b"default backend - 404", code=404))
        leader = candidate(session, "a_x", timing=elector.Timing(2.0, 1.0, 0.1))
        await leader.campaign()

        with pytest.raises(elector.LeadershipLost, match="not renewed for 1 s"):
            await asyncio.wait_for(leader.hold(), 5)


async def test_a_deleted_lease_is_made_anew_by_its_holder(session: api.Api, admin: api.Api) -> None:
    """A Lease that somebody deleted comes back with the next renewal, under the same term."""
    leader = candidate(session, "a_x", timing=elector.Timing(60.0, 40.0, 0.1))
    await leader.campaign()
    before = await read(admin)
    await admin.delete(resources.LEASES, names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)

    async def back() -> lease.Lease | None:
        with contextlib.suppress(errors.NotFound):
            return await read(admin)
        return None

    async with holding(leader) as task:
        after = await waiting.eventually(back, what="the Lease to be back", seconds=5)
        assert not task.done()

    assert after.metadata.uid != before.metadata.uid
    assert after.spec.holder_identity == "a_x"
    assert after.spec.lease_transitions == before.spec.lease_transitions


async def test_a_deleted_lease_that_another_made_is_lost(session: api.Api, admin: api.Api) -> None:
    """Whoever makes the Lease first leads; the former holder finds that out at its next renewal."""
    leader = candidate(session, "a_x", timing=elector.Timing(60.0, 40.0, 0.1))
    await leader.campaign()
    await admin.delete(resources.LEASES, names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)
    term = await candidate(session, "b_x").campaign()

    with pytest.raises(elector.LeadershipLost, match="b_x holds the Lease now"):
        await asyncio.wait_for(leader.hold(), 5)

    assert term == elector.Term("b_x/1", clean=False)


async def test_a_leader_that_slept_knows_it(session: api.Api) -> None:
    """A process that was stopped for long learns from its own clock, asking nobody, that the term is over."""
    time_ = clock.Clock()
    leader = candidate(session, "a_x", time_=time_)
    await leader.campaign()
    assert leader.leads()

    time_.advance(4.0)

    assert not leader.leads()
    with pytest.raises(elector.LeadershipLost):
        await leader.hold()
