"""Which agents are alive: judged by the moments at which renewals were seen.

The clocks of two machines never agree, so the time written in a Lease is only compared with itself: a
changed one is a sign of life at the moment we saw it. How long an agent may give no sign, and when that is
reported, `spec.agents` of the PlacementPolicy says (`berth_crds.policy`).
"""

import dataclasses
import enum
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

LEAST_TOGETHER: Final = 3  # Fewer agents may well have died together.


class State(enum.Enum):
    """What is known of an agent: while it is not ready its cards get no new pod, and silence is reported."""

    READY = "ready"
    UNKNOWN = "unknown"
    SILENT = "silent"


@dataclasses.dataclass(frozen=True, slots=True)
class Sign:
    """The last sign of life of one agent: what it wrote, when we saw it, and whether we saw it change.

    The first Lease we read may be an old one, whose holder died before we started. `revision` is that of the
    Lease; 0 where it is no number.
    """

    renewal: str
    seen: float
    fresh: bool
    revision: int = 0


class Periods(NamedTuple):
    """For how many seconds an agent is ready after a sign of life, and for how many more it is unknown."""

    grace: float
    unknown: float


def note(signs: dict[str, Sign], node: str, renewal: str, now: float, revision: int = 0) -> bool:
    """Record a Lease; tell whether it says anything new. The signs stay in order, the last one seen last."""
    if (known := signs.get(node)) is not None and known.renewal == renewal:
        return False
    signs.pop(node, None)
    signs[node] = Sign(renewal, now, fresh=known is not None, revision=revision)
    return True


class Doubt(enum.Enum):
    """What a Lease that we did not see change counts for."""

    NONE = "it is a sign of life at the moment that we first saw it"
    OLD = "nothing: a restore may have brought it back, or the last leader knew the agent as not ready"
    CONDEMNED = "nothing: the agent was found silent before"


def state(
    sign: Sign | None, *, now: float, missing_since: float, periods: Periods, doubt: Doubt = Doubt.NONE
) -> State:
    """Return the state of an agent; `missing_since` is since when it has no Lease that counts."""
    if sign is not None and (sign.fresh or doubt is Doubt.NONE):
        quiet = now - sign.seen
        if quiet <= periods.grace:
            return State.READY
    elif doubt is Doubt.CONDEMNED:
        return State.SILENT
    else:
        quiet = now - missing_since
    return State.SILENT if quiet > periods.grace + periods.unknown else State.UNKNOWN


def overdue(signs: Mapping[str, Sign], now: float, grace: float) -> Iterator[str]:
    """Yield the agents whose last sign of life is longer ago than the grace period; signs come in order."""
    for node, sign in signs.items():
        if now - sign.seen <= grace:
            return
        yield node


def stale_revision(
    agents: AbstractSet[str], quiet: AbstractSet[str], signs: Mapping[str, Sign], known: int = 0
) -> int:
    """Return the newest revision of a Lease whose agent is quiet, among those older than of all ready ones.

    It is what is `known` already where none is newer. Revisions only grow, so this one number tells the
    quiet agents, which are not ready, from all that have renewed since, however many they are. A leader that
    sees all of them for the first time learns it from the last one.
    """
    of_quiet = [signs[node].revision for node in quiet if node in signs and signs[node].revision > known]
    if not of_quiet:
        return known
    oldest_ready = min((signs[node].revision for node in agents - quiet), default=math.inf)
    return max((revision for revision in of_quiet if revision < oldest_ready), default=known)


class MassSilence:
    """Tells when so many agents fall silent together that it may be us, who do not hear them.

    That is so when more than half of the agents, and at least three, fall silent within one grace period. It
    is over when no more than half have been silent for a grace period: those that report again do so one
    after another.

    An agent falls silent when it ceases to be ready. So does one that is awaited, as it may well live, and is
    not ready a grace period later. Awaited is an agent from when we first see its Device, and after a restore
    of the API's state, where it was not silent before. An agent that was found silent before we came is not:
    its silence is old, and says nothing of us. A cluster into which agents are just being brought raises no
    alarm, for it is an agent that makes a Device, and it renews a Lease soon after. Each agent is awaited
    once and falls once, so those that never come count for one grace period only, and those that do come
    soon outnumber them. Until then the awaited count as alive, beside the ready.

    Agents that fall together do so one after another, over the time between two renewals. So the silence of
    the first proves nothing before the others have fallen, or were heard: that holds it back, however soon
    it is to be reported.
    """

    def __init__(self) -> None:
        self._known: AbstractSet[str] = frozenset()
        self._ready: AbstractSet[str] = frozenset()
        self._awaited: dict[str, float] = {}  # Since when.
        self._since: dict[str, float] = {}  # When each agent fell silent that is not ready.
        self._most_heard_since: float | None = None
        self._proven_until = -math.inf  # Others may be about to follow an agent that fell later.
        self.suspects: frozenset[str] = frozenset()  # Those whose silence proves nothing; mostly none.

    def update(
        self,
        agents: AbstractSet[str],
        quiet: Mapping[str, State],
        heard: Callable[[str], float],
        now: float,
        grace: float,
    ) -> None:
        """Learn which agents there are, and the states of those that are quiet; all others are ready.

        `heard` returns when a ready one gave its last sign of life.
        """
        self._note_falls(agents, quiet, now, grace)
        ready = self._ready
        recent = {node for node, since in self._since.items() if now - since <= grace}
        perhaps_alive = len(ready) + len(self._awaited)
        together = len(recent) >= LEAST_TOGETHER and len(recent) > perhaps_alive
        suspects = set(self.suspects & self._since.keys())
        if self.suspects or together:
            suspects |= recent
        if len(suspects) > len(ready):
            self._most_heard_since = None
        elif self._most_heard_since is None:
            self._most_heard_since = now
        elif now - self._most_heard_since > grace:
            suspects.clear()
        self.suspects = frozenset(suspects)
        if recent:
            followed = self._all_followed([heard(node) for node in ready], recent, now)
            self._proven_until = max(self._proven_until, now - grace, followed)

    def proves_nothing(self, node: str) -> bool:
        """Whether the silence of an agent may be our fault: then it is not to be reported."""
        return (
            node in self.suspects
            or node in self._awaited
            or self._since.get(node, -math.inf) > self._proven_until
        )

    def restored(self, awaited: AbstractSet[str], now: float) -> None:
        """Await these agents, none of which is ready before it renews: that they are not says nothing."""
        self._ready -= awaited
        self._awaited |= dict.fromkeys(awaited, now)
        # Those that fell shortly before may be deaf together with those that do not come back.
        self._since = {
            node: since for node, since in self._since.items() if node in self.suspects or node not in awaited
        }

    def _all_followed(self, heard: Collection[float], recent: Collection[str], now: float) -> float:
        """Return until when agents fell of which we know that too few can follow to make most of all.

        Those can that gave no sign of life since, and all that are awaited.
        """
        uncertain = len(recent) + len(self._awaited)
        few = max((len(heard) - uncertain) // 2, LEAST_TOGETHER - 1 - uncertain)
        if few < 0:
            return -math.inf
        return sorted(heard)[few] if few < len(heard) else now

    def _note_falls(
        self, agents: AbstractSet[str], quiet: Mapping[str, State], now: float, grace: float
    ) -> None:
        for node in agents - self._known:
            if quiet.get(node) is not State.SILENT:
                self._awaited[node] = now
        lost = {node for node, since in self._awaited.items() if now - since > grace}
        for node in quiet.keys() & (self._ready | lost):
            self._since.setdefault(node, now)
        self._known, self._ready = frozenset(agents), agents - quiet.keys()
        self._awaited = {
            node: since for node, since in self._awaited.items() if node in quiet and node not in lost
        }
        self._since = {node: since for node, since in self._since.items() if node in quiet}
