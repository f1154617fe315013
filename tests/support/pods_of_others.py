"""Whole pods as other projects write them, and what each is to get: the files in `golden/pods_of_others`."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from berth_operator.translate import quantities

FOLDER: Final = Path(__file__).resolve().parents[1] / "golden" / "pods_of_others"
CASES: Final[Mapping[str, dict[str, Any]]] = {
    f"{path.stem}: {case['name']}": case
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.safe_load(path.read_text())
}
SCHEDULERS: Final = ",".join(sorted({case["pod"]["spec"]["schedulerName"] for case in CASES.values()}))
SHAPE: Final = "2xA100-SXM4-80GB+2xT4"


def assert_given(case: Mapping[str, Any], allocation: Mapping[str, Any], memory: Mapping[str, int]) -> None:
    """Check an allocation against a case; `memory` is what each card has, by uuid."""
    assert allocation["containers"].keys() == case["gets"].keys()
    for container, wanted in case["gets"].items():
        shares = allocation["containers"][container]["gpu"]
        assert len({share["uuid"] for share in shares}) == wanted["cards"]
        for share in shares:
            assert share["core"] == wanted.get("core", 0)
            assert share["memory"] == _memory(wanted, memory[share["uuid"]])


def _memory(wanted: Mapping[str, Any], total: int) -> int:
    """Return how much memory of a card is wanted; all of it where nothing is said."""
    if "memory" in wanted:
        return math.ceil(quantities.exact(wanted["memory"]))
    percent: int = wanted.get("percent", 100)
    return -(-total * percent // 100)
