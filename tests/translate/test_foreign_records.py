"""Koordinator's record of a pod's devices, as a bind writes it by policy."""

import dataclasses
import json
from typing import Any, Final

import pytest

from berth_crds import aliases, names
from berth_crds.vocabulary import PodRecords
from berth_operator.scheduling import decisions
from berth_operator.translate import bind_annotations, foreign_records
from support import builders

GIB: Final = builders.GIB
CARD: Final = dataclasses.replace(builders.share(0), card_memory=builders.MEMORY)
HALF: Final = dataclasses.replace(CARD, core=50, memory=builders.MEMORY // 2)
SLICE: Final = decisions.Share("MIG-1", 1, 0, 10 * GIB, profile=builders.PROFILE)
NIC: Final = decisions.Share("rdma-0", 3, 20, 0, type="rdma", function="0000:1f:00.2")
OF_CARD: Final = {
    "koordinator.sh/gpu-core": "100",
    "koordinator.sh/gpu-memory": str(80 * GIB),
    "koordinator.sh/gpu-memory-ratio": "100",
}
OF_HALF: Final = {
    "koordinator.sh/gpu-core": "50",
    "koordinator.sh/gpu-memory": str(40 * GIB),
    "koordinator.sh/gpu-memory-ratio": "50",
}


def record(*grants: decisions.Grant) -> dict[str, Any] | None:
    """Return the record that a bind of these grants writes for Koordinator."""
    placement = decisions.Placement("n1", grants)
    text = bind_annotations.of(placement, term="t", records=PodRecords.KOORDINATOR).get(
        aliases.KOORDINATOR_RECORD
    )
    return json.loads(text) if text else None


def grant(*shares: decisions.Share, container: str = "main", runs: bool = True) -> decisions.Grant:
    """Give a container some shares."""
    return decisions.Grant(container, shares, runs)


CASES: Final = {
    "a whole card, and its minor 0": (
        [grant(CARD)],
        {"gpu": [{"minor": 0, "id": "GPU-n1-0", "resources": OF_CARD}]},
    ),
    "halves for two containers": (
        [grant(HALF), grant(HALF, container="side")],
        {"gpu": [{"minor": 0, "id": "GPU-n1-0", "resources": OF_CARD}]},
    ),
    "a half that an init container had before": (
        [grant(HALF, container="init", runs=False), grant(HALF)],
        {"gpu": [{"minor": 0, "id": "GPU-n1-0", "resources": OF_HALF}]},
    ),
    "a virtual function": (
        [grant(NIC)],
        {
            "rdma": [
                {
                    "minor": 3,
                    "id": "rdma-0",
                    "resources": {"koordinator.sh/rdma": "20"},
                    "extension": {"vfs": [{"minor": -1, "busID": "0000:1f:00.2"}]},
                }
            ]
        },
    ),
    "an instance, for which it has no words": ([grant(SLICE)], None),
    "a pod without devices": ([], None),
}


@pytest.mark.parametrize(("grants", "expected"), CASES.values(), ids=CASES.keys())
def test_what_is_written(grants: list[decisions.Grant], expected: dict[str, Any] | None) -> None:
    """Each device is one entry, whatever containers have it, and no figure is above what is held at once."""
    assert record(*grants) == expected


def test_it_is_read_as_it_was_written() -> None:
    """The cards that the record names are those of the allocation."""
    placement = decisions.Placement("n1", (grant(builders.share(5), builders.share(2)),))

    (text,) = foreign_records.of_koordinator(placement).values()

    assert foreign_records.minors(text) == frozenset({2, 5})


def test_without_the_policy_there_is_none() -> None:
    """Nobody who does not ask for that record gets it, and the allocation is there in any case."""
    placement = decisions.Placement("n1", (grant(CARD),))

    ours, both = (bind_annotations.of(placement, term="t", records=each) for each in PodRecords)

    assert names.ALLOCATION in ours
    assert both == ours | foreign_records.of_koordinator(placement)
    assert aliases.KOORDINATOR_RECORD not in ours
