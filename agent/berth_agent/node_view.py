"""What the agent of a node saw last, on a board for whoever asks.

Nothing is counted along but what only counting can tell. Who reads it, and in which form, is
left to others; an agent that nobody asks pays next to nothing for it.
"""

import collections
from collections.abc import Callable, Iterable

from berth_agent import probe
from berth_crds import wire


class Board:
    """What the agent of one node saw last; times are the event loop's, in seconds."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.sample: probe.Sample | None = None
        self.status = wire.DeviceStatus()
        self.held: Callable[[], Iterable[wire.GpuPod]] = tuple
        self.answered: dict[str, float] = {}  # When each source last said what was asked of it.
        self.xids: collections.Counter[tuple[str, int]] = collections.Counter()
        self.last_xids: dict[str, int] = {}
        self.ticks = 0
        self.tick_seconds = 0.0

    def __repr__(self) -> str:
        """Show the state in words."""
        return f"<Board of {self.node}: {self.ticks} ticks>"

    def looked(self, outcome: probe.Outcome, now: float) -> None:
        """Take what a look gave; one that failed leaves what was seen before, growing old."""
        if isinstance(outcome, probe.Sample):
            self.sample = outcome
            self.answered["nvml"] = now
            self.xids.update((each.uuid, each.number) for each in outcome.xids)
            self.last_xids |= {each.uuid: each.number for each in outcome.xids}

    def ticked(self, *, seconds: float, now: float) -> None:
        """Record a tick whose findings the API took."""
        self.answered["api"] = now
        self.ticks += 1
        self.tick_seconds += seconds
