"""Small nodes and small pods of every kind, for hypothesis."""

import math

from hypothesis import strategies as st

from berth_crds.vocabulary import Scope
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import boards, facts, requests, views
from scheduling.devices import build

MODELS = ("Tesla T4", "NVIDIA A30")
PROFILES = ("1g.6gb", "2g.12gb")
MEMORIES = (0, 7, 10, 16)
LABEL = (("fabric", "a"),)


@st.composite
def cards(draw: st.DrawFn, minor: int, *, modes: str = "pppppms") -> facts.Card:
    """Make a card in one of its modes."""
    mode = draw(st.sampled_from(modes))
    instances = ()
    if mode == "m":
        profiles = draw(st.lists(st.sampled_from(PROFILES), max_size=3))
        instances = tuple(
            facts.Instance(f"MIG-{minor}-{at}", profile, 5, at, 1) for at, profile in enumerate(profiles)
        )
    return facts.Card(
        uuid=f"GPU-{minor}",
        minor=minor,
        model=draw(st.sampled_from(MODELS)),
        memory=draw(st.sampled_from(MEMORIES)),
        trouble=draw(st.sampled_from((None,) * 9 + (Reason.UNHEALTHY,))),
        numa=draw(st.sampled_from((None, 0, 1))),
        root=draw(st.sampled_from((None, "a", "a", "b"))),
        mig=mode == "m",
        instances=instances,
        replicas=draw(st.sampled_from((2, 3))) if mode == "s" else draw(st.sampled_from((0, 1))),
    )


@st.composite
def others(draw: st.DrawFn, minor: int) -> facts.Card:
    """Make a NIC, or now and then an FPGA."""
    count = draw(st.integers(0, 2))
    return facts.Card(
        uuid=f"rdma-{minor}",
        minor=minor,
        type=draw(st.sampled_from(("rdma", "rdma", "rdma", "fpga"))),
        trouble=draw(st.sampled_from((None,) * 9 + (Reason.UNHEALTHY,))),
        root=draw(st.sampled_from((None, "a", "b", "b"))),
        labels=draw(st.sampled_from((LABEL, LABEL, ()))),
        functions=tuple(
            facts.Function(f"0000:{minor:02x}:00.{at}", at, draw(st.sampled_from((LABEL, ()))))
            for at in range(count)
        ),
    )


@st.composite
def wirings(draw: st.DrawFn, made: tuple[facts.Card, ...]) -> boards.Board:
    """Make a board, or none."""
    size = len(made)
    if draw(st.integers(0, 3)) == 0:
        return boards.LOOSE
    worth = [[0] * size for _ in range(size)]
    for a in range(size):
        for b in range(a):
            worth[a][b] = worth[b][a] = draw(st.sampled_from((0, 10, 50, 100, 200)))
    groups = (
        (Scope.NUMA, build.masks(card.numa for card in made)),
        (Scope.PCIE, build.masks(card.root for card in made)),
    )
    partitions = draw(
        st.lists(
            st.builds(boards.Partition, st.integers(1, (1 << size) - 1), st.integers(0, 2)),
            max_size=4,
            unique_by=lambda part: part.mask,
        )
    )
    return boards.Board(size, tuple(map(tuple, worth)), groups, tuple(partitions))


@st.composite
def nodes(
    draw: st.DrawFn, *, most: int = 4, modes: str = "pppppms", most_others: int = 3
) -> views.View:
    """Make a node in use."""
    count = draw(st.integers(1, most))
    made = tuple(draw(cards(minor, modes=modes)) for minor in range(count))
    extra = tuple(draw(others(minor)) for minor in range(draw(st.integers(0, most_others))))
    device = facts.Device("n", made, extra, draw(wirings(made)))
    used = {}
    for card in (*made, *extra):
        usage = draw(usages(card))
        if usage is not None:
            used[card.uuid] = usage
        for one in card.instances:
            if draw(st.integers(0, 3)) == 0:
                used[one.uuid] = views.Usage(100, one.memory, 1)
    buses = [one.bus for card in extra for one in card.functions]
    functions = frozenset(bus for bus in buses if draw(st.integers(0, 4)) == 0)
    withheld = draw(st.sampled_from((0, 0, 0, 1, 2, 9)))
    return views.View(device, used, functions, withheld)


@st.composite
def usages(draw: st.DrawFn, card: facts.Card) -> views.Usage | None:
    """Let others hold something of a device."""
    if card.mig or draw(st.booleans()):
        return None
    if card.replicas > 1:
        count = draw(st.integers(1, card.replicas))
        return views.Usage(100 // card.replicas * count, card.memory // card.replicas * count, 1)
    core = draw(st.sampled_from((0, 20, 50, 100)))
    memory = draw(st.sampled_from((0, card.memory // 2, card.memory)))
    return views.Usage(core, memory, 1)


SHARES = st.builds(
    requests.Gpus,
    count=st.integers(1, 2),
    core=st.sampled_from((0, 30, 50, 60)),
    memory=st.sampled_from((0, 3, 5, 9)),
).filter(lambda ask: ask.core or ask.memory)
RATIOS = st.builds(
    requests.Gpus, count=st.integers(1, 2), core=st.sampled_from((0, 50)), ratio=st.sampled_from((33, 50, 67))
)
WHOLE = st.builds(requests.cards, st.integers(1, 3))
INSTANCES = st.builds(requests.Instances, st.sampled_from(PROFILES), st.integers(1, 2))
REPLICAS = st.builds(requests.Replicas, st.integers(1, 3))
PARTS = st.builds(
    requests.Parts,
    st.sampled_from(("rdma", "rdma", "fpga")),
    st.integers(1, 2),
    st.sampled_from((40, 60, 100)),
    st.sampled_from((False, False, False, True)),
)
ASKS = st.one_of(SHARES, SHARES, RATIOS, WHOLE, WHOLE, INSTANCES, REPLICAS, PARTS, PARTS)
CARDS_ONLY = st.one_of(SHARES, RATIOS, WHOLE)


@st.composite
def pods(
    draw: st.DrawFn, asks: st.SearchStrategy[requests.Ask] = ASKS, *, most: int = 4
) -> requests.Request:
    """Make a pod of up to three containers and a few asks."""
    count = draw(st.integers(1, 3))
    containers = [
        requests.ContainerRequest(f"c{at}", tuple(draw(st.lists(asks, min_size=1, max_size=2))), draw(st.booleans()))
        for at in range(count)
    ]
    while sum(len(one.asks) for one in containers) > most:
        containers.pop()
    return requests.Request(tuple(containers), draw(conditions()), draw(manners()))


@st.composite
def conditions(draw: st.DrawFn) -> requests.Conditions:
    """Make conditions that mostly ask for nothing."""
    if draw(st.integers(0, 3)):
        return requests.ANY_CARD
    uuids = st.frozensets(st.sampled_from(("GPU-0", "GPU-1", "GPU-2", "MIG-0-0", "MIG-1-1")), max_size=3)
    return requests.Conditions(
        models=draw(st.sampled_from((frozenset(), frozenset({"t4"}), frozenset({"A30"})))),
        pattern=draw(st.sampled_from(("", "", "^a", "4$"))),
        avoid_models=draw(st.sampled_from((frozenset(), frozenset({"NVIDIA A30"})))),
        uuids=draw(st.one_of(st.just(frozenset()), uuids)),
        avoid_uuids=draw(st.one_of(st.just(frozenset()), uuids)),
        memory_at_least=draw(st.sampled_from((0, 0, 8))),
    )


@st.composite
def manners(draw: st.DrawFn) -> requests.Manner:
    """Make a manner that mostly demands nothing."""
    return requests.Manner(
        scope=draw(st.sampled_from((None, None, None, *Scope))),
        required=draw(st.booleans()),
        joint=draw(st.sampled_from(((), (), ("gpu", "rdma"), ("rdma", "fpga"), ("gpu", "rdma", "fpga")))),
        spread_replicas=draw(st.booleans()),
        labels=draw(st.sampled_from(((), (), (), LABEL))),
        function_labels=draw(st.sampled_from(((), (), (), LABEL))),
    )


def effort(view: views.View, request: requests.Request) -> int:
    """Estimate how many ways there are to look at."""
    cards, others_ = len(view.device.cards), 2 * len(view.device.others)
    ways = 1
    for container in request.containers:
        for ask in container.asks:
            if isinstance(ask, requests.Parts):
                ways *= max(1, math.comb(others_ + 1, min(ask.count + 1, others_)))
            elif isinstance(ask, requests.Instances):
                ways *= max(1, math.comb(2 * cards, ask.count))
            else:
                ways *= max(1, math.comb(cards + 1, ask.count))
    return ways
