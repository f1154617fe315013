"""Where a ledger cannot be right (I1, I2): devices that are missing, or of which too much is promised."""

import hypothesis
import pytest

from berth_operator.engine import device_audit
from berth_operator.scheduling import decisions, holds
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.inventory import Inventory
from support import builders, random_clusters

GIB = builders.GIB


def part(name: str, core: int, gib: int, *, uuid: str = "GPU-n1-0", limit: int = 0) -> holds.Hold:
    """Give a pod that was promised a part of a device."""
    return builders.hold(name, shares=[decisions.Share(uuid, 0, core, gib * GIB, core_limit=limit)])


def cut() -> device_facts.Device:
    """Give a node whose card is cut."""
    instance = device_facts.Instance("MIG-0", "1g.5gb", 5 * GIB)
    return builders.device(cards=[builders.card(mig=True, instances=(instance,))])


SMALL = builders.device(cards=[builders.card(memory=16 * GIB)])
UNKNOWN = builders.device(cards=[builders.card(memory=0)])
AUDITS: dict[str, tuple[Inventory, list[str]]] = {
    "nobody holds anything": (builders.inventory(SMALL), []),
    "two halves": (builders.inventory(SMALL, part("a", 50, 8), part("b", 50, 8)), []),
    "memory that is not known": (builders.inventory(UNKNOWN, part("a", 50, 99)), []),
    "too much compute": (
        builders.inventory(SMALL, part("a", 50, 1), part("b", 60, 1)),
        ["GPU-n1-0 of n1 is overcommitted: 110 % allocated to ml/a and ml/b"],
    ),
    "compute that was oversold": (
        builders.inventory(SMALL, part("a", 90, 1), part("b", 60, 1, limit=150)),
        [],
    ),
    "more compute than was oversold": (
        builders.inventory(SMALL, part("a", 90, 1), part("b", 61, 1, limit=150)),
        ["GPU-n1-0 of n1 is overcommitted: 151 % allocated to ml/a and ml/b"],
    ),
    "compute of pods without a limit, beside one with": (
        builders.inventory(SMALL, part("a", 60, 1), part("b", 60, 1), part("c", 10, 1, limit=1000)),
        ["GPU-n1-0 of n1 is overcommitted: 130 % allocated to ml/a and ml/b and ml/c"],
    ),
    "a whole card and a part with a limit": (
        builders.inventory(SMALL, part("a", 100, 1), part("b", 10, 1, limit=1000)),
        ["GPU-n1-0 of n1 is overcommitted: 110 % allocated to ml/a and ml/b"],
    ),
    "another device, which is never oversold": (
        builders.inventory(
            builders.device(cards=1, others=[builders.nic()]),
            *(part(name, 60, 0, uuid="rdma-n1-0", limit=150) for name in "ab"),
        ),
        ["rdma-n1-0 of n1 is overcommitted: 120 % allocated to ml/a and ml/b"],
    ),
    "memory beside oversold compute": (
        builders.inventory(SMALL, part("a", 90, 10), part("b", 60, 10, limit=150)),
        [f"GPU-n1-0 of n1 is overcommitted: {20 * GIB} of {16 * GIB} bytes allocated to ml/a and ml/b"],
    ),
    "too much memory": (
        builders.inventory(SMALL, part("a", 1, 10), part("b", 1, 10)),
        [f"GPU-n1-0 of n1 is overcommitted: {20 * GIB} of {16 * GIB} bytes allocated to ml/a and ml/b"],
    ),
    "a card that was swapped": (
        builders.inventory(SMALL, part("a", 1, 1, uuid="GPU-old")),
        ["GPU-old of n1 is allocated to ml/a but missing"],
    ),
    "an instance twice": (
        builders.inventory(cut(), part("a", 10, 1, uuid="MIG-0"), part("b", 10, 1, uuid="MIG-0")),
        ["MIG-0 of n1 is overcommitted: allocated 2 times, to ml/a and ml/b"],
    ),
    "no Device": (builders.inventory(builders.node(), part("a", 200, 99)), []),
}


@pytest.mark.parametrize(("inventory", "sentences"), AUDITS.values(), ids=AUDITS.keys())
def test_audit(inventory: Inventory, sentences: list[str]) -> None:
    """Each device that is overcommitted or missing is named with its pods."""
    assert device_audit.audit(inventory) == tuple(sentences)


@hypothesis.given(random_clusters.clusters())
def test_any_world_can_be_audited(world: random_clusters.ClusterState) -> None:
    """Whatever is known, an audit ends, and finds the same in whatever order it came."""
    assert device_audit.audit(world.inventory()) == device_audit.audit(world.inventory())
