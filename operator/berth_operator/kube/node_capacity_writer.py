"""Has each node list in its status what its devices can give (`engine.node_capacity`).

The status of a Node is its kubelet's, which keeps the names that others add, and copies them from capacity to
allocatable; so both are written at once. A kubelet that is started again may set all such names to
zero, and then they are written again. A name that somebody else serves, such as a device plugin, is left
alone: the API server knows who wrote which field, and refuses ours there.

It is level-based: all nodes are compared once, and from then on those that have changed.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from typing import Final

from berth_crds import logs, names, vocabulary
from berth_crds.client import api, errors, resources
from berth_operator.engine import node_capacity, rate_limiter
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.node_capacity import Amounts
from berth_operator.kube import write_failures

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
WRITE_SECONDS: Final = 5.0
COMPARED_AT_ONCE: Final = 100  # Nodes between two awaits.
MANAGER: Final = f"{names.OPERATOR_MANAGER}-capacity"


class NodeCapacityWriter:
    """Keeps what nodes list right."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        limiter: rate_limiter.RateLimiter,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._changes = ledger.changes.reader()
        self._rate_limiter = limiter
        self._failures = write_failures.WriteFailures[str](clock)
        self._which: vocabulary.NodeNames | None = None
        self._due: set[str] = set()
        self._written: dict[str, Amounts] = {}  # By node, the last time.
        self._foreign: dict[str, frozenset[str]] = {}  # By node, the names that others serve.

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
        """Return the nodes that have changed since the last time; all where the policy has."""
        changed, which = self._changes.read(), self._ledger.policy.node_names
        if changed is not None and which is self._which:
            return changed
        self._which = which
        return set(self._ledger.inventory.index)

    async def _settle(self, node: str) -> bool:
        """Have a node list what it is to list; return whether the server is there."""
        try:
            if self._differs(node):
                await self._rate_limiter.acquire()
            wanted = self._differs(node)  # Much may have happened during the wait.
            if wanted is not None:
                await self._write(node, wanted)
        except errors.NotFound:
            log.debug("node %s is gone", node)
        except errors.ClientError as error:
            return self._failed(node, error)
        except Exception:  # Berth's own fault, which is to concern this node alone.
            log.exception("node %s: what it lists is not written", node, extra=logs.node(node))
            self._due.discard(node)
            return True
        self._failures.succeeded(node)
        self._due.discard(node)
        return True

    def _differs(self, node: str) -> Amounts | None:
        """Return what a node is to list, if it does not."""
        info = self._ledger.inventory.node(node)
        if info is None or info.node is None:
            self._written.pop(node, None)
            self._foreign.pop(node, None)
            return None
        if (wanted := node_capacity.of_node(info, self._ledger.policy.node_names)) is None:
            return None
        shown = node_capacity.shown(info.node)
        # What others serve is ours again once nobody serves it.
        foreign = frozenset(name for name in self._foreign.get(node, ()) if shown.get(name))
        self._foreign[node] = foreign
        wanted = {name: amount for name, amount in wanted.items() if name not in foreign}
        as_wanted = all(shown.get(name) == amount for name, amount in wanted.items())
        # What is listed beyond that was taken away by the last write, or is not ours.
        is_written = self._written.get(node) == wanted or shown.keys() <= wanted.keys() | foreign
        return None if as_wanted and is_written else wanted

    async def _write(self, node: str, wanted: Amounts) -> None:
        """Write all names of a node but those that others serve; the kubelet's zeros are overwritten."""
        try:
            await self._apply(node, wanted, force=False)
        except errors.Conflict as conflict:
            wanted = self._without_foreign(node, wanted, str(conflict))
            await self._apply(node, wanted, force=True)
        self._written[node] = wanted

    def _without_foreign(self, node: str, wanted: Amounts, conflict: str) -> Amounts:
        info = self._ledger.inventory.node(node)
        shown = node_capacity.shown(info.node) if info is not None and info.node is not None else {}
        foreign = {name for name in conflicting(conflict, wanted) if shown.get(name)}
        if foreign:
            log.info(
                "node %s: somebody else serves %s, which is left alone: %s",
                node,
                ", ".join(sorted(foreign)),
                conflict,
                extra=logs.node(node),
            )
        self._foreign[node] = self._foreign.get(node, frozenset()) | foreign
        return {name: amount for name, amount in wanted.items() if name not in foreign}

    async def _apply(self, node: str, wanted: Amounts, *, force: bool) -> None:
        listed = {name: str(amount) for name, amount in wanted.items()}
        await self._session.apply(
            resources.NODES,
            {"metadata": {"name": node}, "status": {"capacity": listed, "allocatable": listed}},
            manager=MANAGER,
            sub="status",
            deadline=WRITE_SECONDS,
            force=force,
        )

    def _failed(self, node: str, error: errors.ClientError) -> bool:
        """Have a write tried again later; return whether only this node is concerned."""
        if isinstance(error, errors.Throttled):
            self._rate_limiter.back_off(error.pause)
        if errors.is_systemic(error) or self._failures.failed(node):
            log.debug("what nodes list is not written: %s", error)
            return False
        log.warning("node %s: what it lists is not written: %s", node, error, extra=logs.node(node))
        return True


def conflicting(conflict: str, asked: Iterable[str]) -> set[str]:
    """Return the names that an answer of the server says are somebody else's."""
    return {name for name in asked if re.search(rf"[.]{re.escape(name)}(?![\w./-])", conflict)}
