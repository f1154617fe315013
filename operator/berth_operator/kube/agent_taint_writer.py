"""Taints the Nodes of silent agents, where the policy asks for that (`engine.agent_taints`).

Taints are one list, which many write: node controllers, autoscalers, people. So each change is a JSON Patch
of one entry, and it fails where the list is not as it was read: the server compares and writes in one
step, whatever happens meanwhile, and nothing of others is written again. Such a Node is tried again a little
later, as it is then. A Node that was written is compared again once the watch has shown it.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from berth_crds import logs, names
from berth_crds.client import api, resources
from berth_operator.engine import agent_taints, ports, rate_limiter
from berth_operator.engine.agent_taints import TaintReason
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import node_writer
from berth_operator.scheduling.liveness import State
from berth_operator.scheduling.nodes import facts

log = logging.getLogger(__name__)

MANAGER: Final = f"{names.OPERATOR_MANAGER}-taint"
TAINT: Final = {"key": names.AGENT_SILENT_TAINT, "effect": facts.Effect.NO_SCHEDULE}

Operations = list[dict[str, Any]]


class TaintChange(NamedTuple):
    """A Node as it was read, and why its taints are to be changed."""

    node: facts.Node
    reason: TaintReason


class AgentTaintWriter(node_writer.NodeWriter[TaintChange]):
    """Keeps the taints of silent agents right."""

    WRITTEN = "taint"

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        limiter: rate_limiter.RateLimiter,
        *,
        clock: ports.Clock,
        state_of: Callable[[str], State],
        report_write: Callable[[bool], None] = lambda _tainted: None,
    ) -> None:
        """Start without a look; `state_of` returns what is known for sure of the agent of a node."""
        super().__init__(session, ledger, limiter, clock=clock)
        self._state_of = state_of
        self._report_write = report_write
        self._as_written: dict[str, facts.Node] = {}  # What was known of a Node when it was written.

    def policy_part(self) -> bool:
        """Return whether the policy asks for taints."""
        return self.ledger.policy.taint_silent

    def on_full_pass(self) -> None:
        """Compare also the Nodes whose written taint the watch has not shown."""
        self._as_written.clear()

    def change(self, node: str) -> TaintChange | None:
        """Return the change of a Node's taints; None where the watch has yet to show the last one."""
        info = self.ledger.inventory.node(node)
        if info is None or info.node is None:
            self._as_written.pop(node, None)
            return None
        if self._as_written.get(node) is info.node:
            return None
        reason = agent_taints.change(info, self._state_of(node), self.ledger.policy)
        return TaintChange(info.node, reason) if reason is not None else None

    def stays_due(self, node: str) -> bool:
        """Whether the Node has the taint, and its agent may be back without a change of the node."""
        info = self.ledger.inventory.node(node)
        if info is None or info.node is None or info.node.silent_taint is None:
            return False
        state = self._state_of(node)
        return agent_taints.judge(info, state, self.ledger.policy) is TaintReason.UNKNOWN

    async def write(self, node: str, change: TaintChange) -> None:
        """Add or remove the taint."""
        await self.session.send(
            "PATCH",
            resources.NODES.path(node),
            params={"fieldManager": MANAGER},
            body=msgspec.json.encode(operations(change.node, tainted=change.reason.tainted)),
            content=api.JSON_PATCH,
            deadline=node_writer.WRITE_SECONDS,
        )
        self._as_written[node] = change.node
        self._report_write(change.reason.tainted)
        log.info(
            "node %s: the taint %s:%s is %s: %s",
            node,
            TAINT["key"],
            TAINT["effect"],
            "added" if change.reason.tainted else "removed",
            change.reason.value,
            extra=logs.node(node),
        )


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
