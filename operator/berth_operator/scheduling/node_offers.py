"""What one node can give now, in a few numbers: enough to know which waiting pods it cannot help.

When something becomes free or a node changes, most waiting pods could not use it. Searching all
nodes for each of them would take longer than the change is worth, so each kind of waiting pod is
first compared with the one node that changed. A yes promises nothing, a no is certain: what is
compared here is necessary on any node. Selectors and taints are compared where that is remembered
from a search, of the conditions on cards their uuids and models, and how containers get their
cards. Combinations, and all constraints that are not named here, are left to the search.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Final

from berth_crds import vocabulary
from berth_operator.scheduling import (
    decisions,
    delivery_methods,
    gpu_units,
    node_info,
    node_table,
    policy_rules,
    queued_pods,
    signatures,
)
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.delivery_methods import DeliveryMethod
from berth_operator.scheduling.devices import conditions, device_facts, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy

Left = Mapping[str, int]
ChangedLabels = frozenset[str] | None  # None: perhaps all.
NOTHING: Final[Left] = {}
UNCHANGED: Final = Policy()


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What a node has left of its resources, and of its devices by sums."""

    left: Left
    whole_cards: int = 0
    # Of each card in service: its uuid, core, percent of memory, memory.
    shares: tuple[tuple[str, int, int, int], ...] = ()
    replicas: int = 0
    instances: Left = dataclasses.field(default_factory=dict)
    others: Left = dataclasses.field(default_factory=dict)
    gpu_unit: str = ""
    uuids: frozenset[str] = frozenset()  # Of its cards and of their instances.
    unused: frozenset[str] = frozenset()  # Of the cards that nobody uses any of.
    models: frozenset[str] = frozenset()  # Of its cards.
    delivery: DeliveryMethod = delivery_methods.ALL


def left(inventory: Inventory, name: str) -> Left:
    """Return what a node has left of each resource that it advertises; nothing if it is not there."""
    info, table = inventory.node(name), inventory.table
    if info is None or info.node is None:
        return NOTHING
    found = ((resource, table.resources.get(resource)) for resource, _ in info.node.allocatable)
    return {resource: int(table.left[info.row, at]) for resource, at in found if at is not None}


def offer(inventory: Inventory, name: str, core_limit: int = requests.WHOLE) -> Offer | None:
    """Return what a node can give; None if no pod can be placed on it, because it is not there.

    Of the core of its cards `core_limit` percent may be promised in all.
    """
    info, table = inventory.node(name), inventory.table
    if info is None or info.node is None:
        return None
    at = info.row
    slots = [slot for slot, in_service in enumerate(table.in_service[at].tolist()) if in_service]
    cards = info.device.cards if info.device else ()
    core = table.core_up_to(core_limit, slice(at, at + 1))[0].tolist()
    ratio, memory = table.ratio[at].tolist(), table.memory[at].tolist()
    return Offer(
        left=left(inventory, name),
        whole_cards=int(table.unused[at].sum()) - int(table.withheld[at]),
        shares=tuple((cards[slot].uuid, core[slot], ratio[slot], memory[slot]) for slot in slots),
        replicas=int(table.replicas[at]),
        instances=_named(table.profiles, table.instances[at].tolist()),
        others=_named(table.types, table.others[at].tolist()),
        gpu_unit=info.device.gpu_unit if info.device else "",
        uuids=frozenset(device_facts.unique_uuids(info.device)) if info.device else frozenset(),
        unused=frozenset(card.uuid for card, unused in zip(cards, table.unused[at], strict=False) if unused),
        models=frozenset(card.model for card in cards),
        delivery=DeliveryMethod(int(table.delivery[at])),
    )


def _named(names: node_table.Names, counts: list[int]) -> Left:
    return {name: counts[at] for name, at in names.of.items() if counts[at]}


def room(there: Left, demand: facts.NodeDemand) -> bool:
    """Whether so much is left of all that a pod asks for apart from devices."""
    if any(there.get(name, node_table.ABSENT) < amount for name, amount in demand.amounts):
        return False
    # Of the names that Berth serves only those count that the node advertises.
    return all(name not in there or max(0, there[name]) >= amount for name, amount in demand.device_resources)


def may_take(there: Offer, request: requests.DeviceRequest, demand: facts.NodeDemand) -> bool:
    """Whether the node might take such a pod; a no is certain."""
    need = gpu_units.request_on_unit(request, demand, there.gpu_unit).need
    if (need.whole_cards and there.whole_cards < need.whole_cards) or there.replicas < need.replicas:
        return False
    if not room(there.left, demand):
        return False
    if (named := request.conditions.uuids) and not _may_give(there, need, named):
        return False
    return (
        all(_fitting(there, ask, named) >= ask.count for ask in need.largest_shares)
        and all(there.instances.get(ask.profile, 0) >= ask.count for ask in need.instances)
        and all(there.others.get(kind, 0) for kind in need.other_types)
    )


def _may_give(there: Offer, need: requests.Need, named: frozenset[str]) -> bool:
    """Whether the node has so many of the cards and instances that a pod names."""
    if len(named & there.unused) < need.whole_cards:
        return False
    return not (need.replicas or need.instances) or not named.isdisjoint(there.uuids)


def _has_model(there: Offer, request: requests.DeviceRequest) -> bool:
    """Whether a node has a card of a model that will do, where the pod asks for cards or shares of them."""
    kinds, need = request.conditions.of_models, request.need
    if kinds == requests.ANY_MODEL or there.gpu_unit or not (need.whole_cards or need.shares):
        return True
    return any(conditions.model_meets(model, kinds) for model in there.models)


def _no_help(before: Left, pod_info: queued_pods.PodInfo) -> bool:
    """Whether the resources sufficed before a pod without devices ended, and its end lifts nothing else."""
    signature = signatures.of(pod_info.request, pod_info.demand)
    return room(before, pod_info.demand) and not registry.lifted_by_pods_without_devices(signature)


def _fitting(there: Offer, ask: requests.Gpus, named: frozenset[str]) -> int:
    """Count the cards in service, of those that are named if any are, that have room for a share."""
    least = 0 if ask.ratio else ask.memory
    return sum(
        core >= ask.core and ratio >= ask.ratio and memory >= least and (not named or uuid in named)
        for uuid, core, ratio, memory in there.shares
    )


def judge(
    inventory: Inventory, name: str, before: Left | None = None, *, policy: Policy = UNCHANGED
) -> Callable[[queued_pods.PodInfo], bool]:
    """Return whether a changed node might take a pod; with `before` a pod without devices has left it."""
    # Read only if a pod waits, and once for each limit.
    known = functools.cache(lambda core_limit: offer(inventory, name, core_limit))

    def able(pod_info: queued_pods.PodInfo) -> bool:
        # A pod to which the policy has been applied says it by itself.
        limit = max(pod_info.request.grouping.core_limit, policy_rules.core_limit(policy, pod_info))
        if (there := known(limit)) is None or (before is not None and _no_help(before, pod_info)):
            return False
        if not may_take(there, pod_info.request, pod_info.demand):
            return False
        # A policy may have pods delivered by other methods than their own, and names of its own for models.
        if policy.delivery is vocabulary.Delivery.REPORTED and not there.delivery & pod_info.demand.delivery:
            return False
        if not policy.models and not _has_model(there, pod_info.request):
            return False
        return inventory.accepts(inventory.index[name], pod_info.demand.node_selection) is not False

    return able


def pod_events(before: Hold | None, after: Hold | None) -> decisions.AwaitedEvents:
    """Return what a pod that is another one than before is to those who look at pods; None: not there."""
    if before is None:
        return frozenset({decisions.ClusterEvent.POD_CAME})
    return frozenset({decisions.ClusterEvent.POD_LEFT}) if after is None else decisions.POD_EVENTS


def judge_pod(
    inventory: Inventory, before: Hold | None, after: Hold | None
) -> Callable[[queued_pods.PodInfo], bool]:
    """Return whether a pod that waits for a change of pods may be helped by this one; None: it is not there.

    Pods that ask for the same may have different labels. So one with an anti-affinity that has left may
    have repelled any of them.
    """
    repelled = after is None and before is not None and bool(before.anti_affinity)
    events = pod_events(before, after)
    counted_before, counted_after = _counted(inventory, before), _counted(inventory, after)

    def able(pod_info: queued_pods.PodInfo) -> bool:
        return repelled or any(
            counted_before(one) != counted_after(one) for one in pod_info.selectors_for(events)
        )

    return able


def _counted(inventory: Inventory, pod: Hold | None) -> Callable[[facts.PodSelector], object]:
    """Return how a pod counts for each selector; None if it does not."""
    if pod is None:
        return lambda _: None
    if not pod.labels_known:
        return lambda _: pod
    labels = dict(pod.labels)  # Of a thousand labels, once and not for each selector.
    pods, namespace, leaving = inventory.pods, pod.namespace, pod.leaving
    return lambda selector: leaving if pods.selects(selector, namespace, labels) else None


# ---------------------------------------------------------------- what is better than before


def better_node(before: facts.Node | None, after: facts.Node) -> bool:
    """Whether a changed node might take a pod that it did not take before."""
    if before is None:
        return True
    # What it can give is compared below, and its images let no pod in.
    if dataclasses.replace(before, allocatable=after.allocatable, images=after.images) != after:
        return True
    had, has = dict(before.allocatable), dict(after.allocatable)
    # A name that Berth serves is not asked of a node that does not advertise it any more.
    return not had.keys() <= has.keys() or any(
        amount > had.get(name, node_table.ABSENT) for name, amount in has.items()
    )


def better_cards(before: node_info.Cards, after: node_info.Cards) -> bool:
    """Whether changed cards might serve a pod that they did not serve before: not with less memory alone."""
    (old, kept), (new, keeps) = before, after
    if old is None or new is None or keeps < kept or len(old.cards) != len(new.cards):
        return new is not None
    same = dataclasses.replace(old, cards=new.cards) == new
    return not same or any(map(_better_card, old.cards, new.cards))


def changed_labels(before: facts.Node | None, after: facts.Node | None) -> ChangedLabels:
    """Return the labels of a node by which pods may have to be counted otherwise than before.

    All may have: where the node came or went, or has other taints.
    """
    if before is None or after is None:
        return frozenset() if before is after else None
    if before.taints != after.taints:
        return None
    had, has = before.labels, after.labels
    return frozenset(key for key in had.keys() | has.keys() if had.get(key) != has.get(key))


def _better_card(before: PhysicalDevice, after: PhysicalDevice) -> bool:
    trouble = before.trouble or after.trouble  # The first trouble of a card makes it no better.
    worse = dataclasses.replace(before, memory=after.memory, trouble=trouble)
    return after.memory > before.memory or worse != after
