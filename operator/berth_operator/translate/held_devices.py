"""What a bound pod holds, and what it withholds from others because it may hold it.

The allocation that the Binding wrote says what the pod holds. Further annotations name the same
cards by uuid and by minor, for the pod and for each container. If the allocation is damaged, or
the others name other cards, all named cards are withheld; if no card is named, all cards of the
node that no other pod holds by name. Of each other type of device that the pod asks for, and that
nothing names, it may have any.

Only Berth's operator may write those annotations. A pod without any of them was bound by another
scheduler, or has lost them all: its request by annotations does not count, because anybody may have
written them since, but nobody can edit the resources of its containers. A pod of Berth's that asks for
cards by these has lost its allocation, so it withholds all cards of the node that no other pod holds by
name. If its `schedulerName` is another's, only device plugins can have allocated it anything, or a
driver for its claims: it withholds as many cards as its resources ask for. What that was, and whether
these are cards at all, only the agent of its node can say.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from berth_crds import aliases, allocation, names, schema_limits
from berth_crds.vocabulary import DeviceType, PodPhase
from berth_operator.scheduling import allocation_recovery, decisions, foreign_allocations, holds
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.translate import (
    device_requests,
    foreign_records,
    pod_limits,
    possible_devices,
    raw,
    resources,
    unserved_requests,
)

MAX_MARKED: Final = 512
MINOR: Final = re.compile(r"\d{1,9}", re.ASCII)
# What may still be legible in an allocation that is no valid JSON.
IN_RECORD: Final = re.compile(
    rf'"uuid"\s*:\s*"(?=.{{1,{schema_limits.UUID.longest}}}")(?P<uuid>{schema_limits.UUID.pattern})"'
    r'|"minor"\s*:\s*(?P<minor>\d{1,9})\b',
    re.ASCII,
)
RESULT_ANNOTATIONS: Final = frozenset({names.ALLOCATION, names.MINORS, names.TERM})
UUIDS, MINORS = names.container_key("", "uuids"), names.container_key("", "minors")
NO_TYPES: Final = frozenset[str]()

Record = allocation.Allocation | allocation.Unreadable | None
MarkedCards = frozenset[str | int]


@dataclasses.dataclass(frozen=True, slots=True)
class HeldDevices:
    """What a bound pod holds by name, and what it withholds: a count of cards, and those named elsewhere.

    Of `withheld_types`, which are types of other devices, it may have any.
    """

    shares: tuple[decisions.Share, ...] = ()
    withheld: int = 0
    marked: MarkedCards = frozenset()
    withheld_types: frozenset[str] = frozenset()
    fault: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ExpectedDevices:
    """The devices that a bound pod may hold, by what it requests.

    `request` is the request by the resources of its containers, None if that is invalid. A valid allocation
    names at least `min_cards` for it and, beside cards, devices of `other_types`. `asks_for_devices` counts
    annotations too. The pod may have `max_cards` for its resources, and for each resource alone what
    `max_cards_by_resource` has. A GpuPod may name `max_named_cards` for it; there is no limit where only
    annotations ask, which anybody may have edited since. With `perhaps_others` the kubelet may have given it
    cards for claims, or for resources that Berth does not serve. `others` are the other types of devices of
    which it may have any for its resources.
    """

    request: requests.DeviceRequest | None
    min_cards: int
    other_types: frozenset[str]
    asks_for_devices: bool
    max_cards: int
    max_cards_by_resource: Mapping[str, int]
    start_order: tuple[tuple[str, bool], ...] = ()
    max_named_cards: int = holds.ALL_CARDS
    perhaps_others: bool = False
    others: tuple[foreign_allocations.AskedType, ...] = ()

    @property
    def withheld_types(self) -> frozenset[str]:
        """The types of devices other than cards of which it may have any."""
        return frozenset([one.type for one in self.others]) if self.others else NO_TYPES


def any_devices(spec: raw.PodSpec) -> ExpectedDevices:
    """Return what a bound pod may hold whose request is too long to be read: what its containers add up to.

    Without a start order, all that its allocation names counts as held at the same time.
    """
    served = aliases.all_served(pod_limits.requested_names(spec))
    if not (ours := spec.scheduler_name == names.SCHEDULER_NAME):
        served = set(filter(possible_devices.is_of_plugins, served))
    return ExpectedDevices(
        None,
        0,
        frozenset(),
        asks_for_devices=True,
        max_cards=possible_devices.max_cards_of_many(spec),
        max_cards_by_resource=(
            {}
            if ours
            else possible_devices.max_cards_by_resource(possible_devices.serving_of_many(spec, served))
        ),
        others=tuple(
            foreign_allocations.AskedType(kind, 0, those) for kind, those in possible_devices.by_type(served)
        ),
    )


def expected_devices(pod: raw.Pod, whole: requests.DeviceRequest | None) -> ExpectedDevices:
    """Return what a bound pod may hold; `whole` is its request with annotations, None if that is invalid."""
    request, serving = device_requests.resources_request(pod, whole), possible_devices.serving(pod.spec)
    ours = pod.spec.scheduler_name == names.SCHEDULER_NAME
    asks_for_served = any(amounts for amounts, _ in serving)
    others = 0 if ours else unserved_requests.most_cards(pod.spec, asks_for_served=asks_for_served)
    return ExpectedDevices(
        request,
        possible_devices.fewest_cards(request) if request is not None else 0,
        frozenset(device_requests.types_asked(request.containers) if request is not None else ())
        - {DeviceType.GPU},
        whole is None or bool(whole),
        possible_devices.max_cards(serving),
        {} if ours else possible_devices.max_cards_by_resource(serving),
        start_order(pod.spec),
        max(possible_devices.max_named(serving), others) or (schema_limits.MOST_DEVICES if ours else 0),
        perhaps_others=others > 0,
        others=tuple(possible_devices.asked_types(serving, request, ours=ours)),
    )


def read(pod: raw.Pod, expected: ExpectedDevices) -> HeldDevices:
    """Return what a bound pod holds and withholds, and what is wrong with its allocation."""
    annotations = pod.metadata.annotations
    text = annotations.get(names.ALLOCATION)
    record = allocation.decode(text) if text is not None else None
    if isinstance(record, allocation.Allocation) and record.node == pod.spec.node_name:
        shares = allocator.peak_shares(allocation_recovery.in_turn(granted(record), expected.start_order))
        gpus = [entry.share for entry in record.entries() if entry.type == DeviceType.GPU]
        return _recorded(shares, gpus, expected, marked_cards(annotations, _known(shares)))
    if not has_result(annotations):
        return HeldDevices(
            withheld=holds.ALL_CARDS if expected.max_cards and _has_lost_all(pod) else expected.max_cards,
            withheld_types=expected.withheld_types,
            fault=_missing_fault(expected),
        )
    if not expected.asks_for_devices or (
        record is None and not expected.request and not marked_cards(annotations)
    ):
        return HeldDevices(withheld_types=expected.withheld_types)
    marked = marked_cards(annotations) | _legible(record, text or "")
    min_cards = expected.min_cards if expected.request else allocation_recovery.SURELY_ONE
    complete = 0 < len(marked) < MAX_MARKED  # More may be named than is read.
    rest = max(0, min_cards - _cards_in(marked)) if complete else holds.ALL_CARDS
    return HeldDevices(
        withheld=rest, marked=marked, withheld_types=expected.withheld_types, fault=_fault(record)
    )


# ---------------------------------------------------------------- a readable allocation


def granted(record: allocation.Allocation) -> tuple[decisions.Grant, ...]:
    """Return the grants of an allocation, as they are written there."""
    return tuple(
        decisions.Grant(name, tuple(_share(kind, share) for kind, shares in types for share in shares))
        for name, types in record.containers
    )


def start_order(spec: raw.PodSpec) -> tuple[tuple[str, bool], ...]:
    """Return the containers in the order in which they start, and whether each keeps running.

    If there are very many, only those that request devices are returned.
    """
    many = len(spec.containers) + len(spec.init_containers or ()) > pod_limits.MAX_ASKS
    found = resources.each_serving(spec) if many else resources.each_container(spec)
    return tuple((container.name, runs) for container, runs in found)


def _share(kind: str, share: allocation.Share) -> decisions.Share:
    return decisions.Share(
        share.uuid,
        share.minor,
        share.core,
        share.memory,
        kind,
        share.profile,
        share.vf,
        core_limit=share.limit,
    )


def _known(shares: Iterable[decisions.Share]) -> set[str | int]:
    return {name for share in shares for name in (share.uuid, share.minor)}


def _recorded(
    shares: tuple[decisions.Share, ...],
    gpus: Sequence[allocation.Share],
    expected: ExpectedDevices,
    marked: MarkedCards,
) -> HeldDevices:
    """Return the holding of a readable allocation; missing devices are withheld without a name."""
    withheld, fault = _missing(shares, gpus, expected)
    if marked:
        fault = fault or "its annotations name other cards than its allocation"
    types = expected.withheld_types.difference(share.type for share in shares)
    return HeldDevices(shares, withheld, marked, types, fault)


def _missing(
    shares: tuple[decisions.Share, ...], gpus: Sequence[allocation.Share], expected: ExpectedDevices
) -> tuple[int, str]:
    """Return how many cards an allocation should name and does not, and a sentence on that."""
    if expected.request is None:
        return 0, ""
    # Where nvidia.com/gpu asks for replicas, several of them may be of one card.
    named = len({share.uuid for share in gpus if not share.replicas}) + sum(share.replicas for share in gpus)
    if named < expected.min_cards:
        return expected.min_cards - named, f"its allocation names {named} of {expected.min_cards} cards"
    others = expected.other_types and expected.other_types - {share.type for share in shares}
    return 0, f"its allocation names no {', '.join(sorted(others))}" if others else ""


# ---------------------------------------------------------------- further annotations


def has_result(annotations: Iterable[str]) -> bool:
    """Whether any of these annotations is a result that Berth wrote."""
    return any(key in RESULT_ANNOTATIONS or names.CONTAINER_INFIX in key for key in annotations)


def marked_cards(annotations: Mapping[str, str], known: Collection[str | int] = ()) -> MarkedCards:
    """Return the uuids and minors that the further annotations name, apart from the known ones."""
    return frozenset(itertools.islice(_iter_marked(annotations, known), MAX_MARKED)).difference(known)


def _iter_marked(annotations: Mapping[str, str], known: Collection[str | int]) -> Iterator[str | int]:
    minors = {str(one) for one in known if isinstance(one, int)}
    for key, text in annotations.items():
        if key.endswith(UUIDS):
            if text not in known and text != names.NO_CARDS:
                yield from _listed(text, schema_limits.UUID.regex, str, known)
        elif (key == names.MINORS or key.endswith(MINORS)) and text not in minors:
            yield from _listed(text, MINOR, int, minors)


def _listed(
    text: str, form: re.Pattern[str], read: Callable[[str], str | int], known: Collection[str | int]
) -> Iterator[str | int]:
    parts = (part.strip() for part in text.split(",", MAX_MARKED)[:MAX_MARKED])
    return (read(part) for part in parts if part not in known and form.fullmatch(part))


def _legible(record: Record, text: str) -> MarkedCards:
    """Return the cards that an untrusted allocation still names."""
    if isinstance(record, allocation.Allocation):
        return frozenset(name for grant in granted(record) for name in _known(grant.shares))
    return frozenset(
        match["uuid"] or int(match["minor"])
        for match in itertools.islice(IN_RECORD.finditer(text), MAX_MARKED)
    )


def _cards_in(marked: MarkedCards) -> int:
    """Return the number of marked cards: by uuid or by minor, whichever is more."""
    uuids = sum(isinstance(one, str) for one in marked)
    return max(uuids, len(marked) - uuids)


def _has_lost_all(pod: raw.Pod) -> bool:
    """Whether Berth must have bound a pod on which it wrote nothing: no other scheduler has that name."""
    return pod.spec.scheduler_name == names.SCHEDULER_NAME and not pod.adopted_from


def needs_gpupod(pod: raw.Pod, expected: ExpectedDevices, held: HeldDevices) -> bool:
    """Whether only a GpuPod can tell which cards a bound pod has: its record is damaged or another's."""
    if held.shares:
        return False
    return bool(held.fault) or (expected.perhaps_others and not has_result(pod.metadata.annotations))


def nameless(pod: raw.Pod, expected: ExpectedDevices) -> allocation_recovery.UnreadableAllocation:
    """Return what is needed to recover the allocation of a pod from its GpuPod."""
    ours = pod.spec.scheduler_name == names.SCHEDULER_NAME
    bound_by_berth = has_result(pod.metadata.annotations)
    return allocation_recovery.UnreadableAllocation(
        expected.start_order,
        expected.min_cards if expected.request else allocation_recovery.SURELY_ONE,
        None if ours or bound_by_berth else expected.max_cards_by_resource,
        pod.status.phase == PodPhase.RUNNING,
        expected.max_named_cards,
        # Berth may answer to the name of the scheduler that has bound the pod.
        None if bound_by_berth else foreign_records.read(pod),
        expected.others,
    )


# ---------------------------------------------------------------- what is wrong


def _missing_fault(expected: ExpectedDevices) -> str:
    if expected.max_cards:
        return "it asks for cards and has no allocation"
    asks = expected.other_types or expected.others
    return "it asks for devices and has no allocation" if asks else ""


def _fault(record: Record) -> str:
    match record:
        case None:
            return "its allocation is missing, and what else it was given is not"
        case allocation.Unreadable():
            return f"its allocation cannot be read: {record.detail}"
        case allocation.Allocation():
            return f"its allocation is of node {record.node}"
