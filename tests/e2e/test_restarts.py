"""Operators come and go, by signal, crash or a cut wire: no pod is lost, none bound twice, no card shared."""

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import errors, resources
from berth_operator.kube import elector, leadership
from e2e.conditions import condition
from e2e.stage import USUAL, Stage, cards_of
from support import manifests
from testbed import proxy

FIFTY = tuple(f"p{at}" for at in range(50))
ROOM = {f"room-{at}": "8xT4" for at in range(7)}  # Cards for all fifty, and six to spare.


# ---------------------------------------------------------------- one operator after the other


async def test_who_ends_while_taking_over_leaves_the_wait_to_the_next(stage: Stage) -> None:
    """Binds of an old term may be under way: the Lease is free and says so, and the next one waits, too."""
    where = names.SYSTEM_NAMESPACE
    with contextlib.suppress(errors.NotFound):
        await stage.admin.delete(resources.LEASES, names.LEADER_LEASE, namespace=where)
    brief = stage.operator()
    await stage.says(brief, "leading, term")

    brief.process.send_signal(signal.SIGTERM)

    assert await stage.ended(brief) == 0
    free = await stage.leader()
    assert not free["holderIdentity"]
    assert free["leaseDurationSeconds"] > elector.RELEASED_SECONDS


# ---------------------------------------------------------------- two at once


@pytest.mark.slow
async def test_a_leader_cut_off_ends_and_another_goes_on(stage: Stage) -> None:
    """Binds that were carried out unheard are found by the next one; the old one ends before it begins."""
    await stage.nodes(**ROOM)
    async with proxy.Proxy(stage.cluster.port) as wire:
        cut_off = await stage.deciding_operator(*USUAL, "--binds-at-once", "4", wire=wire)
        await stage.until_ready(*ROOM)
        second = stage.operator(*USUAL)
        await stage.says(second, "campaigning for the lead")
        creating = asyncio.create_task(stage.create(*map(manifests.pod, FIFTY)))
        await stage.until_bound("p9")

        wire.hold(answers_only=True)
        status = await stage.ended(cut_off)
        assert "deciding:" not in second.log.read_text()
    await creating
    await stage.until_bound(*FIFTY, seconds=60)

    assert status == leadership.EXIT_LOST
    await stage.assert_sound(*FIFTY)
    terms = {one["metadata"]["annotations"][names.TERM] for one in (await stage.pods()).values()}
    assert len(terms) == 2


# ---------------------------------------------------------------- the server comes and goes


@pytest.mark.slow
async def test_a_server_that_crashes_is_outlived(stage: Stage) -> None:
    """With a Lease longer than the outage, operator and agent go on where they were when it is over."""
    await stage.nodes(outage="4xT4")
    patient = ("--lease-duration", "40", "--renew-deadline", "30", "--retry-period", "0.5")
    program = await stage.deciding_operator(*patient)
    await stage.placed(manifests.pod("before"))

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
    await stage.placed(manifests.pod("done"), manifests.pod("deleted"))
    await stage.waiting_pod(manifests.pod("next", 2))

    await asyncio.to_thread(first.stop, grace=10)
    await stage.end("done", "Succeeded")
    await stage.delete("deleted")

    await stage.until_gone("deleted")
    await stage.deciding_operator()

    await stage.until_bound("next")
    assert len(cards_of((await stage.pods())["next"])) == 2


@pytest.fixture
async def impatient(stage: Stage) -> AsyncIterator[Stage]:
    """Yield a stage on which an agent may be silent for three seconds only, and one more is told of it."""
    for grace, unknown in ((3, 1), (40, 20)):
        agents = {"graceSeconds": grace, "unknownSeconds": unknown}
        await stage.patch(resources.POLICIES, "default", {"spec": {"agents": agents}})
        if grace == 3:
            yield stage


@pytest.mark.slow
async def test_a_silent_agent_loses_its_node_and_wins_it_back(impatient: Stage) -> None:
    """When an agent dies its node gets no new pod and the others go on; a new operator knows it, too."""
    stage = impatient
    await stage.nodes(steady="1xT4")
    dying = await stage.nodes(shaky="8xT4")
    first = await stage.deciding_operator(*USUAL)
    await stage.until_ready("steady", "shaky")
    wanted: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "shaky"}}
    await stage.placed(manifests.pod("before", **wanted))

    dying.kill()
    await stage.until_ready("shaky", truth="False")
    await stage.create(manifests.pod("anywhere"), manifests.pod("there", **wanted))
    await stage.until_bound("anywhere")
    await stage.until_told("there", "stopped reporting")
    assert (await stage.bound())["anywhere"] == "steady"

    # Another operator finds the Device as it is, and the Lease of the dead agent.
    first.kill()
    await stage.deciding_operator(*USUAL)
    await stage.waiting_pod(manifests.pod("after", **wanted), "stopped reporting")
    assert condition((await stage.devices())["shaky"], "Ready")["status"] == "False"

    await stage.agent(shaky="8xT4")
    await stage.until_ready("shaky")
    bound = await stage.until_bound("there", "after")
    assert bound == {"before": "shaky", "anywhere": "steady", "there": "shaky", "after": "shaky"}
    await stage.assert_sound(*bound)


@pytest.fixture
async def brisk(stage: Stage) -> AsyncIterator[Stage]:
    """Yield a stage on which an agent may be silent for longer than an operator takes to start."""
    for grace in (15, 40):
        await stage.patch(resources.POLICIES, "default", {"spec": {"agents": {"graceSeconds": grace}}})
        if grace == 15:
            yield stage


async def noted(stage: Stage) -> bool:
    """Whether the leader's Lease says that no agent has renewed its own since it was last written."""

    async def metadata(name: str, namespace: str) -> dict[str, Any]:
        body = await stage.admin.send("GET", resources.LEASES.path(name, namespace=namespace))
        found: dict[str, Any] = json.loads(body)["metadata"]
        return found

    leader = await metadata(names.LEADER_LEASE, names.SYSTEM_NAMESPACE)
    agents = [await metadata(name, names.NODES_NAMESPACE) for name in await stage.devices()]
    newest = max(int(one["resourceVersion"]) for one in agents)
    return int(leader["annotations"].get(names.UNRENEWED, 0)) == newest


@pytest.mark.slow
async def test_a_new_operator_gives_no_card_of_agents_that_fell_silent_together(brisk: Stage) -> None:
    """Of a mass silence no Device tells, and the new one sees all Leases for the first time."""
    stage, nodes = brisk, ("a", "b", "c")
    dying = await stage.nodes(**dict.fromkeys(nodes, "1xT4"))
    first = await stage.deciding_operator()
    await stage.until_ready(*nodes)
    dying.kill()
    await stage.says(first, "3 of 3 agents fell silent within", seconds=60)
    await stage.until("the Lease to tell the next leader", partial(noted, stage))
    first.process.send_signal(signal.SIGTERM)
    assert await stage.ended(first) == 0

    second = await stage.deciding_operator()
    assert "the cards of 3 agents get no new pods until these renew" in second.log.read_text()
    await stage.waiting_pod(manifests.pod("p"), "stopped reporting")
    assert {condition(one, "Ready")["status"] for one in (await stage.devices()).values()} == {"True"}

    await stage.agent(**dict.fromkeys(nodes, "1xT4"))
    await stage.until_bound("p")
