"""The watchdog: which agents are ready, unknown or silent.

It receives every Lease and Device, judges agents once a second and at each renewal, and informs the
ledger. The Device's Ready condition is written by the reconciler, from the summaries of nodes. The GpuPods
of a node whose agent is silent stay as they are: the pods still hold what these say.
"""

import asyncio
import logging
from typing import Final

from berth_crds.client import history
from berth_operator.engine import measured_loads, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import liveness
from berth_operator.scheduling.liveness import Doubt, State

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 1.0


class Watchdog:
    """Judges the liveness of agents."""

    def __init__(self, ledger: Ledger, *, clock: ports.Clock, logger: logging.Logger = log) -> None:
        self._ledger = ledger
        self._clock = clock
        self._logger = logger
        self._signs: dict[str, liveness.Sign] = {}
        self._missing_since: dict[str, float] = {}  # For each Device without a Lease.
        self._doubts: dict[str, Doubt] = {}  # For each Device.
        self._quiet: set[str] = set()  # The agents that were not ready when they were last judged.
        self._mass_silence = liveness.MassSilence()
        # Up to which revision no Lease is of a ready agent, as the last leader knew and as we know.
        self._inherited_stale: int | None = None
        self._stale_revision = 0
        self.loads = measured_loads.MeasuredLoads(ledger, clock=clock)

    async def run(self) -> None:
        """Judge for ever."""
        while True:
            self.judge()
            self._ledger.devices_changed(self._ledger.inventory.settle_moved_cards())
            await asyncio.sleep(INTERVAL_SECONDS)

    def lease_seen(self, node: str, renewal: str, version: str = "") -> bool:
        """Record a new or changed Lease, and its revision; return whether the agent has renewed it."""
        revision = history.revision(version) or 0
        if not liveness.note(self._signs, node, renewal, self._clock(), revision):
            return False
        self._judge_one(node)
        return True

    def lease_gone(self, node: str) -> None:
        """Forget a Lease; without one an agent is unknown, and after a time silent."""
        self._signs.pop(node, None)
        self.loads.forget(node)
        if node in self._doubts:
            self._missing_since[node] = self._clock()
        self._judge_one(node)

    def device_seen(self, node: str, *, found_silent: bool) -> None:
        """Record a new or changed Device; `found_silent`: its agent was found silent before."""
        if node not in self._doubts:
            self._doubts[node] = Doubt.CONDEMNED if found_silent else Doubt.NONE
            self._missing_since[node] = self._clock()
            self._judge_one(node)

    def device_gone(self, node: str) -> None:
        """Forget a Device."""
        self._doubts.pop(node, None)
        self._quiet.discard(node)
        self._missing_since.pop(node, None)

    def restored(self) -> None:
        """Treat no agent as ready until it renews: the API may show an older state of them."""
        silent = {node for node in self._doubts if self._surely_silent(node, self._state(node))}
        for node in self._doubts:
            self._doubts[node] = Doubt.CONDEMNED if node in silent else Doubt.OLD
        self._missing_since = dict.fromkeys(self._doubts, self._clock())
        self._quiet = set(self._doubts)
        self._signs.clear()
        self._forget_revisions()
        self.loads.forget_all()
        self._mass_silence.restored(self._doubts.keys() - silent, self._clock())
        self.judge()

    def inherit(self, stale_revision: int) -> None:
        """Learn from the last leader up to which revision no Lease is of an agent that is ready."""
        self._inherited_stale = stale_revision
        self._stale_revision = max(self._stale_revision, stale_revision)
        self._quiet = set(self._doubts)
        self.judge()
        if held := sum(self._doubt(node) is not known for node, known in self._doubts.items()):
            self._logger.warning(
                "the cards of %d agents get no new pods until these renew their Leases: the last leader knew "
                "them as not ready",
                held,
            )

    def stale_revision(self) -> int | None:
        """Return what the next leader has to inherit; None before we did. It may be called by any thread."""
        return None if self._inherited_stale is None else self._stale_revision

    def _forget_revisions(self) -> None:
        """Begin anew after a restore: what is written from now on has lower revisions."""
        self._inherited_stale = None if self._inherited_stale is None else 0
        self._stale_revision = 0

    def judge(self) -> None:
        """Judge the agents of all Devices, and whether so many are silent that it may be us.

        An agent that was ready is looked at once its time is over, so that each second only a few are.
        """
        agents, now, grace = self._doubts.keys(), self._clock(), self._ledger.policy.grace_seconds
        looked_at = self._quiet | agents & set(liveness.overdue(self._signs, now, grace))
        states = {node: self._state(node) for node in looked_at}
        quiet = {node: state for node, state in states.items() if state is not State.READY}
        self._quiet = set(quiet)
        before = self._mass_silence.suspects
        self._mass_silence.update(agents, quiet, lambda node: self._signs[node].seen, now, grace)
        suspects = self._mass_silence.suspects
        self._alarm(len(before), len(suspects), len(agents))
        self._ledger.suspects = len(suspects)
        self._stale_revision = liveness.stale_revision(agents, self._quiet, self._signs, self._stale_revision)
        for node, state in states.items():
            self._tell(node, state)
        self.loads.refresh()

    def known_state(self, node: str) -> State:
        """Return what is known for sure of an agent; all else is unknown.

        An agent is surely ready once we have seen it renew its Lease, and surely silent if that proves
        something: it is no suspect, and not one of so many that may be falling silent together.
        One that was found silent before we began may have come back: for a grace period it is not known.
        """
        if node not in self._doubts:
            return State.UNKNOWN
        state, sign = self._state(node), self._signs.get(node)
        fresh = sign is not None and sign.fresh
        if state is State.READY and not fresh:
            return State.UNKNOWN
        watched = self._clock() - self._missing_since.get(node, self._clock())
        if (
            not fresh
            and self._doubts[node] is Doubt.CONDEMNED
            and watched < self._ledger.policy.grace_seconds
        ):
            return State.UNKNOWN
        if state is State.SILENT and not self._surely_silent(node, state):
            return State.UNKNOWN
        return state

    def is_ready(self, node: str) -> bool:
        """Whether an agent surely reports: we have seen it renew its Lease in time."""
        return self.known_state(node) is State.READY

    def _judge_one(self, node: str) -> None:
        if node not in self._doubts:
            return
        state = self._state(node)
        if state is State.READY:
            self._quiet.discard(node)
        else:
            self._quiet.add(node)
        self._tell(node, state)

    def _state(self, node: str) -> State:
        policy, now = self._ledger.policy, self._clock()
        return liveness.state(
            self._signs.get(node),
            now=now,
            missing_since=self._missing_since.get(node, now),
            periods=liveness.Periods(policy.grace_seconds, policy.unknown_seconds),
            doubt=self._doubt(node),
        )

    def _doubt(self, node: str) -> Doubt:
        """Return what a Lease counts for that we did not see change."""
        doubt, sign = self._doubts[node], self._signs.get(node)
        is_stale = sign is not None and not sign.fresh and 0 < sign.revision <= (self._inherited_stale or 0)
        return Doubt.OLD if doubt is Doubt.NONE and is_stale else doubt

    def _tell(self, node: str, state: State) -> None:
        """Inform the ledger; silence that proves nothing stays unknown."""
        is_silent = state is not State.READY
        is_unknown = is_silent and not self._surely_silent(node, state)
        self._ledger.agent_silent(node, silent=is_silent, unknown=is_unknown)

    def _surely_silent(self, node: str, state: State) -> bool:
        return state is State.SILENT and not self._mass_silence.proves_nothing(node)

    def _alarm(self, before: int, now: int, all_agents: int) -> None:
        """Log when a mass silence begins and when it ends."""
        if now and not before:
            self._logger.error(
                "%d of %d agents fell silent within %g s, so the fault may be ours: check the connection "
                "to the API server. Their cards get no new pods, and nothing is written of it until most "
                "report again",
                now,
                all_agents,
                self._ledger.policy.grace_seconds,
            )
        elif before and not now:
            self._logger.warning("most agents report again; the others now count as silent")
