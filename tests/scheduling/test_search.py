"""The search finds the best place if there is one, and never a card that must not be given."""

from typing import Any, Final
from unittest import mock

import pytest

from berth_crds.vocabulary import Scope, Strategy
from berth_operator.scheduling import decisions, queued_pods, signatures
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_facts, node_topology, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as node_facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES, TENTH, minors, place
from support import builders, random_clusters

GIB: Final = builders.GIB
ASKS: Final = pytest.mark.parametrize("ask", [requests.cards(1), TENTH], ids=["a whole card", "a share"])
TIGHT: Final = [requests.Gpus(1, core=40, memory=GIB)] * 17

# ---------------------------------------------------------------- what is given


def one_node(*cards: PhysicalDevice, holds: tuple[Hold, ...] = ()) -> Inventory:
    """Return an inventory of a node with these cards, of which pods hold some."""
    return builders.inventory(builders.node(), builders.device(cards=cards), *holds)


def with_numa(*nodes: int) -> Inventory:
    """Return an inventory of a node whose cards sit on these NUMA nodes."""
    masks = tuple(
        node_topology.mask_of(slot for slot, at in enumerate(nodes) if at == numa)
        for numa in dict.fromkeys(nodes)
    )
    flat = ((0,) * len(nodes),) * len(nodes)
    topology = node_topology.NodeTopology(len(nodes), flat, ((Scope.NUMA, masks),))
    return builders.inventory(builders.node(), builders.device(cards=len(nodes), topology=topology))


def close(*, required: bool) -> queued_pods.PodInfo:
    """Return a pod of two cards of one NUMA node."""
    grouping = requests.Grouping(scope=Scope.NUMA, required=required)
    return builders.pod_info(request=builders.request(2, grouping=grouping))


def rooted(
    roots: str, nics: str, name: str = "n1", *, numa: tuple[int, ...] = ()
) -> tuple[node_facts.Node, device_facts.Device]:
    """Return a node whose cards and NICs sit below these PCIe roots, a letter each."""
    flat = ((0,) * len(roots),) * len(roots)
    topology = node_topology.NodeTopology(len(roots), flat, ((Scope.NUMA, numa),))
    cards = [builders.card(minor, root=root, at=name) for minor, root in enumerate(roots)]
    found = [builders.nic(minor, root=root, at=name) for minor, root in enumerate(nics)]
    return builders.node(name), builders.device(name, cards, others=found, topology=topology)


def with_nic(count: int = 1, **grouping: Any) -> queued_pods.PodInfo:
    """Return a pod of cards and a NIC, one PCIe root being only a wish."""
    asks = (requests.cards(count), requests.OtherDevices("rdma", 1, 100))
    wish = requests.Grouping(joint_wish=("gpu", "rdma"), **grouping)
    return builders.pod_info(request=builders.request(asks, grouping=wish))


def share(core: int = 0, memory: int = 0, *, ratio: int = 0, count: int = 1) -> queued_pods.PodInfo:
    """Return a pod of shares of cards."""
    return builders.pod_info(cards=requests.Gpus(count, core, memory, ratio))


MODELS: Final = one_node(
    builders.card(0, model="Tesla T4"),
    builders.card(1),
    builders.card(2),
    holds=(builders.hold("a", withheld=1),),
)
STARTED: Final = one_node(
    builders.card(), holds=(builders.hold("a", shares=[builders.share(core=60, memory=60 * GIB)]),)
)
GIVEN: Final[dict[str, tuple[Inventory, queued_pods.PodInfo, list[int] | None]]] = {
    "the lowest minors, around those that are held": (
        builders.inventory(*builders.nodes(1, cards=6), builders.hold("a", shares=(0, 3))),
        builders.pod_info(cards=3),
        [1, 2, 4],
    ),
    "a scope that is required and can be had": (with_numa(0, 1, 1), close(required=True), [1, 2]),
    "a scope that is required and cannot be had": (with_numa(0, 1, 2), close(required=True), None),
    "a scope that is preferred and can be had": (with_numa(0, 1, 1), close(required=False), [1, 2]),
    "a scope that is preferred and cannot be had": (with_numa(0, 1, 2), close(required=False), [0, 1]),
    "one of two cards of a model, where one of the node is withheld": (
        MODELS,
        builders.pod_info(models=[builders.MODEL]),
        [1],
    ),
    "the only card of a model, which may be the one that is withheld": (
        MODELS,
        builders.pod_info(models=["T4"]),
        None,
    ),
    "the rest of a card that is held by name, which cannot be the one that is withheld": (
        builders.inventory(
            *builders.nodes(1, cards=2),
            builders.hold("a", shares=[builders.share(1, core=50, memory=1)]),
            builders.hold("b", withheld=1),
        ),
        builders.pod_info(cards=TENTH),
        [1],
    ),
    "exactly what is left": (STARTED, share(40, ratio=25), [0]),
    "too much compute": (STARTED, share(41, ratio=25), None),
    "too much memory in percent": (STARTED, share(40, ratio=26), None),
    "exactly the bytes that are left": (STARTED, share(memory=20 * GIB), [0]),
    "a byte too much": (STARTED, share(memory=20 * GIB + 1), None),
    "shares of more cards than there are": (STARTED, share(1, 1, count=2), None),
}


@pytest.mark.parametrize(("inventory", "pod_info", "expected"), GIVEN.values(), ids=GIVEN)
def test_which_cards_are_given(
    inventory: Inventory, pod_info: queued_pods.PodInfo, expected: list[int] | None
) -> None:
    """To the last percent and byte; a preferred scope is given up where it cannot be had."""
    assert minors(place(inventory, pod_info)) == expected


NUMA: Final = {"scope": Scope.NUMA, "required": False}
WISHES: Final[dict[str, tuple[Inventory, queued_pods.PodInfo, tuple[str, ...]]]] = {
    "the card below the root of a NIC": (
        builders.inventory(*rooted("ab", "b")),
        with_nic(),
        ("GPU-n1-1", "rdma-n1-0"),
    ),
    "any, where no card and NIC have a root in common": (
        builders.inventory(*rooted("aa", "b")),
        with_nic(),
        ("GPU-n1-0", "rdma-n1-0"),
    ),
    "the node where they have": (
        builders.inventory(*rooted("a", "b"), *rooted("a", "a", "n2")),
        with_nic(),
        ("GPU-n2-0", "rdma-n2-0"),
    ),
    "a scope before a root in common": (
        builders.inventory(*rooted("abb", "b", numa=(0b011, 0b100))),
        with_nic(2, **NUMA),
        ("GPU-n1-0", "GPU-n1-1", "rdma-n1-0"),
    ),
    "both": (
        builders.inventory(*rooted("bbb", "b", numa=(0b001, 0b110))),
        with_nic(2, **NUMA),
        ("GPU-n1-1", "GPU-n1-2", "rdma-n1-0"),
    ),
    "the scope alone": (
        builders.inventory(*rooted("aaa", "b", numa=(0b001, 0b110))),
        with_nic(2, **NUMA),
        ("GPU-n1-1", "GPU-n1-2", "rdma-n1-0"),
    ),
}


@pytest.mark.parametrize(("inventory", "pod_info", "expected"), WISHES.values(), ids=WISHES)
def test_devices_are_joint_if_they_can_be(
    inventory: Inventory, pod_info: queued_pods.PodInfo, expected: tuple[str, ...]
) -> None:
    """A pod that would like its devices below one PCIe root starts where that cannot be had, too."""
    found = place(inventory, pod_info)

    assert found is not None
    assert tuple(share.uuid for share in random_clusters.given(found)) == expected


def test_whole_card_is_given_whole() -> None:
    """A share of a whole card is all of its core and all of its memory, in bytes (I10)."""
    found = place(builders.inventory(*builders.nodes(1)), builders.pod_info())

    assert found is not None
    assert random_clusters.given(found) == (decisions.Share("GPU-n1-0", 0, 100, builders.MEMORY),)


@pytest.mark.parametrize("silent", [[], ["n1"]], ids=["no Device", "a silent agent"])
def test_pod_without_cards_asks_no_device(silent: list[str]) -> None:
    """A pod that asks for no card goes where there is none, or none to be had, and gets no grant."""
    known = builders.nodes(1) if silent else (builders.node(),)

    found = place(builders.inventory(*known, silent=silent), builders.pod_info(cards=0))

    assert found == decisions.Placement("n1", ())


def test_equal_nodes_go_by_name() -> None:
    """Between equal nodes the name decides, whichever came first."""
    inventory = builders.inventory(*reversed(builders.nodes(3)))

    found = [place(inventory, builders.pod_info(), Policy(strategy)) for strategy in Strategy]

    assert [one and one.node for one in found] == ["n1"] * len(Strategy)


@pytest.mark.parametrize(
    ("strategy", "node"), [(None, "n1"), (Strategy.SPREAD, "n2")], ids=["of the policy", "of its own"]
)
def test_pod_chooses_its_own_strategy(strategy: Strategy | None, node: str) -> None:
    """What a pod says of the strategy goes before the policy."""
    inventory = builders.inventory(*builders.nodes(2), builders.hold("a", "n1", (0,)))
    request = builders.request(1, grouping=requests.Grouping(strategy=strategy))

    found = place(inventory, builders.pod_info(request=request), Policy(Strategy.BINPACK))

    assert found is not None
    assert found.node == node


# ---------------------------------------------------------------- what is never given

FORBIDDEN: Final[dict[str, Inventory]] = {
    "unhealthy": one_node(builders.card(trouble=Reason.UNHEALTHY)),
    "cordoned": one_node(builders.card(trouble=Reason.CARD_CORDONED)),
    "occupied by a stranger": one_node(builders.card(trouble=Reason.OCCUPIED)),
    "in MIG mode": one_node(builders.card(mig=True)),
    "in MIG mode and cut": one_node(builders.card(mig=True, instances=builders.instances("n1", 0, 2))),
    "shared by replicas": one_node(builders.card(replicas=2)),
    "of a failed source": builders.inventory(builders.node(), builders.device(cards=1, failed="NVMLDown")),
    "of another model": one_node(builders.card(model="Tesla T4")),
    "not there": one_node(),
    "held by name": one_node(builders.card(), holds=(builders.hold("a", shares=(0,)),)),
    "held by somebody who cannot name it": one_node(builders.card(), holds=(builders.hold("a", withheld=1),)),
    "of an absent node": builders.inventory(builders.device()),
    "of a silent agent": builders.inventory(*builders.nodes(1), silent=["n1"]),
}


@ASKS
@pytest.mark.parametrize("inventory", FORBIDDEN.values(), ids=FORBIDDEN)
def test_card_that_must_not_be_given(inventory: Inventory, ask: requests.Ask) -> None:
    """No pod gets such a card, nor any part of it (I6, I9)."""
    assert place(inventory, builders.pod_info(cards=ask, models=[builders.MODEL])) is None


# ---------------------------------------------------------------- conditions

CONDITIONS: dict[str, tuple[requests.Conditions, list[int] | None]] = {
    "a model": (requests.Conditions(models=frozenset({"t4"})), [1]),
    "any model but one": (requests.Conditions(avoid_models=frozenset({builders.MODEL})), [1]),
    "a pattern": (requests.Conditions(pattern="h.00"), [2]),
    "any model but those of a pattern": (requests.Conditions(avoid_pattern="a1|t4"), [2]),
    "a pattern that cannot be read": (requests.Conditions(pattern="("), None),
    "a list of uuids": (requests.Conditions(uuids=frozenset({"GPU-n1-2", "GPU-gone"})), [2]),
    "any uuid but these": (requests.Conditions(avoid_uuids=frozenset({"GPU-n1-0", "GPU-n1-1"})), [2]),
    "much memory": (requests.Conditions(memory_at_least=100 * builders.GIB), [2]),
    "two that no card meets at once": (
        requests.Conditions(models=frozenset({"t4"}), memory_at_least=100 * builders.GIB),
        None,
    ),
}


@ASKS
@pytest.mark.parametrize(("asked", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions(asked: requests.Conditions, expected: list[int] | None, ask: requests.Ask) -> None:
    """All conditions hold of the very card that is given, whole or in part."""
    inventory = one_node(
        builders.card(0),
        builders.card(1, model="Tesla T4", memory=15 * GIB),
        builders.card(2, model="H200", memory=141 * GIB),
    )

    found = place(inventory, builders.pod_info(request=builders.request(ask, conditions=asked)))

    assert minors(found) == expected


# ---------------------------------------------------------------- nodes that are alike

NAMED: Final = requests.Conditions(avoid_uuids=frozenset({"GPU-n1-0"}))


@pytest.mark.parametrize(
    ("conditions", "looks"),
    [
        pytest.param(requests.ANY_CARD, 2, id="any cards: those with as much left are alike"),
        pytest.param(NAMED, 3, id="a single card is avoided: its node is another, too"),
    ],
)
def test_nodes_that_are_alike_are_looked_at_once(conditions: requests.Conditions, looks: int) -> None:
    """A search on one node tells what all say that have the same cards and as much left of them."""
    search = Search(builders.inventory(*builders.nodes(9, cards=8), builders.hold("a", "n7", (0,))))
    tight = builders.request(*TIGHT, conditions=conditions)

    with mock.patch.object(allocator, "allocate_or_explain", wraps=allocator.allocate_or_explain) as looked:
        assert search.place(tight, builders.demand(), policy=RULES) is None

    assert looked.call_count == looks
    assert len(search.reasons_by_row(signatures.of(tight, builders.demand()), RULES)) == 9
