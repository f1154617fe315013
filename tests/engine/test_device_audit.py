"""What cannot be right is found and said, whatever brought it about (I1, I2)."""

import dataclasses

import hypothesis
import pytest

from berth_operator.engine import device_audit
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import facts
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from support import builders, worlds

GIB = builders.GIB


def part(name: str, core: int, gib: int, *, uuid: str = "GPU-n1-0") -> Hold:
    """Give a pod that was promised a part of a device."""
    share = decisions.Share(uuid, 0, core, gib * GIB)
    return dataclasses.replace(builders.hold(name), shares=(share,))


def instances() -> facts.Device:
    """Give a node whose card is cut."""
    instance = facts.Instance("MIG-0", "1g.5gb", 5 * GIB)
    return builders.device(cards=[builders.card(mig=True, instances=(instance,))])


SMALL = builders.device(cards=[builders.card(memory=16 * GIB)])
UNKNOWN = builders.device(cards=[builders.card(memory=0)])
CASES: dict[str, tuple[Inventory, list[str]]] = {
    "nobody holds anything": (builders.inventory(SMALL), []),
    "two halves": (builders.inventory(SMALL, part("a", 50, 8), part("b", 50, 8)), []),
    "memory that is not known": (builders.inventory(UNKNOWN, part("a", 50, 99)), []),
    "too much compute": (
        builders.inventory(SMALL, part("a", 50, 1), part("b", 60, 1)),
        ["GPU-n1-0 of n1 is promised at 110 %, by ml/a and ml/b"],
    ),
    "too much memory": (
        builders.inventory(SMALL, part("a", 1, 10), part("b", 1, 10)),
        [f"GPU-n1-0 of n1 is promised with {20 * GIB} of {16 * GIB} bytes, by ml/a and ml/b"],
    ),
    "a card that was swapped": (
        builders.inventory(SMALL, part("a", 1, 1, uuid="GPU-old")),
        ["GPU-old of n1 is not there but promised, by ml/a"],
    ),
    "an instance twice": (
        builders.inventory(instances(), part("a", 10, 1, uuid="MIG-0"), part("b", 10, 1, uuid="MIG-0")),
        ["MIG-0 of n1 is promised 2 times, by ml/a and ml/b"],
    ),
    "no Device": (builders.inventory(builders.node(), part("a", 200, 99)), []),
}


@pytest.mark.parametrize(("inventory", "sentences"), CASES.values(), ids=CASES.keys())
def test_audit(inventory: Inventory, sentences: list[str]) -> None:
    """Each device that is promised above its capacity, or is not there, is named with its pods."""
    assert [str(one) for one in device_audit.audit(inventory)] == sentences


@hypothesis.given(worlds.worlds())
def test_any_world_can_be_audited(world: worlds.World) -> None:
    """Whatever is known, an audit ends, and finds the same in whatever order it came."""
    assert device_audit.audit(world.paint()) == device_audit.audit(world.paint())
