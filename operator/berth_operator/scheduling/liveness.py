"""Which agents are alive: judged by the moments at which renewals were seen.

The clocks of two machines never agree, so the time written in a Lease is only compared with itself: a
changed one is a sign of life at the moment we saw it. How long an agent may give no sign, and when that is
reported, `spec.agents` of the PlacementPolicy says.
"""

import dataclasses
import enum
from collections.abc import Mapping
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

    The first Lease we read may be an old one, whose holder died before we started.
    """

    renewal: str
    seen: float
    fresh: bool


class Periods(NamedTuple):
    """For how many seconds an agent is ready after a sign of life, and for how many more it is unknown."""

    grace: float
    unknown: float


def note(signs: dict[str, Sign], node: str, renewal: str, now: float) -> bool:
    """Record a Lease; tell whether it says anything new."""
    if (known := signs.get(node)) is not None and known.renewal == renewal:
        return False
    signs[node] = Sign(renewal, now, fresh=known is not None)
    return True


class Doubt(enum.Enum):
    """What a Lease that we did not see change counts for."""

    NONE = "it is a sign of life at the moment that we first saw it"
    OLD = "nothing: after a restore, the API may show an older state"
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


class MassSilence:
    """Tells when so many agents fall silent together that it may be us, who do not hear them.

    That is so when more than half of the agents, and at least three, cease to be ready within one grace
    period. It is over when no more than half have been silent for a grace period: those that report again
    do so one after another.
    """

    def __init__(self) -> None:
        self._ready: set[str] = set()
        self._since: dict[str, float] = {}  # When each agent ceased to be ready that was.
        self._most_heard_since: float | None = None
        self.suspects: frozenset[str] = frozenset()  # Those whose silence proves nothing; mostly none.

    def update(self, states: Mapping[str, State], now: float, grace: float) -> None:
        """Learn the states of all agents."""
        ready = {node for node, state in states.items() if state is State.READY}
        for node in self._ready - ready:
            self._since.setdefault(node, now)
        self._ready = ready
        self._since = {
            node: since for node, since in self._since.items() if node in states and node not in ready
        }
        recent = {node for node, since in self._since.items() if now - since <= grace}
        together = len(recent) >= LEAST_TOGETHER and len(recent) > len(ready)
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
