"""Taints the Nodes of silent agents, where the policy asks for that (`engine.agent_taints`).

Taints are one list, which many write: node controllers, autoscalers, people. So each change is a JSON Patch
of one entry, and it fails where the list is not as it was read: the server compares and writes in one
step, whatever happens meanwhile, and nothing of others is written again. Such a Node is tried again a little
later, as it is then.

It is level-based: all nodes are compared at the start and every few minutes, and in between those that have
changed. A Node that was written is compared again once the watch has shown it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from berth_crds import logs, names
from berth_crds.client import api, errors, resources
from berth_operator.engine import agent_taints, ports, rate_limiter
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import write_failures
from berth_operator.scheduling.liveness import State
from berth_operator.scheduling.nodes import facts

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
FULL_PASS_SECONDS: Final = 300.0
WRITE_SECONDS: Final = 5.0
COMPARED_AT_ONCE: Final = 500  # Nodes between two awaits.
MANAGER: Final = f"{names.OPERATOR_MANAGER}-taint"
TAINT: Final = {"key": names.AGENT_SILENT_TAINT, "effect": facts.Effect.NO_SCHEDULE}

Operations = list[dict[str, Any]]


class AgentTaintWriter:
    """Keeps the taints of silent agents right."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        state_of: Callable[[str], State],
        limiter: rate_limiter.RateLimiter,
        *,
        clock: ports.Clock,
        written: Callable[[bool], None] = lambda _tainted: None,
    ) -> None:
        """Start without a look; `state_of` returns what is known for sure of the agent of a node."""
        self._session = session
        self._ledger = ledger
        self._state_of = state_of
        self._changes = ledger.changes.reader()
        self._rate_limiter = limiter
        self._clock = clock
        self._report_write = written
        self._failures = write_failures.WriteFailures[str](clock)
        self._policy_asks: bool | None = None
        self._next_full_pass = 0.0
        self._due: set[str] = set()
        self._as_written: dict[str, facts.Node] = {}  # What was known of a Node when it was written.

    async def run(self) -> None:
        """Keep them right for ever."""
        while True:
            await self.catch_up()
            await asyncio.sleep(LOOK_SECONDS)

    async def catch_up(self) -> None:
        """Write what differs on the nodes that have changed, and what could not be written before."""
        self._due |= self._changed()
        for at, node in enumerate(sorted(self._due)):
            if at % COMPARED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if not self._failures.in_backoff(node) and not await self._settle(node):
                return  # The server is unavailable.

    def _changed(self) -> set[str]:
        """Return the nodes that have changed since the last time; all where the policy has, or it is time."""
        changed, asks, now = self._changes.read(), self._ledger.policy.taint_silent, self._clock()
        if changed is not None and asks is self._policy_asks and now < self._next_full_pass:
            return changed
        self._policy_asks, self._next_full_pass = asks, now + FULL_PASS_SECONDS
        self._as_written.clear()
        return set(self._ledger.inventory.index)

    async def _settle(self, node: str) -> bool:
        """Have the taints of a Node be right; return whether the server is there."""
        try:
            if self._change(node):
                await self._rate_limiter.acquire()
            if (change := self._change(node)) is not None:  # Much may have happened during the wait.
                await self._write(*change)
        except errors.NotFound:
            log.debug("node %s is gone", node)
        except errors.ClientError as error:
            return self._failed(node, error)
        self._failures.succeeded(node)
        if not self._is_open(node):
            self._due.discard(node)
        return True

    def _change(self, node: str) -> tuple[facts.Node, agent_taints.Verdict] | None:
        """Return a Node that is to be changed, and why; None where the watch has yet to show the change."""
        info = self._ledger.inventory.node(node)
        if info is None or info.node is None:
            self._as_written.pop(node, None)
            return None
        if self._as_written.get(node) is info.node:
            return None
        verdict = agent_taints.change(info, self._state_of(node), self._ledger.policy)
        return (info.node, verdict) if verdict is not None else None

    def _is_open(self, node: str) -> bool:
        """Whether a Node is to be looked at again although nothing of it changes: its agent may be back."""
        info = self._ledger.inventory.node(node)
        if info is None or info.node is None or info.node.silent_taint is None:
            return False
        state = self._state_of(node)
        return agent_taints.judge(info, state, self._ledger.policy) is agent_taints.Verdict.AS_IT_IS

    async def _write(self, node: facts.Node, verdict: agent_taints.Verdict) -> None:
        await self._session.send(
            "PATCH",
            resources.NODES.path(node.name),
            params={"fieldManager": MANAGER},
            body=msgspec.json.encode(operations(node, tainted=verdict.tainted)),
            content=api.JSON_PATCH,
            deadline=WRITE_SECONDS,
        )
        self._as_written[node.name] = node
        self._report_write(verdict.tainted)
        log.info(
            "node %s: the taint %s:%s is %s: %s",
            node.name,
            TAINT["key"],
            TAINT["effect"],
            "added" if verdict.tainted else "removed",
            verdict.value,
            extra=logs.node(node.name),
        )

    def _failed(self, node: str, error: errors.ClientError) -> bool:
        """Have a write tried again later; return whether only this node is concerned."""
        if isinstance(error, errors.Throttled):
            self._rate_limiter.back_off(error.pause)
        if errors.is_systemic(error) or self._failures.failed(node):
            log.debug("taints are not written: %s", error)
            return False
        # Its taints are other than they were read; the watch will show them.
        outdated = isinstance(error, errors.Invalid | errors.Conflict)
        log.log(
            logging.DEBUG if outdated else logging.WARNING,
            "node %s: its taint is not written: %s",
            node,
            error,
            extra=logs.node(node),
        )
        return True


def operations(node: facts.Node, *, tainted: bool) -> Operations:
    """Return the JSON Patch that adds or removes the taint, and fails where the taints are others by now."""
    if node.silent_taint is not None and not tainted:
        path = f"/spec/taints/{node.silent_taint}"
        return [
            *({"op": "test", "path": f"{path}/{field}", "value": value} for field, value in TAINT.items()),
            {"op": "remove", "path": path},
        ]
    if node.taints:
        # There is no entry to append to where the list is gone, and the server takes no taint twice.
        return [{"op": "add", "path": "/spec/taints/-", "value": TAINT}]
    return [
        {"op": "test", "path": "/spec/taints", "value": None},
        {"op": "add", "path": "/spec/taints", "value": [TAINT]},
    ]
