"""Pods that were put on a node by others, and that its kubelet has not admitted yet.

A pod may be created with a node name, and a kubelet refuses a pod that its node has no room for. Such a
pod must not take anything from others meanwhile, so it is charged only if its kubelet could admit it:
if the node's labels and taints allow it, its host ports are free, and there is enough of each resource.
A resource that the node does not list is not counted.

What is free is computed from the pods that are certainly there: not from other unadmitted pods, of which
the kubelet may admit any first, nor from binds under way, which may reach it later. So the charges follow
from the objects alone, in any order of their events. All pods on an unknown node are charged.

The charges of thousands may change at once. So a pod is charged only a few of its ports, disks and claims
before it is admitted, and only these ports can keep it out; its amounts and cards are whole.
Where a node has many, and changes all the time, that is done less often (`paced_calls`).
"""

import collections
import dataclasses
import itertools
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from berth_operator.engine import pod_memory
from berth_operator.scheduling import exclusive_use, node_info, node_selection_reasons
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import affinity, facts, taints

T = TypeVar("T")
NodeTraits = tuple[object, ...]  # All properties of a node that decide which pods it allows.
Ports = tuple[facts.HostPort, ...]
PortUse = exclusive_use.ExclusiveUse[facts.HostPort]

MOST_OF_EACH: Final = 8  # Ports, marks of disks, claims.


@dataclasses.dataclass(slots=True)
class _Pod:
    """A pod, what it is charged, and whether its node meets its requirements."""

    hold: Hold
    node_selection: facts.NodeSelection
    conflicting_marks: tuple[Hashable, ...]  # If another pod has one of these marks, its ports are taken.
    charged: facts.Amounts = ()
    charged_ports: Ports = ()
    excluded: bool = False  # Whether nothing is charged.
    checked_traits: NodeTraits = ()
    suitable: bool = True

    def suits(self, node: facts.Node, traits: NodeTraits) -> bool:
        """Whether its node allows it, amounts and ports apart; remembered until the node's traits change."""
        if self.checked_traits is not traits:
            driven_off = taints.untolerated(node, self.node_selection.tolerations, (facts.Effect.NO_EXECUTE,))
            lacks = driven_off is not None or self.node_selection.missing_feature(node)
            self.suitable = not lacks and affinity.matches(self.node_selection, node)
            self.checked_traits = traits
        return self.suitable


@dataclasses.dataclass(frozen=True, slots=True)
class FreeResources:
    """What is free of a node's resources, and which ports the pods have there.

    Some ports belong to pods that may not be there in the end: unadmitted ones, and those whose bind is under
    way. `uncertain` counts the marks of each of these two; such ports count as free.
    """

    node: facts.Node | None  # None: it is unknown, and everything is free.
    traits: NodeTraits
    amounts: Mapping[str, int]
    ports: PortUse
    row: int
    uncertain: tuple[Mapping[Hashable, int], Mapping[Hashable, int]]

    def has_none_of(self, marks: Iterable[Hashable]) -> bool:
        """Whether no pod that is certainly there has left any of these marks of ports."""
        count, row, (unadmitted, binding) = self.ports.count, self.row, self.uncertain
        for mark in marks:  # There may be fifty thousand, for all pods together.
            if (there := count(mark, row)) and there != unadmitted.get(mark, 0) + binding.get(mark, 0):
                return False
        return True


ALL_FREE: Final = FreeResources(None, (), {}, PortUse(), 0, ({}, {}))


class UnadmittedPods:
    """All unadmitted pods, and what they are charged."""

    def __init__(self, ports: PortUse) -> None:
        """Begin without pods; `ports` are those in use, by node."""
        self._ports = ports
        self._pods: dict[str, _Pod] = {}  # By uid.
        self._by_node: dict[str, dict[str, _Pod]] = {}  # The same by node and uid.
        self._charged: dict[str, collections.Counter[str]] = {}  # By node, of all these together.
        self._charged_ports: dict[str, collections.Counter[Hashable]] = {}  # Likewise, by their marks.
        self._traits: dict[str, NodeTraits] = {}  # By node: one object as long as they are the same.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<UnadmittedPods: {len(self._pods)} pods on {len(self._by_node)} nodes>"

    def __contains__(self, uid: str) -> bool:
        """Whether a pod is unadmitted."""
        return uid in self._pods

    def add(self, hold: Hold, node_selection: facts.NodeSelection, known: Hold | None) -> None:
        """Record a pod that would hold this; `known` is what it was charged so far."""
        self.remove(hold.uid)
        kept = _with_few(hold)
        conflicting_marks = tuple(mark for port in kept.host_ports for mark in port.excluded_by)
        pod = self._pods[hold.uid] = _Pod(kept, node_selection, conflicting_marks)
        self._by_node.setdefault(hold.node, {})[hold.uid] = pod
        self._charged.setdefault(hold.node, collections.Counter())
        self._charged_ports.setdefault(hold.node, collections.Counter())
        if known is not None and known.node == hold.node:
            self._set_charged(pod, known.amounts, known.host_ports)

    def remove(self, uid: str) -> bool:
        """Forget a pod that was admitted or is gone; return whether it was here."""
        if (pod := self._pods.pop(uid, None)) is None:
            return False
        self._set_charged(pod, (), ())
        node = pod.hold.node
        del self._by_node[node][uid]
        if not self._by_node[node]:
            del self._by_node[node], self._charged[node], self._charged_ports[node]
            self._traits.pop(node, None)
        return True

    def is_excluded(self, uid: str) -> bool:
        """Whether a pod is charged nothing."""
        pod = self._pods.get(uid)
        return pod is not None and pod.excluded

    def charged_on(self, node: str) -> Mapping[str, int]:
        """Return what the pods of a node are charged together."""
        return self._charged.get(node, {})

    def is_bare(self, uid: str) -> bool:
        """Whether there was no room for the spec of a pod, so that only its node is kept (`pod_memory`)."""
        pod = self._pods.get(uid)
        return pod is not None and pod_memory.is_bare(pod.hold, pod.node_selection)

    def full_hold(self, hold: Hold) -> Hold:
        """Return what a pod would hold if it were admitted."""
        pod = self._pods.get(hold.uid)
        return hold if pod is None else pod.hold

    def charged_hold(self, hold: Hold, free: FreeResources) -> Hold:
        """Return what a pod is charged that would hold this; nothing if it cannot be admitted."""
        if (pod := self._pods.get(hold.uid)) is None:
            return hold
        pod.excluded = not _fits(pod, free)
        hold = pod_memory.bare_hold(hold) if pod.excluded else _with_few(hold)
        self._set_charged(pod, hold.amounts, hold.host_ports)
        return hold

    def nodes_concerned(self, before: Hold | None, after: Hold | None) -> set[str]:
        """Return on which nodes a pod that has changed may have given others room, or taken room from them.

        It held and holds this; None stands for a pod that was or is not certainly there.
        """
        if not self._pods or (before is not None and after is not None and _takes_alike(before, after)):
            return set()
        return {one.node for one in (before, after) if one is not None}

    def changed_uids(self, node: str, info: node_info.NodeInfo | None, assumed: Collection[str]) -> list[str]:
        """Return the pods of a node that must be charged from now on, or not any more.

        `assumed` are the pods whose bind is under way.
        """
        pods, free = self._by_node.get(node, {}), self.free(info, assumed)
        return [uid for uid, pod in pods.items() if _fits(pod, free) is pod.excluded]

    def free(self, info: node_info.NodeInfo | None, assumed: Collection[str]) -> FreeResources:
        """Return what is free beside the pods that are certainly on a node.

        That is the same whatever the others are charged, so it is worked out once for all of them. On a node
        that is unknown, or has none of them, everything is free.
        """
        if info is None or info.node is None or info.name not in self._by_node:
            return ALL_FREE
        charged, used = self._charged[info.name], info.amounts
        binding, ports = collections.Counter[str](), collections.Counter[Hashable]()
        for uid in info.holds.keys() & assumed:
            if uid not in self._pods:
                _count(binding, info.holds[uid].amounts, 1)
                _count(ports, _marks(info.holds[uid].host_ports), 1)
        amounts = {
            name: most - used.get(name, 0) + charged.get(name, 0) + binding[name]
            for name, most in info.node.allocatable
        }
        uncertain = self._charged_ports[info.name], ports
        traits = self._traits_of(info.node)
        return FreeResources(info.node, traits, amounts, self._ports, info.row, uncertain)

    def _traits_of(self, node: facts.Node) -> NodeTraits:
        traits = node_selection_reasons.traits(node)
        if self._traits.get(node.name) != traits:
            self._traits[node.name] = traits
        return self._traits[node.name]

    def _set_charged(self, pod: _Pod, charged: facts.Amounts, ports: Ports) -> None:
        if pod.charged != charged:
            total = self._charged[pod.hold.node]
            _count(total, pod.charged, -1)
            _count(total, charged, 1)
            pod.charged = charged
        if pod.charged_ports != ports:
            marks = self._charged_ports[pod.hold.node]
            _count(marks, _marks(pod.charged_ports), -1)
            _count(marks, _marks(ports), 1)
            pod.charged_ports = ports


def _takes_alike(one: Hold, other: Hold) -> bool:
    """Whether two pods take the same of what another may be refused for."""
    return (one.node, one.amounts, one.host_ports) == (other.node, other.amounts, other.host_ports)


def _marks(ports: Ports) -> Iterator[tuple[Hashable, int]]:
    return ((mark, 1) for port in ports for mark in port.marks)


def _count(total: collections.Counter[T], amounts: Iterable[tuple[T, int]], sign: int) -> None:
    """Add these amounts, or with -1 subtract them; nothing stays of what is not there any more."""
    for name, amount in amounts:
        if left := total.get(name, 0) + sign * amount:
            total[name] = left
        else:
            total.pop(name, None)


def _with_few(hold: Hold) -> Hold:
    """Return what a pod would hold, with no more of each than is charged before it is admitted."""
    marks = itertools.accumulate(len(disk.marks) for disk in hold.disks)
    disks = sum(so_far <= MOST_OF_EACH for so_far in marks)
    if max(len(hold.host_ports), len(hold.claims)) <= MOST_OF_EACH and disks == len(hold.disks):
        return hold
    return dataclasses.replace(
        hold,
        host_ports=hold.host_ports[:MOST_OF_EACH],
        disks=hold.disks[:disks],
        claims=hold.claims[:MOST_OF_EACH],
    )


def _fits(pod: _Pod, free: FreeResources) -> bool:
    """Whether the kubelet of a node could admit a pod."""
    if free.node is None:
        return True
    return (
        all(amount <= free.amounts.get(name, amount) for name, amount in pod.hold.amounts)
        and pod.suits(free.node, free.traits)
        and free.has_none_of(pod.conflicting_marks)
    )
