"""Operators come and go, by signal, crash or a cut wire: no pod is lost, none bound twice, no card shared."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import errors, resources
from berth_operator.kube import leadership
from e2e.stage import Stage, cards_of, condition
from support import manifests
from testbed import audit, processes, proxy

FIFTY = tuple(f"p{at}" for at in range(50))
ROOM = {f"room-{at}": "8xT4" for at in range(7)}  # Cards for all fifty, and six to spare.


@pytest.fixture
async def room(stage: Stage) -> Stage:
    """Yield a stage with cards enough for fifty pods."""
    await stage.nodes(**ROOM)
    return stage


async def some_bound(stage: Stage, count: int) -> None:
    """Wait until some pods are bound."""

    async def bound() -> bool:
        return len(await stage.bound()) >= count

    await stage.until(f"{count} pods to be bound", bound)


# ---------------------------------------------------------------- one operator after the other


@pytest.mark.slow
async def test_restarting_amid_fifty_pending_pods_loses_none_and_binds_none_twice(room: Stage) -> None:
    """Where an operator ends in order amid its work, each pod is bound exactly once, and no card twice."""
    first = await room.deciding_operator("--binds-at-once", "1")
    await room.until_ready(*ROOM)

    creating = asyncio.create_task(room.create(*map(manifests.pod, FIFTY)))
    await some_bound(room, 10)
    first.process.send_signal(signal.SIGTERM)
    status = await room.ended(first)
    room.operator()
    await creating
    await room.until_bound(*FIFTY, seconds=60)

    assert status == 0
    await room.assert_sound(*FIFTY)


async def test_who_ends_while_taking_over_leaves_the_wait_to_the_next(stage: Stage) -> None:
    """Until an old term's binds have surely landed the Lease is not given up: the next one must wait too."""
    where = names.SYSTEM_NAMESPACE
    with contextlib.suppress(errors.NotFound):
        await stage.admin.delete(resources.LEASES, names.LEADER_LEASE, namespace=where)
    brief = stage.operator()
    await stage.says(brief, "leading, term")

    brief.process.send_signal(signal.SIGTERM)

    assert await stage.ended(brief) == 0
    assert (await stage.leader())["holderIdentity"]


# ---------------------------------------------------------------- two at once


async def test_one_leads_and_the_other_stands_by(room: Stage) -> None:
    """The second operator waits; the first one ends in order and releases the Lease for it."""
    first = await room.deciding_operator()
    await room.until_ready(*ROOM)
    second = await standing_by(room)
    await room.create(manifests.pod("a"), manifests.pod("b"))
    await room.until_bound("a", "b")
    assert "deciding:" not in second.log.read_text()
    transitions = (await room.leader())["leaseTransitions"]

    first.process.send_signal(signal.SIGTERM)
    assert await room.ended(first) == 0
    await room.says(second, "deciding:")

    assert "left to lapse" not in first.log.read_text()
    assert (await room.leader())["leaseTransitions"] == transitions + 1
    await room.create(manifests.pod("c"))
    await room.until_bound("c")
    await room.assert_sound("a", "b", "c")


async def standing_by(stage: Stage) -> processes.Program:
    """Start an operator beside the one that leads, and wait until its picture is complete."""
    program = stage.operator()
    await stage.says(program, "campaigning for the lead")
    return program


@pytest.mark.slow
async def test_a_leader_cut_off_ends_and_another_goes_on(room: Stage) -> None:
    """Binds that were carried out unheard are found by the next one; the old one ends before it begins."""
    async with proxy.Proxy(room.cluster.port) as wire:
        cut_off = await room.deciding_operator("--binds-at-once", "4", wire=wire)
        await room.until_ready(*ROOM)
        second = await standing_by(room)
        creating = asyncio.create_task(room.create(*map(manifests.pod, FIFTY)))
        await some_bound(room, 10)

        wire.hold(answers_only=True)
        status = await room.ended(cut_off)
        assert "deciding:" not in second.log.read_text()
    await creating
    await room.until_bound(*FIFTY, seconds=60)

    assert status == leadership.EXIT_LOST
    await room.assert_sound(*FIFTY)
    terms = {one["metadata"]["annotations"][names.TERM] for one in (await room.pods()).values()}
    assert len(terms) == 2


@pytest.mark.slow
async def test_a_leader_that_slept_wakes_up_deposed(room: Stage) -> None:
    """A process that was stopped for longer than its Lease ends when it wakes up, and begins no bind more."""
    sleeper = await room.deciding_operator("--binds-at-once", "1")
    await room.until_ready(*ROOM)
    second = await standing_by(room)
    creating = asyncio.create_task(room.create(*map(manifests.pod, FIFTY)))
    await some_bound(room, 5)

    sleeper.process.send_signal(signal.SIGSTOP)
    await room.says(second, "deciding:")
    await creating
    await room.until_bound(*FIFTY, seconds=60)
    refused = refused_binds(room)
    sleeper.process.send_signal(signal.SIGCONT)
    await room.create(manifests.pod("late"))

    assert await room.ended(sleeper) == leadership.EXIT_LOST
    await room.until_bound("late")
    await room.assert_sound(*FIFTY, "late")
    # All that it knew of was bound by the other one, so that a bind of its own is refused. The one that was
    # on its way from the check of the lead to the wire may still arrive: that is for the server to fence.
    assert len(set(refused_binds(room)) - set(refused)) <= 1


def refused_binds(stage: Stage) -> list[str]:
    """Return the names of the pods of which the server refused a bind."""
    found = audit.refused([one for one in stage.writes() if one.subresource == "binding"])
    return [f"{one.name} {one.code} {one.received}" for one in found]


# ---------------------------------------------------------------- the server comes and goes


@pytest.mark.slow
async def test_a_server_that_crashes_is_outlived(stage: Stage) -> None:
    """With a Lease longer than the outage, operator and agent go on where they were when it is over."""
    await stage.nodes(outage="4xT4")
    patient = ("--lease-duration", "40", "--renew-deadline", "30", "--retry-period", "0.5")
    program = await stage.deciding_operator(*patient)
    await stage.create(manifests.pod("before"))
    await stage.until_bound("before")

    await asyncio.to_thread(stage.cluster.crash_apiserver)
    await asyncio.to_thread(stage.cluster.restart_apiserver)
    await stage.create(manifests.pod("after"), manifests.pod("big", 4))
    await stage.until_bound("after", seconds=60)  # Pauses between attempts have grown meanwhile.
    await stage.until_told("big", "free cards")
    await stage.delete("before", "after")
    await stage.until_bound("big")

    assert program.alive()
    await stage.until_ready("outage")
    await stage.assert_sound("before", "after", "big")


# ---------------------------------------------------------------- what happened meanwhile


async def test_a_card_that_became_free_while_nobody_led_is_given(stage: Stage) -> None:
    """What finished and what was deleted while the operator was down is known when it is back."""
    await stage.nodes(unseen="2xT4")
    first = await stage.deciding_operator()
    await stage.create(manifests.pod("done"), manifests.pod("deleted"))
    await stage.until_bound("done", "deleted")
    await stage.create(manifests.pod("next", 2))
    await stage.until_told("next")

    await asyncio.to_thread(first.stop, grace=10)
    await stage.end("done", "Succeeded")
    await stage.delete("deleted")

    await stage.until_gone("deleted")
    await stage.deciding_operator()

    await stage.until_bound("next")
    assert len(cards_of((await stage.pods())["next"])) == 2


@pytest.fixture
async def impatient(stage: Stage) -> AsyncIterator[Stage]:
    """Yield a stage on which an agent may be silent for three seconds only."""
    await stage.patch(resources.POLICIES, "default", {"spec": {"agents": {"graceSeconds": 3}}})
    yield stage
    await stage.patch(resources.POLICIES, "default", {"spec": {"agents": {"graceSeconds": 40}}})


@pytest.mark.slow
async def test_a_silent_agent_loses_its_node_and_wins_it_back(impatient: Stage) -> None:
    """When an agent dies its node gets no new pod and the others go on; a new operator knows it, too."""
    stage = impatient
    await stage.nodes(steady="1xT4")
    dying = await stage.nodes(shaky="8xT4")
    first = await stage.deciding_operator()
    await stage.until_ready("steady", "shaky")
    wanted: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "shaky"}}
    await stage.create(manifests.pod("before", **wanted))
    await stage.until_bound("before")

    dying.kill()
    await stage.until_ready("shaky", truth="False")
    await stage.create(manifests.pod("anywhere"), manifests.pod("there", **wanted))
    await stage.until_bound("anywhere")
    await stage.until_told("there", "silent")
    assert (await stage.bound())["anywhere"] == "steady"

    # Another operator finds the Device as it is, and the Lease of the dead agent.
    first.kill()
    await stage.deciding_operator()
    await stage.create(manifests.pod("after", **wanted))
    await stage.until_told("after", "silent")
    assert condition((await stage.devices())["shaky"], "Ready")["status"] == "False"

    await stage.agent(shaky="8xT4")
    await stage.until_ready("shaky")
    bound = await stage.until_bound("there", "after")
    assert bound == {"before": "shaky", "anywhere": "steady", "there": "shaky", "after": "shaky"}
    await stage.assert_sound(*bound)
