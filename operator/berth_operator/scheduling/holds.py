"""What a pod has: its node, its share of the node's resources, its cards.

A Hold is made of an assumed decision or of a bound pod, and is the same value in both
cases; only the ledger knows which of the two it is.
"""

import dataclasses
from typing import Final

from berth_operator.scheduling import decisions, values
from berth_operator.scheduling.nodes import facts

ALL_CARDS: Final = 1 << 16  # More than any node has: withholds whatever is not held by name.


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class Hold:
    """What one pod takes from one node.

    `withheld` counts cards that the pod surely has but that are not known by name, because
    its allocation is invalid (`withheld_cards`). `marked` are uuids and minors of cards that it
    may have beside its shares: how much of them is unknown, so nothing more of them is given.
    `withheld_types` are types of devices other than cards of which it may have any.
    `by_agent` tells that its shares are what an agent says in a GpuPod, or what another scheduler has
    written, and no record of a bind.
    Priority, labels and the time at which its kubelet admitted it say which pod it is, and not what
    it takes: what holds the same is equal. So do `anti_affinity`, which are its required terms,
    `weighted_terms`, by which it would rather be near other pods or away, and `leaving`, which tells that it
    is being deleted, and `controller`, by which it is known what has made it. `labels_known` is false of a
    pod for whose labels there is no room.
    """

    uid: str
    title: str
    node: str
    amounts: facts.Amounts = ()
    shares: tuple[decisions.Share, ...] = ()
    withheld: int = 0
    marked: frozenset[str | int] = frozenset()
    withheld_types: frozenset[str] = frozenset()
    host_ports: tuple[facts.HostPort, ...] = ()
    claims: tuple[facts.PodClaim, ...] = ()
    disks: tuple[facts.Disk, ...] = ()
    by_agent: bool = False
    priority: int = dataclasses.field(default=0, compare=False)
    labels: facts.Labels = dataclasses.field(default=(), compare=False)
    start: str = dataclasses.field(default="", compare=False)
    anti_affinity: tuple[facts.PodTerm, ...] = dataclasses.field(default=(), compare=False)
    weighted_terms: tuple[facts.WeightedPodTerm, ...] = dataclasses.field(default=(), compare=False)
    leaving: bool = dataclasses.field(default=False, compare=False)
    labels_known: bool = dataclasses.field(default=True, compare=False)
    controller: str = dataclasses.field(default="", compare=False)

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return self.title.partition("/")[0]

    @property
    def gpupod_titles(self) -> tuple[str, str]:
        """The titles of the GpuPods that may speak for it: its own, and where that is taken, a longer one."""
        return self.title, f"{self.namespace}/{self.uid}.{self.node}"

    def with_devices_of(self, other: "Hold") -> "Hold":
        """Return this hold with the devices of another one, but for those that are marked."""
        devices = other.shares, other.withheld, other.withheld_types
        if (self.shares, self.withheld, self.withheld_types) == devices:
            return self
        shares, withheld, withheld_types = devices
        return dataclasses.replace(self, shares=shares, withheld=withheld, withheld_types=withheld_types)

    def withholding(self, withheld: int, withheld_types: frozenset[str]) -> "Hold":
        """Return this hold with so many cards and these types withheld.

        A node may have thousands of pods whose holds are made anew when its devices change, and
        `dataclasses.replace` takes many times as long.
        """
        return Hold(
            self.uid,
            self.title,
            self.node,
            self.amounts,
            self.shares,
            withheld,
            self.marked,
            withheld_types,
            self.host_ports,
            self.claims,
            self.disks,
            self.by_agent,
            self.priority,
            self.labels,
            self.start,
            self.anti_affinity,
            self.weighted_terms,
            self.leaving,
            self.labels_known,
            self.controller,
        )

    @property
    def devices(self) -> bool:
        """Whether it keeps any device from others, by name or not."""
        return bool(self.shares or self.withheld or self.marked or self.withheld_types)
