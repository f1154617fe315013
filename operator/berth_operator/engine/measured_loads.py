"""The measured loads of cards on our own clock: how long each counts, and which waiting pods it may help.

They come with the agents' Leases, or from Prometheus where the policy says so; then those of Leases are not
even read. What a load changes is used at the next decision anyway; only pods that
wait for free memory are tried again because of it, and that once in ten seconds at most: on a large cluster
some card nearly always frees a little.
"""

from typing import Final

from berth_crds import card_load
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import card_loads
from berth_operator.scheduling.decisions import ClusterEvent

WAKING_SECONDS: Final = 10.0


class MeasuredLoads:
    """What is reported of the load of cards, by the source that the policy names."""

    def __init__(self, ledger: Ledger, *, clock: ports.Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._texts: dict[str, str] = {}  # As last reported, by node.
        self._freed = False
        self._next_waking = 0.0

    @property
    def _from_agents(self) -> bool:
        return self._ledger.policy.prometheus is None

    def is_known(self, node: str, text: str) -> bool:
        """Record that an agent reports this; return whether there is nothing new in it.

        It is so if the agent reported the same before, and that counts, or if agents are not the source.
        """
        if not self._from_agents:
            return True
        if self._texts.get(node, "") != text:
            return False
        return not text or self._ledger.loads.confirm(node, self._clock())

    def report(self, node: str, text: str, loads: card_loads.Loads) -> None:
        """Record what is new; a text that cannot be read has no loads."""
        self._texts[node] = text if len(text) <= card_load.LONGEST else ""
        self._freed |= self._ledger.loads.report(node, loads, self._clock())

    def found(self, node: str, loads: card_loads.Loads) -> None:
        """Record what Prometheus has of a node."""
        self._freed |= self._ledger.loads.report(node, loads, self._clock())

    def forget(self, node: str) -> None:
        """Let nothing count that the agent of a node reported."""
        if self._texts.pop(node, None) and self._from_agents:
            self._freed |= self._ledger.loads.forget(node)

    def forget_all(self) -> None:
        """Let nothing count that any agent reported."""
        for node in list(self._texts):
            self.forget(node)

    def refresh(self) -> None:
        """Let nothing count that is too old, and wake the pods that wait for memory where some came free."""
        ledger = self._ledger
        self._freed |= ledger.loads.expire(self._clock() - ledger.policy.load_age)
        now = self._clock()
        if not self._freed or now < self._next_waking:
            return
        if ledger.backlog.awaits(freed := frozenset({ClusterEvent.LOAD_CHANGED})):
            self._next_waking = now + WAKING_SECONDS
            ledger.backlog.cluster_event(freed)
            ledger.wake.set()
        self._freed = False
