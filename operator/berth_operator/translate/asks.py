"""What a pod asks of the cards: resource names and annotations become a Request.

Every combination that makes no sense, and every one that is not served, has a sentence
of its own that says what to write instead; the pod's condition and event carry it.
"""

from collections.abc import Callable, Iterator
from typing import Final

from berth_crds import names
from berth_operator.scheduling import decisions
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.scheduling.devices import requests
from berth_operator.translate import quantities, raw

WHOLE: Final = 100  # berth.dev/gpu counts in percent of a card.
MOST_CARDS: Final = 64

CARD_NAMES: Final = (names.NVIDIA_GPU, names.GPU)
UNSERVED_NAMES: Final = frozenset(
    {names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED, names.RDMA, names.FPGA}
)
UNSERVED_ANNOTATIONS: Final = (
    names.MODEL_PATTERN,
    names.AVOID_MODEL,
    names.UUIDS,
    names.AVOID_UUIDS,
    names.MEMORY_AT_LEAST,
    names.SCOPE,
    names.SCOPE_POLICY,
    names.STRATEGY,
    names.JOINT,
    names.GANG,
    names.GANG_SIZE,
)

# An answer that a pod brings along is overwritten when the pod is bound.
ANSWERS: Final = frozenset({names.ALLOCATION, names.MINORS})
KNOWN_ANNOTATIONS: Final = {*UNSERVED_ANNOTATIONS, *ANSWERS, names.MODEL, names.TERM}

Outcome = int | Refusal


def served(name: str) -> bool:
    """Tell whether a resource name is one that Berth answers for by the Device."""
    return name in CARD_NAMES or name in UNSERVED_NAMES or name.startswith(names.NVIDIA_MIG_PREFIX)


def asked(resources: raw.ContainerResources | None) -> dict[str, raw.Quantity]:
    """Join requests and limits: where only a limit is given, it is the request too."""
    if resources is None:
        return {}
    return {**(resources.limits or {}), **(resources.requests or {})}


def request(pod: raw.Pod) -> tuple[requests.Request, tuple[Refusal, ...]]:
    """Read the request of a whole pod, and all that is wrong with it."""
    faults = list(_unserved(pod))
    containers = []
    for container, runs in each_container(pod.spec):
        count = cards(container)
        if isinstance(count, Refusal):
            faults.append(count)
        elif count:
            containers.append(requests.ContainerRequest(container.name, count, runs))
    models = _models(pod.metadata.annotations)
    if isinstance(models, Refusal):
        faults.append(models)
        models = frozenset()
    faults += _brought_answers(pod, frozenset(container.name for container in containers))
    return requests.Request(tuple(containers), models), tuple(faults)


def _brought_answers(pod: raw.Pod, asking: frozenset[str]) -> Iterator[Refusal]:
    """Refuse answers that a pod brings along and that its Binding would not overwrite."""
    for key in sorted(pod.metadata.annotations):
        container, found, _ = key.partition(names.CONTAINER_INFIX)
        if (found and container not in asking) or (key in ANSWERS and not asking):
            yield _invalid(f"annotation {key} is Berth's answer, not a request; remove it")


def each_container(spec: raw.PodSpec) -> Iterator[tuple[raw.Container, bool]]:
    """Go through init containers, then the others; the flag tells whether it keeps running."""
    for container in spec.init_containers or ():
        yield container, container.restart_policy == "Always"
    for container in spec.containers:
        yield container, True


def cards(container: raw.Container) -> Outcome:
    """Count the whole cards that one container asks for."""
    wanted = {name: value for name, value in asked(container.resources).items() if served(name)}
    unknown = sorted(name for name in wanted if name not in CARD_NAMES and _positive(wanted[name]))
    if unknown:
        return _unsupported(f"container {container.name} asks for {unknown[0]}, which is not served yet")
    counts = {name: COUNTERS[name](container.name, wanted[name]) for name in CARD_NAMES if name in wanted}
    fault = next((count for count in counts.values() if isinstance(count, Refusal)), None)
    if fault is not None:
        return fault
    real = {name: count for name, count in counts.items() if isinstance(count, int) and count}
    if len(real) > 1:
        both = " and ".join(real)
        return _invalid(f"container {container.name} asks for both {both}; ask in one way only")
    count = next(iter(real.values()), 0)
    if count > MOST_CARDS:
        return _invalid(
            f"container {container.name} asks for {count} cards; no node has more than {MOST_CARDS}"
        )
    return count


def _whole_cards(container: str, value: raw.Quantity) -> Outcome:
    try:
        count = quantities.exact(str(value))
    except ValueError as error:
        return _invalid(f"container {container}: {names.NVIDIA_GPU}: {error}")
    if count.denominator != 1 or count < 0:
        return _invalid(f"container {container}: {names.NVIDIA_GPU}: {value} is not a number of whole cards")
    return int(count)


def _percent_cards(container: str, value: raw.Quantity) -> Outcome:
    try:
        percent = quantities.exact(str(value))
    except ValueError as error:
        return _invalid(f"container {container}: {names.GPU}: {error}")
    if percent.denominator != 1 or percent < 0 or (percent > WHOLE and percent % WHOLE):
        return _invalid(
            f"container {container}: {names.GPU}: {value} is neither a percentage of one card (1 to 100) "
            f"nor whole cards (a multiple of 100)"
        )
    if percent % WHOLE:
        return _unsupported(
            f"container {container}: {names.GPU}: {value} asks for a part of a card, not served yet; "
            f"ask for a multiple of 100"
        )
    return int(percent) // WHOLE


COUNTERS: Final[dict[str, Callable[[str, raw.Quantity], Outcome]]] = {
    names.NVIDIA_GPU: _whole_cards,
    names.GPU: _percent_cards,
}


def _positive(value: raw.Quantity) -> bool:
    try:
        return quantities.exact(str(value)) != 0
    except ValueError:
        return True


def _models(annotations: dict[str, str]) -> frozenset[str] | Refusal:
    if names.MODEL not in annotations:
        return frozenset()
    models = frozenset(
        part.strip().casefold() for part in annotations[names.MODEL].split(",") if part.strip()
    )
    return models or _invalid(
        f"annotation {names.MODEL} names no model; write one or several, such as A100-SXM4-80GB"
    )


def _unserved(pod: raw.Pod) -> Iterator[Refusal]:
    for key in UNSERVED_ANNOTATIONS:
        if key in pod.metadata.annotations:
            yield _unsupported(f"annotation {key} is not served yet")
    for key in sorted(pod.metadata.annotations):
        if key.startswith(f"{names.GROUP}/") and key not in KNOWN_ANNOTATIONS:
            yield _invalid(f"annotation {key} is not known; is it misspelt?")
    for what, present in UNSERVED_CONSTRAINTS.items():
        if present(pod.spec):
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
    "host ports": lambda spec: any(
        port.host_port for container, runs in each_container(spec) if runs for port in container.ports or ()
    ),
    "persistent volume claims": lambda spec: any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for volume in spec.volumes or ()
    ),
    "resource claims": lambda spec: bool(spec.resource_claims),
}


def _invalid(detail: str) -> Refusal:
    return Refusal(decisions.Reason.INVALID_REQUEST, detail=detail)


def _unsupported(detail: str) -> Refusal:
    return Refusal(decisions.Reason.UNSUPPORTED_REQUEST, detail=detail)
