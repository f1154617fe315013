"""Random little clusters, for properties: small enough for brute force, unusual enough to find faults.

A ClusterState is what is true, as the API has it. Changes are made to it and to an inventory alike, and
`inventory` makes a fresh one of it.
"""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, Final

import hypothesis
from hypothesis import strategies as st

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import decisions, queued_pods, workload
from berth_operator.scheduling.devices import allocator, device_facts, node_topology
from berth_operator.scheduling.holds import ALL_CARDS, Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from support import builders, random_devices

LICENCE: Final = "example.com/licence"
SERVED: Final = "nvidia.com/gpu"
NODES: Final = ("n1", "n2", "n3", "n4")
UNIT: Final = 5 * builders.GIB

# Loaded machines are slow without being wrong.
PROPERTY: Final = hypothesis.settings(
    max_examples=40,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)


@dataclasses.dataclass(slots=True)
class ClusterState:
    """What is true: nodes, cards, whose agents are reporting, who holds what, and what pods have asked."""

    nodes: dict[str, facts.Node] = dataclasses.field(default_factory=dict)
    devices: dict[str, device_facts.Device] = dataclasses.field(default_factory=dict)
    reporting: set[str] = dataclasses.field(default_factory=set)
    holds: dict[str, Hold] = dataclasses.field(default_factory=dict)
    samples: dict[str, workload.Sample] = dataclasses.field(default_factory=dict)

    def holds_on(self, node: str) -> list[Hold]:
        """Return the holds of one node."""
        return [hold for hold in self.holds.values() if hold.node == node]

    def inventory(self, names: Iterable[str] = NODES) -> Inventory:
        """Return a fresh inventory of it, nodes in this order."""
        inventory = Inventory()
        for name in names:
            if name in self.nodes:
                inventory.put_node(self.nodes[name])
            if name in self.devices:
                inventory.put_device(self.devices[name])
                inventory.set_agent_not_ready(name, name not in self.reporting)
            for hold in self.holds_on(name):
                inventory.charge(hold)
        for uid, sample in self.samples.items():
            inventory.workload.see(uid, sample)
        return inventory


# ---------------------------------------------------------------- nodes and cards

TAINTS: Final = (
    facts.Taint("gpu", "yes", "NoSchedule"),
    facts.Taint("soft", "", "PreferNoSchedule"),
    facts.Taint("leaving", "", "NoExecute"),
)
LABELS: Final = st.fixed_dictionaries(
    {}, optional={"zone": st.sampled_from(["a", "b"]), "size": st.sampled_from(["1", "5", "big"])}
)
IMAGES: Final = (facts.Image(("app:1", "app@sha256:1"), 500 << 20), facts.Image(("big:1",), 9 << 30))
RARELY: Final = st.integers(0, 9).map(lambda number: number == 9)


def some(elements: Iterable[facts.Taint]) -> st.SearchStrategy[tuple[facts.Taint, ...]]:
    """Return mostly none of them."""
    return st.one_of(
        st.just(()), st.just(()), st.lists(st.sampled_from(list(elements)), max_size=2).map(tuple)
    )


@functools.cache
def nodes(name: str) -> st.SearchStrategy[facts.Node]:
    """Return nodes of this name."""
    return st.builds(
        builders.node,
        st.just(name),
        cpu=st.sampled_from([0, 1000, 4000, 8000]),
        pods=st.sampled_from([1, 3, 110]),
        extra=st.fixed_dictionaries({}, optional={SERVED: st.integers(0, 4), LICENCE: st.integers(0, 3)}),
        labels=LABELS,
        taints=some(TAINTS),
        unschedulable=RARELY,
        images=st.sampled_from([(), IMAGES[:1], IMAGES]),
    )


@functools.cache
@st.composite
def devices(draw: st.DrawFn, at: str) -> device_facts.Device:
    """Return the devices of this node, minors in order but not without gaps; now and then there is a NIC."""
    minors = sorted(draw(st.sets(st.integers(0, 5), max_size=4)))
    found = tuple(draw(random_devices.cards(minor, at=at, modes="ppppppms", unit=UNIT)) for minor in minors)
    return builders.device(
        at,
        found,
        others=[draw(random_devices.others(0, at=at))] if draw(RARELY) else [],
        topology=draw(random_devices.wirings(found)) if found else node_topology.LOOSE,
        failed="NVMLDown" if draw(RARELY) else "",
    )


@functools.cache
@st.composite
def shares(draw: st.DrawFn, at: str, minor: int) -> decisions.Share:
    """Return what a pod may have of a card: all of it, a part, an instance."""
    core = draw(st.sampled_from([100, 100, 30, 50, 0]))
    memory = builders.MEMORY if core == 100 else draw(st.integers(1, 40)) * builders.GIB
    if draw(RARELY):
        return decisions.Share(
            f"MIG-{at}-{minor}-0", minor, 100, 5 * UNIT, profile=random_devices.PROFILES[0]
        )
    return builders.share(minor, at=at, core=core, memory=memory)


@functools.cache
@st.composite
def held(draw: st.DrawFn, uid: str) -> Hold:
    """Return what a pod holds somewhere: cards by name, cards nobody can name, resources."""
    at = draw(st.sampled_from(NODES))
    minors = draw(st.sets(st.integers(0, 5), max_size=2))
    withheld = draw(st.sampled_from([0, 0, 0, 1, 2, ALL_CARDS])) if not minors else 0
    amounts = draw(st.fixed_dictionaries({"cpu": st.integers(0, 3000)}, optional={LICENCE: st.just(1)}))
    known = tuple(sorted({**amounts, facts.PODS: 1}.items()))
    plain = builders.hold(uid, at, withheld=withheld, amounts=known)
    return dataclasses.replace(plain, shares=tuple(draw(shares(at, minor)) for minor in sorted(minors)))


MODELS_ASKED: Final = st.sampled_from([(), (), ("t4",), ("a30", "t4")])
SAMPLES: Final = st.builds(
    workload.Sample,
    cpu=st.integers(0, 4000),
    memory=st.integers(0, 8).map(lambda count: count * builders.GIB),
    sizes=st.lists(st.tuples(st.integers(1, 100), st.sampled_from([1, 2, 60])), min_size=1, max_size=2).map(
        tuple
    ),
    models=MODELS_ASKED,
)


@functools.cache
@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    """Return a whole small cluster."""
    cluster = ClusterState()
    for name in draw(st.lists(st.sampled_from(NODES), unique=True, max_size=4)):
        if not draw(RARELY):
            cluster.nodes[name] = draw(nodes(name))
        if not draw(RARELY):
            cluster.devices[name] = draw(devices(name))
        if not draw(RARELY):
            cluster.reporting.add(name)
    for at in range(draw(st.integers(0, 4))):
        hold = draw(held(f"holder{at}"))
        cluster.holds[hold.uid] = hold
    for at, sample in enumerate(draw(st.lists(SAMPLES, max_size=2))):
        cluster.samples[f"teacher{at}"] = sample
    return cluster


# ---------------------------------------------------------------- changes

Change = tuple[str, str, Any]
UIDS: Final = ("uid-holder0", "uid-holder1", "uid-h0", "uid-h1", "uid-h2")


@functools.cache
@st.composite
def changes(draw: st.DrawFn) -> Change:
    """Return something that happens: what, to which node or pod, and what there is then."""
    what = draw(st.sampled_from(["node", "cards", "agent", "hold", "hold", "hold", "pod"]))
    if what == "pod":
        return what, draw(st.sampled_from(["t1", "t2"])), draw(st.none() | SAMPLES)
    if what == "hold":
        uid = draw(st.sampled_from(UIDS))
        return what, uid, draw(st.none() | held(uid.removeprefix("uid-")))
    at = draw(st.sampled_from(NODES))
    values = {"node": st.none() | nodes(at), "cards": st.none() | devices(at), "agent": st.booleans()}
    return what, at, draw(values[what])


def change(cluster: ClusterState, inventory: Inventory, what: str, name: str, value: Any) -> None:
    """Let it happen both to the truth and to the inventory; None is something that goes."""
    match what:
        case "hold":
            _hold(cluster, inventory, name, value)
        case "pod":
            inventory.workload.see(name, value)
            _set(cluster.samples, name, value)
        case "agent":
            (cluster.reporting.add if value else cluster.reporting.discard)(name)
        case _:
            _set(cluster.nodes if what == "node" else cluster.devices, name, value)
            _put(inventory, what, name, value)
    if name in cluster.devices:
        inventory.set_agent_not_ready(name, name not in cluster.reporting)


def _put(inventory: Inventory, what: str, name: str, value: Any) -> None:
    match value:
        case facts.Node():
            inventory.put_node(value)
        case device_facts.Device():
            inventory.put_device(value)
        case _ if what == "node":
            inventory.drop_node(name)
        case _:
            inventory.drop_device(name)


def _hold(cluster: ClusterState, inventory: Inventory, uid: str, hold: Hold | None) -> None:
    if cluster.holds.pop(uid, None) is not None:
        inventory.release(uid)
    elif hold is not None:
        inventory.charge(hold)
        cluster.holds[uid] = hold


def _set(known: dict[str, Any], name: str, value: Any) -> None:
    known.pop(name, None)
    if value is not None:
        known[name] = value


# ---------------------------------------------------------------- pods

CONDITIONS: Final = st.builds(
    facts.LabelExpression,
    st.sampled_from(["zone", "size", "absent"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]),
    st.lists(st.sampled_from(["a", "b", "1", "3", "big"]), max_size=2).map(tuple),
)
TERMS: Final = st.builds(
    facts.Term,
    labels=st.lists(CONDITIONS, max_size=2).map(tuple),
    fields=st.one_of(
        st.just(()),
        st.sampled_from(NODES).map(lambda name: (facts.LabelExpression("metadata.name", "In", (name,)),)),
    ),
)
TOLERATIONS: Final = st.builds(
    facts.Toleration,
    key=st.sampled_from(["", "gpu", "leaving", "soft", facts.UNSCHEDULABLE_TAINT]),
    operator=st.sampled_from(["Exists", "Equal", "", "Like"]),
    value=st.sampled_from(["", "yes"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
)
PREFERRED: Final = st.one_of(
    st.just(()),
    st.lists(st.builds(facts.PreferredTerm, st.sampled_from([1, 40, 100]), TERMS), max_size=3).map(tuple),
)
NODE_SELECTIONS: Final = st.one_of(
    st.just(facts.ANYWHERE),
    st.builds(
        facts.NodeSelection,
        selector=st.sampled_from([(), (), (("zone", "a"),)]),
        affinity=st.one_of(st.none(), st.lists(TERMS, max_size=2).map(tuple)),
        tolerations=st.lists(TOLERATIONS, max_size=2).map(tuple),
    ),
)


ASKS: Final = st.one_of(
    random_devices.WHOLE,
    random_devices.shares(UNIT),
    random_devices.shares(UNIT),
    random_devices.RATIOS,
    random_devices.INSTANCES | random_devices.REPLICAS | random_devices.PARTS,
)
GROUPINGS: Final = st.builds(
    dataclasses.replace,
    random_devices.GROUPINGS,
    strategy=st.sampled_from([None, *Strategy]),
    core_limit=st.sampled_from([100, 100, 100, 150]),
)


@functools.cache
@st.composite
def pod_infos(draw: st.DrawFn, name: str = "p") -> queued_pods.PodInfo:
    """Return a pod that waits."""
    asked = draw(
        random_devices.pods(ASKS, most_asks=draw(st.sampled_from((1, 1, 1, 2, 3))), groupings=GROUPINGS)
    )
    request = dataclasses.replace(asked, conditions=draw(random_devices.conditions(UNIT)))
    extra = draw(st.sampled_from([{}, {}, {LICENCE: 1}]))
    plain = builders.demand(draw(st.sampled_from([0, 500, 2000])), extra=extra)
    served = ((SERVED, request.need.cards),) if request.need.cards and draw(st.booleans()) else ()
    demand = dataclasses.replace(
        plain,
        device_resources=served,
        node_selection=draw(NODE_SELECTIONS),
        preferred=draw(PREFERRED),
        images=draw(st.sampled_from([(), ("app:1",), ("big:1", "other:1"), ("app:1", "big:1")])),
    )
    priority = draw(st.sampled_from([0, 0, 10]))
    return builders.pod_info(name, request=request, demand=demand, priority=priority)


def given(placement: decisions.Placement) -> tuple[decisions.Share, ...]:
    """Return what a placed pod holds."""
    return allocator.peak_shares(placement.grants)


def shares_of(answers: Iterable[decisions.Decision]) -> list[str]:
    """Return every device that these decisions give away."""
    binds = (answer for answer in answers if isinstance(answer, decisions.Bind))
    return [share.uuid for bind in binds for share in given(bind.placement)]
