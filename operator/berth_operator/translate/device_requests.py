"""What a pod asks of the devices: resource names, annotations and labels become a Request.

1. `resources` gathers how much each container asks for, in whatever names.
2. `annotations` reads which devices and how, in whatever names.
3. `grammar` makes asks of each container's figures.
4. Here the two are put together: wishes must fit what is asked.

Whatever makes no sense, and whatever is not served, has a sentence of its own that says
what to write instead; all of them are told at once, by the pod's condition and event. Pods
that ask for the same in other words give equal Requests.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from berth_crds import aliases, names
from berth_crds.vocabulary import DeviceType
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.scheduling.devices import requests
from berth_operator.translate import (
    annotations,
    container_asks,
    converters,
    gangs,
    pod_limits,
    raw,
    refusals,
    requirements,
    resources,
    unknown_keys,
)
from berth_operator.translate.refusals import Refused


def request(pod: raw.Pod) -> tuple[requests.Request, tuple[Refusal, ...]]:
    """Read the request of a whole pod, and all that is wrong with it."""
    too_many = pod_limits.too_many(pod.spec)
    if too_many is not None:
        return requests.NO_DEVICES, (too_many,)
    wishes, faults = annotations.read(pod)
    containers, wrong = _containers(pod, wishes)
    wrong += pod_limits.told(resources.of_nothing(pod))
    faults += _odd_annotations(pod, frozenset(one.name for one in containers))
    faults += pod_limits.told(_odd_labels(pod))
    faults += gangs.of(pod)
    faults += requirements.of(pod)
    if wishes is annotations.NO_WISHES and not containers and not wrong and not faults:
        odd_names = _odd_names(pod.spec)
        return requests.NO_DEVICES, pod_limits.told(itertools.chain(odd_names, _constraints(pod.spec)))
    whole = requests.Request(tuple(containers), wishes.conditions, _fitted(wishes.manner, containers))
    # A container that could not be read may be the one that a wish was meant for.
    odd = () if wrong else (*_idle(wishes, containers), *_impossible(wishes, whole))
    odd_names = _odd_names(pod.spec)
    return _normal(whole), pod_limits.told(
        itertools.chain(faults, wrong, odd_names, odd, _constraints(pod.spec))
    )


def _odd_names(spec: raw.PodSpec) -> Iterator[Refusal]:
    """Find resources that Berth does not serve; they are no reason to misread what else is asked for."""
    for container, name in resources.unserved(spec):
        if aliases.is_unserved_kind(name):
            yield refusals.unsupported(
                f"container {container} asks for {name}, a kind of device that Berth does not serve"
            )
        else:
            yield refusals.invalid(f"container {container}: {name} {unknown_keys.of_resource(name)}")


def _odd_annotations(pod: raw.Pod, asking: frozenset[str]) -> list[Refusal]:
    """Refuse answers that a pod brings along and its Binding would not overwrite, and keys nobody knows."""
    odd = (
        refusals.invalid(f"annotation {key} {sentence}")
        for key in sorted(pod.metadata.annotations)
        if names.GROUP in key and (sentence := _oddity(key, asking))
    )
    return list(pod_limits.told(odd))


def _odd_labels(pod: raw.Pod) -> Iterator[Refusal]:
    """Refuse what is written as a label and would be read as an annotation alone."""
    for key in sorted(pod.metadata.labels):
        if key.startswith(unknown_keys.PREFIX) and (sentence := unknown_keys.of_label(key)):
            yield refusals.invalid(f"label {key} {sentence}")


def _oddity(key: str, asking: frozenset[str]) -> str:
    container, found, _ = key.partition(names.CONTAINER_INFIX)
    if (found and container not in asking) or (key in ANSWERS and not asking):
        return "is Berth's answer, not a request; remove it"
    known = key in annotations.KEYS or key in ANSWERS or key == names.TERM
    return unknown_keys.of_annotation(key) if key.startswith(unknown_keys.PREFIX) and not known else ""


def containers_of(pod: raw.Pod) -> tuple[requests.Request, tuple[Refusal, ...]]:
    """Read only how much is asked for: that is what a bound pod holds, whatever it wished for."""
    wishes, _ = annotations.read(pod)
    containers, wrong = _containers(pod, wishes)
    return requests.Request(tuple(containers)) if containers else requests.NO_DEVICES, tuple(wrong)


def by_resources(pod: raw.Pod, whole: requests.Request | None) -> requests.Request | None:
    """Read what the containers of a pod ask for, apart from what anybody may have written on it since.

    None where that makes no sense; `whole` is that with what is written on the pod.
    """
    meta = pod.metadata
    if SPEAKING.isdisjoint(meta.annotations) and SPEAKING.isdisjoint(meta.labels):
        return whole
    bare = msgspec.structs.replace(meta, annotations={}, labels={})
    found, faults = containers_of(msgspec.structs.replace(pod, metadata=bare))
    return None if faults else found


def of_container(container: raw.Container) -> tuple[requests.Ask, ...] | None:
    """Read what one container asks for by itself; None where that makes no sense."""
    try:
        asked = resources.of_container(container, runs=True)
        asks = container_asks.asks(asked, {}) if asked is not None else ()
    except Refused:
        return None
    return None if _too_much([requests.ContainerRequest(container.name, asks)]) else asks


def priority(pod: raw.Pod) -> int:
    """Return the priority that a pod has by its PriorityClass."""
    return pod.spec.priority or 0


def label(pod: raw.Pod) -> int:
    """Return the priority by Genius' label, which counts where no PriorityClass is given."""
    if pod.spec.priority or pod.spec.priority_class_name:
        return 0
    return converters.priority(pod.metadata.labels.get(aliases.GENIUS_PRIORITY, "")) or 0


Containers = Sequence[requests.ContainerRequest]


def _containers(
    pod: raw.Pod, wishes: annotations.Wishes
) -> tuple[list[requests.ContainerRequest], list[Refusal]]:
    asked, wrong = resources.gather(pod)
    containers = []
    for one in asked:
        try:
            asks = container_asks.asks(one, wishes.modes)
        except Refused as error:
            wrong.append(error.refusal)
            if len(wrong) > pod_limits.FAULTS:
                break  # More than is told, and a pod may have thousands.
            continue
        if asks:
            containers.append(requests.ContainerRequest(one.name, asks, one.runs))
    too_much = _too_much(containers)
    return ([], [*wrong, too_much]) if too_much else (containers, wrong)


def _too_much(containers: Containers) -> Refusal | None:
    """Return what of all asks together is more than is tried: each may have to be tried beside each other."""
    asks = [ask for one in containers for ask in one.asks]
    pieces = sum(ask.count for ask in asks if isinstance(ask, requests.Instances | requests.Replicas))
    if len(asks) > pod_limits.ASKS:
        return refusals.unsupported(
            f"the containers of the pod ask for devices {len(asks)} times, each kind of device in each "
            f"container counted; Berth serves {pod_limits.ASKS} at most"
        )
    if pieces > pod_limits.PIECES:
        return refusals.unsupported(
            f"the pod asks for {pieces} replicas and MIG instances; Berth serves {pod_limits.PIECES} at most"
        )
    return None


# ---------------------------------------------------------------- wishes and what is asked for

# All that is read of annotations and labels.
SPEAKING: Final = annotations.KEYS | annotations.ALIASES | resources.POD_KEYS

# Answers are written by the Binding; those that a pod brings along are overwritten.
ANSWERS: Final = frozenset({names.ALLOCATION, names.MINORS})

OTHER_TYPES: Final = (DeviceType.FPGA.value, DeviceType.RDMA.value)
CONDITIONS: Final = (
    names.MODEL,
    names.MODEL_PATTERN,
    names.AVOID_MODEL,
    names.AVOID_MODEL_PATTERN,
    names.UUIDS,
    names.AVOID_UUIDS,
    names.MEMORY_AT_LEAST,
)
OF_DEVICES: Final = (names.UUIDS, names.AVOID_UUIDS)
OF_CARDS: Final = frozenset({*CONDITIONS, names.SCOPE, names.SCOPE_POLICY}) - {*OF_DEVICES}


def types_asked(containers: Containers) -> set[str]:
    """Name the types of the devices that are asked for."""
    asks = [ask for one in containers for ask in one.asks]
    return {ask.type if isinstance(ask, requests.Parts) else DeviceType.GPU.value for ask in asks}


def _fitted(manner: requests.Manner, containers: Containers) -> requests.Manner:
    """Leave out what is said of devices that nobody asks for, as Koordinator does."""
    types = types_asked(containers)
    # Every device of the node cannot also be near one card.
    every = {
        ask.type for one in containers for ask in one.asks if isinstance(ask, requests.Parts) and ask.every
    }
    joint = tuple(one for one in manner.joint if one in types - every)
    others = bool(types & set(OTHER_TYPES))
    return dataclasses.replace(
        manner,
        joint=joint if len(joint) > 1 else (),
        scope=manner.scope if DeviceType.GPU in types else None,
        required=manner.required or DeviceType.GPU not in types,
        labels=manner.labels if others else (),
        function_labels=manner.function_labels if others else (),
    )


def _idle(wishes: annotations.Wishes, containers: Containers) -> Iterator[Refusal]:
    """Find what is said of devices that nobody asks for.

    Conditions on cards count in whatever key they stand; the rest only in Berth's own, because
    other projects pass over it.
    """
    types = types_asked(containers)
    for key, said in wishes.said.items():
        if not said.own and key not in CONDITIONS:
            continue
        for kind in _spoken_of(key, wishes):
            if not types & set(kind):
                add = "nvidia.com/gpu: 1" if DeviceType.GPU in kind else f"{names.GROUP}/{kind[-1]}: 100"
                what = f"devices of type {' or '.join(kind)}, but no container asks for one"
                yield refusals.invalid(f"{said.place} speaks of {what}; add for instance {add}")


def _spoken_of(key: str, wishes: annotations.Wishes) -> Iterator[tuple[str, ...]]:
    """Name the types that a key speaks of; of several in one tuple, one is enough."""
    if key in OF_CARDS:
        yield (DeviceType.GPU.value,)
    elif key in OF_DEVICES:
        yield (DeviceType.GPU.value, *OTHER_TYPES)
    elif key in {names.LABELS, names.FUNCTION_LABELS}:
        yield OTHER_TYPES
    elif key == names.APPLY:
        yield from ((one,) for one in wishes.modes)
    elif key == names.JOINT:
        yield from ((one,) for one in wishes.manner.joint)


def _impossible(wishes: annotations.Wishes, whole: requests.Request) -> Iterator[Refusal]:
    """Find conditions that no cluster whatever could meet."""
    said, asked = wishes.said, wishes.conditions
    if names.SCOPE_POLICY in said and names.SCOPE not in said:
        yield refusals.invalid(f"{said[names.SCOPE_POLICY].place} needs {names.SCOPE} beside it")
    if names.REPLICAS in said and not whole.need.replicas:
        yield refusals.invalid(f"{said[names.REPLICAS].place} needs {names.NVIDIA_GPU_SHARED} beside it")
    for wanted, avoided, key, avoid in (
        (asked.models, asked.avoid_models, names.MODEL, names.AVOID_MODEL),
        (asked.uuids, asked.avoid_uuids, names.UUIDS, names.AVOID_UUIDS),
    ):
        if wanted and wanted <= avoided:
            yield refusals.invalid(f"{said[key].place} and {said[avoid].place} leave no card to choose from")
    named = len(asked.uuids - asked.avoid_uuids)
    need = max([whole.need.whole, *(share.count for share in whole.need.shares)])
    if 0 < named < need:
        cards = "1 card" if named == 1 else f"{named} cards"
        yield refusals.invalid(
            f"{said[names.UUIDS].place} leaves {cards} to choose from, but {need} are asked for"
        )


def _normal(whole: requests.Request) -> requests.Request:
    """Keep of a pod that asks for no device only what says on which node it should run."""
    if whole.containers:
        return whole
    strategy = whole.manner.strategy
    return requests.Request(manner=requests.Manner(strategy=strategy)) if strategy else requests.NO_DEVICES


# ---------------------------------------------------------------- what Kubernetes offers and Berth does not


def _constraints(spec: raw.PodSpec) -> Iterator[Refusal]:
    for what, present in UNSERVED_CONSTRAINTS.items():
        if present(spec):
            yield Refusal(
                Reason.UNSUPPORTED_CONSTRAINT, detail=f"the pod uses {what}, which Berth does not honour yet"
            )


# To ignore one of these would put the pod where it must not be: better to say so.
UNSERVED_CONSTRAINTS: Final[dict[str, Callable[[raw.PodSpec], bool]]] = {
    "required pod affinity": lambda spec: bool(
        spec.affinity and spec.affinity.pod_affinity and spec.affinity.pod_affinity.required
    ),
    "required pod anti-affinity": lambda spec: bool(
        spec.affinity and spec.affinity.pod_anti_affinity and spec.affinity.pod_anti_affinity.required
    ),
    "a topology spread constraint with whenUnsatisfiable: DoNotSchedule": lambda spec: any(
        one.when_unsatisfiable == "DoNotSchedule" for one in spec.topology_spread_constraints or ()
    ),
    "persistent volume claims": lambda spec: any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for volume in spec.volumes or ()
    ),
    "resource claims": lambda spec: bool(spec.resource_claims),
}
