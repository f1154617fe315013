"""The lifecycle controller's judgement: which agents are silent.

It is told of every Lease and Device, judges once a second and at each sign of life, and
tells the ledger. What becomes of it in the API (the Device's Ready condition) is made
from the ledger's summaries by the reconciler.
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
        """A Lease is new or changed."""
        if liveness.note(self._signs, node, renewal, self._clock()):
            self._judge_one(node)

    def lease_gone(self, node: str) -> None:
        """A Lease is gone: no sign of life is left."""
        self._signs.pop(node, None)
        self._judge_one(node)

    def device_seen(self, node: str, *, found_silent: bool) -> None:
        """A Device is new or changed; `condemned` tells that its agent was found silent before."""
        if node not in self._found_silent:
            self._found_silent[node] = found_silent
            self._judge_one(node)

    def device_gone(self, node: str) -> None:
        """A Device is gone."""
        self._found_silent.pop(node, None)

    def restored(self) -> None:
        """Believe no agent until it renews before our eyes: what it published may have been undone."""
        self._signs.clear()
        self._found_silent = dict.fromkeys(self._found_silent, True)
        self.judge()

    def judge(self) -> None:
        """Judge every node that has a Device."""
        for node in list(self._found_silent):
            self._judge_one(node)

    def _judge_one(self, node: str) -> None:
        if node not in self._found_silent:
            return
        silent = liveness.silent(
            self._signs.get(node),
            now=self._clock(),
            grace=self._ledger.policy.grace_seconds,
            condemned=self._found_silent[node],
        )
        self._ledger.agent_silent(node, silent=silent)
