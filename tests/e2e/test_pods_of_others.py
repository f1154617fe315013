"""Whole pods of other projects on a real node, as they are but for their images."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from berth_agent import device_spec, simulated
from berth_crds import names
from e2e.inside import IMAGE, Inside, until_running
from e2e.stage import Stage, Thing
from support import pods_of_others
from testbed import workers

pytestmark = pytest.mark.slow

# The node of a test has cards alone, and no label; `place` is asked for the others, too.
SERVED = {
    name: case for name, case in pods_of_others.CASES.items() if "gets" in case and "labels" not in case
}


async def test_each_runs_and_sees_its_cards(stage: Stage, worker: workers.Worker, driver: Path) -> None:
    """Each gets what `place` says, and its container sees these cards and no others."""
    stage.operator("--scheduler-names", pods_of_others.SCHEDULERS)
    words = ("--nri", str(worker.nri), "--nvidia-driver-root", str(driver))
    await stage.agent(*words, **{worker.name: pods_of_others.SHAPE})
    await stage.until_ready(worker.name)
    cards = {
        card.uuid: card for card in simulated.machine(worker.name, pods_of_others.SHAPE).answering_cards()
    }
    listed = device_spec.spec(worker.name, simulated.machine(worker.name, pods_of_others.SHAPE), None).devices
    known = {card.uuid: card for card in listed}

    for case in SERVED.values():
        pod = runnable(case)
        name = pod["metadata"]["name"]
        await stage.create(pod)
        await until_running(stage, name)

        allocation = json.loads((await stage.pods())[name]["metadata"]["annotations"][names.ALLOCATION])
        pods_of_others.assert_given(case, allocation, known)
        for container, by_type in allocation["containers"].items():
            given = {share["uuid"] for share in by_type["gpu"]}
            inside = Inside(stage, worker, (name, container))
            assert set(inside.uuids().split(",")) == given
            assert set(inside.minors()) == {cards[uuid].minor for uuid in given}

        await stage.delete(name)
        await stage.until_gone(name)


def runnable(case: dict[str, Any]) -> Thing:
    """Return a pod whose images are on the node, and which does without what that node has not: a network."""
    changed: Thing = copy.deepcopy(case["pod"])
    for container in changed["spec"]["containers"]:
        container.update(IMAGE)
    without = {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
    }
    return changed | {"spec": changed["spec"] | without}
