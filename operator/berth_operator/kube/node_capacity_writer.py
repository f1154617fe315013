"""Has each node list in its status what its devices can give (`engine.node_capacity`).

The status of a Node is its kubelet's, which keeps the names that others add, and copies them from capacity to
allocatable; so both are written at once. A kubelet that is started again may set all such names to
zero, and then they are written again. A name that somebody else serves, such as a device plugin, is left
alone: the API server knows who wrote which field, and refuses ours there.
"""

import logging
import re
from collections.abc import Iterable
from typing import Final

from berth_crds import logs, names, vocabulary
from berth_crds.client import api, errors, resources
from berth_operator.engine import node_capacity, ports, rate_limiter
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.node_capacity import Amounts
from berth_operator.kube import node_writer
from berth_operator.scheduling.policy import Oversale

log = logging.getLogger(__name__)

MANAGER: Final = f"{names.OPERATOR_MANAGER}-capacity"


class NodeCapacityWriter(node_writer.NodeWriter[Amounts]):
    """Keeps what nodes list right."""

    WRITTEN = "capacity"

    def __init__(
        self, session: api.Api, ledger: Ledger, limiter: rate_limiter.RateLimiter, *, clock: ports.Clock
    ) -> None:
        """Start with no node compared."""
        super().__init__(session, ledger, limiter, clock=clock)
        self._written: dict[str, Amounts] = {}  # By node, the last time.
        self._foreign: dict[str, frozenset[str]] = {}  # By node, the names that others serve.

    def policy_part(self) -> tuple[vocabulary.NodeNames, Oversale]:
        """Return the names that nodes are to list, and how much core they may promise."""
        return self.ledger.policy.node_names, self.ledger.policy.oversale

    def change(self, node: str) -> Amounts | None:
        """Return what a node is to list, if it does not."""
        info = self.ledger.inventory.node(node)
        if info is None or info.node is None:
            self._written.pop(node, None)
            self._foreign.pop(node, None)
            return None
        unadmitted = self.ledger.unadmitted_pods.charged_on(node)
        if (wanted := node_capacity.of_node(info, *self.policy_part(), unadmitted)) is None:
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

    async def write(self, node: str, change: Amounts) -> None:
        """Write all names of a node but those that others serve; the kubelet's zeros are overwritten."""
        try:
            await self._apply(node, change, force=False)
        except errors.Conflict as conflict:
            change = self._without_foreign(node, change, str(conflict))
            await self._apply(node, change, force=True)
        self._written[node] = change

    def _without_foreign(self, node: str, wanted: Amounts, conflict: str) -> Amounts:
        info = self.ledger.inventory.node(node)
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
        await self.session.apply(
            resources.NODES,
            {"metadata": {"name": node}, "status": {"capacity": listed, "allocatable": listed}},
            manager=MANAGER,
            sub="status",
            deadline=node_writer.WRITE_SECONDS,
            force=force,
        )


def conflicting(conflict: str, asked: Iterable[str]) -> set[str]:
    """Return the names that an answer of the server says are somebody else's."""
    return {name for name in asked if re.search(rf"[.]{re.escape(name)}(?![\w./-])", conflict)}
