"""What an interceptor is told to do: aimed faults, or random ones.

A plan judges each call of each operator. The table of kinds below is the whole of what
the operator asks of the API server: the crash suite aims at each of them, and a kind that
is not in the table fails it, so that a new one cannot be forgotten.
"""

import dataclasses
import random
import time
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from testbed import calls, interceptor
from testbed.interceptor import Deed, Fault

STORAGE: Final = (
    "storageclasses",
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "persistentvolumes",
    "persistentvolumeclaims",
)
FOLLOWED: Final = (
    "nodes",
    "devices",
    "leases",
    "namespaces",
    "placementpolicies",
    "gpupods",
    "pods",
    *STORAGE,
)
READS: Final = tuple(f"{verb} {what}" for what in FOLLOWED for verb in ("list", "watch"))
ELECTION: Final = ("create leases", "get leases", "update leases")
BIND: Final = "create pods/binding"
STATUS: Final = "patch pods/status"
# What pods with claims take, whose volumes are not there yet.
OF_CLAIMS: Final = frozenset(
    f"{verb} {what}" for verb in ("get", "patch") for what in ("persistentvolumes", "persistentvolumeclaims")
)
# What is asked while leading; some of it comes only when something is or went wrong.
LEADING: Final = (
    BIND,
    STATUS,
    "patch devices/status",
    "patch nodes/status",
    "patch placementpolicies/status",
    "create events",
    "discover kinds",
    "get pods",
    "patch events",
    "delete gpupods",
    *sorted(OF_CLAIMS),
)
KINDS: Final = (*ELECTION, *READS, *LEADING)

# What makes a rare call come: a bind that is lost on its way there, so that no watch shows it, makes the
# operator look at the pod, and a bind that is refused twice is the same Event told again.
LEAD_IN: Final[Mapping[str, tuple[str, Fault]]] = {
    "get pods": (BIND, Fault(Deed.DROP)),
    "patch events": (BIND, Fault(Deed.REFUSE)),
}


PAIRS: Final = tuple((kind, deed) for deed in sorted(interceptor.KILLS) for kind in KINDS)
KILLS_OF_A_ROUND: Final = 12


def kills_of(seed: int, turns: int) -> list[tuple[str, Deed]]:
    """Deal some calls and moments to be killed at.

    All are dealt by a dozen seeds in a row, and by as many of which each is `turns` after the one before.
    """
    first = KILLS_OF_A_ROUND * (seed // turns + seed % turns)
    return [PAIRS[(first + at) % len(PAIRS)] for at in range(KILLS_OF_A_ROUND)]


def shows_pods(record: interceptor.Record) -> bool:
    """Whether an answer tells a new leader of pods: a list, or what became of one that it changed or read."""
    return touches_pod(record.call.kind, record.asked) or record.call.kind in {"list pods", "get pods"}


def touches_pod(kind: str, asked: bytes) -> bool:
    """Whether a call changes a pod only so that earlier binds of it are void."""
    return kind == STATUS and b"lastProbeTime" in asked


class Sender(Protocol):
    """The operator that a call comes from; once doomed it is about to be killed."""

    doomed: bool


class Plan(Protocol):
    """Decides what is done to each call, until it is done."""

    @property
    def done(self) -> bool:
        """Whether nothing more will be done."""

    def judge(self, sender: Sender, call: calls.Call) -> Fault:
        """Decide on one call."""


@dataclasses.dataclass(frozen=True, slots=True)
class Aim:
    """One fault for the next call of a kind."""

    kind: str
    fault: Fault

    def __str__(self) -> str:
        """Tell it in words."""
        return f"{self.fault.deed}: {self.kind}"


class AimedFaults:
    """Aimed faults, each dealt once, to whichever operator makes such a call first."""

    def __init__(self, aims: Iterable[Aim] = ()) -> None:
        self.left = list(aims)
        self.dealt: list[Aim] = []

    @property
    def done(self) -> bool:
        """Whether all were dealt."""
        return not self.left

    def wanted(self) -> set[str]:
        """Name the kinds of call that are waited for."""
        return {aim.kind for aim in self.left}

    def judge(self, sender: Sender, call: calls.Call) -> Fault:
        """Deal the first fault that is aimed at this kind of call, or the one that leads up to it."""
        if sender.doomed:
            return interceptor.PASS
        for aim in self.left:
            if aim.kind == call.kind:
                self.left.remove(aim)
                self.dealt.append(aim)
                sender.doomed = aim.fault.deed in interceptor.KILLS
                return aim.fault
        for aim in self.left:
            kind, fault = LEAD_IN.get(aim.kind, ("", interceptor.PASS))
            if kind == call.kind:
                return fault
        return interceptor.PASS


STREAM_DEEDS: Final = (Deed.DROP, Deed.CUT, Deed.BUSY, Deed.FAIL, Deed.SLOW)
ANSWER_DEEDS: Final = (
    Deed.SLOW,
    Deed.DROP,
    Deed.BUSY,
    Deed.FAIL,
    Deed.LATE,
    Deed.LOSE,
    Deed.UNSURE,
    Deed.TWICE,
)


class RandomFaults:
    """Any fault to any call, with a certain chance, for a certain time."""

    def __init__(self, chance: random.Random, *, odds: float, seconds: float) -> None:
        self._chance = chance
        self._odds = odds
        self._until = time.monotonic() + seconds

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return time.monotonic() > self._until

    def judge(self, sender: Sender, call: calls.Call) -> Fault:
        """Roll the dice."""
        if self.done or sender.doomed or self._chance.random() > self._odds:
            return interceptor.PASS
        deed = self._chance.choice(STREAM_DEEDS if call.streams else ANSWER_DEEDS)
        # A server asks for patience in whole seconds.
        seconds = float(deed is Deed.BUSY) or self._chance.uniform(0.0, 2.0)
        return Fault(deed, seconds)
