"""How many bytes of memory the request of a pod takes: an estimate, and rather too high."""

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berth_operator.scheduling import allocation_recovery, holds, queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import held_devices

ITEM: Final = 80  # Bytes of an object and of its place in a set, apart from its strings.


def of_request(
    request: requests.DeviceRequest, demand: facts.NodeDemand, small: tuple[queued_pods.SmallAmount, ...] = ()
) -> int:
    """Return the bytes of what a pod requests of devices and of its node."""
    written = itertools.chain.from_iterable((one.text, one.guess) for one in small)
    near = itertools.chain.from_iterable(map(_of_selector, _selectors(demand)))
    preferred = _of_terms(one.term for one in demand.preferred)
    places = itertools.chain(_of_place(demand.node_selection), preferred, demand.images, near)
    words = itertools.chain(_of_devices(request), _of_node(demand), places, written)
    return ITEM * (request.size + demand.size + len(small)) + sum(map(sys.getsizeof, words))


def of_names(names: Sequence[str]) -> int:
    """Return the bytes of a list of names."""
    return ITEM * len(names) + sum(map(sys.getsizeof, names))


def of_bound(
    hold: holds.Hold,
    nameless: allocation_recovery.UnreadableAllocation | None,
    node_selection: facts.NodeSelection | None,
) -> int:
    """Return the bytes of what is known of a bound pod, apart from the cards that its allocation names."""
    words = [*(name for name, _ in hold.amounts), *(one for one in hold.marked if isinstance(one, str))]
    if nameless is not None:
        words += (name for name, _ in nameless.starts)
        words += nameless.plugged or ()
        parts = nameless.record.others if nameless.record is not None else ()
        words += (function for part in parts for function in (part.type, *part.functions))
    if node_selection is not None:
        words += _of_place(node_selection)
    return ITEM * (len(words) + len(hold.host_ports)) + sum(map(sys.getsizeof, words))


def of_terms(terms: Sequence[facts.PodTerm]) -> int:
    """Return the bytes of terms of pod affinity."""
    return sum(ITEM * one.size + sum(map(sys.getsizeof, _of_selector(one.selector))) for one in terms)


def of_labels(labels: facts.Labels) -> int:
    """Return the bytes of the labels of a pod."""
    return ITEM * len(labels) + sum(map(sys.getsizeof, itertools.chain.from_iterable(labels)))


def of_disks(disks: Sequence[facts.Disk]) -> int:
    """Return the bytes of the disks that a pod names itself."""
    words = itertools.chain.from_iterable((one.name, *one.monitors) for one in disks)
    return ITEM * len(disks) + sum(ITEM + sys.getsizeof(word) for word in words)


def of_claims(claims: Sequence[facts.PodClaim]) -> int:
    """Return the bytes of the claims of a pod."""
    words = itertools.chain.from_iterable((one.namespace, one.name, one.owned_by) for one in claims)
    return ITEM * len(claims) + sum(map(sys.getsizeof, words)) if claims else 0


def of_bound_request(
    amounts: facts.Amounts, expected: held_devices.ExpectedDevices, ports: Sequence[facts.HostPort]
) -> int:
    """Return the bytes of what a bound pod takes, apart from its identity."""
    words = [
        *(name for name, _ in amounts),
        *(name for name, _ in expected.start_order),
        *expected.max_cards_by_resource,
    ]
    return ITEM * (len(words) + len(ports)) + sum(map(sys.getsizeof, words))


def _of_devices(request: requests.DeviceRequest) -> Iterator[str]:
    conditions, grouping = request.conditions, request.grouping
    yield from (one.name for one in request.containers)
    yield from (conditions.pattern, conditions.avoid_pattern)
    yield from itertools.chain(
        conditions.models, conditions.avoid_models, conditions.spelt, conditions.uuids, conditions.avoid_uuids
    )
    for selector in (*conditions.card_labels, *grouping.labels, *grouping.function_labels):
        for one in selector.expressions:
            yield from (one.key, *one.values)


def _of_node(demand: facts.NodeDemand) -> Iterator[str]:
    return (name for name, _ in (*demand.amounts, *demand.device_resources))


def _selectors(demand: facts.NodeDemand) -> Sequence[facts.PodSelector]:
    others = (one for one in (demand.inter_pod_rules, demand.preferred_pods) if one is not None)
    return [selector for one in others for selector in one.selectors]


def _of_selector(selector: facts.PodSelector) -> Iterator[str]:
    yield from selector.namespaces
    for one in (*(selector.expressions or ()), *(selector.namespace_selector or ())):
        yield from (one.key, one.operator, *one.values)


def _of_place(node_selection: facts.NodeSelection) -> Iterator[str]:
    yield from itertools.chain.from_iterable(node_selection.selector)
    yield from node_selection.features
    for toleration in node_selection.tolerations:
        yield from (toleration.key, toleration.operator, toleration.value, toleration.effect)
    yield from _of_terms(node_selection.affinity or ())


def _of_terms(terms: Iterable[facts.Term]) -> Iterator[str]:
    for term in terms:
        for one in (*term.labels, *term.fields):
            yield from (one.key, one.operator, *one.values)
