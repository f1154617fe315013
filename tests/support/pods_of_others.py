"""Whole pods as other projects write them, and what each is to get: the files in `golden/pods_of_others`."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from berth_crds import wire
from berth_operator.translate import quantities

Devices = Mapping[str, wire.Card]

FOLDER: Final = Path(__file__).resolve().parents[1] / "golden" / "pods_of_others"
CASES: Final[Mapping[str, dict[str, Any]]] = {
    f"{path.stem}: {case['name']}": case
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.safe_load(path.read_text())
}
SCHEDULERS: Final = ",".join(sorted({case["pod"]["spec"]["schedulerName"] for case in CASES.values()}))
SHAPE: Final = "2xA100-SXM4-80GB+2xT4"


def assert_given(case: Mapping[str, Any], allocation: Mapping[str, Any], known: Devices) -> None:
    """Check an allocation against what a case is about; `known` are the devices of the node, by uuid."""
    assert allocation["containers"].keys() == case["gets"].keys()
    for container, wanted in case["gets"].items():
        given = allocation["containers"][container]
        shares = given["gpu"]
        assert len({share["uuid"] for share in shares}) == wanted["cards"]
        for share in shares:
            assert share["core"] == wanted.get("core", 0)
            assert share["memory"] == _memory(wanted, known[share["uuid"]].memory or 0)
        cards = [known[share["uuid"]] for share in shares]
        assert {card.model for card in cards} <= set(wanted.get("models", {card.model for card in cards}))
        assert len(_roots(cards)) <= wanted.get("roots", len(cards))
        assert given.keys() - {"gpu"} == ({"rdma"} if "functions" in wanted else set())
        _assert_near(wanted, given.get("rdma", []), cards, known)


def _assert_near(
    wanted: Mapping[str, Any], shares: list[dict[str, Any]], cards: Iterable[wire.Card], known: Devices
) -> None:
    """Check that there are as many virtual functions as are wanted, of NICs below the roots of the cards."""
    nics = [known[share["uuid"]] for share in shares]
    assert [share.get("vf", "") for share in shares] == wanted.get("functions", [])
    assert _roots(nics) <= _roots(cards)
    for share, nic in zip(shares, nics, strict=True):
        assert share["vf"] in {one.bus_id for group in nic.vf_groups for one in group.vfs}


def _roots(devices: Iterable[wire.Card]) -> set[str]:
    """Return the PCIe roots of devices; each has one."""
    roots = [device.topology.pcie_root if device.topology is not None else None for device in devices]
    assert all(roots)
    return {root for root in roots if root}


def _memory(wanted: Mapping[str, Any], total: int) -> int:
    """Return how much memory of a card is wanted; all of it where nothing is said."""
    if "memory" in wanted:
        return math.ceil(quantities.exact(wanted["memory"]))
    percent: int = wanted.get("percent", 100)
    return -(-total * percent // 100)
