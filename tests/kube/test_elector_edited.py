"""A Lease that a person edited, or that a restore took back, costs nobody the lead for long."""

import asyncio

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.client import api, lease, resources
from berth_operator import settings
from berth_operator.kube import elector
from kube.elections import QUICK, candidate, change, holding, read, until_written
from support import clock, stub

pytestmark = pytest.mark.usefixtures("no_leader")


async def test_a_duration_that_somebody_edited_is_put_right(session: api.Api, admin: api.Api) -> None:
    """With the next renewal the Lease promises again what its holder keeps."""
    leader = candidate(session, "a_x", timing=elector.Timing(6.0, 4.0, 0.1))
    await leader.campaign()
    await change(admin, lease_duration_seconds=3600)
    edited = await read(admin)

    async with holding(leader) as task:
        after = await until_written(admin, edited)
        assert not task.done()

    assert after.spec.lease_duration_seconds == 6


async def test_a_duration_that_nobody_would_choose_is_not_waited_out(
    session: api.Api, admin: api.Api
) -> None:
    """When the leader died before it could put that right, the next one waits a minute and no hour."""
    time_ = clock.Clock()
    await candidate(session, "old_x").campaign()
    await change(admin, lease_duration_seconds=3600)
    next_ = candidate(session, "new_x", time_=time_)

    assert await next_.try_acquire() is None
    time_.advance(settings.LONGEST_LEASE_SECONDS)
    early = await next_.try_acquire()
    time_.advance(0.1)
    late = await next_.try_acquire()

    assert early is None
    assert late is not None


async def test_the_last_term_that_can_be_counted_has_a_successor(session: api.Api, admin: api.Api) -> None:
    """The number begins anew; what makes the term another one is the name of its holder."""
    former = candidate(session, "a_x")
    await former.campaign()
    await former.release()
    await change(admin, lease_transitions=elector.MOST_TRANSITIONS)

    term = await candidate(session, "b_x").campaign()

    assert term.name == "b_x/1"
    assert (await read(admin)).spec.lease_transitions == 1


async def test_what_others_wrote_on_the_lease_stays(session: api.Api, admin: api.Api) -> None:
    """Labels and annotations are not ours to take away."""
    leader = candidate(session, "a_x", timing=QUICK)
    await leader.campaign()
    path = resources.LEASES.path(names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)
    meta = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    await admin.send("PATCH", path, body=msgspec.json.encode({"metadata": meta}), content=api.MERGE_PATCH)
    edited = await read(admin)

    async with holding(leader):
        after = await until_written(admin, edited)

    assert after.metadata.labels == {"team": "a"}
    assert after.metadata.annotations["note"] == "b"


# ---------------------------------------------------------------- the declaration


async def test_a_declaration_is_there_when_it_is_said_to_be(session: api.Api, admin: api.Api) -> None:
    """It is written at once, not with the next renewal, and every renewal carries it on."""
    leader = candidate(session, "a_x", timing=elector.Timing(60.0, 40.0, 30.0))
    await leader.campaign()

    async with holding(leader):
        await asyncio.wait_for(leader.declare("first"), 5)
        first = await read(admin)
        await asyncio.wait_for(leader.declare("second"), 5)
        second = await read(admin)

    assert first.metadata.annotations[names.IN_FLIGHT] == "first"
    assert second.metadata.annotations[names.IN_FLIGHT] == "second"


async def test_who_takes_over_learns_what_was_declared(session: api.Api, admin: api.Api) -> None:
    """And hands it on unchanged, until it has declared something itself."""
    leader = candidate(session, "a_x", timing=elector.Timing(60.0, 40.0, 0.1))
    first = await leader.campaign()
    async with holding(leader):
        await asyncio.wait_for(leader.declare("of a"), 5)
    await change(admin, holder_identity="")

    second = await candidate(session, "b_x").campaign()
    await change(admin, holder_identity="")
    third = await candidate(session, "c_x").campaign()

    assert (first.inherited, second.inherited, third.inherited) == (None, "of a", "of a")


# ---------------------------------------------------------------- outages and restores


async def test_a_doubt_is_settled_by_a_renewal_that_began_after_it(session: api.Api) -> None:
    """Until then nothing may be sent, and it is made at once."""
    leader = candidate(session, "a_x", timing=elector.Timing(60.0, 40.0, 30.0))
    await leader.campaign()
    renewed = asyncio.Event()
    steady = leader.confirmed()

    task = asyncio.create_task(leader.hold(renewed.set))
    leader.doubt()
    doubtful = leader.confirmed()
    await asyncio.wait_for(renewed.wait(), 5)
    task.cancel()

    assert (steady, doubtful, leader.confirmed()) == (True, False, True)
    assert leader.leads()


LEASE = resources.LEASES.path(names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)


def as_stored(version: str, holder: str = "a_x") -> dict[str, object]:
    """Make the Lease as a server would show it."""
    return {
        "metadata": {"name": names.LEADER_LEASE, "resourceVersion": version},
        "spec": {"holderIdentity": holder, "leaseTransitions": 1, "leaseDurationSeconds": 6},
    }


async def test_a_leader_finds_out_that_the_server_was_restored() -> None:
    """Its renewal is refused, and the Lease that stands there is an earlier one of its own."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", LEASE, stub.status(404, "none", reason="NotFound"), stub.thing(as_stored("7")))
        created = stub.thing(as_stored("20"), code=201)
        server.on("POST", resources.LEASES.path(namespace=names.SYSTEM_NAMESPACE), created)
        server.on("PUT", LEASE, stub.status(409, "another revision"), stub.thing(as_stored("8")))
        leader = candidate(session, "a_x", timing=elector.Timing(60.0, 40.0, 0.05))
        await leader.campaign()
        renewed = asyncio.Event()

        task = asyncio.create_task(leader.hold(renewed.set))
        await asyncio.wait_for(renewed.wait(), 5)
        task.cancel()

    assert session.history.restores == 1
    assert leader.leads()


async def test_who_stands_by_finds_it_out_too() -> None:
    """The Lease that it looks at all the time is an earlier one."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", LEASE, stub.thing(as_stored("20", "old_x")), stub.thing(as_stored("7", "old_x")))
        next_ = candidate(session, "new_x", time_=clock.Clock())

        assert await next_.try_acquire() is None
        assert await next_.try_acquire() is None

    assert session.history.restores == 1


async def test_a_program_that_hangs_gives_the_lead_up(session: api.Api) -> None:
    """The elector runs by itself, and must not keep the lead for something that is stuck."""
    means = elector.Environment(clock.Clock(), clock.Clock().wall, lambda: 16.0, session.history.restored)
    leader = elector.Elector(session, "a_x", elector.Timing(60.0, 40.0, 0.01), means)
    await leader.campaign()

    with pytest.raises(elector.LeadershipLost, match="the program has hung for 16 s"):
        await asyncio.wait_for(leader.hold(), 5)


async def test_a_lease_is_read_as_it_is_written() -> None:
    """The declaration travels as an annotation, which an older version drops and a newer one misses."""
    written = lease.Lease(metadata=wire.Meta(annotations={names.IN_FLIGHT: "x"}))

    assert elector._declared(written) == "x"
    assert elector._declared(lease.Lease(metadata=wire.Meta())) is None
