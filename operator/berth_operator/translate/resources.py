"""How much each container asks for, in whatever names, as figures under Berth's own names.

A Figure remembers where people wrote it, so that a sentence can name their key and not
ours. Some keys stand on the pod and speak for one container; some projects count the cards
in one key and say in others how much of each card they want: both are unfolded here, so
that `grammar` sees one spelling, and totals for all cards of a container only.
"""

import collections
import dataclasses
import fractions
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from berth_crds import aliases, names
from berth_operator.scheduling.decisions import Refusal
from berth_operator.translate import pod_limits, quantities, raw, refusals
from berth_operator.translate.refusals import Refused

MEMORIES: Final = frozenset({names.GPU_MEMORY, names.GPU_MEMORY_RATIO})
MIG_PROFILE: Final = re.compile(r"(?:\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb(?P<more>[.+-][a-z0-9.+-]+)?", re.ASCII)
SHARED_MIG: Final = ".shared"
OTHER_DEVICES: Final = frozenset({names.RDMA, names.FPGA})
SLICES: Final = {one.project: one for one in aliases.SLICES}
COUNTS: Final = frozenset(one.count for one in aliases.SLICES)
POD_KEYS: Final = frozenset({*(one.key for one in aliases.ON_PODS), *aliases.KUBEGPU_RECORDS})


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One amount: where it is written, what it means in Berth's names, and how much it is.

    `slices` names the project whose figure this is where it is meant for each card.
    """

    place: str
    key: str
    text: str
    means: str
    value: fractions.Fraction
    slices: str = ""

    def __str__(self) -> str:
        """Return it as it is written."""
        return f"{self.key}: {self.text}"


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What one container asks for, by Berth's names; nothing of it is zero."""

    name: str
    runs: bool
    figures: Mapping[str, Figure]


def gather(pod: raw.Pod) -> tuple[list[Asked], list[Refusal]]:
    """Read what the containers of a pod ask for, in the order in which they start, and what is wrong."""
    found: list[Asked] = []
    faults: list[Refusal] = []
    on_pod: Mapping[str, Sequence[Figure]] = {}
    try:
        on_pod = _on_pod(pod)
    except Refused as error:
        faults.append(error.refusal)
    for container, runs in each_container(pod.spec):
        if container.name not in on_pod and not _serves(container):
            continue
        try:
            asks = of_container(container, runs=runs, more=on_pod.get(container.name, ()))
            if asks is not None:
                found.append(asks)
        except Refused as error:
            faults.append(error.refusal)
            if len(faults) > pod_limits.FAULTS:
                break  # More than is told, and a pod may have thousands.
    return found, faults


def of_container(container: raw.Container, *, runs: bool, more: Sequence[Figure] = ()) -> Asked | None:
    """Read what one container asks for, if anything; raises Refused where that makes no sense."""
    figures = [*_of_container(container), *more] if _asks(container) else more
    if not figures:
        return None
    _memory_is_said(figures)
    return Asked(container.name, runs, merged(unfolded(container.name, figures)))


def _memory_is_said(figures: Sequence[Figure]) -> None:
    """Refuse no memory beside compute: whoever wrote that has not forgotten it."""
    if any(one.means in MEMORIES and one.value for one in figures):
        return
    nothing = next((one for one in figures if one.key in MEMORIES), None)
    if nothing is not None and any(one.means == names.GPU_CORE and one.value for one in figures):
        refusals.refuse(f"{nothing.place}: {nothing.text} asks for nothing; write more than 0")


def each_container(spec: raw.PodSpec) -> Iterator[tuple[raw.Container, bool]]:
    """Go through init containers, then the others; the flag tells whether it keeps running."""
    for container in spec.init_containers or ():
        yield container, container.restart_policy == "Always"
    for container in spec.containers:
        yield container, True


def each_asking(spec: raw.PodSpec) -> Iterator[tuple[raw.Container, bool]]:
    """Go through the containers that ask for anything of their own: of thousands few may."""
    for container, runs in each_container(spec):
        if _asks(container):
            yield container, runs


def each_serving(spec: raw.PodSpec) -> Iterator[tuple[raw.Container, bool]]:
    """Go through the containers that ask for what Berth serves."""
    return ((container, runs) for container, runs in each_asking(spec) if _serves(container))


def _serves(container: raw.Container) -> bool:
    """Return whether a container asks for anything that Berth serves."""
    found = container.resources
    if found is None:
        return False
    return any(any(map(aliases.is_served, listed or ())) for listed in (found.limits, found.requests))


def _asks(container: raw.Container) -> bool:
    resources = container.resources
    return resources is not None and bool(resources.requests or resources.limits)


def pairs(container: raw.Container) -> Iterable[tuple[str, raw.Quantity]]:
    """Return the names and amounts that a container asks for."""
    found = container.resources
    if found is None:
        return ()
    if found.limits and found.requests:
        return asked(found).items()
    return (found.limits or found.requests or {}).items()


def asked(resources: raw.ContainerResources | None) -> dict[str, raw.Quantity]:
    """Join requests and limits: where only a limit is given, it is the request too."""
    if resources is None:
        return {}
    limits, requests = resources.limits or {}, resources.requests or {}
    return {**limits, **requests} if limits and requests else dict(limits or requests)


# ---------------------------------------------------------------- resources of a container


def _of_container(container: raw.Container) -> Iterator[Figure]:
    amounts = asked(container.resources)
    for name in sorted(filter(aliases.is_served, amounts)):
        place = f"container {container.name}: {name}"
        row = _meaning(place, name)
        if row.means:
            yield _figure(place, name, amounts[name], row)


def _meaning(place: str, name: str) -> aliases.Amount:
    """Return what a resource name means; Berth's own and NVIDIA's mean themselves."""
    if name.startswith(names.NVIDIA_MIG_PREFIX):
        name = names.NVIDIA_MIG_PREFIX + mig_profile(place, name)
    return aliases.RESOURCES.get(name) or aliases.Amount("", name, name)


def mig_profile(place: str, name: str) -> str:
    """Read a MIG profile out of a resource name, where a dot stands for the plus sign."""
    profile = name.removeprefix(names.NVIDIA_MIG_PREFIX).lower()
    if profile.endswith(SHARED_MIG):
        refusals.decline(f"{place}: replicas of MIG instances are not served; ask for whole instances")
    match = MIG_PROFILE.fullmatch(profile)
    if match is None:
        refusals.refuse(f"{place} names no MIG profile; write for instance nvidia.com/mig-1g.10gb")
    more = match["more"] or ""
    return profile.removesuffix(more) + more.replace(".", "+", 1) if more.startswith(".") else profile


def _figure(place: str, key: str, quantity: raw.Quantity, row: aliases.Amount) -> Figure:
    text = refusals.shown(quantity)
    try:
        value = quantities.exact(str(quantity)) * row.scale
    except ValueError:
        refusals.refuse(f"{place}: '{text}' is not a quantity")
    if row.scale != 1:
        value = fractions.Fraction(math.ceil(value))
    return Figure(place, key, text, row.means, value, row.project if row.each else "")


def unserved(spec: raw.PodSpec) -> Iterator[tuple[str, str]]:
    """Name each container with each resource that it asks for and that no node can give it."""
    for container, _ in each_asking(spec):
        amounts = asked(container.resources)
        for name in sorted(
            name for name in amounts if aliases.is_unserved_kind(name) or aliases.is_unknown(name)
        ):
            if not _is_zero(amounts[name]):
                yield container.name, name


def of_nothing(pod: raw.Pod) -> Iterator[Refusal]:
    """Find shares of no card, or nothing of one: nobody means that, and a bound pod holds nothing by it."""
    for row in aliases.ON_PODS:
        text = pod.metadata.annotations.get(row.key) if row.project == aliases.KAI else None
        if text is not None and _is_zero(text):
            place = f"{row.where} {row.key}: {refusals.shown(text)}"
            yield refusals.invalid(f"{place} asks for nothing; write more than 0, or leave it out")
    for container, _ in each_asking(pod.spec):
        amounts = asked(container.resources)
        for way in () if COUNTS.isdisjoint(amounts) else aliases.SLICES:
            key = _of_no_card(way, amounts)
            if key:
                yield refusals.invalid(
                    f"container {container.name} asks for {key}: {refusals.shown(amounts[key])} of each card "
                    f"and for {way.count}: 0; ask for at least one card, or leave both out"
                )


def _of_no_card(way: aliases.Slices, amounts: Mapping[str, raw.Quantity]) -> str:
    """Name what is asked of each card, where the number of cards is said to be zero."""
    if way.count not in amounts or not _is_zero(amounts[way.count]):
        return ""
    of_each = (
        name
        for name, amount in sorted(amounts.items())
        if name in aliases.RESOURCES
        and aliases.RESOURCES[name].each
        and aliases.RESOURCES[name].project == way.project
        and not _is_zero(amount)
    )
    return next(of_each, "")


def _is_zero(quantity: raw.Quantity) -> bool:
    try:
        return quantities.exact(str(quantity)) == 0
    except ValueError:
        return False


# ---------------------------------------------------------------- keys on the pod


def _on_pod(pod: raw.Pod) -> Mapping[str, Sequence[Figure]]:
    """Read the keys that stand on the pod and ask for devices for one of its containers."""
    found: dict[str, list[Figure]] = collections.defaultdict(list)
    if POD_KEYS.isdisjoint(pod.metadata.annotations) and POD_KEYS.isdisjoint(pod.metadata.labels):
        return found
    for row in aliases.ON_PODS:
        figure = _pod_figure(pod, row)
        if figure is not None:
            for name in _meant(pod, row, figure):
                found[name].append(figure)
    for name, figure in _recorded(pod):
        found[name].append(figure)
    return found


def _pod_figure(pod: raw.Pod, row: aliases.Amount) -> Figure | None:
    meta = pod.metadata
    text = (meta.labels if row.where is aliases.Where.LABEL else meta.annotations).get(row.key)
    return None if text is None else _figure(f"{row.where} {row.key}", row.key, text, row)


def _meant(pod: raw.Pod, row: aliases.Amount, figure: Figure) -> list[str]:
    """Name the containers that a key on the pod speaks for."""
    containers = [container for container, _ in each_container(pod.spec)]
    if row.beside:
        meant = [one.name for one in containers if row.beside in asked(one.resources)]
        if not meant:
            refusals.refuse(f"{figure.place} is given, but no container asks for {row.beside}")
        return meant
    name = pod.metadata.annotations.get(aliases.KAI_CONTAINER) if row.project == aliases.KAI else None
    if name is None:
        name = pod.spec.containers[0].name if pod.spec.containers else ""
    _alone(containers, name, figure)
    return [name]


def _alone(containers: Sequence[raw.Container], name: str, figure: Figure) -> None:
    """Make sure that a key which speaks for the whole pod is not contradicted by another container."""
    if name not in {one.name for one in containers}:
        refusals.refuse(f"{figure.place} is meant for container '{refusals.shown(name)}', which is not there")
    for other in filter(_asks, containers):
        cards = [one.key for one in _of_container(other) if one.value and one.means not in OTHER_DEVICES]
        if cards and other.name != name:
            refusals.refuse(
                f"{figure.place} speaks for the whole pod, but container {other.name} asks for {cards[0]}; "
                f"leave one of them out"
            )


def _recorded(pod: raw.Pod) -> Iterator[tuple[str, Figure]]:
    """Read the cards that KubeGPU's record counts for each container."""
    for key in aliases.KUBEGPU_RECORDS:
        text = pod.metadata.annotations.get(key)
        if text is not None:
            yield from _in_record(pod, f"annotation {key}", text)


def _in_record(pod: raw.Pod, place: str, text: str) -> Iterator[tuple[str, Figure]]:
    record = json_object(place, text)
    known = {container.name for container, _ in each_container(pod.spec)}
    asking = [
        (name, requests)
        for section in ("initcontainer", "runningcontainer")
        for name, container in as_mapping(place, record.get(section)).items()
        if (requests := as_mapping(place, as_mapping(place, container).get("requests")))
    ]
    for name, requests in pod_limits.few(place, "containers", asking, pod_limits.ASKS):
        if name not in known:
            refusals.refuse(f"{place} speaks of container '{refusals.shown(name)}', which is not there")
        for figure in _counted(place, requests):
            yield name, figure


def _counted(place: str, requests: Mapping[str, object]) -> Iterator[Figure]:
    for key, value in requests.items():
        if key.startswith(aliases.KUBEGPU_PATHS):
            refusals.decline(f"{place} asks for devices by their path, which is not served; count the cards")
        if key in aliases.KUBEGPU_COUNTS:
            row = aliases.Amount(aliases.KUBEGPU, key, names.NVIDIA_GPU)
            yield _figure(f"{place}: {key}", key, str(value), row)


def json_object(place: str, text: str) -> Mapping[str, object]:
    """Read an annotation that is an object in JSON."""
    pod_limits.short(place, text, pod_limits.LIST)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        refusals.refuse(f"{place} is not JSON: {refusals.shown(text)}")
    return as_mapping(place, record)


def as_mapping(place: str, value: Any) -> Mapping[str, object]:
    """Return a value of JSON as an object; what is absent is empty."""
    if value is not None and not isinstance(value, dict):
        refusals.refuse(f"{place}: expected an object in JSON, found {refusals.shown(value)}")
    return value or {}


# ---------------------------------------------------------------- one spelling


def unfolded(container: str, figures: Sequence[Figure]) -> Sequence[Figure]:
    """Turn figures for each of some cards into totals for all of them together."""
    projects = sorted({one.slices for one in figures if one.slices and one.value})
    if not projects:
        return figures
    if len(projects) > 1:
        refusals.refuse(f"container {container} mixes {' and '.join(projects)}; ask in one way only")
    way = SLICES[projects[0]]
    each = [one for one in figures if one.slices and one.value]
    counts = [one for one in figures if one.key == way.count]
    count = counts[0] if counts else _lone(container, way, each)
    rest = [one for one in figures if not one.slices and one.key != way.count]
    if not count.value:
        return rest
    totals = [dataclasses.replace(one, value=one.value * count.value) for one in _exclusive(way, each, count)]
    return [*rest, dataclasses.replace(count, means=names.GPU_SHARED), *totals]


def _lone(container: str, way: aliases.Slices, each: Sequence[Figure]) -> Figure:
    """Assume one card where the project does; people are told of the key that they wrote."""
    if not any(one.means in way.lone for one in each):
        refusals.refuse(f"container {container}: {each[0].key} needs {way.count} beside it")
    return dataclasses.replace(each[0], means=names.GPU_SHARED, value=fractions.Fraction(1), slices="")


def _exclusive(way: aliases.Slices, each: Sequence[Figure], count: Figure) -> Sequence[Figure]:
    """Add what a project means by leaving it out: all of the memory, and then all of the compute."""
    said = {one.means: one for one in each}
    whole = dataclasses.replace(count, text="100", value=fractions.Fraction(100))
    if way.exclusive and names.GPU_MEMORY not in said:
        ratio = said.setdefault(
            names.GPU_MEMORY_RATIO, dataclasses.replace(whole, means=names.GPU_MEMORY_RATIO)
        )
        if ratio.value == whole.value:
            said.setdefault(names.GPU_CORE, dataclasses.replace(whole, means=names.GPU_CORE))
    return tuple(said.values())


def merged(figures: Sequence[Figure]) -> dict[str, Figure]:
    """Keep one figure for each meaning; two keys may say the same, not two different things.

    Nothing is the same as not being there, and so it contradicts nobody.
    """
    found: dict[str, Figure] = {}
    for one in filter(lambda one: one.value, figures):
        other = found.setdefault(one.means, one)
        if other.value != one.value:
            refusals.refuse(
                f"{other.place}: {other.text} and {one} mean the same and disagree; write one of them"
            )
    return found
