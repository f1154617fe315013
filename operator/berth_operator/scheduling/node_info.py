"""One node of the inventory, as far as it is not a number: its Node, its Device, its holds."""

import dataclasses

from berth_crds import names
from berth_operator.scheduling.devices import device_facts, device_view
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts

Cards = tuple[device_facts.Device | None, int]  # What a node can give out, and how many are withheld of it.


@dataclasses.dataclass(slots=True)
class NodeInfo:
    """Everything about one node that is not a number."""

    name: str
    row: int
    node: facts.Node | None = None
    published: device_facts.Device | None = None  # As its agent says.
    # The same, except that cards whose uuid another node owns have the trouble DUPLICATE_UUID.
    device_before_holds: device_facts.Device | None = None
    # Also with the trouble that invalid allocations of pods there make.
    device: device_facts.Device | None = None
    unnamed: int = 0  # Cards that are withheld because what an invalid allocation names is not there.
    uncounted: int = 0  # MIG profiles and types of devices that are not given, for all nodes have too many.
    agent_not_ready: bool = True  # Whether it is silent or unknown: no card of it is given out.
    quarantine: str = ""  # Why its kubelet, which rejects pods, gets none for a time.
    namespace_quarantine: tuple[str, str] = ("", "")  # Of which namespace it gets none, and why.
    unknown: bool = False  # Whether that is not reported, because the agent may well be alive.
    exclusive_replicas: bool = False  # Whether a time-sliced or MPS card serves one pod at a time.
    unnamed_of_pods: int = 0  # Cards that are withheld because pods have some, which are not known by name.
    holds: dict[str, Hold] = dataclasses.field(default_factory=dict)
    amounts: dict[str, int] = dataclasses.field(default_factory=dict)  # Of resources, what pods hold.
    given: dict[str, int] = dataclasses.field(default_factory=dict)  # Of resources, what the node can give.
    used: dict[str, device_view.Usage] = dataclasses.field(default_factory=dict)
    functions: dict[str, int] = dataclasses.field(default_factory=dict)  # By bus id, how many hold it.
    measured_free: dict[str, int] = dataclasses.field(default_factory=dict)  # Of cards, as in the node table.
    slots: dict[str, int] = dataclasses.field(default_factory=dict)  # Uuid of a plain card to its slot.
    plain: bool = True  # Whether all devices are GPUs that are given out whole or by shares.

    @property
    def present(self) -> bool:
        """Whether it has a row, because its Node or its Device is known (`node_rows`)."""
        return self.row >= 0

    @property
    def agent_is_live(self) -> bool:
        """Whether its agent is there, and has published devices that can be read."""
        return self.device is not None and not self.device.failed and not self.agent_not_ready

    @property
    def in_service(self) -> bool:
        """Whether its devices may be given out."""
        return self.agent_is_live and not self.quarantine

    @property
    def cordoned(self) -> bool:
        """Whether people keep new pods off the whole node."""
        return self.node is not None and self.node.unschedulable

    @property
    def cards(self) -> Cards:
        """What it can give out of cards: which there are, and how many of them are withheld."""
        return self.device, self.unnamed

    @property
    def withheld(self) -> int:
        """How many unused cards are given to no new pod, whichever they are (`withheld_cards`)."""
        return self.unnamed + self.unnamed_of_pods

    @property
    def plugged(self) -> frozenset[str] | None:
        """Of which resources a device plugin may give cards; None where the node is not known.

        Every node lists Berth's resource, but only where the agent is its kubelet's plugin does one serve it.
        """
        if self.node is None:
            return None
        served = self.device is not None and self.device.kubelet_served
        return frozenset(name for name, _ in self.node.allocatable if served or name != names.GPU)

    @property
    def honors_partitions(self) -> bool:
        """Whether whole cards are given in partitions only: the Node has the first word."""
        said = self.node.honors_partitions if self.node is not None else None
        return said if said is not None else self.device is not None and self.device.honors_partitions

    def view(self) -> device_view.View:
        """Show the devices and their use to the allocator."""
        live = self.agent_is_live
        return device_view.View(
            device=self.device or device_facts.Device(self.name),
            used=self.used,
            functions=frozenset(self.functions),
            withheld=self.withheld,
            in_service=live and not self.quarantine,
            quarantine=self.quarantine if live else "",
            exclusive_replicas=self.exclusive_replicas,
            honors_partitions=self.honors_partitions,
            measured_free=self.measured_free,
        )
