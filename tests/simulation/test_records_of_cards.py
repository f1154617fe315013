"""Koordinator's records of cards through `place`: believed only of the schedulers that the policy names."""

import json
from collections.abc import Sequence
from typing import Final

import pytest

from berth_crds import aliases, names
from simulation import simulator
from support import manifests

GPU: Final = "koordinator.sh/gpu"
MY: Final = "my-scheduler"


def running(scheduler: str, minor: int = 2, uid: str = "u-1") -> simulator.Body:
    """Return a pod that runs with one card, by the record of its scheduler."""
    record = {"gpu": [{"minor": minor, "id": "GPU-x", "resources": {"koordinator.sh/gpu-core": "100"}}]}
    return simulator.pod(
        "theirs",
        {GPU: "100"},
        annotations={aliases.KOORDINATOR_RECORD: json.dumps(record)},
        meta={"uid": uid},
        phase="Running",
        nodeName="n1",
        schedulerName=scheduler,
    )


def believing(*schedulers: str, name: str = names.DEFAULT_POLICY) -> simulator.Body:
    """Return a policy that believes these schedulers."""
    return manifests.own("PlacementPolicy", name, spec={"podRecordsFrom": list(schedulers)})


NOT_NAMED: Final = (
    "withholds cards of n1: its record of devices does not count: spec.podRecordsFrom of the policy does "
    "not name its scheduler, 'my-scheduler'"
)
CASES: Final = {
    "Koordinator's, without a policy": (running("koord-scheduler"), [], [0, 1, 3], ""),
    "one that the policy names": (running(MY), [believing("koord-scheduler", MY)], [0, 1, 3], ""),
    "one that it does not name: any card, but not the last": (running(MY), [], [0, 1, 2], NOT_NAMED),
    "one that only another policy names": (running(MY), [believing(MY, name="more")], [0, 1, 2], NOT_NAMED),
    "a policy that believes nobody": (running(MY), [believing()], [0, 1, 2], NOT_NAMED),
}


@pytest.mark.parametrize(("pod", "policies", "given", "note"), CASES.values(), ids=CASES)
def test_whose_cards_are_kept_back(
    pod: simulator.Body, policies: Sequence[simulator.Body], given: list[int], note: str
) -> None:
    """By name where the record is believed, and else as many as the pod asks for."""
    amounts: simulator.Body = {GPU: 400}
    node = simulator.node(**amounts)
    waiting = [simulator.pod(f"p{number}", 1) for number in range(4)]

    answer = simulator.run_on([node, simulator.device(), *policies, pod, *waiting], "-o", "json")

    placed = [one["allocation"] for one in answer.objects if one["node"]]
    minors = [card["minor"] for one in placed for card in one["containers"]["main"]["gpu"]]
    assert sorted(minors) == given
    assert note in answer.notes


def test_a_scheduler_that_was_taken_over_is_believed_by_its_own_name() -> None:
    """Where Berth answers to it, its pods that run keep their cards, even if no node lists them any more."""
    words = ["--scheduler-names", f"{MY},berth-scheduler", "-o", "json"]
    waiting = [simulator.pod(f"p{number}", 1) for number in range(4)]
    found = []

    for policy in (believing(MY), believing(names.SCHEDULER_NAME)):
        answer = simulator.run_on([*simulator.both(), policy, running(MY), *waiting], *words)
        placed = [one["allocation"] for one in answer.objects if one["node"]]
        found.append(sorted(card["minor"] for one in placed for card in one["containers"]["main"]["gpu"]))

    assert found == [[0, 1, 3], [0, 1, 2]]
