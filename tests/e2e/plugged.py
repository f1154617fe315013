"""A real node whose agent is its device plugin: what the tests of it share."""

import contextlib
from typing import Any, Final

from berth_agent import simulated
from berth_crds.client import errors, resources
from e2e.conditions import condition
from e2e.inside import (
    MOST_CARDS,
    pod,
    until_allocatable,
)
from e2e.stage import Stage, Thing
from testbed import processes, workers

SHAPE: Final = f"{MOST_CARDS}xT4"
STOCK: Final = "somebody-else"


def flags(worker: workers.Worker, *more: str) -> tuple[str, ...]:
    """Return the flags of an agent that is the device plugin of a worker."""
    return (
        *("--kubelet-socket", str(worker.plugins / "kubelet.sock")),
        *("--pod-resources", str(worker.pod_resources)),
        *more,
    )


def minors(worker: workers.Worker) -> dict[str, int]:
    """Return the minor of each card of the node."""
    return {card.uuid: card.minor for card in simulated.machine(worker.name, SHAPE).answering_cards()}


async def started(stage: Stage, worker: workers.Worker, *more: str) -> processes.Program:
    """Start an agent, and wait until the kubelet would give all cards; return the agent."""
    agent = await stage.agent(*flags(worker, *more), **{worker.name: SHAPE})
    await stage.until_ready(worker.name)
    await until_allocatable(stage, worker.name, MOST_CARDS)
    return agent


def stock(name: str, worker: workers.Worker, *containers: dict[str, Any]) -> Thing:
    """Return a pod that another scheduler has placed."""
    return pod(name, *containers, schedulerName=STOCK, nodeName=worker.name)


async def until_verified(stage: Stage, name: str) -> None:
    """Wait until the record of a pod says that the kubelet gave what was decided."""

    async def verified() -> bool:
        with contextlib.suppress(errors.NotFound):
            found = await stage.admin.get(resources.GPU_PODS, name, into=dict, namespace=stage.namespace)
            said = condition(found, "Verified")
            return (said.get("status"), said.get("reason")) == ("True", "Agreed")
        return False

    await stage.until(f"the cards of {name} to be verified", verified, seconds=40)
