"""Builders of cards, boards and views for the tests of this room."""

from collections.abc import Iterable, Mapping
from typing import Any

from berth_crds import catalog
from berth_crds.vocabulary import LinkKind, Scope
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import allocator, device_view, facts, node_topology, requests

GIB = 1 << 30
TABLE = (
    *((1 << at, 0) for at in range(8)),
    *((0b11 << at, 0) for at in range(0, 8, 2)),
    (0b1111, 0),
    (0b11110000, 0),
    (0b11111111, 0),
)


def gpu(minor: int, **fields: Any) -> facts.Card:
    """Make a healthy card of 8 GiB."""
    base: dict[str, Any] = {"uuid": f"GPU-{minor}", "minor": minor, "memory": 8 * GIB}
    return facts.Card(**base | fields)


def nic(minor: int, **fields: Any) -> facts.Card:
    """Make an RDMA device; `functions` may be a number."""
    count = fields.pop("functions", 0)
    functions = count if isinstance(count, tuple) else tuple(function(minor, at) for at in range(count))
    base: dict[str, Any] = {"uuid": f"rdma-{minor}", "minor": minor, "type": "rdma", "functions": functions}
    return facts.Card(**base | fields)


def function(minor: int, at: int, **labels: str) -> facts.Function:
    """Make a virtual function of a device."""
    return facts.Function(f"0000:{minor:02x}:00.{at}", at, tuple(labels.items()))


def worth(links: int, *, numa: bool, root: bool) -> int:
    """Say what a pair of cards is worth, in the numbers of `boards`."""
    if links:
        return links * node_topology.NVLINK_WORTH
    kind = LinkKind.PCIE_SWITCH if root else LinkKind.NUMA if numa else LinkKind.SYSTEM
    return node_topology.PCIE_WORTH[kind]


def board(model: str, *, table: bool = False) -> node_topology.NodeTopology:
    """Make the board on which a model of the catalogue usually sits."""
    layout = _layout(model)
    cards = range(layout.cards)
    pairs = tuple(
        tuple(
            0
            if a == b
            else worth(
                layout.links(a, b),
                numa=layout.numa_node(a) == layout.numa_node(b),
                root=layout.pcie_root(a) == layout.pcie_root(b),
            )
            for b in cards
        )
        for a in cards
    )
    groups = (
        (Scope.NUMA, masks(layout.numa_node(at) for at in cards)),
        (Scope.PCIE, masks(layout.pcie_root(at) for at in cards)),
    )
    partitions = tuple(node_topology.Partition(mask, score) for mask, score in TABLE) if table else ()
    return node_topology.NodeTopology(layout.cards, pairs, groups, partitions)


def masks(keys: Iterable[object]) -> tuple[int, ...]:
    """Group slots by key; None is in no group."""
    found: dict[object, int] = {}
    for at, key in enumerate(keys):
        if key is not None:
            found[key] = found.get(key, 0) | 1 << at
    return tuple(found.values())


def _layout(model: str) -> catalog.BoardLayout:
    known = catalog.find(model)
    assert known is not None
    return known.layout


def node(model: str, *, table: bool = False, **fields: Any) -> facts.Device:
    """Make a usual node of a model, with NUMA nodes and PCIe roots."""
    layout, known = _layout(model), catalog.find(model)
    assert known is not None
    cards = tuple(
        gpu(
            at,
            model=model,
            memory=known.memory,
            numa=layout.numa_node(at),
            root=f"pci0000:{layout.pcie_root(at):02x}",
        )
        for at in range(layout.cards)
    )
    return facts.Device("n", cards, board=board(model, table=table), **fields)


def device(*cards: facts.Card, **fields: Any) -> facts.Device:
    """Make a node of these cards, of whose wiring nothing is known."""
    gpus = tuple(card for card in cards if card.type == facts.GPU)
    others = tuple(card for card in cards if card.type != facts.GPU)
    return facts.Device("n", gpus, others, **fields)


def whole(card: facts.Card) -> device_view.Usage:
    """Say that one pod holds all of a card."""
    return device_view.Usage(100, card.memory, 1)


def view(
    made: facts.Device, used: Mapping[Any, device_view.Usage | None] | None = None, **fields: Any
) -> device_view.View:
    """Show a node; `used` maps minors or uuids to a Usage, or to None for a card that is held whole."""
    by_minor = {card.minor: card for card in made.cards}
    usage = {}
    for key, value in (used or {}).items():
        card = by_minor[key] if isinstance(key, int) else None
        uuid = card.uuid if card is not None else str(key)
        usage[uuid] = value if value is not None else whole(card) if card else device_view.Usage(100, 0, 1)
    return device_view.View(made, usage, **fields)


def held(*minors: int) -> dict[int, None]:
    """Say that these cards are held whole."""
    return dict.fromkeys(minors)


def request(*asks: requests.Ask, init: tuple[requests.Ask, ...] = (), **fields: Any) -> requests.Request:
    """Ask for one container, and perhaps for one init container before it."""
    first = (requests.ContainerRequest("init", init, runs=False),) if init else ()
    return requests.Request((*first, requests.ContainerRequest("main", asks)), **fields)


def grouping(**fields: Any) -> requests.Grouping:
    """Say how the devices belong together."""
    return requests.Grouping(**fields)


def given(
    answer: tuple[decisions.Grant, ...] | allocator.Shortfall,
) -> dict[str, tuple[decisions.Share, ...]]:
    """Read an answer that must be one, by container."""
    assert not isinstance(answer, allocator.Shortfall), answer
    return {grant.container: grant.shares for grant in answer}


def minors(
    answer: tuple[decisions.Grant, ...] | allocator.Shortfall, container: str = "main"
) -> tuple[int, ...]:
    """Name the minors that a container got."""
    return tuple(share.minor for share in given(answer)[container])


def refused(answer: tuple[decisions.Grant, ...] | allocator.Shortfall) -> allocator.Shortfall:
    """Read an answer that must be a no."""
    assert isinstance(answer, allocator.Shortfall), answer
    return answer
