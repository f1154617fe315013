"""What authors of pods and drivers wrote is shown, and turns no letter of a sentence round."""

from typing import Any, Final

import pytest

from simulation import simulator

MARKS: Final = "\u202a\u202e\u2066\u2069\u200f\u061c"
NASTY: Final = f"h100{MARKS}x"
ANNOTATIONS: Final = (
    *(
        "model",
        "avoid-model",
        "model-pattern",
        "avoid-model-pattern",
        "uuids",
        "avoid-uuids",
        "memory-at-least",
    ),
    *("scope", "strategy", "joint", "joint-policy", "labels", "function-labels", "apply", "replicas", "gang"),
)


def cluster() -> list[simulator.Body]:
    """Make two nodes: the driver of one misnames its cards, the other has none that can be read."""
    good, bad = simulator.device("n1"), simulator.device("n2")
    for card in good["spec"]["devices"]:
        card["model"] = f"NVIDIA {NASTY}"
    good["spec"]["cordon"] = [NASTY]
    condition = {"type": "NVMLReady", "status": "False", "reason": "Broken", "message": NASTY}
    bad["status"] = {"conditions": [condition]}
    return [simulator.node("n1"), good, simulator.node("n2"), bad]


def pods() -> list[simulator.Body]:
    """Make a pod for each key that may say anything, and some that say it elsewhere."""
    asked = {"nvidia.com/gpu": 1, "berth.dev/rdma": 1}
    said = [
        simulator.pod(f"a{at}-{form}", asked, annotations={f"berth.dev/{key}": text})
        for at, key in enumerate(ANNOTATIONS)
        for form, text in enumerate((NASTY, f"rdma={NASTY}", f"GPU-{NASTY}"))
    ]
    elsewhere: list[dict[str, Any]] = [
        {"schedulerName": NASTY},
        {"priorityClassName": NASTY},
        {"schedulingGates": [{"name": NASTY}]},
        {"nodeSelector": {"disk": NASTY}},
    ]
    return said + [simulator.pod(f"b{at}", **spec) for at, spec in enumerate(elsewhere)]


@pytest.mark.parametrize("words", [[], ["--explain"], ["-o", "json"]], ids=["text", "explained", "json"])
def test_marks_of_direction_are_spelt_out(words: list[str]) -> None:
    """In no form of the answer is a mark of direction, from whoever's text."""
    answer = simulator.run_on([*cluster(), *pods()], *words)

    shown = answer.out + answer.notes
    assert [mark for mark in MARKS if mark in shown] == []
    assert r"\u202e" in shown
