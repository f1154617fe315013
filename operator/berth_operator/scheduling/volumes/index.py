"""What is known of claims, PersistentVolumes and storage, kept up to date by events.

A claim that waits for its first pod gets a node with the first of its pods that is assumed to be placed:
from then on the claim is pinned to that node, before anything is written. Likewise a PersistentVolume that is
chosen for a pod is reserved for it at once. So two pods of one round never choose otherwise for the same
claim, nor the same volume twice. Both end with the hold of the pod. A pod that somebody else put on a node
pins nothing: nobody makes a volume for it.
"""

import collections
import copy
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.pods_by_claim import ChangedClaims
from berth_operator.scheduling.volumes import attached, available, claim_kinds, facts, matching, sharing


@dataclasses.dataclass(frozen=True, slots=True)
class Assumed:
    """What is assumed for one claim of a pod that is placed: the node, and the volume that is chosen."""

    node: str
    volume: str = ""


class Volumes:
    """Claims, volumes, classes, drivers and capacities; and which pods use which claims.

    `on_change` is called with the claims for which something has changed.
    """

    def __init__(self) -> None:
        self.version = 0  # Rises with each change that an answer may depend on.
        self.is_read = False  # Whether all has been read once.
        self.claims: dict[facts.ClaimKey, facts.Claim] = {}
        self.volumes: dict[str, facts.Volume] = {}
        self.classes: dict[str, facts.StorageClass] = {}
        self.capacities: dict[str, dict[facts.ClaimKey, facts.Capacity]] = {}  # By class, then by key.
        self.tracking_drivers: frozenset[str] = frozenset()  # Whose CSIStorageCapacities count.
        self.passed_over: dict[facts.ClaimKey, frozenset[str]] = {}  # Nodes whose volumes could not be made.
        self.attached = attached.AttachedVolumes()
        self._counted: dict[facts.ClaimKey, attached.Identity] = {}  # As what a claim in use is counted.
        self._meant: dict[facts.ClaimKey, dict[str, None]] = {}  # The names of volumes, by claim.
        self._available: dict[str, available.AvailableVolumes] = {}  # By class.
        self.served = sharing.Remembered()  # Where claims get volumes that exist.
        self._users: dict[facts.ClaimKey, collections.Counter[str]] = {}  # How many pods on which nodes.
        self._assumed: dict[facts.ClaimKey, dict[str, Assumed]] = {}  # By claim, then by the uid of the pod.
        self._reserved: dict[str, str] = {}  # The uid of the pod for which a volume is reserved, by volume.
        self.on_change: Callable[[ChangedClaims], None] = lambda _: None

    def _changed(self, claims: ChangedClaims) -> None:
        self.version += 1
        self.on_change(claims)

    # ------------------------------------------------------------ events

    def all_read(self) -> None:
        """Record that everything has been read once."""
        self.is_read = True
        self._changed(None)

    def put_claim(self, claim: facts.Claim) -> None:
        """Record a new or changed claim."""
        before = self.claims.get(claim.key)
        self.claims[claim.key] = claim
        if before != claim:
            self._recount(claim.key)
            self._changed({claim.key})

    def drop_claim(self, key: facts.ClaimKey) -> None:
        """Forget a claim."""
        if self.claims.pop(key, None) is not None:
            self._recount(key)
            self._changed({key})

    def put_volume(self, volume: facts.Volume) -> None:
        """Record a new or changed PersistentVolume."""
        before = self.volumes.get(volume.name)
        self.volumes[volume.name] = volume
        if before == volume:
            return
        if before is not None:
            self._unlist(before)
        if volume.claim is not None:
            self._meant.setdefault(volume.claim, {})[volume.name] = None
        elif volume.phase == facts.AVAILABLE:
            self._available.setdefault(volume.storage_class, available.AvailableVolumes()).add(volume)
        self._volume_changed(volume)

    def drop_volume(self, name: str) -> None:
        """Forget a PersistentVolume."""
        if (volume := self.volumes.pop(name, None)) is not None:
            self._unlist(volume)
            self._volume_changed(volume)

    def _volume_changed(self, volume: facts.Volume) -> None:
        if volume.claim is None:
            self._changed(None)  # It may serve any claim.
        else:
            self._recount(volume.claim)
            self._changed({volume.claim})

    def _unlist(self, volume: facts.Volume) -> None:
        if volume.claim is not None:
            self._meant[volume.claim].pop(volume.name)
            if not self._meant[volume.claim]:
                del self._meant[volume.claim]
        elif volume.phase == facts.AVAILABLE:
            of_class = self._available[volume.storage_class]
            of_class.remove(volume)
            if not of_class:
                del self._available[volume.storage_class]

    def put_class(self, storage_class: facts.StorageClass) -> None:
        """Record a new or changed StorageClass."""
        if self.classes.get(storage_class.name) != storage_class:
            self.classes[storage_class.name] = storage_class
            self._classes_changed()

    def drop_class(self, name: str) -> None:
        """Forget a StorageClass."""
        if self.classes.pop(name, None) is not None:
            self._classes_changed()

    def _classes_changed(self) -> None:
        for key in self._users:
            self._recount(key)
        self._changed(None)

    def put_limits(self, node: str, limits: Mapping[str, int]) -> None:
        """Record how many volumes of each CSI driver a node can attach."""
        if self.attached.limits_of(node) != limits:
            self.attached.put_limits(node, limits)
            self._changed(None)

    def put_driver(self, name: str, *, tracks_capacity: bool) -> None:
        """Record whether the capacities that a CSI driver reports are to be heeded."""
        others = self.tracking_drivers - {name}
        tracking = others | {name} if tracks_capacity else others
        if tracking != self.tracking_drivers:
            self.tracking_drivers = tracking
            self._changed(None)

    def put_capacity(self, capacity: facts.Capacity) -> None:
        """Record a new or changed capacity; its class never changes."""
        of_class = self.capacities.setdefault(capacity.storage_class, {})
        if of_class.get(capacity.key) != capacity:
            of_class[capacity.key] = capacity
            self._changed(None)

    def drop_capacity(self, key: facts.ClaimKey) -> None:
        """Forget a capacity."""
        for name, of_class in list(self.capacities.items()):
            if of_class.pop(key, None) is not None:
                self._changed(None)
            if not of_class:
                del self.capacities[name]

    def pass_over(self, claim: facts.ClaimKey, node: str, *, passed: bool = True) -> None:
        """Record that the volume of a claim could not be made on a node, or that it may be tried again."""
        others = self.passed_over.pop(claim, frozenset()) - {node}
        if found := others | {node} if passed else others:
            self.passed_over[claim] = found
        self._changed({claim})

    # ------------------------------------------------------------ pods

    def use(self, uid: str, claims: Iterable[nodes.PodClaim], node: str, sign: int) -> None:
        """Count the claims of a pod as used on a node, or with sign -1 as not used any more.

        What was assumed for it is forgotten then.
        """
        keys = [claim.key for claim in claims]
        for key in keys:
            users = self._users.setdefault(key, collections.Counter())
            self._recount(key)
            users[node] += sign
            if (counted := self._counted.get(key)) is not None:
                self.attached.use(counted, node, sign)
            if not users[node]:
                del users[node]
            if not users:
                del self._users[key]
                self._counted.pop(key, None)
            if sign < 0:
                self._withdraw(uid, key)
        self.version += 1
        if sign < 0:
            self.on_change(set(keys))

    def _recount(self, key: facts.ClaimKey) -> None:
        """Count the volume of a claim in use as what it is now, on all nodes where a pod uses it."""
        before, after = self._counted.get(key), self._identity(key)
        if before == after or key not in self._users:
            return
        for node, pods in self._users[key].items():
            if before is not None:
                self.attached.use(before, node, -pods)
            if after is not None:
                self.attached.use(after, node, pods)
        if after is None:
            del self._counted[key]
        else:
            self._counted[key] = after

    def _identity(self, key: facts.ClaimKey) -> attached.Identity | None:
        """Return what the volume of a claim is to its CSI driver; None where it surely has none."""
        if (claim := self.claims.get(key)) is None:
            return None
        if claim.volume:
            volume = self.volumes.get(claim.volume)
            return attached.Identity(volume.driver, volume.handle) if volume and volume.driver else None
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None or not storage_class.provisions:
            return None
        return attached.Identity(storage_class.provisioner, "/".join(("", *key)))

    def identities(self, claims: Iterable[facts.ClaimKey]) -> list[attached.Identity]:
        """Return what the volumes of claims are to their CSI drivers, as far as they have any."""
        return [found for key in claims if (found := self._identity(key)) is not None]

    def assume(self, uid: str, claims: Iterable[nodes.PodClaim], node: nodes.Node) -> None:
        """Assume for a pod that is being bound to a node what its claims still lack."""
        found = (self.claims.get(one.key) for one in claims)
        waiting = [claim for claim in found if claim is not None and self.is_delayed(claim)]
        unclaimed = [claim for claim in waiting if not self.node_of(claim)]
        chosen = matching.choose(self, unclaimed, node)
        for claim in waiting:
            volume = chosen.get(claim.key)
            assumed = Assumed(node.name, volume.name if volume is not None else "")
            self._assumed.setdefault(claim.key, {})[uid] = assumed
            if volume is not None:
                self._reserved[volume.name] = uid

    def _withdraw(self, uid: str, key: facts.ClaimKey) -> None:
        if (of_claim := self._assumed.get(key)) is None or (gone := of_claim.pop(uid, None)) is None:
            return
        if self._reserved.get(gone.volume) == uid:
            del self._reserved[gone.volume]
        if not of_claim:
            del self._assumed[key]

    def assumes(self, uid: str, claims: Iterable[nodes.PodClaim]) -> bool:
        """Whether anything is assumed for the claims of a pod."""
        return any(uid in self._assumed.get(claim.key, ()) for claim in claims)

    def copy_for_trial(self, claims: Iterable[nodes.PodClaim], node: str) -> "Volumes":
        """Return the same volumes, used by the pods of other nodes alone as far as these claims matter."""
        trial = copy.copy(self)
        trial.keep_elsewhere([claim.key for claim in claims], node)
        return trial

    def keep_elsewhere(self, claims: Iterable[facts.ClaimKey], node: str) -> None:
        """Keep of the pods only what those on other nodes do with these claims; all of it in new tables."""
        users, assumed = self._users, self._assumed
        self.on_change, self.served = lambda _: None, sharing.Remembered()
        self._reserved, self._users, self._assumed = dict(self._reserved), {}, {}
        self._counted, self.attached = {}, self.attached.of_empty_node(node)
        for key in claims:
            elsewhere = {at: count for at, count in users.get(key, {}).items() if at != node}
            kept = {uid: one for uid, one in assumed.get(key, {}).items() if one.node != node}
            if elsewhere:
                self._users[key] = collections.Counter(elsewhere)
            if kept:
                self._assumed[key] = kept

    # ------------------------------------------------------------ asking

    def is_delayed(self, claim: facts.Claim) -> bool:
        """Whether a claim gets its volume only once a pod that uses it has a node."""
        storage_class = self.classes.get(claim.storage_class)
        return not claim.volume and storage_class is not None and storage_class.waits_for_pod

    def is_used(self, claim: facts.ClaimKey) -> bool:
        """Whether a pod on a node uses a claim."""
        return claim in self._users

    def node_of(self, claim: facts.Claim) -> str:
        """Return the node for which a claim without a volume gets one; empty where that is open."""
        if node := self.selected_node(claim):
            return node
        return next((one.node for one in self._assumed.get(claim.key, {}).values()), "")

    def selected_node(self, claim: facts.Claim) -> str:
        """Return the node for which the provisioner of a claim makes its volume; without one empty.

        Where volumes are not made on demand, nobody would ever take a selected node off the claim again.
        """
        return claim.selected_node if self.provisions(claim) else ""

    def provisions(self, claim: facts.Claim) -> bool:
        """Whether volumes of the class of a claim are made on demand."""
        storage_class = self.classes.get(claim.storage_class)
        return storage_class is not None and storage_class.provisions

    def assumed_volume(self, claim: facts.ClaimKey) -> str:
        """Return the volume that is reserved for a claim, for whichever of its pods; empty without one."""
        return next((one.volume for one in self._assumed.get(claim, {}).values() if one.volume), "")

    def fitting(self, kind: claim_kinds.ClaimKind) -> matching.Fitting | None:
        """Return the available volumes that would do for a kind, also reserved ones; None for none."""
        if (of_class := self._available.get(kind.storage_class)) is None:
            return None
        rows = of_class.serving(kind)
        return matching.Fitting(of_class, rows) if rows is not None else None

    def is_free(self, name: str) -> bool:
        """Whether a volume is reserved for no pod."""
        return name not in self._reserved

    @property
    def reserved(self) -> Collection[str]:
        """The volumes that are reserved for pods."""
        return self._reserved.keys()

    def meant_for(self, claim: facts.ClaimKey) -> Iterable[facts.Volume]:
        """Return the volumes that name a claim, and are reserved for no pod."""
        return (self.volumes[one] for one in self._meant.get(claim, ()) if one not in self._reserved)
