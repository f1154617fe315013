"""Whether a pod holds what it was given: the condition Verified, with reasons such as Mismatch. Pure.

The two sources mean different things. The kubelet lists everything that it gave to a container, so
that must be equal. The driver lists the devices on which processes run just now, so these must be
among the given ones, and an idle device is no mismatch: that it was seen in use stands. A container
without any card in the kubelet's list was not served by a device plugin, which is usual where the
cards reach it by its environment: then the kubelet does not count as a source.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from berth_agent.gpupods import process_owners
from berth_agent.kubelet import device_ids
from berth_crds import schema_limits, text, vocabulary, wire

PODRESOURCES: Final = vocabulary.GrantSource.POD_RESOURCES
NVML: Final = vocabulary.GrantSource.NVML
LONGEST_NAME: Final = 63

ByContainer = Mapping[str, tuple[str, ...]]  # Uuids of pieces; the driver's container may be empty.


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """What each source says about one pod; `missing` says why a source has not answered."""

    kubelet: ByContainer = dataclasses.field(default_factory=dict)
    driver: ByContainer = dataclasses.field(default_factory=dict)
    missing: str = ""

    def answering_sources(self) -> tuple[vocabulary.GrantSource, ...]:
        """Return the sources that say anything about the pod."""
        return tuple(source for source, held in ((PODRESOURCES, self.kubelet), (NVML, self.driver)) if held)


def with_earlier(
    evidence: Evidence, seen: ByContainer, given: ByContainer, allocatable: device_ids.AllocatableDevices
) -> Evidence:
    """Return the evidence with the devices on which the driver has seen containers before.

    Between two bursts of its work a program may be on no card, and yet the card stays its own. What it was
    not given it has only while it is seen there, and what the kubelet lists otherwise counts no more.
    """
    driver = dict(evidence.driver)
    for name, uuids in seen.items():
        owned = given.get(name, ()), evidence.kubelet.get(name, uuids)
        kept = [uuid for uuid in uuids if all(process_owners.covers(one, uuid, allocatable) for one in owned)]
        if kept:
            driver[name] = _in_order({*kept, *driver.get(name, ())}, allocatable)
    return dataclasses.replace(evidence, driver=driver)


def _in_order(uuids: Collection[str], allocatable: device_ids.AllocatableDevices) -> tuple[str, ...]:
    """Return devices in the order of their cards, as the driver's are."""
    minors = {uuid: allocatable[uuid].minor for uuid in uuids if uuid in allocatable}
    return tuple(sorted(uuids, key=lambda uuid: (minors.get(uuid, -1), uuid)))


def _verified(status: vocabulary.Truth, reason: str, message: str) -> wire.Condition:
    """Return the condition Verified, which has no time yet."""
    return wire.Condition(vocabulary.GpuPodCondition.VERIFIED, status, reason, message)


# What follows from the phase alone.
FINISHED: Final = _verified(vocabulary.Truth.UNKNOWN, "Finished", "The pod has ended and holds nothing.")
BY_PHASE: Final[Mapping[str, wire.Condition]] = {
    vocabulary.PodPhase.PENDING: _verified(
        vocabulary.Truth.UNKNOWN, "NotRunning", "The pod does not run yet, so it holds nothing."
    ),
    vocabulary.PodPhase.SUCCEEDED: FINISHED,
    vocabulary.PodPhase.FAILED: FINISHED,
}
PHASE_UNKNOWN: Final = _verified(
    vocabulary.Truth.UNKNOWN, "PhaseUnknown", "The kubelet does not say whether the pod runs."
)
# Simulated cards have no source: a running pod holds by definition what it was given.
SIMULATED: Final = _verified(
    vocabulary.Truth.TRUE, "Simulated", "The cards are simulated: what was given is granted."
)


def by_phase(phase: str) -> wire.Condition | None:
    """Return what follows from the phase alone; None for a running pod."""
    return None if phase == vocabulary.PodPhase.RUNNING else BY_PHASE.get(phase, PHASE_UNKNOWN)


def verify(
    phase: str,
    given: ByContainer,
    evidence: Evidence,
    allocatable: device_ids.AllocatableDevices,
    *,
    passed_on: Collection[str] = (),
) -> wire.Condition:
    """Compare what a pod was given with what the sources say, and return the condition.

    What its init containers have when they end is `passed_on`: the kubelet gives a later container any of it.
    """
    if by_phase(phase) == FINISHED:
        return FINISHED
    if mismatches := [
        *_by_kubelet(given, evidence.kubelet, frozenset(passed_on)),
        *_by_driver(given, evidence.driver, allocatable),
    ]:
        return _verified(vocabulary.Truth.FALSE, "Mismatch", _cut("; ".join(mismatches)))
    if sources := evidence.answering_sources():
        sentence = f"What it holds is what it was given, says {' and '.join(sources)}."
        return _verified(vocabulary.Truth.TRUE, "Agreed", sentence)
    return by_phase(phase) or _without_source(evidence)


def _without_source(evidence: Evidence) -> wire.Condition:
    if evidence.missing:
        return _verified(vocabulary.Truth.UNKNOWN, "SourceFailed", _cut(evidence.missing))
    return _verified(vocabulary.Truth.UNKNOWN, "NotSeen", "No source says what the pod holds.")


def _by_kubelet(given: ByContainer, held: ByContainer, passed_on: frozenset[str]) -> Iterator[str]:
    for name, uuids in held.items():
        found, expected = set(uuids), set(given.get(name, ()))
        if len(found) != len(expected) or not found - expected <= passed_on:
            yield _mismatch(name, given.get(name, ()), uuids, PODRESOURCES)


def _by_driver(
    given: ByContainer, held: ByContainer, allocatable: device_ids.AllocatableDevices
) -> Iterator[str]:
    all_given = tuple(uuid for uuids in given.values() for uuid in uuids)
    for name, uuids in held.items():
        expected = given.get(name, ()) if name else all_given
        if not all(process_owners.covers(expected, uuid, allocatable) for uuid in uuids):
            yield _mismatch(name, expected, uuids, NVML)


def _mismatch(name: str, given: Iterable[str], held: Iterable[str], source: vocabulary.GrantSource) -> str:
    subject = f"container {text.line(name, most=LONGEST_NAME)}" if name else "the pod"
    return f"{subject} was given {_listed(given)} and holds {_listed(held)} ({source})"


def _listed(uuids: Iterable[str]) -> str:
    return ", ".join(ascii(uuid)[1:-1] for uuid in uuids) or "nothing"


def _cut(held: str) -> str:
    return text.line(held, most=schema_limits.LONGEST_MESSAGE)
