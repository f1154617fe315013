"""What a pod takes of memory is estimated, and not too low."""

import sys
from typing import Any

import pytest

from berth_crds import names
from berth_operator.translate import pods
from support import builders

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def many(count: int) -> str:
    """Write a list of so many different words."""
    return ",".join(f"w{at}" for at in range(count))


def affinity(values: int) -> dict[str, Any]:
    """Return an affinity of so many values."""
    one = {"key": "zone", "operator": "In", "values": [f"w{at}" for at in range(values)]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [one]}]}}}


MUCH: dict[str, dict[str, Any]] = {
    "uuids": {"annotations": {names.UUIDS: many(500)}},
    "uuids to avoid": {"annotations": {names.AVOID_UUIDS: many(500)}},
    "values": {"affinity": affinity(500)},
    "tolerations": {"tolerations": [{"key": f"key-{at}", "value": f"v{at}"} for at in range(128)]},
    "a long word": {"nodeSelector": {"a": "x" * 30_000}},
}


@pytest.mark.parametrize("says", MUCH.values(), ids=MUCH.keys())
def test_whatever_is_said_counts(says: dict[str, Any]) -> None:
    """Each thing counts as more than its words take, wherever it stands."""
    found = pods.read_request(builders.pod(gpus=1, **says))
    things = found.request.size + found.demand.size

    assert found.byte_size > max(things * sys.getsizeof("w000"), 30_000 if things < 10 else 0)


def test_what_is_refused_weighs_nothing() -> None:
    """Nothing of it is kept."""
    found = pods.read_request(builders.pod(gpus=1, tolerations=[{"key": "a"}] * 200))

    assert found.faults
    assert found.byte_size == 0
