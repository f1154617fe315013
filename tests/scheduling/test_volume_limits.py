"""Limits of CSI drivers: a node is given no more volumes than it can attach, and each volume counts once."""

import collections
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.volumes import attached
from scheduling.volume_scenes import ALL, HERE, LATE, LOCAL, cluster, feasible, told
from support import builders
from support import volumes as make

CSI: Final = {"csi": {"driver": make.DRIVER, "volumeHandle": "h"}}


def csi(name: str, handle: str = "", driver: str = make.DRIVER) -> tuple[make.Object, make.Object]:
    """Return a claim and its volume, which many pods may use."""
    source = {"driver": driver, "volumeHandle": handle or name}
    made = make.volume(f"v-{name}", claimed=name, modes=("ReadWriteMany",), csi=source)
    return make.claim(name, volume=made.name, modes=("ReadWriteMany",)), made


def limited(*objects: make.Object, limit: int = 2) -> Inventory:
    """Return a cluster in which n1 and n2 can attach so many volumes of a driver, and n3 and n4 any."""
    inventory = cluster(*objects)
    for name in ("n1", "n2"):
        inventory.volumes.put_limits(name, {make.DRIVER: limit})
    return inventory


def run(inventory: Inventory, node: str, *claims: str, name: str = "first") -> None:
    """Have a pod on a node use claims."""
    inventory.charge(builders.hold(name, node, claims=make.using(*claims).demand.claims))


ONE, TWO, THREE = csi("one"), csi("two"), csi("three")
# What a pod on n1 uses, what the next pod asks for, and whether it may go to n1.
ROOM: Final[dict[str, tuple[tuple[make.Object, ...], tuple[str, ...], tuple[str, ...], bool]]] = {
    "another volume": ((*ONE, *TWO), ("one",), ("two",), True),
    "one volume too many": ((*ONE, *TWO, *THREE), ("one", "two"), ("three",), False),
    "a volume that is attached already": ((*ONE, *TWO), ("one", "two"), ("two",), True),
    "another claim of a volume that is attached already": (
        (*ONE, *TWO, *csi("alias", "two")),
        ("one", "two"),
        ("alias",),
        True,
    ),
    "two volumes of which one is attached already": ((*ONE, *TWO), ("one",), ("one", "two"), True),
    "two volumes where there is room for one": ((*ONE, *TWO, *THREE), ("one",), ("two", "three"), False),
    "a volume of another driver": (
        (*ONE, *TWO, *csi("other", driver="other.example.com")),
        ("one", "two"),
        ("other",),
        True,
    ),
    "a volume that is yet to be made": (
        (*ONE, *TWO, make.claim("new"), LATE),
        ("one", "two"),
        ("new",),
        False,
    ),
    "a volume that is yet to be made, beside such a one": (
        (*ONE, make.claim("new"), make.claim("newer"), LATE),
        ("one", "new"),
        ("newer",),
        False,
    ),
    "a local volume": (
        (
            *ONE,
            *TWO,
            make.claim("disk", storage_class=make.LOCAL),
            make.volume("d", storage_class=make.LOCAL),
            LOCAL,
        ),
        ("one", "two"),
        ("disk",),
        True,
    ),
}


@pytest.mark.parametrize(("objects", "used", "asked", "fits"), ROOM.values(), ids=ROOM.keys())
def test_a_node_takes_a_pod_if_it_can_attach_its_volumes(
    objects: tuple[make.Object, ...], used: tuple[str, ...], asked: tuple[str, ...], *, fits: bool
) -> None:
    """Other nodes do, and n1 does again once the other pod has ended."""
    inventory = limited(*objects)
    run(inventory, "n1", *used)
    pod_info = make.using(*asked)

    assert feasible(inventory, pod_info) == (ALL if fits else ALL[1:])
    inventory.release("uid-first")
    assert feasible(inventory, pod_info) == ALL


@pytest.mark.parametrize("limit", [0, 1])
def test_a_node_over_its_limit_refuses_only_who_needs_another_volume(limit: int) -> None:
    """A limit may be lowered while volumes are attached: what is there already counts no more than before."""
    inventory = limited(*ONE, *TWO, *THREE, limit=limit)
    run(inventory, "n1", "one", "two")

    assert "n1" in feasible(inventory, make.using("one"))
    assert "n1" in feasible(inventory, make.using("one", "two"))
    assert "n1" not in feasible(inventory, make.using("one", "three"))


def test_the_limit_is_told_and_who_might_end() -> None:
    """With the driver and the figure; without a limit there is nothing to be told."""
    inventory = limited(*ONE, *TWO, limit=1)
    run(inventory, "n1", "one")
    run(inventory, "n2", "one", name="second")
    for name in ("n3", "n4"):
        inventory.drop_node(name)

    assert told(inventory, make.using("two")) == (
        f"0/2 nodes are available: 2 can attach no more volumes of {make.DRIVER} (1 at most). "
        "Would fit if ml/first on n1 terminated."
    )
    assert HERE not in told(inventory, make.using("two"))
    inventory.volumes.put_limits("n2", {})
    assert feasible(inventory, make.using("two")) == ("n2",)


def test_a_claim_that_gets_its_volume_is_counted_as_that_volume() -> None:
    """A volume that was counted by its claim counts by its handle as soon as that is known."""
    inventory = limited(make.claim("new"), LATE, *TWO, limit=1)
    run(inventory, "n1", "new")
    assert feasible(inventory, make.using("two")) == ALL[1:]

    make.put(inventory.volumes, *csi("new", "two"))

    assert feasible(inventory, make.using("two")) == ALL, "it is the same volume"
    inventory.volumes.drop_claim(("ml", "new"))
    assert feasible(inventory, make.using("two")) == ALL
    inventory.release("uid-first")
    assert not inventory.volumes.attached._uses


USES: Final = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from(["x", "y", "z"]), st.sampled_from(["n1", "n2"]), st.booleans()
    ),
    max_size=20,
)


@hypothesis.given(USES, st.integers(0, 3))
def test_what_is_left_is_what_a_count_from_the_start_gives(
    uses: list[tuple[str, str, str, bool]], limit: int
) -> None:
    """Whatever comes and goes, before the limit is told and after it."""
    counts = collections.Counter[tuple[attached.Identity, str]]()
    known = attached.AttachedVolumes()
    known.put_limits("n1", {"a": limit})
    for driver, handle, node, comes in uses:
        volume = attached.Identity(driver, handle)
        if comes or counts[volume, node]:
            known.use(volume, node, 1 if comes else -1)
            counts[volume, node] += 1 if comes else -1
    known.put_limits("n2", {"a": limit})
    new = attached.Identity("a", "new")

    full = {node for node, _, _ in known.full_nodes([new])}

    there = {
        node: sum(bool(+counts[one]) for one in counts if one[1] == node and one[0].driver == "a")
        for node in ("n1", "n2")
    }
    assert full == {node for node, count in there.items() if count >= limit}
