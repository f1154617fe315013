"""Delivery by the environment, on a real node whose runtime obeys it: what containers see, from inside."""

from pathlib import Path

import pytest
import yaml

from berth_agent import simulated
from berth_crds import names
from e2e import by_hand, webhooks
from e2e.inside import (
    IMAGE,
    MOST_CARDS,
    Inside,
    assert_as_decided,
    give_cards,
    pod,
    scene,
    until_running,
    whole,
)
from e2e.stage import Stage, Thing
from testbed import workers

pytestmark = pytest.mark.slow
SHAPE = f"{MOST_CARDS}xT4"


@pytest.fixture
def worker(nvidia_worker: workers.Worker) -> workers.Worker:
    """Return a node whose runtime hands out every card to whoever asks for it, as CUDA images do."""
    give_cards(nvidia_worker, minors(nvidia_worker))
    return nvidia_worker


def minors(worker: workers.Worker) -> dict[str, int]:
    """Return the minor of each card of the node."""
    return {card.uuid: card.minor for card in simulated.machine(worker.name, SHAPE).answering_cards()}


async def test_each_container_sees_the_cards_of_its_annotation_and_no_others(
    stage: Stage, worker: workers.Worker
) -> None:
    """By the policies that the project ships; a pod of another scheduler gets what its image says."""
    stage.operator()
    await stage.agent(**{worker.name: SHAPE})
    await stage.until_ready(worker.name)
    stranger = pod("stranger", {"name": "main"} | IMAGE, schedulerName="somebody-else", nodeName=worker.name)

    await run(stage, *scene(), stranger)

    await assert_as_decided(stage, worker, minors(worker))
    assert Inside(stage, worker, ("stranger", "main")).minors() == list(range(MOST_CARDS))


@pytest.mark.thorough
async def test_the_webhook_does_the_same(stage: Stage, worker: workers.Worker) -> None:
    """For servers that have no such policies."""
    scheduler = webhooks.SCHEDULER
    with webhooks.installed(stage):
        await webhooks.Replicas(stage, "--scheduler-names", scheduler).start()
        await stage.agent(**{worker.name: SHAPE})
        await stage.until_ready(worker.name)

        await run(stage, *scene(schedulerName=scheduler))

        await assert_as_decided(stage, worker, minors(worker))


@pytest.mark.thorough
async def test_of_several_models_the_one_that_was_asked_for_is_seen(
    stage: Stage, nvidia_worker: workers.Worker
) -> None:
    """A card of that model and no other (C2)."""
    shape = "2xT4+1xL4"
    cards = tuple(simulated.machine(nvidia_worker.name, shape).answering_cards())
    give_cards(nvidia_worker, {card.uuid: card.minor for card in cards})
    stage.operator()
    await stage.agent(**{nvidia_worker.name: shape})
    await stage.until_ready(nvidia_worker.name)
    asking = pod("p", whole("main"))
    asking["metadata"]["annotations"] = {names.MODEL: "L4"}

    await run(stage, asking)

    (wanted,) = (card for card in cards if "L4" in card.model)
    inside = Inside(stage, nvidia_worker, ("p", "main"))
    assert (inside.uuids(), inside.minors()) == (wanted.uuid, [wanted.minor])


async def test_a_pod_that_would_start_blind_is_not_bound(
    stage: Stage, worker: workers.Worker, tmp_path: Path
) -> None:
    """Until the agent finds the runtime; and one that the policy has not changed, not at all."""
    early, config = "no-policy-knows-it", tmp_path / "config.toml"
    stage.operator("--scheduler-names", f"{names.SCHEDULER_NAME},{early}")
    await stage.agent("--runtime-config", str(config), **{worker.name: SHAPE})
    await stage.until_ready(worker.name)

    await stage.waiting_pod(pod("main", whole("main")), "has no way to give containers their cards")
    config.touch()
    await until_running(stage, "main")
    await stage.waiting_pod(pod("early", whole("main"), schedulerName=early), "create it again")

    assert len(Inside(stage, worker, ("main", "main")).minors()) == 1


async def run(stage: Stage, *pods: Thing) -> None:
    """Create pods, and wait until all their containers run."""
    await stage.create(*pods)
    await until_running(stage, *(each["metadata"]["name"] for each in pods))


@pytest.mark.thorough
async def test_the_first_pod_of_the_readme_sees_its_two_cards(stage: Stage, worker: workers.Worker) -> None:
    """Unchanged but for its image, which no registry of ours has."""
    stage.operator()
    await stage.agent(**{worker.name: SHAPE})
    await stage.until_ready(worker.name)
    stage.cluster.patch(f"/api/v1/nodes/{worker.name}", {"spec": {"taints": None}})
    first = yaml.safe_load(by_hand.first_pod())
    first["spec"]["containers"][0] |= IMAGE

    await run(stage, first)

    inside = Inside(stage, worker, ("train", "main"))
    found = [minors(worker)[uuid] for uuid in inside.uuids().split(",")]
    assert len(found) == 2
    assert inside.minors() == sorted(found)
