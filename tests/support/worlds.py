"""Random little clusters, for properties: small enough for brute force, odd enough to find faults.

A World is the plain truth that an inventory is a picture of. Steps change it, and `paint`
makes the picture of it that was never anything else.
"""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Final

import hypothesis
from hypothesis import strategies as st

from berth_operator.scheduling import backlog, decisions, inventory
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.holds import ALL_CARDS, Hold
from berth_operator.scheduling.nodes import facts
from support import builders

LICENCE: Final = "example.com/licence"
SERVED: Final = "nvidia.com/gpu"
NODES: Final = ("n1", "n2", "n3", "n4")
MODELS: Final = ("A100-SXM4-80GB", "Tesla T4", "H200")

# Loaded machines are slow without being wrong.
PROPERTY: Final = hypothesis.settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)


@dataclasses.dataclass(slots=True)
class World:
    """What is true: nodes, cards, whose agents are heard, who holds what."""

    nodes: dict[str, facts.Node] = dataclasses.field(default_factory=dict)
    devices: dict[str, inventory.Device] = dataclasses.field(default_factory=dict)
    heard: set[str] = dataclasses.field(default_factory=set)
    holds: dict[str, Hold] = dataclasses.field(default_factory=dict)

    def holds_on(self, node: str) -> list[Hold]:
        """Give the holds of one node."""
        return [hold for hold in self.holds.values() if hold.node == node]

    def paint(self, names: Iterable[str] = NODES) -> inventory.Inventory:
        """Make a fresh picture of it, nodes in this order."""
        picture = inventory.Inventory()
        for name in names:
            if name in self.nodes:
                picture.put_node(self.nodes[name])
            if name in self.devices:
                picture.put_device(self.devices[name])
                picture.set_silent(name, name not in self.heard)
            for hold in self.holds_on(name):
                picture.charge(hold)
        return picture


# ---------------------------------------------------------------- nodes and cards

TAINTS: Final = (
    facts.Taint("gpu", "yes", "NoSchedule"),
    facts.Taint("soft", "", "PreferNoSchedule"),
    facts.Taint("leaving", "", "NoExecute"),
)
LABELS: Final = st.fixed_dictionaries(
    {}, optional={"zone": st.sampled_from(["a", "b"]), "size": st.sampled_from(["1", "5", "big"])}
)
RARELY: Final = st.integers(0, 9).map(lambda number: number == 9)


def some(elements: Iterable[facts.Taint]) -> st.SearchStrategy[tuple[facts.Taint, ...]]:
    """Give mostly none of them."""
    return st.one_of(
        st.just(()), st.just(()), st.lists(st.sampled_from(list(elements)), max_size=2).map(tuple)
    )


@functools.cache
def nodes(name: str) -> st.SearchStrategy[facts.Node]:
    """Give nodes of this name."""
    return st.builds(
        builders.node,
        st.just(name),
        cpu=st.sampled_from([0, 1000, 4000, 8000]),
        pods=st.sampled_from([1, 3, 110]),
        extra=st.fixed_dictionaries({}, optional={SERVED: st.integers(0, 4), LICENCE: st.integers(0, 3)}),
        labels=LABELS,
        taints=some(TAINTS),
        unschedulable=RARELY,
    )


TROUBLES: Final = st.sampled_from(
    [None, None, None, None, Reason.UNHEALTHY, Reason.CORDONED, Reason.OCCUPIED, Reason.MIG_MODE]
)


@functools.cache
@st.composite
def devices(draw: st.DrawFn, at: str) -> inventory.Device:
    """Give the cards of this node, minors in order but not without gaps."""
    minors = sorted(draw(st.sets(st.integers(0, 5), max_size=4)))
    cards = [
        builders.card(minor, at=at, model=draw(st.sampled_from(MODELS)), trouble=draw(TROUBLES))
        for minor in minors
    ]
    return builders.device(at, cards, failed="NVMLDown" if draw(RARELY) else "")


@functools.cache
@st.composite
def held(draw: st.DrawFn, uid: str) -> Hold:
    """Give what a pod holds somewhere: cards by name, cards nobody can name, resources."""
    at = draw(st.sampled_from(NODES))
    minors = draw(st.sets(st.integers(0, 5), max_size=2))
    withheld = draw(st.sampled_from([0, 0, 0, 1, 2, ALL_CARDS])) if not minors else 0
    amounts = draw(st.fixed_dictionaries({"cpu": st.integers(0, 3000)}, optional={LICENCE: st.just(1)}))
    known = tuple(sorted({**amounts, facts.PODS: 1}.items()))
    return builders.hold(uid, at, sorted(minors), withheld=withheld, amounts=known)


@functools.cache
@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Give a whole small cluster."""
    world = World()
    for name in draw(st.lists(st.sampled_from(NODES), unique=True, max_size=4)):
        if not draw(RARELY):
            world.nodes[name] = draw(nodes(name))
        if not draw(RARELY):
            world.devices[name] = draw(devices(name))
        if not draw(RARELY):
            world.heard.add(name)
    for at in range(draw(st.integers(0, 4))):
        hold = draw(held(f"holder{at}"))
        world.holds[hold.uid] = hold
    return world


# ---------------------------------------------------------------- pods

CONDITIONS: Final = st.builds(
    facts.Condition,
    st.sampled_from(["zone", "size", "absent"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]),
    st.lists(st.sampled_from(["a", "b", "1", "3", "big"]), max_size=2).map(tuple),
)
TERMS: Final = st.builds(
    facts.Term,
    labels=st.lists(CONDITIONS, max_size=2).map(tuple),
    fields=st.one_of(
        st.just(()),
        st.sampled_from(NODES).map(lambda name: (facts.Condition("metadata.name", "In", (name,)),)),
    ),
)
TOLERATIONS: Final = st.builds(
    facts.Toleration,
    key=st.sampled_from(["", "gpu", "leaving", facts.UNSCHEDULABLE_TAINT]),
    operator=st.sampled_from(["Exists", "Equal", "", "Like"]),
    value=st.sampled_from(["", "yes"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
)
WHERES: Final = st.one_of(
    st.just(facts.ANYWHERE),
    st.builds(
        facts.Where,
        selector=st.sampled_from([(), (), (("zone", "a"),)]),
        affinity=st.one_of(st.none(), st.lists(TERMS, max_size=2).map(tuple)),
        tolerations=st.lists(TOLERATIONS, max_size=2).map(tuple),
    ),
)


@functools.cache
@st.composite
def asks(draw: st.DrawFn) -> requests.Request:
    """Give a request: init containers and sidecars first, as in a pod."""
    early = draw(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=2))
    late = draw(st.lists(st.integers(1, 2), max_size=2))
    containers = [
        requests.ContainerRequest(f"c{at}", cards, runs)
        for at, (cards, runs) in enumerate([*early, *((cards, True) for cards in late)])
    ]
    return requests.Request(
        tuple(containers), draw(st.sampled_from([frozenset(), frozenset({"t4", "h200"})]))
    )


@functools.cache
@st.composite
def candidates(draw: st.DrawFn, name: str = "p") -> backlog.Candidate:
    """Give a pod that waits."""
    request = draw(asks())
    extra = draw(st.sampled_from([{}, {}, {LICENCE: 1}]))
    plain = builders.demand(draw(st.sampled_from([0, 500, 2000])), extra=extra)
    served = ((SERVED, request.cards),) if request.cards and draw(st.booleans()) else ()
    demand = dataclasses.replace(plain, served=served, where=draw(WHERES))
    priority = draw(st.sampled_from([0, 0, 10]))
    return builders.candidate(name, request=request, demand=demand, priority=priority)


def shares_of(answers: Iterable[decisions.Decision]) -> list[str]:
    """List every card that these decisions give away."""
    binds = (answer for answer in answers if isinstance(answer, decisions.Bind))
    return [share.uuid for bind in binds for share in bind.placement.shares]
