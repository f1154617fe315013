"""Whether what a pod holds is what it was given. Pure.

The sources speak in their own ways. What the kubelet says of a container is all that it
gave it, so it must be the same. What the driver says is where processes are just now, so
it must be among what was given, and to be idle is no fault. A container of which the
kubelet lists no card was not served by a device plugin, which is usual where the cards
reach it by its environment: the kubelet then says nothing, rather than that it has none.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from berth_agent.gpupods import residents
from berth_agent.kubelet import ids
from berth_crds import schema_limits, text, vocabulary

PODRESOURCES: Final = vocabulary.GrantSource.POD_RESOURCES
NVML: Final = vocabulary.GrantSource.NVML
LONGEST_NAME: Final = 63

ByContainer = Mapping[str, tuple[str, ...]]  # Uuids of pieces; the driver's container may be empty.


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """What each source says of one pod; `missing` tells why there is less of it than there might be."""

    kubelet: ByContainer = dataclasses.field(default_factory=dict)
    driver: ByContainer = dataclasses.field(default_factory=dict)
    missing: str = ""

    def speakers(self) -> tuple[vocabulary.GrantSource, ...]:
        """Name the sources that say anything."""
        return tuple(source for source, said in ((PODRESOURCES, self.kubelet), (NVML, self.driver)) if said)


class Verdict(NamedTuple):
    """Status, reason and message of the condition Verified."""

    truth: vocabulary.Truth
    reason: str
    message: str


# What the phase alone tells.
FINISHED: Final = Verdict(vocabulary.Truth.UNKNOWN, "Finished", "The pod has ended and holds nothing.")
BY_PHASE: Final[Mapping[str, Verdict]] = {
    vocabulary.PodPhase.PENDING: Verdict(
        vocabulary.Truth.UNKNOWN, "NotRunning", "The pod does not run yet, so it holds nothing."
    ),
    vocabulary.PodPhase.SUCCEEDED: FINISHED,
    vocabulary.PodPhase.FAILED: FINISHED,
}
UNSEEN: Final = Verdict(
    vocabulary.Truth.UNKNOWN, "PhaseUnknown", "The kubelet does not tell whether the pod runs."
)
# Where no real source is asked, what runs holds by definition what it was given.
SIMULATED: Final = Verdict(
    vocabulary.Truth.TRUE, "Simulated", "The cards are simulated: what was given is granted."
)


def by_phase(phase: str) -> Verdict | None:
    """Say what the phase alone tells; None for a pod that runs."""
    return None if phase == vocabulary.PodPhase.RUNNING else BY_PHASE.get(phase, UNSEEN)


def judge(phase: str, given: ByContainer, evidence: Evidence, known: ids.Pieces) -> Verdict:
    """Compare what a pod was given with what the sources say of it."""
    if by_phase(phase) == FINISHED:
        return FINISHED
    if faults := [*_by_kubelet(given, evidence.kubelet), *_by_driver(given, evidence.driver, known)]:
        return Verdict(vocabulary.Truth.FALSE, "Mismatch", _cut("; ".join(faults)))
    if speakers := evidence.speakers():
        sentence = f"What it holds is what it was given, says {' and '.join(speakers)}."
        return Verdict(vocabulary.Truth.TRUE, "Agreed", sentence)
    return by_phase(phase) or _silent(evidence)


def _silent(evidence: Evidence) -> Verdict:
    if evidence.missing:
        return Verdict(vocabulary.Truth.UNKNOWN, "SourceFailed", _cut(evidence.missing))
    return Verdict(vocabulary.Truth.UNKNOWN, "NotSeen", "No source says what the pod holds.")


def _by_kubelet(given: ByContainer, said: ByContainer) -> Iterator[str]:
    for name, uuids in said.items():
        if set(uuids) != set(given.get(name, ())):
            yield _fault(name, given.get(name, ()), uuids, PODRESOURCES)


def _by_driver(given: ByContainer, said: ByContainer, known: ids.Pieces) -> Iterator[str]:
    whole = tuple(uuid for uuids in given.values() for uuid in uuids)
    for name, uuids in said.items():
        mine = given.get(name, ()) if name else whole
        if not all(residents.covers(mine, uuid, known) for uuid in uuids):
            yield _fault(name, mine, uuids, NVML)


def _fault(name: str, given: Iterable[str], held: Iterable[str], source: vocabulary.GrantSource) -> str:
    who = f"container {text.line(name, most=LONGEST_NAME)}" if name else "the pod"
    return f"{who} was given {_listed(given)} and holds {_listed(held)} ({source})"


def _listed(uuids: Iterable[str]) -> str:
    return ", ".join(ascii(uuid)[1:-1] for uuid in uuids) or "nothing"


def _cut(said: str) -> str:
    return text.line(said, most=schema_limits.LONGEST_MESSAGE)
