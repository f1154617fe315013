"""One scheduling round over many pods, one after another, as a cycle is in kueue.

`schedule` yields at most one decision for each pod. Its caller must charge a bind to the inventory before it
asks for the next decision, as kube-scheduler assumes a pod, so that each pod sees those before it. The engine
does, with one exception: where the server has just refused binds it first sends a dry run, and charges
nothing until that is accepted, so the next pod may get the same cards. The backlog learns after the round,
from the engine's reporter, which pods must wait. `simulate` charges binds itself, and releases them before it
returns.

A pod's `request` is what it asks of devices, and its `demand` all else that it requires or prefers (cpu,
memory, extended resources, labels of the node, volumes, other pods). What it asks for as nvidia.com/gpu is in
both: the kubelet counts it, and Berth allocates it. Both together are its `signature`: as in kube-scheduler,
pods with the same can be placed alike. Its `need` sums the request up in numbers, for the filters. A pod
needs a `device search` where these do not tell whether a node fits: then combinations of the node's devices
are tried (`search`). A placement has a grant for each container: the devices it gets. A share is what it gets
of one device, all of it or a part.

Pods are tried in order. Those that the time of a round does not reach in this order are tried out of order,
in the last part of the round (`rotation`). If a node gains room after a pod's last try, or comes to suit it,
the node is reserved for this pod until its next try. A pod that is tried out of order takes no node that is
reserved for a pod before it in the queue. A pod that might fit only on reserved nodes stays active, and once
it has been held back for long enough (`rotation.HELD_BACK_SECONDS`) it ignores reservations. A namespace is
suspended while its binds take long at the API server: its pods are skipped.
"""

import dataclasses
import itertools
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from berth_operator.scheduling import (
    decisions,
    existing_terms,
    holds,
    namespace_quarantines,
    pod_terms,
    policy_rules,
    queued_pods,
    round_limits,
    search_memory,
    signatures,
)
from berth_operator.scheduling.backlog import MOST_SEARCHED_IN_A_ROUND, Backlog
from berth_operator.scheduling.constraints import reason_counts
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search

NodeNames = frozenset[str]
Asked = tuple[signatures.Signature, NodeNames]  # What a pod asks for, and the nodes that were left out.
# What was asked in this round and found no node, perhaps for lack of effort: the next pod that asks the same
# waits for the same reasons. If the search of the first was cut short, so that it is demoted (put behind all
# others, `Backlog.requeue`), the next one is demoted, too.
UnschedulableSignatures = dict[Asked, decisions.Wait]
NO_NODES: Final[NodeNames] = frozenset()


class PodToTry(NamedTuple):
    """A pod to try, whether it is tried in the order of the queue, and the nodes that it must not take.

    `left_out` are nodes whose search did not end the last time. An event has brought the pod forward, and
    they are searched again once its pause is over.
    """

    pod_info: queued_pods.PodInfo
    left_out: NodeNames
    in_order: bool = True
    reserved_for_others: NodeNames = NO_NODES


def schedule(
    search: Search,
    backlog: Backlog,
    now: float,
    policy: Policy,
    limits: round_limits.RoundLimits = round_limits.DEFAULT_LIMITS,
) -> Iterator[decisions.Decision]:
    """Yield the decisions for the pods that are to be tried, one after another.

    1. Take the active pods in order, and in the last part of the round some out of order.
    2. Reject what cannot be served.
    3. Find a placement, or the reasons why there is none.
    4. Go on when the caller has charged it.

    If too little effort is left for a pod's search, it is tried in the next round.
    """
    search.inventory.refresh_supply()  # The totals of the cluster, on which scores depend.
    if not backlog:
        return
    # The model of the workload (what free space is worth, given the pods that come) is made now, and the
    # inventory remembers it: else the search of the first pod would pay for it.
    _ = search.inventory.workload_model()
    unschedulable: UnschedulableSignatures = {}
    deadlines = limits.deadlines
    budget = round_limits.RoundBudget(deadlines)
    tried: set[str] = set()
    for to_try in _pods_to_try(backlog, now, limits, tried, budget):
        pod_info, in_order = to_try.pod_info, to_try.in_order
        if limits.is_suspended(pod_info.namespace):
            backlog.suspend(pod_info.namespace)
            continue
        if (effort := budget.effort_for(pod_info, out_of_order=not in_order)) is None:
            continue  # It stays active, as each pod does until it is requeued, placed or gone.
        tried.add(pod_info.uid)
        decision = _decide(search, to_try, policy, unschedulable, effort)
        backlog.time_shares.record(pod_info.namespace, budget.settle(effort), now)
        if isinstance(decision, decisions.Bind):
            unschedulable.clear()  # A bind may change why nodes refuse: the reasons are out of date.
        if decision is not None:
            yield decision
        else:
            backlog.note_held_back(pod_info.uid, now=now)
        # `_pods_to_try` would still walk all other pods out of order, and find no time for any. After a pod
        # in order it is not stopped: it may owe one pod out of order, however late it is.
        if deadlines is not None and deadlines.over and not in_order:
            return


def _pods_to_try(
    backlog: Backlog,
    now: float,
    limits: round_limits.RoundLimits,
    tried: Collection[str],
    budget: round_limits.RoundBudget,
) -> Iterator[PodToTry]:
    """Yield the active pods in order; if not all were tried, some out of order, and then on in order.

    The caller adds to `tried`: it leaves out pods for whose search there is too little effort. Once it has
    left out many, the round ends: the next one has effort for them.
    """
    deadlines = limits.deadlines
    active = backlog.active(now, limits.pods_in_order)
    next_in_order, offered = None, 0
    for pod_info in active:
        # The first pod in order is tried even if the round is over already, but not once the time for pods
        # out of order has begun. That begins early if the pod's namespace has had more than its share of the
        # rounds' time: for a pod that was never tried only long tries count.
        if deadlines is not None and (
            deadlines.in_order_over
            or (offered and deadlines.over)
            or backlog.time_shares.exceeded(
                pod_info.namespace, now, by_long_tries=not backlog.attempts(pod_info.uid)
            )
        ):
            next_in_order = pod_info
            break
        offered += 1
        yield PodToTry(pod_info, backlog.undecided_nodes(pod_info.uid))
    # `active` ends after `pods_in_order` pods, after `MOST_SEARCHED_IN_A_ROUND` that need a device search, or
    # when there are no more. It does not say why: if it may have reached a limit, more pods are taken to be
    # active.
    at_limit = offered >= min(limits.pods_in_order, MOST_SEARCHED_IN_A_ROUND)
    if deadlines is None or (next_in_order is None and not at_limit):
        return  # All active pods had their turn, or there is no clock.
    yield from _pods_out_of_order(backlog, now, deadlines, tried, budget)
    # Where those left some time, the round goes on in order: `active` is an iterator.
    for pod_info in itertools.chain([next_in_order] if next_in_order else [], active):
        if not (deadlines.over or budget.is_used_up) and pod_info.uid not in tried:
            yield PodToTry(pod_info, backlog.undecided_nodes(pod_info.uid))


def _pods_out_of_order(
    backlog: Backlog,
    now: float,
    deadlines: round_limits.RoundDeadlines,
    tried: Collection[str],
    budget: round_limits.RoundBudget,
) -> Iterator[PodToTry]:
    """Yield active pods that were not tried in order, until the round is over.

    If the round has a part for them, one is tried however long those in order took: else these might keep all
    others waiting.
    """
    for count, (pod_info, reserved) in enumerate(backlog.out_of_order(now, tried)):
        if budget.is_used_up or (deadlines.over and (count or not deadlines.has_second_part)):
            return
        left_out = backlog.undecided_nodes(pod_info.uid)
        yield PodToTry(pod_info, left_out, in_order=False, reserved_for_others=reserved)


def simulate(
    search: Search,
    backlog: Backlog,
    now: float,
    policy: Policy,
    *,
    limit: int = round_limits.DEFAULT_LIMITS.pods_in_order,
) -> list[decisions.Decision]:
    """Return the decisions for the pods that are to be tried; what was charged for them is released again.

    Nothing is sent anywhere: this is for clusters in files (`simulation`) and for tests.
    """
    found: list[decisions.Decision] = []
    charged: list[str] = []
    try:
        for decision in schedule(search, backlog, now, policy, round_limits.RoundLimits(limit)):
            found.append(decision)
            pod_info = backlog.get(decision.uid)
            others_follow = len(found) < len(backlog)  # What the last pod holds concerns no other.
            if isinstance(decision, decisions.Bind) and pod_info is not None and others_follow:
                search.inventory.charge(hold_for(pod_info, decision.placement), assume_volumes=True)
                charged.append(decision.uid)
    finally:
        for uid in reversed(charged):
            search.inventory.release(uid)
    return found


def place_or_count_reasons(
    search: Search,
    pod_info: queued_pods.PodInfo,
    policy: Policy,
    unschedulable: UnschedulableSignatures,
    effort: Effort,
    left_out: NodeNames = NO_NODES,
) -> decisions.Decision:
    """Return the decision for a pod to which the policy has been applied (`policy_rules`)."""
    if pod_info.faults:
        return decisions.Reject(pod_info.uid, pod_info.faults)
    query = _query(search, pod_info)
    if (query.signature, left_out) not in unschedulable:
        placement = search.place(
            pod_info.request, pod_info.demand, policy=policy, effort=effort, excluded=left_out, query=query
        )
        if placement is not None:
            return decisions.Bind(pod_info.uid, placement)
    return _count_reasons(search, pod_info, (query, left_out), policy, unschedulable, effort)


def _query(search: Search, pod_info: queued_pods.PodInfo) -> Query:
    """Return the query of a pod for all nodes, which the search shares with the count of reasons."""
    return Query.for_all_nodes(search.inventory, signatures.of(pod_info.request, pod_info.demand))


def _count_reasons(
    search: Search,
    pod_info: queued_pods.PodInfo,
    query_and_left_out: tuple[Query, NodeNames],
    policy: Policy,
    unschedulable: UnschedulableSignatures,
    effort: Effort,
) -> decisions.Wait:
    """Return why a pod waits that was searched for in vain; counted once in a round for each signature."""
    query, left_out = query_and_left_out
    signature = query.signature
    if (signature, left_out) not in unschedulable:
        counts = reason_counts.count(query, search.reasons_by_row(signature, policy))
        is_decided = all(count.reason is not decisions.Reason.UNDECIDED for count in counts)
        undecided = None if is_decided else search.undecided_nodes(signature)
        unschedulable[signature, left_out] = decisions.Wait(
            pod_info.uid,
            counts,
            _awaited_events(counts, signature.demand, undecided),
            cut_short=effort.cut_short,
            unsearched=search.unsearched(signature) if effort.cut_short else 0,
            undecided=undecided or NO_NODES,
        )
    wait = unschedulable[signature, left_out]
    return wait if wait.uid == pod_info.uid else dataclasses.replace(wait, uid=pod_info.uid)


def _awaited_events(
    counts: tuple[decisions.Count, ...], demand: facts.NodeDemand, undecided: NodeNames | None
) -> decisions.AwaitedEvents | None:
    """Return what could help a pod; None if nobody knows, so that it just has to be tried again.

    `undecided` are the nodes that were not searched to the end, or None if all were. Only some of them are
    remembered, so an empty set, or a full one, says that there may be more.
    """
    if undecided is not None and (not undecided or len(undecided) >= search_memory.MOST_TO_SEARCH_LAST):
        return None
    awaited, rules = decisions.awaited_events(counts), demand.inter_pod_rules
    if demand.claims:
        # Whatever the reasons are: a volume that has changed may make other nodes suit the pod.
        awaited |= {decisions.ClusterEvent.VOLUME_CHANGED}
    if rules is not None and rules.self_match:
        # Once the last pod has left that its affinity means, it may be the first of them on any node.
        awaited |= {decisions.ClusterEvent.POD_LEFT}
    return awaited


def _decide(
    search: Search,
    to_try: PodToTry,
    policy: Policy,
    unschedulable: UnschedulableSignatures,
    effort: Effort,
) -> decisions.Decision | None:
    """Return the decision for a pod; None if it might fit only on nodes reserved for earlier pods."""
    original, left_out, _, reserved_for_others = to_try
    pod_info = policy_rules.apply(policy, original)
    # Add the terms of placed pods whose selectors match this pod, and the nodes whose kubelets reject pods of
    # its namespace.
    pod_info = existing_terms.with_terms_of_existing_pods(search.inventory.pods, pod_info)
    pod_info = namespace_quarantines.with_quarantined_nodes(search.inventory.quarantines, pod_info)
    if pod_info.faults and not original.faults:
        return decisions.Reject(pod_info.uid, pod_info.faults, awaited=policy_rules.POLICY_CHANGE)
    if reserved_for_others and not pod_info.faults:
        query, excluded = _query(search, pod_info), reserved_for_others | left_out
        found = search.place(
            pod_info.request, pod_info.demand, policy=policy, effort=effort, excluded=excluded, query=query
        )
        if found is not None:
            return decisions.Bind(pod_info.uid, found)
        # All other nodes refuse the pod, as far as they were searched. If a reserved node may take it, it
        # stays active. If its search was cut short, it is demoted instead.
        searched_all = query.need.filters_suffice or not effort.cut_short
        if searched_all and search.might_fit(query, policy, reserved_for_others - left_out):
            return None
        # What is reserved was left out, too: that is no answer for pods that may take it.
        return _count_reasons(search, pod_info, (query, excluded), policy, unschedulable, effort)
    return place_or_count_reasons(search, pod_info, policy, unschedulable, effort, left_out)


def hold_for(pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> holds.Hold:
    """Return what a pod will hold once it is placed: equal to the hold that is read from the bound pod."""
    demand = pod_info.demand
    return holds.Hold(
        uid=pod_info.uid,
        title=pod_info.title,
        node=placement.node,
        amounts=tuple(sorted(demand.amounts + demand.device_resources)),
        shares=allocator.peak_shares(placement.grants),  # Containers that never run together share devices.
        host_ports=demand.host_ports,
        claims=demand.claims,
        disks=demand.disks,
        priority=pod_info.priority,
        labels=pod_info.labels,
        anti_affinity=demand.inter_pod_rules.anti_affinity if demand.inter_pod_rules is not None else (),
        weighted_terms=pod_terms.weighted_by(demand),
        controller=demand.controller,
    )
