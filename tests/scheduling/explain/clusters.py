"""Random little clusters of every kind of device, and pods of every kind that ask for them.

What hypothesis draws is a seed, and the dice do the rest: drawn piece by piece, most
clusters would be empty or broken in several ways at once, and nothing would help there.
"""

import dataclasses
import functools
import random
from collections.abc import Iterable
from typing import Any, Final

import hypothesis
import numpy as np
from hypothesis import strategies as st

from berth_crds import link_worths
from berth_crds.vocabulary import Scope
from berth_operator.scheduling import cycle, decisions, explain, queued_pods
from berth_operator.scheduling.changes import NO_NODE, Scenario
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts, node_topology, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import ALL_CARDS, Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import builders, thorough

PROPERTY: Final = hypothesis.settings(
    max_examples=thorough.examples(100),
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
NAMES: Final = ("n1", "n2", "n3", "n4")
MODELS: Final = ("Tesla T4", "NVIDIA A30")
PROFILES: Final = ("1g.6gb", "2g.12gb")
ABSENT_PROFILE: Final = "7g.80gb"
OTHER_TYPES: Final = ("rdma", "fpga")
MEMORIES: Final = (0, 10, 10, 16, 16)
FABRIC: Final = (("fabric", "a"),)
SERVED: Final = "nvidia.com/gpu"
LICENCE: Final = "example.com/licence"
RULES: Final = Policy()
TROUBLES: Final = (Reason.UNHEALTHY, Reason.CARD_CORDONED, Reason.OCCUPIED, Reason.DUPLICATE_UUID)
TAINTS: Final = (
    nodes.Taint("gpu", "yes", "NoSchedule"),
    nodes.Taint("leaving", "", "NoExecute"),
    nodes.Taint("soft", "", "PreferNoSchedule"),
    nodes.Taint(nodes.UNSCHEDULABLE_TAINT, "", "NoSchedule"),
    nodes.Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),
)


class Dice(random.Random):
    """Chances, in the words of this module."""

    def once_in(self, count: int) -> bool:
        """Return whether something rare happens."""
        return self.randrange(count) == 0

    def mostly(self, usual: Any, *rare: Any, of: int = 6) -> Any:
        """Return the usual, or once in so many times something else."""
        return self.choice(rare) if self.once_in(of) else usual

    def some(self, among: Iterable[Any], *, most: int) -> list[Any]:
        """Return a few of these."""
        found = list(among)
        return self.sample(found, self.randint(0, min(most, len(found))))


# ---------------------------------------------------------------- devices


def card(dice: Dice, at: str, minor: int) -> PhysicalDevice:
    """Make a card in one of its modes; now and then one that has left MIG mode and kept its instances."""
    mode = dice.choice("ppppppppmmso")
    profiles = [dice.choice(PROFILES) for _ in range(dice.randint(0, 3))] if mode in "mo" else []
    return PhysicalDevice(
        uuid=f"GPU-{at}-{minor}",
        minor=minor,
        model=dice.choice(MODELS),
        memory=dice.choice(MEMORIES),
        trouble=dice.mostly(None, *TROUBLES, of=8),
        numa=dice.choice((None, 0, 1)),
        root=dice.choice((None, "a", "a", "b")),
        mig=mode == "m",
        instances=tuple(
            device_facts.Instance(f"MIG-{at}-{minor}-{number}", profile, 5, number)
            for number, profile in enumerate(profiles)
        ),
        replicas=dice.choice((2, 3)) if mode == "s" else dice.choice((0, 1)),
        labels=FABRIC if minor % 2 else (),
    )


def other(dice: Dice, at: str, minor: int) -> PhysicalDevice:
    """Make a NIC, or now and then an FPGA."""
    return PhysicalDevice(
        uuid=f"rdma-{at}-{minor}",
        minor=minor,
        type=dice.mostly(*OTHER_TYPES, of=4),
        trouble=dice.mostly(None, *TROUBLES, of=8),
        root=dice.choice((None, "a", "b")),
        labels=dice.choice((FABRIC, ())),
        functions=tuple(
            device_facts.Function(f"0000:{minor:02x}:00.{number}", number, dice.choice((FABRIC, ())))
            for number in range(dice.randint(0, 2))
        ),
    )


def wiring(dice: Dice, made: tuple[PhysicalDevice, ...]) -> node_topology.NodeTopology:
    """Make a topology, or none."""
    size = len(made)
    if not size or dice.once_in(3):
        return node_topology.LOOSE
    worth = [[0] * size for _ in range(size)]
    for a in range(size):
        for b in range(a):
            worth[a][b] = worth[b][a] = dice.choice((10, 50, link_worths.NVLINK))
    groups = (
        (Scope.NUMA, _masks(card.numa for card in made)),
        (Scope.PCIE, _masks(card.root for card in made)),
    )
    masks = dice.some(range(1, 1 << size), most=3)
    table = tuple(node_topology.Partition(mask, dice.randint(0, 2)) for mask in masks)
    return node_topology.NodeTopology(size, tuple(map(tuple, worth)), groups, table)


def _masks(keys: Iterable[object]) -> tuple[int, ...]:
    found: dict[object, int] = {}
    for at, key in enumerate(keys):
        if key is not None:
            found[key] = found.get(key, 0) | 1 << at
    return tuple(found.values())


def device(dice: Dice, at: str) -> device_facts.Device:
    """Make what an agent published."""
    made = tuple(card(dice, at, minor) for minor in range(dice.choice((0, 1, 2, 3, 4, 4, 4))))
    extra = tuple(other(dice, at, minor) for minor in range(dice.choice((0, 0, 1, 2))))
    # By dice of its own, so that what the others have thrown for an example stays as it was.
    unit = Dice(f"{made}").mostly("", device_facts.REPLICA, device_facts.COUNTED_CARD, *PROFILES)
    return device_facts.Device(
        at, made, extra, wiring(dice, made), dice.mostly("", "NVMLDown", of=15), gpu_unit=unit
    )


# ---------------------------------------------------------------- nodes


def node(dice: Dice, name: str) -> nodes.Node:
    """Make a node."""
    amounts = {
        nodes.CPU: dice.choice((1000, 4000, 8000, 8000)),
        nodes.MEMORY: 64,
        nodes.PODS: dice.mostly(110, 1, 3),
    }
    amounts |= {SERVED: dice.randint(0, 4)} if dice.once_in(4) else {}
    amounts |= {LICENCE: dice.choice((0, 2, 5))} if dice.once_in(2) else {}
    return nodes.Node(
        name,
        labels={key: dice.choice(values) for key, values in LABELS.items() if not dice.once_in(4)},
        taints=dice.mostly((), *((one,) for one in TAINTS), TAINTS[:2], of=5),
        unschedulable=dice.once_in(10),
        allocatable=tuple(sorted(amounts.items())),
    )


LABELS: Final = {"zone": "aab", "size": "55"}


def picture(dice: Dice) -> Inventory:
    """Make a cluster in use: most pods sit where a search put them, some hold odd things."""
    made = Inventory()
    for name in dice.sample(NAMES, dice.choice((0, 1, 2, 3, 4, 4))):
        if not dice.once_in(15):
            made.put_node(node(dice, name))
        if not dice.once_in(15):
            made.put_device(device(dice, name))
            made.set_agent_not_ready(name, not_ready=dice.once_in(10))
            made.set_quarantine(name, "OutOfcpu" if dice.once_in(15) else "")
    search = Search(made)
    for number in range(dice.choice((0, 4, 8, 16))):
        pod = pod_info(dice, f"old{number}", simple=True)
        found = search.place(pod.request, pod.demand, policy=RULES)
        if found is not None:
            made.charge(cycle.hold_for(pod, found))
    for number in range(dice.mostly(0, 1, 2)):
        made.charge(odd_hold(dice, f"odd{number}", made))
    return made


def odd_hold(dice: Dice, name: str, made: Inventory) -> Hold:
    """Make a hold that no search would give: of any device, or of cards that nobody can name."""
    at = dice.choice(NAMES)
    info = made.node(at)
    there = [*info.device.cards, *info.device.others] if info and info.device else []
    withheld = dice.choice((0, 0, 1, 2, ALL_CARDS))
    shares = [
        decisions.Share(one.uuid, one.minor, dice.choice((10, 50, 100, 130)), one.memory // 2, one.type)
        for one in there
        if not withheld and dice.once_in(3)
    ]
    instances = [one for card in there for one in card.instances]
    if instances and not withheld:
        one = dice.choice(instances)
        shares.append(decisions.Share(one.uuid, 0, 100, one.memory, profile=one.profile))
    return Hold(f"uid-{name}", f"ml/{name}", at, ((nodes.PODS, 1),), tuple(shares), withheld)


# ---------------------------------------------------------------- pods


def ask(dice: Dice, *, simple: bool) -> requests.Ask:
    """Ask for something."""
    kinds = "wwwsssrmcp" if simple else "wwwwsssssrrmcp"
    match dice.choice(kinds):
        case "w":
            return requests.cards(dice.choice((1, 1, 2) if simple else (1, 2, 2, 3, 4)))
        case "r":
            return requests.Gpus(dice.randint(1, 2), dice.choice((0, 50)), ratio=dice.choice((33, 90)))
        case "m":
            return requests.Instances(dice.mostly(dice.choice(PROFILES), ABSENT_PROFILE), dice.randint(1, 2))
        case "c":
            return requests.Replicas(dice.randint(1, 3))
        case "p":
            every = not simple and dice.once_in(3)
            kind = dice.mostly(*OTHER_TYPES, of=4)
            return requests.OtherDevices(kind, dice.randint(1, 2), dice.choice((40, 100)), every)
    memory = dice.choice((1, 3, 5)) if simple else dice.choice((0, 3, 5, 9, 14, 40))
    core = dice.choice((10, 30, 50)) if simple else dice.choice((10, 30, 50, 70, 90, 120))
    return requests.Gpus(dice.mostly(1, 2, 3), core, memory)


def pod_info(dice: Dice, name: str = "p", *, simple: bool = False) -> queued_pods.PodInfo:
    """Make a pod."""
    request = pod(dice, simple=simple)
    cpu = dice.choice((0, 500) if simple else (0, 500, 500, 2000, 5000))
    amounts = {nodes.CPU: cpu, LICENCE: dice.mostly(0, 1, 2), nodes.PODS: 1}
    served = ((SERVED, request.need.whole_cards),) if request.need.whole_cards and dice.once_in(2) else ()
    place = nodes.ANYWHERE if simple else node_selection(dice)
    demand = nodes.NodeDemand(
        tuple((key, count) for key, count in sorted(amounts.items()) if count), served, place
    )
    return queued_pods.PodInfo(f"uid-{name}", "ml", name, request, demand)


def pod(dice: Dice, *, simple: bool) -> requests.DeviceRequest:
    """Make what a pod asks of the devices."""
    if dice.once_in(12):
        return requests.NO_DEVICES
    containers = tuple(
        requests.ContainerRequest(
            f"c{at}",
            tuple(ask(dice, simple=simple) for _ in range(1 if simple else dice.mostly(1, 2))),
            runs=not dice.once_in(5),
        )
        for at in range(1 if simple else dice.mostly(1, 2))
    )
    return (
        requests.DeviceRequest(containers)
        if simple
        else requests.DeviceRequest(containers, which(dice), grouping(dice))
    )


def which(dice: Dice) -> requests.Conditions:
    """Make conditions, of which most ask for nothing."""
    uuids = [frozenset({f"GPU-{at}-{minor}" for at in NAMES for minor in those}) for those in ((0,), (1, 2))]
    uuids.append(frozenset({"GPU-n1-0", "MIG-n1-0-0", "rdma-n2-0"}))
    asked = requests.Conditions(
        models=dice.mostly(frozenset(), frozenset({"t4"}), frozenset({"A30", "H100"})),
        pattern=dice.mostly("", "a30$", "4$", of=10),
        avoid_models=dice.mostly(frozenset(), frozenset({"A30"}), of=10),
        avoid_pattern=dice.mostly("", "a30$", "^T", of=10),
        uuids=dice.mostly(frozenset(), *uuids, of=10),
        avoid_uuids=dice.mostly(frozenset(), *uuids, of=10),
        memory_at_least=dice.mostly(0, 12, 80, of=10),
    )
    # Dice of their own: those of the seeds below have found faults before there were labels.
    labels = Dice(f"{asked}").mostly((), builders.selecting("gpu", fabric="a"), of=10)
    free = Dice(f"{asked} free").mostly(0, 6, 12, of=10)
    return dataclasses.replace(asked, card_labels=labels, free_memory_at_least=free)


EXCLUSIVE: Final = ((("gpu", Scope.PCIE),), (("gpu", Scope.DEVICE), ("rdma", Scope.PCIE)))


def grouping(dice: Dice) -> requests.Grouping:
    """Return a grouping, most of which demands nothing."""
    made = requests.Grouping(
        scope=dice.mostly(None, *Scope, of=3),
        required=dice.once_in(2),
        joint=dice.mostly((), ("gpu", "rdma"), ("rdma", "fpga")),
        labels=dice.mostly((), builders.selecting(fabric="a")),
        function_labels=dice.mostly((), builders.selecting(fabric="a")),
    )
    # Dice of their own, too.
    return dataclasses.replace(made, exclusive=Dice(f"{made}").mostly((), *EXCLUSIVE, of=10))


def node_selection(dice: Dice) -> nodes.NodeSelection:
    """Make conditions on the place."""
    in_zone = nodes.Term(labels=(nodes.LabelExpression("zone", "In", ("a",)),))
    large = nodes.Term(labels=(nodes.LabelExpression("size", "Gt", ("3",)),))
    tolerations = (
        nodes.Toleration(operator="Exists"),
        nodes.Toleration("gpu", "Equal", "yes"),
        nodes.Toleration(nodes.UNSCHEDULABLE_TAINT, "Exists"),
    )
    return nodes.NodeSelection(
        selector=dice.mostly((), (("zone", "a"),), (("size", "5"), ("zone", "b"))),
        affinity=dice.mostly(None, (in_zone,), (in_zone, large), (), of=10),
        tolerations=dice.mostly((), *((one,) for one in tolerations)),
    )


SEEDS: Final = st.integers(0, 2**64 - 1)


def pictures() -> st.SearchStrategy[Inventory]:
    """Return a strategy of clusters."""
    return SEEDS.map(lambda seed: picture(Dice(seed)))


def pod_infos() -> st.SearchStrategy[queued_pods.PodInfo]:
    """Return a strategy of pods."""
    return SEEDS.map(lambda seed: pod_info(Dice(seed)))


# ---------------------------------------------------------------- what is true


def alone(inventory: Inventory, name: str) -> Inventory:
    """Make an inventory of one of the nodes."""
    info, made = inventory.node(name), Inventory()
    assert info is not None
    if info.node is not None:
        made.put_node(info.node)
    if info.device is not None:
        made.put_device(info.device)
        made.set_agent_not_ready(name, info.agent_not_ready)
        made.set_quarantine(name, info.quarantine)
    for hold in info.holds.values():
        made.charge(hold)
    return made


def takes(inventory: Inventory, pod: queued_pods.PodInfo) -> bool:
    """Return whether a search of its own finds a place."""
    return Search(inventory).place(pod.request, pod.demand, policy=RULES) is not None


def takers(inventory: Inventory, pod: queued_pods.PodInfo) -> list[str]:
    """Name the nodes that would take a pod if they were alone in the world."""
    found = [info.name for info in inventory.each() if info.node is not None]
    return [name for name in found if takes(alone(inventory, name), pod)]


def state(inventory: Inventory) -> dict[str, Any]:
    """Return everything an inventory knows, to be compared with what it knows later."""
    table = inventory.table
    arrays = {key: value.copy() for key, value in vars(table).items() if isinstance(value, np.ndarray)}
    names = {key: dict(value.of) for key, value in vars(table).items() if hasattr(value, "of")}
    rows = [dataclasses.asdict(info) if info is not None else None for info in inventory.infos]
    rest = (table.version, inventory.score_epoch, dict(inventory.index), inventory.supply_version)
    return {"arrays": arrays, "names": names, "rows": rows, "rest": rest}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Compare two states exactly."""
    arrays = one["arrays"].keys() == other["arrays"].keys() and all(
        np.array_equal(one["arrays"][key], other["arrays"][key]) for key in one["arrays"]
    )
    return arrays and all(one[key] == other[key] for key in ("names", "rows", "rest"))


def asked(made: Inventory, pod: queued_pods.PodInfo, *, all_nodes: bool = False) -> explain.Explanation:
    """Explain with a search that remembers nothing."""
    return explain.explain(Search(made), pod, policy=RULES, all_nodes=all_nodes)


def after(before: Scenario, advice: explain.Advice) -> Scenario:
    """Return what is after the changes of the pod, or after all of them where there is a node."""
    changes = [one for one in advice.changes if before.node is not NO_NODE or not one.node]
    return functools.reduce(lambda scenario, change: change.apply(scenario), changes, before)
