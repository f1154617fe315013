"""Claims of several kinds for which the same volumes would do: who gets one is found with little work."""

import dataclasses
import random
from typing import Any, Final
from unittest import mock

import pytest

from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts, sharing
from berth_operator.scheduling.volumes.claim_kinds import kind_of
from berth_operator.scheduling.volumes.reach import reachable
from scheduling.volume_scenes import ALL, HOST, LOCAL, NODES, cluster, feasible
from support import builders
from support import volumes as make

RACK: Final = "rack"
SIZES: Final = ("1Gi", "2Gi", "3Gi")
SELECTORS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"selector": {"matchLabels": {"tier": "gold"}}},
    {"selector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
)
MODES: Final = (("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany"))
PLACES: Final[tuple[facts.Terms | None, ...]] = (
    None,
    *((nodes.Term((nodes.LabelExpression(HOST, "In", (name,)),)),) for name in NODES),
    (nodes.Term((nodes.LabelExpression(HOST, "In", ("n1", "n2")),)),),
    (nodes.Term((nodes.LabelExpression(make.ZONE, "In", ("a", "b")),)),),
    (nodes.Term((nodes.LabelExpression(make.ZONE, "Exists", ()),)),),
    (nodes.Term((nodes.LabelExpression(HOST, "NotIn", ("n1",)),)),),
    (nodes.Term((nodes.LabelExpression(RACK, "In", ("r",)), nodes.LabelExpression(HOST, "Exists", ()))),),
)


def drawn_volume(dice: random.Random, name: str, *, claimed: str = "") -> facts.Volume:
    """Return a volume that some nodes reach."""
    labels = dice.choice(({}, {"tier": "gold"}, {"tier": "tin"}))
    made = make.volume(
        name,
        claimed=claimed,
        phase="Available",
        storage_class=make.LOCAL,
        size=dice.choice(SIZES),
        modes=dice.choice(MODES),
        labels=labels,
    )
    return dataclasses.replace(made, affinity=dice.choice(PLACES))


def drawn_claim(dice: random.Random, name: str) -> facts.Claim:
    """Return a claim of one of many kinds."""
    return make.claim(
        name,
        storage_class=make.LOCAL,
        size=dice.choice(SIZES),
        modes=dice.choice(MODES),
        **dice.choice(SELECTORS),
    )


def would_do(volume: facts.Volume, claim: facts.Claim) -> bool:
    """Whether a volume that is meant for no claim would do for one, as the rules have it."""
    labels, selector = dict(volume.labels), str(claim.selector)
    wanted = "tier" in labels if "Exists" in selector else not claim.selector or labels.get("tier") == "gold"
    modes = claim.access_modes <= volume.access_modes
    return volume.claim is None and wanted and modes and volume.size >= claim.size


def all_served(claims: list[facts.Claim], free: list[facts.Volume], node: nodes.Node) -> bool:
    """Whether each claim gets a volume on a node: kind by kind, the smallest claims and volumes first.

    A claim for which a volume is meant gets that one or none.
    """
    claims = sorted(claims, key=lambda one: one.size)
    kinds = list(dict.fromkeys(map(kind_of, claims)))
    left = sorted((one for one in free if reachable(one, node)), key=lambda one: (one.size, one.name))
    for claim in sorted(claims, key=lambda one: kinds.index(kind_of(one))):
        meant = [one for one in free if one.claim == claim.key and one.size >= claim.size]
        suiting = [one for one in left if (one in meant if meant else would_do(one, claim))]
        if not suiting:
            return False
        left.remove(suiting[0])
    return True


def change(dice: random.Random, inventory: Inventory, at: int) -> None:
    """Have a volume come or go, or be taken by a pod, or a node get other labels."""
    known, name = inventory.volumes, f"v{dice.randrange(16)}"
    match dice.randrange(8):
        case 0:
            known.drop_volume(name)
        case 1:
            host, rack = dice.choice(ALL), dice.choice(({}, {RACK: "r"}))
            inventory.put_node(builders.node(host, labels=NODES[host] | rack))
        case 2:
            known.put_claim(make.claim(f"other-{at}", storage_class=make.LOCAL))
            claims = make.using(f"other-{at}").demand.claims
            inventory.charge(builders.hold(f"other-{at}", "n2", claims=claims), assume_volumes=True)
        case _:
            known.put_volume(drawn_volume(dice, name, claimed=dice.choice(("", "", "", "c0"))))


@pytest.mark.parametrize("seed", range(15))
def test_a_pod_may_go_exactly_where_all_its_claims_get_volumes(seed: int) -> None:
    """After each change, as a look at each node by itself has it."""
    dice = random.Random(seed)
    claims = [drawn_claim(dice, f"c{at}") for at in range(4)]
    inventory, names = cluster(LOCAL, *claims), [one.name for one in claims]
    for at in range(40):
        change(dice, inventory, at)
        known = inventory.volumes
        free = [one for one in known.volumes.values() if known.is_free(one.name)]
        for some in (2, 3, 4):
            wanted = {
                info.name
                for info in inventory.each()
                if info.node is not None and all_served(claims[:some], free, info.node)
            }
            assert set(feasible(inventory, make.using(*names[:some]))) == wanted


# ---------------------------------------------------------------- how much work it is


def scene(*claims: str, volumes: list[facts.Volume]) -> Inventory:
    """Return a hundred nodes, and claims of these sizes."""
    nodes_ = (builders.node(f"n{at}", labels={HOST: f"n{at}"}) for at in range(100))
    inventory = builders.inventory(*nodes_)
    sized = (make.claim(f"c{at}", storage_class=make.LOCAL, size=one) for at, one in enumerate(claims))
    make.put(inventory.volumes, LOCAL, *sized, *volumes)
    return inventory


def anywhere(count: int, size: str, name: str = "v") -> list[facts.Volume]:
    """Return volumes that each node can reach."""
    return [make.volume(f"{name}{at}", storage_class=make.LOCAL, size=size) for at in range(count)]


def looks(inventory: Inventory, claims: int) -> tuple[int, int]:
    """Return for how many nodes a pod with so many claims passes, and how many volumes are compared."""
    pod_info = make.using(*(f"c{at}" for at in range(claims)), cards=0)
    compared: list[int] = []

    def pairs(*args: Any) -> Any:
        found = counted(*args)
        compared.extend(found[1].tolist())
        return found

    counted = sharing._pairs
    with mock.patch.object(sharing, "_pairs", pairs):
        return len(feasible(inventory, pod_info)), len(compared)


def test_where_there_is_enough_for_all_no_volume_is_looked_at() -> None:
    """As many as a kind has claims, and others may have taken before."""
    assert looks(scene("1Gi", "1Mi", "1Mi", volumes=anywhere(3, "2Gi")), 3) == (100, 0)


def test_nodes_that_reach_the_same_volumes_are_one_case() -> None:
    """So many are compared as there are claims of each kind, and not again for each node."""
    small, large = anywhere(50, "1Gi"), anywhere(1, "2Gi", "w")
    assert looks(scene("1Mi", "2Gi", volumes=small + large), 2) == (100, 2)
    assert looks(scene("2Mi", "1Mi", volumes=anywhere(1, "1Gi")), 2) == (0, 1)


def test_a_disk_of_each_node_does_not_have_all_others_looked_at_anew() -> None:
    """Nodes that each reach another volume beside those of all are many cases, and still little work."""
    disks = [make.volume(f"d{at}", storage_class=make.LOCAL, host=f"n{at}", size="3Gi") for at in range(90)]
    inventory = scene("1Mi", "3Gi", volumes=anywhere(50, "1Gi") + disks)
    assert looks(inventory, 2) == (90, 2 * 90)


def test_an_explanation_asks_nothing_again() -> None:
    """Until a volume or the label of a node changes."""
    inventory = scene("2Mi", "1Mi", volumes=anywhere(1, "1Gi"))
    assert looks(inventory, 2) == (0, 1)
    assert looks(inventory, 2) == (0, 0)
    inventory.put_node(builders.node("n1", labels={HOST: "other"}))
    assert looks(inventory, 2) == (0, 1)
    inventory.volumes.put_volume(make.volume("w", storage_class=make.LOCAL, host="n2", size="1Gi"))
    assert looks(inventory, 2)[0] == 1


def test_only_so_many_answers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all are found anew."""
    monkeypatch.setattr(sharing, "MOST_REMEMBERED", 2)
    inventory = scene("3Mi", "2Mi", "1Mi", volumes=anywhere(2, "1Gi"))
    for some, served in ((1, 100), (2, 100), (1, 100), (3, 0), (2, 100)):
        assert looks(inventory, some)[0] == served
    assert len(inventory.volumes.served._found) == 2
