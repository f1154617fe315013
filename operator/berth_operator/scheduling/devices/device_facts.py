"""What the core knows of a node's devices: the values its Device is read into."""

import dataclasses
from collections.abc import Iterable
from typing import Final

from berth_crds import vocabulary
from berth_operator.scheduling import decisions, delivery_methods
from berth_operator.scheduling.devices import node_topology

GPU: Final = "gpu"
REPLICA: Final = "replica"
COUNTED_CARD: Final = "card"


@dataclasses.dataclass(frozen=True, slots=True)
class Instance:
    """One static MIG instance of a card, and the slices it occupies."""

    uuid: str
    profile: str
    memory: int
    start: int = 0
    size: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """One virtual function of a device, and the labels of its group."""

    bus: str
    minor: int = 0
    labels: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Occupant:
    """A process on a card that nobody gave it; `title` is that of its pod, empty for none."""

    pid: int
    command: str = ""
    title: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """One device as its agent published it; `trouble` is why it takes no new pod.

    `recovery` is what brings it back if it is sick, as far as its agent knows, and `occupants` the processes
    that use it, that nobody gave it, and that use enough of it to close it.
    """

    uuid: str
    minor: int
    model: str = ""
    memory: int = 0
    trouble: decisions.Reason | None = None
    numa: int | None = None
    root: str | None = None
    mig: bool = False
    instances: tuple[Instance, ...] = ()
    replicas: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    functions: tuple[Function, ...] = ()
    type: str = GPU
    recovery: vocabulary.Recovery | None = None
    occupants: tuple[Occupant, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """All devices of a node: GPUs in the order of their minors, the others by type and minor.

    `failed` tells which source of the agent is down, `kubelet_read` that it reads the kubelet, and
    `kubelet_served` that it is the kubelet's device plugin. `astray` is what of the cordon names none of
    the cards. `large` tells that the object is so large that whose its cards are might not be recorded in
    it: then it gets no pod, and claims none of them. `delivery` says how containers on the node get
    their cards. `gpu_unit` is what `nvidia.com/gpu` asks for there: a card where it is empty, a
    COUNTED_CARD that the kubelet gives to one pod, a REPLICA, or the profile of MIG instances. With
    `one_replica_each` a container gets one replica at most. `isolation` is a sentence's end on what keeps
    pods to their parts of cards, empty where that is not known. `honors_partitions` is whether whole cards
    are given in partitions only, unless the Node says otherwise, and `table_fault` what is wrong with a table
    of partitions that people wrote.
    """

    node: str
    cards: tuple[PhysicalDevice, ...] = ()
    others: tuple[PhysicalDevice, ...] = ()
    topology: node_topology.NodeTopology = node_topology.LOOSE
    failed: str = ""
    kubelet_read: bool = False
    kubelet_served: bool = False
    astray: tuple[str, ...] = ()
    large: bool = False
    delivery: delivery_methods.DeliveryMethod = delivery_methods.ALL
    gpu_unit: str = ""
    one_replica_each: bool = False
    isolation: str = ""
    honors_partitions: bool = False
    table_fault: str = ""

    @property
    def size(self) -> int:
        """How many devices it has, and instances and virtual functions of them."""
        return sum(1 + len(one.instances) + len(one.functions) for one in (*self.cards, *self.others))


def without_health(device: Device) -> Device:
    """Return a Device all of whose sources and devices are well, and unused by anybody who was given none."""
    cards, others = (
        tuple(dataclasses.replace(one, trouble=None, recovery=None, occupants=()) for one in those)
        for those in (device.cards, device.others)
    )
    return dataclasses.replace(device, failed="", cards=cards, others=others)


def claimed_uuids(device: Device) -> Iterable[str]:
    """Yield the uuids that a node claims: none of a Device in which that cannot be recorded."""
    return () if device.large else unique_uuids(device)


def unique_uuids(device: Device) -> Iterable[str]:
    """Yield the uuids that must be unique in the world: those of GPUs, and of their instances."""
    for card in device.cards:
        yield card.uuid
        for instance in card.instances:
            yield instance.uuid
