"""Random cards, topologies and requests of every kind, for properties of one node and of little clusters.

Most of what can be wrong with a node or demanded by a pod is rare here, so that a fair
part of the pods fits and the rest fails for one reason and not for many. Memory is in a unit of
the caller's: in bytes brute force sees what rounding does, and clusters have GiB as people do.
"""

import functools
import math
from collections.abc import Iterable

from hypothesis import strategies as st

from berth_crds import link_worths
from berth_crds.vocabulary import PartitionChoice, Scope
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts, device_view, node_topology, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.nodes.facts import LabelExpression
from support import builders

MODELS = ("Tesla T4", "NVIDIA A30")
PROFILES = ("1g.6gb", "2g.12gb")
MEMORIES = (16, 10, 10, 7, 16, 10, 0)
LABEL = (("fabric", "a"),)
EXPRESSIONS = tuple(
    LabelExpression("fabric", operator, values)
    for operator, values in (("In", ("a", "b")), ("NotIn", ("a",)), ("Exists", ()), ("DoesNotExist", ()))
)
SELECTORS = tuple(
    (requests.LabelSelector(kind, expressions),)
    for kind, expressions in (
        ("", EXPRESSIONS[:1]),
        ("rdma", EXPRESSIONS[:1]),
        ("rdma", EXPRESSIONS[1:2]),
        ("fpga", EXPRESSIONS[2:3]),
    )
)
OF_CARDS = tuple((requests.LabelSelector("gpu", (one,)),) for one in EXPRESSIONS)
LINK = link_worths.NVLINK
PROFILE_LISTS = st.lists(st.sampled_from((*PROFILES, PROFILES[0])), min_size=1, max_size=4)
TROUBLES = st.sampled_from((None,) * 18 + (Reason.UNHEALTHY, Reason.CARD_CORDONED, Reason.OCCUPIED))


@functools.cache
@st.composite
def cards(
    draw: st.DrawFn, minor: int, *, at: str = "n1", modes: str = "pppppms", unit: int = 1
) -> PhysicalDevice:
    """Return a card in one of its modes: plain, in MIG mode, shared."""
    mode = draw(st.sampled_from(modes))
    profiles = draw(PROFILE_LISTS) if mode == "m" else []
    return builders.card(
        minor,
        at=at,
        model=draw(st.sampled_from(MODELS)),
        memory=draw(st.sampled_from(MEMORIES)) * unit,
        trouble=draw(TROUBLES),
        numa=draw(st.sampled_from((0, 0, 1, 1, None))),
        root=draw(st.sampled_from(("a", "a", "b", "b", None))),
        mig=mode == "m",
        instances=tuple(
            device_facts.Instance(f"MIG-{at}-{minor}-{number}", profile, 5 * unit, number)
            for number, profile in enumerate(profiles)
        ),
        replicas=draw(st.sampled_from((3, 2) if mode == "s" else (0, 1))),
        labels=draw(st.sampled_from((LABEL, ()))),
    )


@functools.cache
@st.composite
def others(draw: st.DrawFn, minor: int, *, at: str = "n1") -> PhysicalDevice:
    """Return a NIC, or now and then an FPGA."""
    kind = draw(st.sampled_from(("rdma", "rdma", "rdma", "fpga")))
    labels = draw(st.lists(st.sampled_from((LABEL, LABEL, ())), max_size=2))
    return builders.nic(
        minor,
        at=at,
        uuid=f"{kind}-{at}-{minor}",
        type=kind,
        trouble=draw(TROUBLES),
        root=draw(st.sampled_from(("a", "b", "a", "b", None))),
        labels=draw(st.sampled_from((LABEL, LABEL, LABEL, ()))),
        functions=tuple(builders.function(minor, number, **dict(one)) for number, one in enumerate(labels)),
    )


def masks(keys: Iterable[object]) -> tuple[int, ...]:
    """Return the slots of each key as a mask; None is in no group."""
    slots = list(enumerate(keys))
    groups = dict.fromkeys(key for _, key in slots if key is not None)
    return tuple(node_topology.mask_of(at for at, key in slots if key == group) for group in groups)


@st.composite
def wirings(draw: st.DrawFn, made: tuple[PhysicalDevice, ...]) -> node_topology.NodeTopology:
    """Make a topology, or none."""
    size = len(made)
    if draw(st.integers(0, 5)) == 5:
        return node_topology.LOOSE
    worth = [[0] * size for _ in range(size)]
    for a in range(size):
        for b in range(a):
            worth[a][b] = worth[b][a] = draw(st.sampled_from((LINK, 2 * LINK, 50, 10, 0)))
    groups = (
        (Scope.NUMA, masks(card.numa for card in made)),
        (Scope.PCIE, masks(card.root for card in made)),
    )
    parts = draw(st.dictionaries(st.integers(1, (1 << size) - 1), st.integers(0, 2), max_size=4))
    partitions = tuple(node_topology.Partition(mask, score) for mask, score in parts.items())
    return node_topology.NodeTopology(size, tuple(map(tuple, worth)), groups, partitions)


@st.composite
def nodes(
    draw: st.DrawFn, *, least: int = 1, most: int = 4, modes: str = "pppppms", most_others: int = 3
) -> device_view.View:
    """Make a node in use."""
    count = draw(st.integers(least, most))
    made = tuple(draw(cards(minor, modes=modes)) for minor in range(count))
    extra = tuple(draw(others(minor)) for minor in range(draw(st.integers(0, most_others))))
    device = device_facts.Device("n1", made, extra, draw(wirings(made)))
    used = {card.uuid: draw(usages(card)) for card in (*made, *extra) if not draw(st.integers(0, 2))}
    instances = [one for card in made for one in card.instances]
    used |= {
        one.uuid: device_view.Usage(100, one.memory, 1) for one in instances if draw(st.integers(0, 4)) == 4
    }
    buses = [one.bus for card in extra for one in card.functions]
    functions = frozenset(bus for bus in buses if draw(st.integers(0, 5)) == 5)
    withheld = draw(st.sampled_from((0,) * 8 + (1, 2, 9)))
    honors = draw(st.sampled_from((False,) * 8 + (True,)))
    amounts = st.sampled_from((None,) * 9 + (0, 4, 8))
    measured = {card.uuid: free for card in made if (free := draw(amounts)) is not None}
    return device_view.View(
        device, used, functions, withheld, honors_partitions=honors, measured_free=measured
    )


@st.composite
def usages(draw: st.DrawFn, card: PhysicalDevice) -> device_view.Usage:
    """Let others hold something of a device."""
    if card.mig:
        return device_view.UNUSED
    if card.replicas > 1:
        count = draw(st.integers(1, card.replicas))
        return device_view.Usage(100 // card.replicas * count, card.memory // card.replicas * count, 1)
    core = draw(st.sampled_from((20, 50, 0, 100)))
    memory = draw(st.sampled_from((card.memory // 3, 0, card.memory)))
    return device_view.Usage(core, memory, 1)


def shares(unit: int = 1) -> st.SearchStrategy[requests.Ask]:
    """Return asks for shares of cards, by compute or by memory."""
    counts = st.sampled_from((1, 1, 2))
    memory = st.sampled_from((0, 3, 5, 9)).map(unit.__mul__)
    by_core = st.builds(requests.Gpus, counts, st.sampled_from((30, 50, 60, 10)), memory)
    return by_core | st.builds(requests.Gpus, counts, memory=st.sampled_from((2, 4, 7)).map(unit.__mul__))


SHARES = shares()
RATIOS = st.builds(
    requests.Gpus,
    count=st.sampled_from((1, 1, 2)),
    core=st.sampled_from((0, 50)),
    ratio=st.sampled_from((33, 50, 67)),
)
WHOLE = st.builds(requests.cards, st.sampled_from((1, 1, 2, 2, 3)))
INSTANCES = st.builds(
    requests.Instances, st.sampled_from((PROFILES[0], *PROFILES)), st.sampled_from((1, 1, 2))
)
REPLICAS = st.builds(requests.Replicas, st.sampled_from((1, 2, 1, 3)))
PARTS = st.builds(
    requests.OtherDevices,
    st.sampled_from(("rdma", "rdma", "fpga")),
    st.sampled_from((1, 1, 2)),
    st.sampled_from((40, 60, 100)),
    st.sampled_from((False,) * 5 + (True,)),
)
CARDS_ONLY = WHOLE | SHARES | RATIOS
TOGETHER = (("gpu", "rdma"), ("rdma", "fpga"), ("gpu", "rdma", "fpga"))
EXCLUSIVE: tuple[tuple[requests.Exclusive, ...], ...] = (
    (("rdma", Scope.PCIE),),
    (("rdma", Scope.DEVICE),),
    (("gpu", Scope.PCIE),),
    (("fpga", Scope.DEVICE), ("gpu", Scope.DEVICE), ("rdma", Scope.PCIE)),
)
# What mostly demands nothing.
GROUPINGS = st.builds(
    requests.Grouping,
    scope=st.sampled_from((None,) * 8 + (*Scope,)),
    required=st.booleans(),
    partition=st.sampled_from((None,) * 8 + (*PartitionChoice,)),
    joint=st.sampled_from(((),) * 6 + TOGETHER),
    spread_replicas=st.booleans(),
    exclusive=st.sampled_from(((),) * 8 + EXCLUSIVE),
    labels=st.sampled_from(((), (), (), *SELECTORS)),
    function_labels=st.sampled_from(((), (), (), builders.selecting(), *SELECTORS)),
)
OVERSOLD = st.builds(requests.Grouping, core_limit=st.sampled_from((100, 110, 150, 200)))
Asks = st.SearchStrategy[requests.Ask]


@st.composite
def nodes_and_pods(
    draw: st.DrawFn, *, most: int = 4, most_asks: int = 4
) -> tuple[device_view.View, requests.DeviceRequest]:
    """Make a node, and a pod that mostly asks for what the node has."""
    view = draw(nodes(most=most))
    kinds: list[Asks] = [CARDS_ONLY]
    kinds += [INSTANCES] if any(card.mig for card in view.device.cards) else []
    kinds += [REPLICAS] if any(card.replicas > 1 for card in view.device.cards) else []
    kinds += [PARTS] if view.device.others else []
    kinds += [INSTANCES | REPLICAS | PARTS] if draw(st.integers(0, 9)) == 9 else []
    return view, draw(pods(st.one_of(kinds), most_asks=most_asks))


@st.composite
def pods(
    draw: st.DrawFn,
    asks: Asks,
    *,
    most_asks: int = 4,
    first: Asks | None = None,
    borrows: bool = False,
    groupings: st.SearchStrategy[requests.Grouping] = GROUPINGS,
) -> requests.DeviceRequest:
    """Make a pod of up to three containers; with an init container first, or with a given first ask."""
    count = draw(st.integers(2 if borrows else 1, 3))
    containers = []
    for at in range(count):
        wanted = draw(st.lists(asks, min_size=1, max_size=2))
        wanted = [draw(first), *wanted[1:]] if first is not None and not at else wanted
        runs = at > 0 if borrows else draw(st.sampled_from((True, True, False)))
        containers.append(requests.ContainerRequest(f"c{at}", tuple(wanted), runs))
    while sum(len(one.asks) for one in containers) > most_asks:
        containers.pop()
    return requests.DeviceRequest(tuple(containers), draw(conditions()), draw(groupings))


@st.composite
def conditions(draw: st.DrawFn, unit: int = 1) -> requests.Conditions:
    """Make conditions that mostly ask for nothing."""
    if draw(st.integers(0, 5)) < 5:
        return requests.ANY_CARD
    names = ("GPU-n1-0", "GPU-n1-1", "GPU-n1-2", "MIG-n1-0-0", "MIG-n1-1-1", "rdma-n1-0")
    nothing: frozenset[str] = frozenset()
    uuids = st.one_of(st.just(nothing), st.frozensets(st.sampled_from(names), max_size=3))
    return requests.Conditions(
        models=draw(st.sampled_from((nothing, frozenset({"t4"}), frozenset({"A30"})))),
        pattern=draw(st.sampled_from(("", "", "^a", "4$"))),
        avoid_models=draw(st.sampled_from((nothing, frozenset({"NVIDIA A30"})))),
        avoid_pattern=draw(st.sampled_from(("", "", "^a", "4$"))),
        card_labels=draw(st.sampled_from(((), (), *OF_CARDS))),
        uuids=draw(uuids),
        avoid_uuids=draw(uuids),
        memory_at_least=draw(st.sampled_from((0, 0, 8))) * unit,
        free_memory_at_least=draw(st.sampled_from((0, 0, 5, 9))) * unit,
    )


def jointly() -> st.SearchStrategy[requests.Grouping]:
    """Return a grouping that keeps cards and other devices together."""
    return st.builds(
        requests.Grouping,
        joint=st.sampled_from((("gpu", "rdma"), ("rdma", "gpu"), ("rdma", "fpga"), ("rdma", "gpu", "fpga"))),
        scope=st.sampled_from((None, None, None, Scope.PCIE)),
    )


def close() -> st.SearchStrategy[requests.Grouping]:
    """Return a grouping that requires a scope."""
    return st.builds(requests.Grouping, scope=st.sampled_from((Scope.NVLINK, Scope.NUMA, Scope.PCIE)))


def effort(view: device_view.View, request: requests.DeviceRequest) -> int:
    """Estimate how many ways there are to look at."""
    cards_, others_ = len(view.device.cards), 2 * len(view.device.others)
    ways = 1
    for container in request.containers:
        for ask in container.asks:
            if isinstance(ask, requests.OtherDevices):
                ways *= max(1, math.comb(others_ + 1, min(ask.count + 1, others_)))
            elif isinstance(ask, requests.Instances):
                ways *= max(1, math.comb(2 * cards_, ask.count))
            else:
                ways *= max(1, math.comb(cards_ + 1, ask.count))
    return ways
