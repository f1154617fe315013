"""The watchdog: which agents are silent.

It receives every Lease and Device, judges agents once a second and at each renewal, and informs the
ledger. The Device's Ready condition is written by the reconciler, from the summaries of nodes.
"""

import asyncio
from typing import Final

from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import liveness

INTERVAL_SECONDS: Final = 1.0


class Watchdog:
    """Judges the liveness of agents."""

    def __init__(self, ledger: Ledger, *, clock: ports.Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._signs: dict[str, liveness.Sign] = {}
        self._found_silent: dict[str, bool] = {}  # For each Device, whether it was not Ready when first read.

    async def run(self) -> None:
        """Judge for ever."""
        while True:
            self.judge()
            await asyncio.sleep(INTERVAL_SECONDS)

    def lease_seen(self, node: str, renewal: str) -> None:
        """Record a new or changed Lease."""
        if liveness.note(self._signs, node, renewal, self._clock()):
            self._judge_one(node)

    def lease_gone(self, node: str) -> None:
        """Forget a Lease: its agent is silent without one."""
        self._signs.pop(node, None)
        self._judge_one(node)

    def device_seen(self, node: str, *, found_silent: bool) -> None:
        """Record a new or changed Device; `found_silent`: its agent was found silent before."""
        if node not in self._found_silent:
            self._found_silent[node] = found_silent
            self._judge_one(node)

    def device_gone(self, node: str) -> None:
        """Forget a Device."""
        self._found_silent.pop(node, None)

    def restored(self) -> None:
        """Treat all agents as silent until they renew: the API may show an older state of them."""
        self._signs.clear()
        self._found_silent = dict.fromkeys(self._found_silent, True)
        self.judge()

    def judge(self) -> None:
        """Judge every node that has a Device."""
        for node in list(self._found_silent):
            self._judge_one(node)

    def _judge_one(self, node: str) -> None:
        if node in self._found_silent:
            silent = liveness.silent(
                self._signs.get(node),
                now=self._clock(),
                grace=self._ledger.policy.grace_seconds,
                condemned=self._found_silent[node],
            )
            self._ledger.agent_silent(node, silent=silent)
