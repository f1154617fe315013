"""What the agent of a node saw last, for metrics.

Only errors and ticks are counted here, everything else is the latest state. `metrics` turns it
into series when it is scraped; an agent that is never scraped spends next to nothing on it.
"""

import collections
from collections.abc import Callable, Iterable

from berth_agent import probe
from berth_crds import wire


class NodeView:
    """What the agent of one node saw last; times are the event loop's, in seconds."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.sample: probe.Sample | None = None
        self.status = wire.DeviceStatus()
        self.gpupods: Callable[[], Iterable[wire.GpuPod]] = tuple
        self.answered_at: dict[str, float] = {}  # When each source last answered.
        self.xids: collections.Counter[tuple[str, int]] = collections.Counter()
        self.last_xids: dict[str, int] = {}
        self.ticks = 0
        self.tick_seconds = 0.0

    def unready(self, now: float, *, most: float) -> str:
        """Return why what is published cannot be counted on, as a sentence; empty if it can be."""
        if (published := self.answered_at.get("api")) is None:
            return f"{self.node} has not been published yet."
        age = now - published
        return f"{self.node} was published {age:.0f} s ago and not since." if age > most else ""

    def record_sample(self, outcome: probe.Outcome, now: float) -> None:
        """Record a sample; a source that failed leaves the one before."""
        if isinstance(outcome, probe.Sample):
            self.sample = outcome
            self.answered_at["nvml"] = now
            self.xids.update((each.uuid, each.number) for each in outcome.xids)
            self.last_xids |= {each.uuid: each.number for each in outcome.xids}

    def record_tick(self, *, seconds: float, now: float) -> None:
        """Record a tick that was published."""
        self.answered_at["api"] = now
        self.ticks += 1
        self.tick_seconds += seconds
