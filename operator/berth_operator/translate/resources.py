"""How much each container requests, under any project's names, as amounts under Berth's own names.

A RequestedAmount remembers where people wrote it, so that a sentence can name their key and not
Berth's. Some keys stand on the pod and mean one container; some projects count the cards in one
key and the share of each card in others. Both are normalized here: `container_asks` sees one
spelling, and totals for all cards of a container only.
"""

import collections
import dataclasses
import fractions
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

from berth_crds import aliases, device_types, names
from berth_operator.scheduling.decisions import Refusal
from berth_operator.translate import json_objects, kubegpu_record, pod_limits, quantities, raw, refusals
from berth_operator.translate.refusals import RefusalError

MEMORIES: Final = frozenset({names.GPU_MEMORY, names.GPU_MEMORY_RATIO})
MIG_PROFILE: Final = re.compile(r"(?:\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb(?P<more>[.+-][a-z0-9.+-]+)?", re.ASCII)
SHARED_MIG: Final = ".shared"
SLICES: Final = {one.project: one for one in aliases.SLICES}
COUNTS: Final = frozenset(one.count for one in aliases.SLICES)
POD_KEYS: Final = frozenset({*(one.key for one in aliases.ON_PODS), *aliases.KUBEGPU_RECORDS})


@dataclasses.dataclass(frozen=True, slots=True)
class RequestedAmount:
    """One amount: where it is written, the resource in Berth's names, and how much it is.

    `project` names the project whose key this is, if the amount is for each card.
    """

    place: str
    key: str
    text: str
    resource: str
    value: fractions.Fraction
    project: str = ""

    def __str__(self) -> str:
        """Return the amount as it is written."""
        return f"{self.key}: {self.text}"


@dataclasses.dataclass(frozen=True, slots=True)
class ContainerAmounts:
    """What one container requests, by Berth's names, without zeros."""

    name: str
    runs: bool
    amounts: Mapping[str, RequestedAmount]


def gather(pod: raw.Pod) -> tuple[list[ContainerAmounts], list[Refusal]]:
    """Return what the containers of a pod request, in the order in which they start, and what is wrong."""
    found: list[ContainerAmounts] = []
    faults: list[Refusal] = []
    on_pod: Mapping[str, Sequence[RequestedAmount]] = {}
    try:
        on_pod = _on_pod(pod)
    except RefusalError as error:
        faults.append(error.refusal)
    for container, runs in each_container(pod.spec):
        if container.name not in on_pod and not _serves(container):
            continue
        try:
            asks = of_container(container, runs=runs, more=on_pod.get(container.name, ()))
            if asks is not None:
                found.append(asks)
        except RefusalError as error:
            faults.append(error.refusal)
            if len(faults) > pod_limits.MAX_FAULTS:
                break  # More than is shown, and a pod may have thousands.
    return found, faults


def of_container(
    container: raw.Container, *, runs: bool, more: Sequence[RequestedAmount] = ()
) -> ContainerAmounts | None:
    """Return what one container requests, None if nothing; raise RefusalError if it is invalid."""
    amounts = [*_of_container(container), *more] if _asks(container) else more
    if not amounts:
        return None
    _check_memory(amounts)
    return ContainerAmounts(container.name, runs, merged(for_all_cards(container.name, amounts)))


def _check_memory(amounts: Sequence[RequestedAmount]) -> None:
    """Refuse zero memory beside compute: it was written on purpose and means nothing."""
    if any(one.resource in MEMORIES and one.value for one in amounts):
        return
    zero = next((one for one in amounts if one.key in MEMORIES), None)
    if zero is not None and any(one.resource == names.GPU_CORE and one.value for one in amounts):
        refusals.refuse(f"{zero.place}: {zero.text} asks for nothing; write more than 0")


def each_container(spec: raw.PodSpec) -> Iterator[tuple[raw.Container, bool]]:
    """Yield init containers, then the others, each with whether it keeps running."""
    for container in spec.init_containers or ():
        yield container, container.restart_policy == "Always"
    for container in spec.containers:
        yield container, True


def each_asking(spec: raw.PodSpec) -> Iterator[tuple[raw.Container, bool]]:
    """Yield the containers that have any requests or limits: of thousands few may."""
    for container, runs in each_container(spec):
        if _asks(container):
            yield container, runs


def each_serving(spec: raw.PodSpec) -> Iterator[tuple[raw.Container, bool]]:
    """Yield the containers that request what Berth serves."""
    return ((container, runs) for container, runs in each_container(spec) if _serves(container))


def _serves(container: raw.Container) -> bool:
    """Whether a container requests anything that Berth serves."""
    found = container.resources
    if found is None:
        return False
    return any(any(map(aliases.is_served, listed or ())) for listed in (found.limits, found.requests))


def _asks(container: raw.Container) -> bool:
    resources = container.resources
    return resources is not None and bool(resources.requests or resources.limits)


def pairs(container: raw.Container) -> Iterable[tuple[str, raw.Quantity]]:
    """Return the names and amounts that a container requests."""
    found = container.resources
    if found is None:
        return ()
    if found.limits and found.requests:
        return asked(found).items()
    return (found.limits or found.requests or {}).items()


def asked(resources: raw.ContainerResources | None) -> dict[str, raw.Quantity]:
    """Return the effective requests: a limit without a request counts as the request."""
    if resources is None:
        return {}
    limits, requests = resources.limits or {}, resources.requests or {}
    return {**limits, **requests} if limits and requests else dict(limits or requests)


# ---------------------------------------------------------------- resources of a container


def _of_container(container: raw.Container) -> Iterator[RequestedAmount]:
    amounts = asked(container.resources)
    for name in sorted(filter(aliases.is_served, amounts)):
        if aliases.RENAMED.get(name) in amounts:
            continue
        place = f"container {container.name}: {name}"
        row = _meaning(place, name)
        if row.means:
            yield _amount(place, name, amounts[name], row)


def _meaning(place: str, name: str) -> aliases.Amount:
    """Return the meaning of a resource name; Berth's own and NVIDIA's mean themselves."""
    if name.startswith(names.NVIDIA_MIG_PREFIX):
        name = names.NVIDIA_MIG_PREFIX + mig_profile(place, name)
    return aliases.RESOURCES.get(name) or aliases.Amount("", name, name)


def mig_profile(place: str, name: str) -> str:
    """Return the MIG profile of a resource name, in which a dot stands for the plus sign."""
    profile = name.removeprefix(names.NVIDIA_MIG_PREFIX).lower()
    if profile.endswith(SHARED_MIG):
        refusals.decline(f"{place}: replicas of MIG instances are not served; ask for whole instances")
    if (match := MIG_PROFILE.fullmatch(profile)) is None:
        refusals.refuse(f"{place} names no MIG profile; write for instance nvidia.com/mig-1g.10gb")
    more = match["more"] or ""
    return profile.removesuffix(more) + more.replace(".", "+", 1) if more.startswith(".") else profile


def _amount(place: str, key: str, quantity: raw.Quantity, row: aliases.Amount) -> RequestedAmount:
    text = refusals.shown(quantity)
    try:
        value = quantities.exact(str(quantity)) * row.scale
    except ValueError:
        refusals.refuse(f"{place}: '{text}' is not a quantity")
    if row.scale != 1:
        value = fractions.Fraction(math.ceil(value))
    return RequestedAmount(place, key, text, row.means, value, row.project if row.each else "")


def unserved(spec: raw.PodSpec) -> Iterator[tuple[str, str]]:
    """Yield each container with each resource that it requests and that Berth does not serve."""
    for container, _ in each_asking(spec):
        amounts = asked(container.resources)
        for name in sorted(
            name for name in amounts if aliases.is_unserved_kind(name) or aliases.is_unknown(name)
        ):
            if not _is_zero(amounts[name]):
                yield container.name, name


def of_nothing(pod: raw.Pod) -> Iterator[Refusal]:
    """Yield a fault for shares of no card and zero shares of cards: a bound pod would hold nothing."""
    for row in aliases.ON_PODS:
        text = pod.metadata.annotations.get(row.key) if row.project == aliases.KAI else None
        if text is not None and _is_zero(text):
            place = f"{row.where} {row.key}: {refusals.shown(text)}"
            yield refusals.invalid(f"{place} asks for nothing; write more than 0, or leave it out")
    for container, _ in each_asking(pod.spec):
        amounts = asked(container.resources)
        for slices in () if COUNTS.isdisjoint(amounts) else aliases.SLICES:
            if key := _of_no_card(slices, amounts):
                yield refusals.invalid(
                    f"container {container.name} asks for {key}: {refusals.shown(amounts[key])} of each card "
                    f"and for {slices.count}: 0; ask for at least one card, or leave both out"
                )


def _of_no_card(slices: aliases.Slices, amounts: Mapping[str, raw.Quantity]) -> str:
    """Return the resource that is requested of each card while the number of cards is zero; or empty."""
    if slices.count not in amounts or not _is_zero(amounts[slices.count]):
        return ""
    rows = ((aliases.RESOURCES[name], name) for name in sorted(amounts) if name in aliases.RESOURCES)
    of_each = (name for row, name in rows if row.each and row.project == slices.project)
    return next((name for name in of_each if not _is_zero(amounts[name])), "")


def _is_zero(quantity: raw.Quantity) -> bool:
    try:
        return quantities.exact(str(quantity)) == 0
    except ValueError:
        return False


# ---------------------------------------------------------------- keys on the pod


def _on_pod(pod: raw.Pod) -> Mapping[str, Sequence[RequestedAmount]]:
    """Return the amounts, by container, of the keys that stand on the pod."""
    found: dict[str, list[RequestedAmount]] = collections.defaultdict(list)
    if POD_KEYS.isdisjoint(pod.metadata.annotations) and POD_KEYS.isdisjoint(pod.metadata.labels):
        return found
    for row in aliases.ON_PODS:
        if (amount := _pod_amount(pod, row)) is not None:
            for name in _containers_meant(pod, row, amount):
                found[name].append(amount)
    for name, amount in _recorded(pod):
        found[name].append(amount)
    _check_answers(pod, found)
    return found


def _pod_amount(pod: raw.Pod, row: aliases.Amount) -> RequestedAmount | None:
    meta = pod.metadata
    text = (meta.labels if row.where is aliases.Where.LABEL else meta.annotations).get(row.key)
    return None if text is None else _amount(f"{row.where} {row.key}", row.key, text, row)


def _containers_meant(pod: raw.Pod, row: aliases.Amount, amount: RequestedAmount) -> list[str]:
    """Return the names of the containers that a key on the pod means."""
    containers = [container for container, _ in each_container(pod.spec)]
    if row.beside:
        found = [one.name for one in containers if row.beside in asked(one.resources)]
        if not found:
            refusals.refuse(f"{amount.place} is given, but no container asks for {row.beside}")
        return found
    name = pod.metadata.annotations.get(aliases.KAI_CONTAINER) if row.project == aliases.KAI else None
    if name is None:
        name = pod.spec.containers[0].name if pod.spec.containers else ""
    _check_no_other(containers, name, amount)
    return [name]


def _check_no_other(containers: Sequence[raw.Container], name: str, amount: RequestedAmount) -> None:
    """Refuse a key that means the whole pod if another container requests cards too."""
    if name not in {one.name for one in containers}:
        refusals.refuse(f"{amount.place} is meant for container '{refusals.shown(name)}', which is not there")
    for other in filter(_asks, containers):
        cards = [
            one.key
            for one in _of_container(other)
            if one.value and one.resource not in device_types.BY_RESOURCE
        ]
        if cards and other.name != name:
            refusals.refuse(
                f"{amount.place} speaks for the whole pod, but container {other.name} asks for {cards[0]}; "
                f"leave one of them out"
            )


def _recorded(pod: raw.Pod) -> Iterator[tuple[str, RequestedAmount]]:
    """Yield the cards that KubeGPU's record counts for each container."""
    for key in aliases.KUBEGPU_RECORDS:
        if (text := pod.metadata.annotations.get(key)) is not None:
            yield from _in_record(pod, f"annotation {key}", text)


def _in_record(pod: raw.Pod, place: str, text: str) -> Iterator[tuple[str, RequestedAmount]]:
    known = {container.name for container, _ in each_container(pod.spec)}
    containers = kubegpu_record.asking(place, json_objects.json_object(place, text))
    kubegpu_record.is_grouped(place, containers)  # Or it is refused, before anything counts.
    for name, requests in containers:
        if name not in known:
            _refuse_absent(place, name)
        for key, count in kubegpu_record.counts(place, requests):
            row = aliases.Amount(aliases.KUBEGPU, key, names.NVIDIA_GPU)
            yield name, _amount(f"{place}: {key}", key, count, row)


def _refuse_absent(place: str, name: str) -> NoReturn:
    refusals.refuse(f"{place} speaks of container '{refusals.shown(name)}', which is not there")


def _check_answers(pod: raw.Pod, asked_on_pod: Collection[str]) -> None:
    """Refuse a record of KubeGPU whose scheduler's answer has devices for a container that asks for none."""
    containers = {container.name: container for container, _ in each_container(pod.spec)}
    for key, count in zip(aliases.KUBEGPU_RECORDS, aliases.KUBEGPU_COUNTS, strict=True):
        place, text = f"annotation {key}", pod.metadata.annotations.get(key)
        record = json_objects.json_object(place, text) if text is not None else {}
        for name, answer, cards in kubegpu_record.answered(place, record):
            if name not in containers:
                _refuse_absent(place, name)
            if name not in asked_on_pod and not _names_cards(containers[name]):
                refusals.refuse(
                    f"{place} has devices for container '{name}' in {answer} alone, which KubeGPU's "
                    f"scheduler writes; ask for them in its requests, for instance {count}: {max(1, cards)}"
                )


def _names_cards(container: raw.Container) -> bool:
    """Whether a container has a resource that stands for cards, if only for none of them."""
    served = (name for name, _ in pairs(container) if aliases.is_served(name))
    rows = (aliases.RESOURCES.get(name) or aliases.Amount("", name, name) for name in served)
    return any(row.means and row.means not in device_types.BY_RESOURCE for row in rows)


# ---------------------------------------------------------------- one spelling


def for_all_cards(container: str, amounts: Sequence[RequestedAmount]) -> Sequence[RequestedAmount]:
    """Return the amounts with those for each card turned into totals for all cards together."""
    projects = sorted({one.project for one in amounts if one.project and one.value})
    if not projects:
        return amounts
    if len(projects) > 1:
        refusals.refuse(f"container {container} mixes {' and '.join(projects)}; ask in one way only")
    slices = SLICES[projects[0]]
    each = [one for one in amounts if one.project and one.value]
    counts = [one for one in amounts if one.key == slices.count]
    count = counts[0] if counts else _single_card(container, slices, each)
    rest = [one for one in amounts if not one.project and one.key != slices.count]
    if not count.value:
        return rest
    complete = _completed(slices, each, count)
    totals = [dataclasses.replace(one, value=one.value * count.value) for one in complete]
    return [*rest, dataclasses.replace(count, resource=names.GPU_SHARED), *totals]


def _single_card(container: str, slices: aliases.Slices, each: Sequence[RequestedAmount]) -> RequestedAmount:
    """Return one card where the project assumes one; sentences name the key that people wrote."""
    if not any(one.resource in slices.lone for one in each):
        refusals.refuse(f"container {container}: {each[0].key} needs {slices.count} beside it")
    return dataclasses.replace(each[0], resource=names.GPU_SHARED, value=fractions.Fraction(1), project="")


def _completed(
    slices: aliases.Slices, each: Sequence[RequestedAmount], count: RequestedAmount
) -> Sequence[RequestedAmount]:
    """Return the amounts with the defaults of a project: all of the memory, and then all of the compute."""
    found = {one.resource: one for one in each}
    whole = dataclasses.replace(count, text="100", value=fractions.Fraction(100))
    if slices.exclusive and names.GPU_MEMORY not in found:
        all_memory = dataclasses.replace(whole, resource=names.GPU_MEMORY_RATIO)
        ratio = found.setdefault(names.GPU_MEMORY_RATIO, all_memory)
        if ratio.value == whole.value:
            found.setdefault(names.GPU_CORE, dataclasses.replace(whole, resource=names.GPU_CORE))
    return tuple(found.values())


def merged(amounts: Sequence[RequestedAmount]) -> dict[str, RequestedAmount]:
    """Return one amount for each resource; two keys may have the same value, not different ones.

    Zero is the same as absence, so it contradicts no other amount.
    """
    found: dict[str, RequestedAmount] = {}
    for one in filter(lambda one: one.value, amounts):
        other = found.setdefault(one.resource, one)
        if other.value != one.value:
            refusals.refuse(
                f"{other.place}: {other.text} and {one} mean the same and disagree; write one of them"
            )
    return found
