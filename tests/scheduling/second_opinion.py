"""A second opinion: where a pod may go and what is best, worked out the slow and obvious way.

Written from the rules as people know them, without columns, caches or masks, so that an
error would have to be made twice to stay hidden. The wishes about labels and taints are
read anew here too, for the few operators that the random clusters use. What one node's
devices allow is the allocator's word, which has a second opinion of its own, and how
good a node is is asked of it alone, in a picture that was never anything else.
"""

import dataclasses
from collections.abc import Iterable

import numpy as np

from berth_operator.scheduling import decisions, node_scores, queued_pods, signatures
from berth_operator.scheduling.devices import allocator, device_facts, device_view, requests
from berth_operator.scheduling.holds import ALL_CARDS, Hold
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from support import random_clusters

# ---------------------------------------------------------------- the place


def welcome(node: facts.Node, node_selection: facts.NodeSelection) -> bool:
    """Return whether labels, name and taints suit the pod."""
    taints = [taint for taint in node.taints if taint.effect in {"NoSchedule", "NoExecute"}]
    if node.unschedulable:
        taints.append(facts.Taint(facts.UNSCHEDULABLE_TAINT, "", "NoSchedule"))
    if not all(any(tolerated(taint, one) for one in node_selection.tolerations) for taint in taints):
        return False
    if not all((key, value) in node.labels.items() for key, value in node_selection.selector):
        return False
    return node_selection.affinity is None or any(suits(node, term) for term in node_selection.affinity)


def tolerated(taint: facts.Taint, by: facts.Toleration) -> bool:
    """Return whether a toleration covers a taint."""
    if by.effect not in {"", taint.effect} or by.key not in {"", taint.key}:
        return False
    if by.operator == "Exists":
        return True
    return by.operator in {"Equal", ""} and by.key != "" and by.value == taint.value


def suits(node: facts.Node, term: facts.Term) -> bool:
    """Return whether a term of the affinity accepts a node."""
    answers = [true_of(dict(node.labels), one) for one in term.labels]
    answers += [true_of({"metadata.name": node.name}, one) for one in term.fields]
    return bool(answers) and all(answers)


def true_of(labels: dict[str, str], one: facts.LabelExpression) -> bool:
    """Evaluate an expression."""
    value = labels.get(one.key)
    if one.operator in {"Gt", "Lt"}:
        if value is None or not value.isdigit() or len(one.values) != 1 or not one.values[0].isdigit():
            return False
        difference = int(value) - int(one.values[0])
        return difference > 0 if one.operator == "Gt" else difference < 0
    if one.operator in {"In", "NotIn"}:
        return bool(one.values) and (value in one.values) == (one.operator == "In")
    return (one.operator, value is None) in {("Exists", False), ("DoesNotExist", True)}


def selected(labels: facts.Labels, selectors: Iterable[requests.LabelSelector], kind: str) -> bool:
    """Return whether the selectors that are about a type of device select one with these labels."""
    wanted = (one for each in selectors if each.type in {"", kind} for one in each.expressions)
    return all(true_of(dict(labels), one) for one in wanted)


# ---------------------------------------------------------------- the node and its cards


def left(node: facts.Node, holds: Iterable[Hold], name: str) -> int | None:
    """Return how much of a resource is left; None where the node does not know it."""
    total = dict(node.allocatable).get(name)
    return None if total is None else total - sum(dict(hold.amounts).get(name, 0) for hold in holds)


def roomy(node: facts.Node, holds: list[Hold], demand: facts.NodeDemand) -> bool:
    """Return whether the node's resources suffice."""
    plain = [left(node, holds, name) for name, _ in demand.amounts]
    served = [left(node, holds, name) for name, _ in demand.device_resources]
    return all(
        have is not None and have >= amount for have, (_, amount) in zip(plain, demand.amounts, strict=True)
    ) and all(
        have is None or have >= amount
        for have, (_, amount) in zip(served, demand.device_resources, strict=True)
    )


def usage(holds: Iterable[Hold]) -> dict[str, device_view.Usage]:
    """Add up what pods have of each device."""
    shares = [share for hold in holds for share in hold.shares]
    return {
        uuid: device_view.Usage(
            sum(share.core for share in shares if share.uuid == uuid),
            sum(share.memory for share in shares if share.uuid == uuid),
            sum(share.uuid == uuid for share in shares),
        )
        for uuid in {share.uuid for share in shares}
    }


def strangers(cluster: random_clusters.ClusterState, node: str) -> dict[str, list[int]]:
    """List by pod the minors of GPUs that it holds here and that the node does not have."""
    device = cluster.devices.get(node)
    if device is None:
        return {}
    there = {uuid for card in device.cards for uuid in (card.uuid, *(one.uuid for one in card.instances))}
    found = {
        hold.uid: [share.minor for share in hold.shares if share.type == "gpu" and share.uuid not in there]
        for hold in cluster.holds_on(node)
    }
    return {uid: minors for uid, minors in found.items() if minors}


def after_strangers(cluster: random_clusters.ClusterState, node: str) -> device_facts.Device | None:
    """Return a node's devices, closed at the minor of each card that somebody holds and that is not there."""
    device = cluster.devices.get(node)
    taken = {minor for minors in strangers(cluster, node).values() for minor in minors}
    if device is None or not taken:
        return device
    lost = decisions.Reason.INVALID_ALLOCATION
    found = tuple(
        dataclasses.replace(card, trouble=card.trouble or lost) if card.minor in taken else card
        for card in device.cards
    )
    return dataclasses.replace(device, cards=found)


def nameless(cluster: random_clusters.ClusterState, node: str) -> int:
    """Count the cards that are kept back because nothing that their holder names is there."""
    device = cluster.devices.get(node)
    minors_there = {card.minor for card in device.cards} if device else set()
    lost = 0
    for uid, minors in strangers(cluster, node).items():
        gpus = [share for share in cluster.holds[uid].shares if share.type == "gpu"]
        if len(gpus) == len(minors) and not minors_there & set(minors):
            lost += ALL_CARDS
    return lost


def view(cluster: random_clusters.ClusterState, node: str) -> device_view.View:
    """Show the devices of a node and their use."""
    holds, device = cluster.holds_on(node), after_strangers(cluster, node)
    return device_view.View(
        device or device_facts.Device(node),
        usage(holds),
        functions=frozenset(share.function for hold in holds for share in hold.shares if share.function),
        withheld=sum(hold.withheld for hold in holds) + nameless(cluster, node),
        in_service=device is not None and not device.failed and node in cluster.reporting,
    )


def able(cluster: random_clusters.ClusterState, pod_info: queued_pods.PodInfo) -> list[str]:
    """Name the nodes that could take a pod: by their place, their resources and their devices."""
    return [
        name
        for name, node in sorted(cluster.nodes.items())
        if welcome(node, pod_info.demand.node_selection)
        and roomy(node, cluster.holds_on(name), pod_info.demand)
        and (not pod_info.request or allocator.allocate(view(cluster, name), pod_info.request) is not None)
    ]


# ---------------------------------------------------------------- what is preferred


def soft_taints(node: facts.Node, tolerations: Iterable[facts.Toleration]) -> int:
    """Count the taints that would rather keep the pod away."""
    soft = [taint for taint in node.taints if taint.effect == "PreferNoSchedule"]
    return sum(not any(tolerated(taint, one) for one in tolerations) for taint in soft)


def terms_met(node: facts.Node, preferred: Iterable[facts.PreferredTerm]) -> int:
    """Add up the weights of the preferred terms that accept a node."""
    return sum(one.weight for one in preferred if suits(node, one.term))


def images_there(cluster: random_clusters.ClusterState, name: str, images: tuple[str, ...]) -> float:
    """Return how much of a pod's images a node has, by kube-scheduler's rule."""
    found = 0
    for image in images:
        having = [node for node in cluster.nodes.values() if any(image in one.names for one in node.images)]
        for one in cluster.nodes[name].images:
            if image in one.names:
                found += int(one.size * (len(having) / len(cluster.nodes)))
    least, most = 23 << 20, len(images) * 1000 << 20
    return (min(max(found, least), most) - least) / (most - least)


def balance(cluster: random_clusters.ClusterState, name: str, demand: facts.NodeDemand) -> float:
    """Return how alike the used parts of cpu and memory would be."""
    parts = []
    for resource in ("cpu", "memory"):
        total = dict(cluster.nodes[name].allocatable)[resource]
        there = left(cluster.nodes[name], cluster.holds_on(name), resource)
        assert there is not None
        used = total - there + dict(demand.amounts).get(resource, 0)
        parts.append(min(max(used / max(total, 1), 0.0), 1.0))
    return 1 - abs(parts[0] - parts[1]) / 2


def points(
    cluster: random_clusters.ClusterState, passing: set[str], pod: queued_pods.PodInfo, policy: Policy
) -> dict[str, float]:
    """Return the points of each node beside those of the strategy; `passing` nodes pass the filters."""
    weights, demand, nodes = policy.preferences, pod.demand, cluster.nodes
    softly = {name: soft_taints(nodes[name], demand.node_selection.tolerations) for name in passing}
    met = {name: terms_met(nodes[name], demand.preferred) for name in passing}
    any_soft = any(taint.effect == "PreferNoSchedule" for node in nodes.values() for taint in node.taints)
    stated = bool(demand.preferred) or any_soft
    known = {name for node in nodes.values() for image in node.images for name in image.names}
    anywhere = not known.isdisjoint(demand.images)
    devices = pod.request.need.any_device
    balances = not devices and (stated or weights.unstated) and "cpu" in dict(demand.amounts)
    most = weights.images * anywhere + weights.balance * bool(balances)
    strategy = weights.strategy if devices else weights.strategy_without_devices
    share = 100 * weights.unstated or 100 / 2**33 * max(strategy, 1) / max(most, 1)
    found = {}
    for name in passing:
        sure = unsure = 0.0
        if demand.preferred and any(met.values()):
            sure += weights.node_affinity * (met[name] / max(met.values()))
        if any_soft:
            sure += weights.taints * (1 - softly[name] / max(*softly.values(), 1))
        if balances:
            unsure += weights.balance * balance(cluster, name, demand)
        if anywhere:
            unsure += weights.images * images_there(cluster, name, demand.images)
        found[name] = 100 * sure + share * unsure
    return found


# ---------------------------------------------------------------- the best


def look(
    cluster: random_clusters.ClusterState, name: str, pod_info: queued_pods.PodInfo, policy: Policy
) -> tuple[float, int | None, bool]:
    """Ask a picture made for this alone how good a node is, which card it gives, if it passes the filters."""
    inventory = cluster.inventory()
    signature = signatures.of(pod_info.request, pod_info.demand)
    scorer = node_scores.scorer_of(signature, policy)
    ranking, passes = scorer.score(inventory, np.array([inventory.index[name]]))
    if ranking is None:
        return 0.0, None, False
    slot = None if ranking.slot is None else int(ranking.slot[0])
    return float(ranking.score[0]), slot, bool(passes[0])


def best(
    cluster: random_clusters.ClusterState, pod_info: queued_pods.PodInfo, policy: Policy
) -> decisions.Placement | None:
    """Choose the best of all nodes that are able, equal ones by name; a preference is a condition first."""
    grouping = pod_info.request.grouping
    if grouping.scope is not None and not grouping.required:
        strict = dataclasses.replace(grouping, required=True)
        request = dataclasses.replace(pod_info.request, grouping=strict)
        found = _best(cluster, dataclasses.replace(pod_info, request=request), policy)
        if found is not None:
            return found
    return _best(cluster, pod_info, policy)


def _best(
    cluster: random_clusters.ClusterState, pod_info: queued_pods.PodInfo, policy: Policy
) -> decisions.Placement | None:
    fit = able(cluster, pod_info)
    if not fit:
        return None
    looks = {name: look(cluster, name, pod_info, policy) for name in cluster.nodes}
    beside = points(cluster, {name for name, (_, _, passes) in looks.items() if passes}, pod_info, policy)
    weights = policy.preferences
    devices = pod_info.request.need.any_device
    strategy = weights.strategy if devices else weights.strategy_without_devices
    first = min(fit, key=lambda name: (-(strategy * looks[name][0] + beside[name]), name))
    found = allocator.allocate(view(cluster, first), pod_info.request, first_slot=looks[first][1])
    assert found is not None
    return decisions.Placement(first, found)
