"""What a pod asks of the devices: resource names, annotations and labels become a DeviceRequest.

1. `resources` gathers how much each container requests, under any project's names.
2. `device_annotations` reads which devices are selected and how, under any project's names.
3. `container_asks` turns each container's amounts into asks.
4. Here the two are combined: the selection must fit the asks.

Everything invalid or unsupported has a sentence of its own that says what to write instead; the
pod's condition and event show all of them at once. Pods that request the same under different
names have equal Requests.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from berth_crds import aliases, device_types, names
from berth_crds.vocabulary import DeviceType, Scope
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.scheduling.devices import requests
from berth_operator.translate import (
    container_asks,
    converters,
    device_annotations,
    pod_limits,
    raw,
    refusals,
    resources,
    unknown_keys,
    unserved_keys,
)
from berth_operator.translate.refusals import RefusalError


def request(pod: raw.Pod) -> tuple[requests.DeviceRequest, tuple[Refusal, ...]]:
    """Return the request of a whole pod, and all that is wrong with it."""
    if (too_many := pod_limits.too_many(pod.spec)) is not None:
        return requests.NO_DEVICES, (too_many,)
    selection, faults = device_annotations.read(pod)
    containers, wrong = _containers(pod, selection)
    wrong += pod_limits.first_faults(resources.of_nothing(pod))
    asking = frozenset(one.name for one in containers)
    faults += pod_limits.first_faults(_annotation_faults(pod, asking))
    faults += pod_limits.first_faults(_label_faults(pod))
    faults += unserved_keys.of_gangs(pod)
    faults += unserved_keys.of_requirements(pod)
    whole = requests.DeviceRequest(
        tuple(containers), _conditions(selection, containers), _applicable(selection, containers)
    )
    # A container that could not be read may be the one that the selection was meant for.
    mismatches = () if wrong else (*_unused(selection, containers), *_contradictions(selection, whole))
    found = itertools.chain(faults, wrong, _resource_faults(pod.spec), mismatches, _constraints(pod.spec))
    return _normalized(whole), pod_limits.first_faults(found)


def _resource_faults(spec: raw.PodSpec) -> Iterator[Refusal]:
    """Yield a fault for each resource that Berth does not serve; the others are still read."""
    for container, name in resources.unserved(spec):
        if aliases.is_unserved_kind(name):
            yield refusals.unsupported(
                f"container {container} asks for {name}, a kind of device that Berth does not serve"
            )
        else:
            yield refusals.invalid(f"container {container}: {name} {unknown_keys.resource_fault(name)}")


def _annotation_faults(pod: raw.Pod, asking: frozenset[str]) -> Iterator[Refusal]:
    """Yield faults of result annotations that the Binding would not overwrite, and of unknown keys."""
    for key in sorted(pod.metadata.annotations):
        if names.GROUP in key and (sentence := _annotation_fault(key, asking)):
            yield refusals.invalid(f"annotation {key} {sentence}")


def _label_faults(pod: raw.Pod) -> Iterator[Refusal]:
    """Yield a fault for each label that would be read only as an annotation."""
    for key in sorted(pod.metadata.labels):
        if key.startswith(unknown_keys.PREFIX) and (sentence := unknown_keys.label_fault(key)):
            yield refusals.invalid(f"label {key} {sentence}")


def _annotation_fault(key: str, asking: frozenset[str]) -> str:
    container, found, _ = key.partition(names.CONTAINER_INFIX)
    if (found and container not in asking) or (key in POD_RESULTS and not asking):
        return "is Berth's answer, not a request; remove it"
    known = key in device_annotations.KEYS or key in POD_RESULTS or key == names.TERM
    return unknown_keys.annotation_fault(key) if key.startswith(unknown_keys.PREFIX) and not known else ""


def amounts_request(pod: raw.Pod) -> requests.DeviceRequest | None:
    """Return only how much is requested; None if it is invalid.

    A bound pod holds that, whatever devices it selected.
    """
    selection, _ = device_annotations.read(pod)
    containers, wrong = _containers(pod, selection)
    if wrong:
        return None
    return requests.DeviceRequest(tuple(containers)) if containers else requests.NO_DEVICES


def resources_request(pod: raw.Pod, whole: requests.DeviceRequest | None) -> requests.DeviceRequest | None:
    """Return the request by the resources of the containers, which nobody can edit; None if it is invalid.

    `whole` is the request with annotations and labels, which anybody may have edited.
    """
    meta = pod.metadata
    if REQUEST_KEYS.isdisjoint(meta.annotations) and REQUEST_KEYS.isdisjoint(meta.labels):
        return whole
    bare = msgspec.structs.replace(meta, annotations={}, labels={})
    return amounts_request(msgspec.structs.replace(pod, metadata=bare))


def container_asks_of(container: raw.Container) -> tuple[requests.Ask, ...] | None:
    """Return the asks of one container by itself; None if they are invalid."""
    try:
        asked = resources.of_container(container, runs=True)
        asks = container_asks.asks(asked, {}) if asked is not None else ()
    except RefusalError:
        return None
    return None if _too_much([requests.ContainerRequest(container.name, asks)]) else asks


def priority(pod: raw.Pod) -> int:
    """Return the priority of a pod by its PriorityClass."""
    return pod.spec.priority or 0


def label_priority(pod: raw.Pod) -> int:
    """Return the priority by Genius' label, which counts if the pod has no PriorityClass."""
    text = pod.metadata.labels.get(aliases.GENIUS_PRIORITY)
    if text is None or pod.spec.priority or pod.spec.priority_class_name:
        return 0
    return converters.priority(text) or 0


Containers = Sequence[requests.ContainerRequest]


def _containers(
    pod: raw.Pod, selection: device_annotations.DeviceSelection
) -> tuple[list[requests.ContainerRequest], list[Refusal]]:
    asked, wrong = resources.gather(pod)
    containers = []
    for one in asked:
        try:
            asks = container_asks.asks(one, selection.modes)
        except RefusalError as error:
            wrong.append(error.refusal)
            if len(wrong) > pod_limits.MAX_FAULTS:
                break  # More than is shown, and a pod may have thousands.
            continue
        if asks:
            containers.append(requests.ContainerRequest(one.name, asks, one.runs))
    too_much = _too_much(containers)
    return ([], [*wrong, too_much]) if too_much else (containers, wrong)


def _too_much(containers: Containers) -> Refusal | None:
    """Return a fault if there are too many asks: the search may have to combine all of them."""
    asks = [ask for one in containers for ask in one.asks]
    pieces = sum(ask.count for ask in asks if isinstance(ask, requests.Instances | requests.Replicas))
    if len(asks) > pod_limits.MAX_ASKS:
        return refusals.unsupported(
            f"the containers of the pod ask for devices {len(asks)} times, each kind of device in each "
            f"container counted; Berth serves {pod_limits.MAX_ASKS} at most"
        )
    if pieces > pod_limits.MAX_PIECES:
        return refusals.unsupported(
            f"the pod asks for {pieces} replicas and MIG instances; "
            f"Berth serves {pod_limits.MAX_PIECES} at most"
        )
    return None


# ---------------------------------------------------------------- selection and asks

# All annotations and labels that are read.
REQUEST_KEYS: Final = device_annotations.KEYS | device_annotations.ALIASES | resources.POD_KEYS

# The Binding writes these and overwrites what a pod brings along.
POD_RESULTS: Final = frozenset({names.ALLOCATION, names.MINORS})

CONDITION_KEYS: Final = (
    names.MODEL,
    names.MODEL_PATTERN,
    names.AVOID_MODEL,
    names.AVOID_MODEL_PATTERN,
    names.UUIDS,
    names.AVOID_UUIDS,
    names.MEMORY_AT_LEAST,
    names.FREE_MEMORY_AT_LEAST,
    names.MEMORY_TOTAL_AT_LEAST,
)
OF_CARDS: Final = (
    *CONDITION_KEYS,
    names.SCOPE,
    names.SCOPE_POLICY,
    names.PARTITION,
    names.RING_BANDWIDTH,
)
UUID_KEYS: Final = (names.UUIDS, names.AVOID_UUIDS)
GPU_KEYS: Final = frozenset(OF_CARDS) - {*UUID_KEYS}


def _types_meant(key: str, selection: device_annotations.DeviceSelection) -> Sequence[tuple[str, ...]]:
    """Return the types that a key is about, or its value; of those in one inner tuple, one is enough."""
    if key in GPU_KEYS:
        return ((DeviceType.GPU.value,),)
    others = tuple(device_types.BY_NAME)
    if key in UUID_KEYS:
        return ((DeviceType.GPU.value, *others),)
    grouping = selection.grouping
    selectors = {
        names.LABELS: (*selection.conditions.card_labels, *grouping.labels),
        names.FUNCTION_LABELS: grouping.function_labels,
    }
    named = {
        names.APPLY: [*selection.modes],
        names.JOINT: grouping.joint,
        names.EXCLUSIVE: [kind for kind, _ in grouping.exclusive],
        **{key: [one.type for one in selected] for key, selected in selectors.items()},
    }
    return [(kind,) if kind else others for kind in named.get(key, ())]


def types_asked(containers: Containers) -> set[str]:
    """Return the types of the devices that are requested."""
    asks = [ask for one in containers for ask in one.asks]
    return {ask.type if isinstance(ask, requests.OtherDevices) else DeviceType.GPU.value for ask in asks}


def _conditions(selection: device_annotations.DeviceSelection, containers: Containers) -> requests.Conditions:
    """Return the conditions on cards, without labels of cards that no container requests."""
    conditions = selection.conditions
    if conditions.card_labels and DeviceType.GPU not in types_asked(containers):
        return dataclasses.replace(conditions, card_labels=())
    return conditions


def _applicable(selection: device_annotations.DeviceSelection, containers: Containers) -> requests.Grouping:
    """Return the manner without what is about devices that no container requests, as Koordinator does."""
    grouping = selection.grouping
    types = types_asked(containers)
    # If every device of the node is requested, they cannot all be near one card.
    every = {
        ask.type
        for one in containers
        for ask in one.asks
        if isinstance(ask, requests.OtherDevices) and ask.every
    }
    together = tuple(one for one in grouping.joint if one in types - every)
    joint = together if len(together) > 1 else ()
    of_asked = types if device_types.BY_NAME.keys().isdisjoint(types) else {*types, ""}
    if grouping.partition is not None and not _any_whole(containers):
        grouping = dataclasses.replace(grouping, partition=None, ring_bandwidth=0)
    return dataclasses.replace(
        grouping,
        joint=joint if selection.joint_required else (),
        joint_wish=() if selection.joint_required else joint,
        scope=grouping.scope if DeviceType.GPU in types else None,
        required=grouping.required or DeviceType.GPU not in types,
        memory_together=grouping.memory_together if DeviceType.GPU in types else 0,
        exclusive=tuple(one for one in grouping.exclusive if one[0] in types),
        labels=tuple(one for one in grouping.labels if one.type in of_asked),
        function_labels=tuple(one for one in grouping.function_labels if one.type in of_asked),
    )


def _any_whole(containers: Containers) -> bool:
    return any(isinstance(ask, requests.Gpus) and ask.is_whole for one in containers for ask in one.asks)


def _unused(selection: device_annotations.DeviceSelection, containers: Containers) -> Iterator[Refusal]:
    """Yield a fault for each entry about devices that no container requests.

    Conditions on cards count under every key; the rest only under Berth's own, because other
    projects ignore it.
    """
    for key, entry in selection.entries.items():
        if not entry.own and key not in CONDITION_KEYS:
            continue
        for kind in _types_meant(key, selection):
            if not types_asked(containers) & set(kind):
                add = "nvidia.com/gpu: 1" if DeviceType.GPU in kind else _one_device(kind[-1])
                what = f"devices of type {' or '.join(kind)}, but no container asks for one"
                yield refusals.invalid(f"{entry.place} speaks of {what}; add for instance {add}")


def _one_device(kind: str) -> str:
    """Return what asks for one device of a type."""
    description = device_types.BY_NAME[kind]
    return f"{description.resource}: {description.amount}"


def _contradictions(
    selection: device_annotations.DeviceSelection, whole: requests.DeviceRequest
) -> Iterator[Refusal]:
    """Yield a fault for conditions that no cluster could meet."""
    entries, conditions = selection.entries, selection.conditions
    if names.SCOPE_POLICY in entries and names.SCOPE not in entries:
        yield refusals.invalid(f"{entries[names.SCOPE_POLICY].place} needs {names.SCOPE} beside it")
    if names.JOINT_POLICY in entries and names.JOINT not in entries:
        yield refusals.invalid(f"{entries[names.JOINT_POLICY].place} needs {names.JOINT} beside it")
    if names.REPLICAS in entries and not whole.need.replicas:
        yield refusals.invalid(f"{entries[names.REPLICAS].place} needs {names.NVIDIA_GPU_SHARED} beside it")
    yield from _misplaced_partition(selection, whole)
    for wanted, avoided, key, avoid in (
        (conditions.models, conditions.avoid_models, names.MODEL, names.AVOID_MODEL),
        (conditions.uuids, conditions.avoid_uuids, names.UUIDS, names.AVOID_UUIDS),
    ):
        if wanted and wanted <= avoided:
            yield refusals.invalid(
                f"{entries[key].place} and {entries[avoid].place} leave no card to choose from"
            )
    named = len(conditions.uuids - conditions.avoid_uuids)
    need = max([whole.need.whole_cards, *(share.count for share in whole.need.shares)])
    if 0 < named < need:
        cards = "1 card" if named == 1 else f"{named} cards"
        yield refusals.invalid(
            f"{entries[names.UUIDS].place} leaves {cards} to choose from, but {need} are asked for"
        )


def _misplaced_partition(
    selection: device_annotations.DeviceSelection, whole: requests.DeviceRequest
) -> Iterator[Refusal]:
    """Yield a fault for a partition of parts of cards, and for several cards within one."""
    entries, need = selection.entries, whole.need
    if names.RING_BANDWIDTH in entries and names.PARTITION not in entries:
        yield refusals.invalid(f"{entries[names.RING_BANDWIDTH].place} needs {names.PARTITION} beside it")
    partition = entries.get(names.PARTITION)
    if partition and partition.own and need.cards and not need.whole_cards:
        yield refusals.invalid(f"{partition.place} is about whole cards, and none is asked for")
    count = max([need.whole_cards, *(share.count for share in need.shares)])
    if whole.grouping.scope is Scope.DEVICE and whole.grouping.required and count > 1:
        yield refusals.invalid(
            f"{entries[names.SCOPE].place} keeps the pod to one card, but {count} are asked for; "
            f"ask for one, or write a wider scope"
        )


def _normalized(whole: requests.DeviceRequest) -> requests.DeviceRequest:
    """Return the request; without devices only its strategy counts, which says where the pod should run."""
    if whole.containers:
        return whole
    strategy = whole.grouping.strategy
    return (
        requests.DeviceRequest(grouping=requests.Grouping(strategy=strategy))
        if strategy
        else requests.NO_DEVICES
    )


# ---------------------------------------------------------------- what Kubernetes offers and Berth does not


def _constraints(spec: raw.PodSpec) -> Iterator[Refusal]:
    for what, present in UNSERVED_CONSTRAINTS.items():
        if present(spec):
            yield Refusal(
                Reason.UNSUPPORTED_CONSTRAINT, detail=f"the pod uses {what}, which Berth does not honour yet"
            )


# Ignoring one of these would place the pod where it must not run.
UNSERVED_CONSTRAINTS: Final[dict[str, Callable[[raw.PodSpec], bool]]] = {
    "resource claims": lambda spec: bool(spec.resource_claims),
}
