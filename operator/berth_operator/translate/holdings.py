"""What a bound pod holds, and what it keeps from others because it may have it.

The record that the Binding wrote says what the pod holds. Beside the record stand the same
cards in other words: uuids and minors, for the pod and for each container. Where a record
is damaged, or other words name other cards, whatever is named anywhere is kept from
others; where nothing is named, everything on the node that nobody else holds by name.

Only Berth's operator may write those words. A pod without any of them was bound by somebody
else, or has lost them all: it keeps back as many cards as it may have been given for the
resources of its containers, which nobody can edit. What it asks for by annotations counts
for nothing there, for anybody may have written those since. Where its `schedulerName` is
another's, only device plugins can have given it something.
"""

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from berth_crds import aliases, allocation, names, schema_limits
from berth_crds.vocabulary import DeviceType, PodPhase
from berth_operator.scheduling import allocation_recovery, decisions, holds
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.translate import device_requests, pod_limits, quantities, raw, resources

MOST_MARKED: Final = 512
MINOR: Final = re.compile(r"\d{1,9}", re.ASCII)
# What may still be legible in a record that is no JSON any more.
IN_RECORD: Final = re.compile(
    rf'"uuid"\s*:\s*"(?=.{{1,{schema_limits.UUID.longest}}}")(?P<uuid>{schema_limits.UUID.pattern})"'
    r'|"minor"\s*:\s*(?P<minor>\d{1,9})\b',
    re.ASCII,
)
WORDS: Final = frozenset({names.ALLOCATION, names.MINORS, names.TERM})
UUIDS, MINORS = names.container_key("", "uuids"), names.container_key("", "minors")
# Resources of which one unit is one device.
BY_THE_PIECE: Final = (names.NVIDIA_GPU, names.NVIDIA_MIG_PREFIX)

Record = allocation.Allocation | allocation.Unreadable | None
Marks = frozenset[str | int]
Serving = tuple[dict[str, raw.Quantity], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Holding:
    """What a bound pod holds by name, and what it keeps from others: a count, and cards that are marked."""

    shares: tuple[decisions.Share, ...] = ()
    withheld: int = 0
    marked: Marks = frozenset()
    fault: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What a bound pod asks for, as far as that matters for what it holds.

    `own` is what its containers ask by resources, None where that makes no sense, and `least` and `others`
    are the cards that a record names at least for that, and the types of its other devices; `any` tells
    whether anything of the pod asks for devices; `most` counts the cards that it may have for its resources,
    and `plugged` those that it may have for each resource alone. `named` counts those that a GpuPod may
    name for it; where only annotations ask, which anybody may have edited since, that is left open.
    """

    own: requests.Request | None
    least: int
    others: frozenset[str]
    any: bool
    most: int
    plugged: Mapping[str, int]
    starts: tuple[tuple[str, bool], ...] = ()
    named: int = holds.ALL_CARDS


def anything(spec: raw.PodSpec) -> Asked:
    """Treat a bound pod that says too much to be added up as one that may have all cards of its node.

    Without a word on how its containers start, all that its record names counts as held at one time.
    """
    plugged = dict.fromkeys(aliases.all_served(pod_limits.named(spec)), holds.ALL_CARDS)
    return Asked(None, 0, frozenset(), any=True, most=holds.ALL_CARDS if plugged else 0, plugged=plugged)


def asked(pod: raw.Pod, whole: requests.Request | None) -> Asked:
    """Read what a bound pod asks for; `whole` is that with its annotations, None where it makes no sense."""
    own, serving = device_requests.by_resources(pod, whole), _serving(pod.spec)
    ours = pod.spec.scheduler_name == names.SCHEDULER_NAME
    return Asked(
        own,
        fewest_cards(own) if own is not None else 0,
        frozenset(device_requests.types_asked(own.containers) if own is not None else ()) - {DeviceType.GPU},
        whole is None or bool(whole),
        _most(serving),
        {} if ours else _plugged(serving),
        starts(pod.spec),
        _handed(serving) or (schema_limits.MOST_DEVICES if ours else 0),
    )


def holding(pod: raw.Pod, wants: Asked) -> Holding:
    """Return what a bound pod holds and keeps back, and what is wrong with its record."""
    annotations = pod.metadata.annotations
    text = annotations.get(names.ALLOCATION)
    record = allocation.decode(text) if text is not None else None
    if isinstance(record, allocation.Allocation) and record.node == pod.spec.node_name:
        shares = allocator.held(allocation_recovery.in_turn(granted(record), wants.starts))
        return _recorded(shares, wants, marks(annotations, _known(shares)))
    if not answered(annotations):
        return Holding(withheld=wants.most, fault=_unanswered(wants))
    if not wants.any or (record is None and not wants.own and not marks(annotations)):
        return Holding()
    marked = marks(annotations) | _legible(record, text or "")
    least = wants.least if wants.own else allocation_recovery.SURELY_ONE
    told = 0 < len(marked) < MOST_MARKED  # More may be named than is read.
    rest = max(0, least - _cards_in(marked)) if told else holds.ALL_CARDS
    return Holding(withheld=rest, marked=marked, fault=_fault(record))


# ---------------------------------------------------------------- a record that can be read


def granted(record: allocation.Allocation) -> tuple[decisions.Grant, ...]:
    """Return what a record grants, as it is written there."""
    return tuple(
        decisions.Grant(name, tuple(_share(kind, share) for kind, shares in types for share in shares))
        for name, types in record.containers
    )


def starts(spec: raw.PodSpec) -> tuple[tuple[str, bool], ...]:
    """Return the containers in the order in which they start, and whether each keeps running.

    Of very many those that ask for devices: no other has anything that could be held in turn.
    """
    many = len(spec.containers) + len(spec.init_containers or ()) > pod_limits.ASKS
    found = resources.each_serving(spec) if many else resources.each_container(spec)
    return tuple((container.name, runs) for container, runs in found)


def _share(kind: str, share: allocation.Share) -> decisions.Share:
    return decisions.Share(share.uuid, share.minor, share.core, share.memory, kind, share.profile, share.vf)


def _known(shares: Iterable[decisions.Share]) -> set[str | int]:
    return {word for share in shares for word in (share.uuid, share.minor)}


def _recorded(shares: tuple[decisions.Share, ...], wants: Asked, marked: Marks) -> Holding:
    """Believe a record; cards that it should name and does not are kept back without a name."""
    withheld, fault = _missing(shares, wants)
    if marked:
        fault = fault or "its annotations name other cards than its allocation"
    return Holding(shares, withheld, marked, fault)


def _missing(shares: tuple[decisions.Share, ...], wants: Asked) -> tuple[int, str]:
    """Count the cards that a record should name and does not; a request of another time is not asked."""
    if wants.own is None:
        return 0, ""
    named = len({share.uuid for share in shares if share.type == DeviceType.GPU})
    if named < wants.least:
        return wants.least - named, f"its allocation names {named} of {wants.least} cards"
    others = wants.others and wants.others - {share.type for share in shares}
    return 0, f"its allocation names no {', '.join(sorted(others))}" if others else ""


# ---------------------------------------------------------------- what else is named


def answered(annotations: Iterable[str]) -> bool:
    """Whether anything there is Berth's word on what the pod was given."""
    return any(key in WORDS or names.CONTAINER_INFIX in key for key in annotations)


def marks(annotations: Mapping[str, str], known: Collection[str | int] = ()) -> Marks:
    """Return the uuids and minors that the words beside the record name, apart from the known ones."""
    return frozenset(itertools.islice(_marks(annotations, known), MOST_MARKED)).difference(known)


def _marks(annotations: Mapping[str, str], known: Collection[str | int]) -> Iterator[str | int]:
    minors = {str(one) for one in known if isinstance(one, int)}
    for key, text in annotations.items():
        if key.endswith(UUIDS):
            if text not in known:
                yield from _listed(text, schema_limits.UUID.regex, str, known)
        elif (key == names.MINORS or key.endswith(MINORS)) and text not in minors:
            yield from _listed(text, MINOR, int, minors)


def _listed(
    text: str, form: re.Pattern[str], read: Callable[[str], str | int], known: Collection[str | int]
) -> Iterator[str | int]:
    parts = (part.strip() for part in text.split(",", MOST_MARKED)[:MOST_MARKED])
    return (read(part) for part in parts if part not in known and form.fullmatch(part))


def _legible(record: Record, text: str) -> Marks:
    """Return what a record that cannot be believed still names."""
    if isinstance(record, allocation.Allocation):
        return frozenset(word for grant in granted(record) for word in _known(grant.shares))
    matches = itertools.islice(IN_RECORD.finditer(text), MOST_MARKED)
    return frozenset(match["uuid"] or int(match["minor"]) for match in matches)


def _cards_in(marked: Marks) -> int:
    """Count the cards that are marked: by uuid or by minor, whichever names more of them."""
    uuids = sum(isinstance(one, str) for one in marked)
    return max(uuids, len(marked) - uuids)


def nameless(pod: raw.Pod, wants: Asked) -> allocation_recovery.Nameless:
    """Return what must be known of a pod whose record cannot be read, for its GpuPod to speak for it."""
    ours = pod.spec.scheduler_name == names.SCHEDULER_NAME or answered(pod.metadata.annotations)
    return allocation_recovery.Nameless(
        wants.starts,
        wants.least if wants.own else allocation_recovery.SURELY_ONE,
        None if ours else wants.plugged,
        pod.status.phase == PodPhase.RUNNING,
        wants.named,
    )


# ---------------------------------------------------------------- what a pod may have been given


def _serving(spec: raw.PodSpec) -> list[Serving]:
    """Return what each container asks for of what Berth serves, and whether it keeps running."""
    found = ((_served(container), runs) for container, runs in resources.each_serving(spec))
    return [one for one in found if one[0]]


def _served(container: raw.Container) -> dict[str, raw.Quantity]:
    amounts = resources.asked(container.resources)
    return {name: amount for name, amount in amounts.items() if aliases.is_served(name)}


def _most(serving: Iterable[Serving]) -> int:
    """Count the cards that a pod may have been given for its resources, for all that runs at one time."""
    running = most = 0
    for amounts, runs in serving:
        own = _most_of(amounts)
        most = max(most, running + own)
        running += own if runs else 0
    return max(most, running)


def _plugged(serving: Iterable[Serving]) -> Mapping[str, int]:
    """Count for each resource alone the cards that a pod may have for it, in all that runs at one time."""
    running: collections.Counter[str] = collections.Counter()
    most: collections.Counter[str] = collections.Counter()
    for amounts, runs in serving:
        for name, amount in amounts.items():
            own = _most_of({name: amount})
            most[name] = max(most[name], running[name] + own)
            running[name] += own if runs else 0
    return most


def _handed(serving: Iterable[Serving]) -> int:
    """Count the cards that a pod may have for its resources, whichever containers run at one time.

    A plug-in hands out a device for each unit of its resource, of whichever cards.
    """
    return sum(_units(name, amount) for amounts, _ in serving for name, amount in amounts.items())


def _units(name: str, amount: raw.Quantity) -> int:
    """Count the cards that an amount of a resource may lie on: one for each unit, up to what a node has."""
    if not _most_of({name: amount}):
        return 0
    try:
        return max(1, min(quantities.supply(str(amount)), schema_limits.MOST_DEVICES))
    except ValueError:
        return schema_limits.MOST_DEVICES


def _most_of(served: dict[str, raw.Quantity]) -> int:
    """Count the cards that a container may have for these resources."""
    if len(served) == 1:
        return _most_for(*next(iter(served.items())))
    return _most_of_some(served)


@functools.lru_cache(maxsize=1024)
def _most_for(name: str, amount: raw.Quantity) -> int:
    return _most_of_some({name: amount})


def _most_of_some(served: dict[str, raw.Quantity]) -> int:
    found = device_requests.of_container(
        raw.Container(name="main", resources=raw.ContainerResources(limits=served))
    )
    if found is None:
        return min(schema_limits.MOST_DEVICES, sum(itertools.starmap(_pieces, served.items())))
    return sum(map(_cards, found))


def _pieces(name: str, amount: raw.Quantity) -> int:
    """Count what a plug-in hands out by the piece; of anything else one can only tell that it is some."""
    try:
        count = min(quantities.supply(str(amount)), schema_limits.MOST_DEVICES)
    except ValueError:
        return 1
    return count if name.startswith(BY_THE_PIECE) else min(count, 1)


def fewest_cards(request: requests.Request) -> int:
    """Count the uuids that a record of the pod has at least: shares may lie on one and the same card."""
    return _at_most(request, _distinct)


def _at_most(request: requests.Request, count: Callable[[list[requests.Ask]], int]) -> int:
    """Count for all that run at one time, and take the most of it."""
    return max(count([ask for one in phase for ask in one.asks]) for phase in requests.phases(request))


def _cards(ask: requests.Ask) -> int:
    return 0 if isinstance(ask, requests.Parts) else ask.count


def _distinct(asked_: list[requests.Ask]) -> int:
    alone = sum(_cards(ask) for ask in asked_ if isinstance(ask, requests.Instances) or _whole(ask))
    shares = [ask.count for ask in asked_ if isinstance(ask, requests.Gpus) and not ask.whole]
    replicas = [1 for ask in asked_ if isinstance(ask, requests.Replicas)]
    return alone + max([0, *shares, *replicas])


def _whole(ask: requests.Ask) -> bool:
    return isinstance(ask, requests.Gpus) and ask.whole


# ---------------------------------------------------------------- what is wrong


def _unanswered(wants: Asked) -> str:
    if wants.most:
        return "it asks for cards and has no allocation"
    parts = wants.own is not None and device_requests.types_asked(wants.own.containers) - {DeviceType.GPU}
    return "it asks for devices and has no allocation" if parts else ""


def _fault(record: Record) -> str:
    match record:
        case None:
            return "its allocation is missing, and what else it was given is not"
        case allocation.Unreadable():
            return f"its allocation cannot be read: {record.detail}"
        case allocation.Allocation():
            return f"its allocation is of node {record.node}"
