"""What a Node begins to list of devices counts a moment later, when its kubelet knows it as well.

The operator writes these amounts (`node_capacity_writer`), and the kubelet judges each new pod by its own
copy of the Node. A pod that came before that copy was up to date would be rejected, and never run.
"""

import asyncio
import dataclasses
from typing import Final

from berth_crds import aliases
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.node_capacity import shown
from berth_operator.scheduling.nodes import facts

SECONDS: Final = 1.0  # A kubelet hears of a change of its Node within milliseconds, if nothing is slow.


@dataclasses.dataclass(slots=True)
class Raised:
    """A Node that lists more than counts so far."""

    node: facts.Node
    timer: asyncio.TimerHandle


class RaisedAmounts:
    """Passes Nodes on to the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._raised: dict[str, Raised] = {}  # By name.

    def node_seen(self, node: facts.Node) -> None:
        """Apply a node's new state at once, but for what it lists more of than before."""
        lower = self._as_before(node)
        raised = self._raised.pop(node.name, None)
        if raised is not None and (lower == node or shown(raised.node) != shown(node)):
            raised.timer.cancel()
            raised = None
        if lower != node:
            self._raised[node.name] = Raised(node, raised.timer if raised else self._timer(node.name))
        self._ledger.node_seen(lower)

    def node_gone(self, name: str) -> None:
        """Forget a node."""
        if (raised := self._raised.pop(name, None)) is not None:
            raised.timer.cancel()
        self._ledger.node_gone(name)

    def _timer(self, name: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(SECONDS, self._apply, name)

    def _apply(self, name: str) -> None:
        self._ledger.node_seen(self._raised.pop(name).node)

    def _as_before(self, node: facts.Node) -> facts.Node:
        """Return a node without what it lists more of than counts so far; one that is new counts as it is."""
        info = self._ledger.inventory.node(node.name)
        if info is None or info.node is None:
            return node
        known = shown(info.node)
        raised = {name for name, amount in shown(node).items() if _is_raised(name, amount, known.get(name))}
        allocatable = (
            (name, known.get(name) if name in raised else amount) for name, amount in node.allocatable
        )
        kept = tuple((name, amount) for name, amount in allocatable if amount is not None)
        return dataclasses.replace(node, allocatable=kept) if raised else node


def _is_raised(name: str, amount: int, known: int | None) -> bool:
    """Whether a kubelet that knows the former amount might reject a pod that asks for the new one.

    It is content with most names that its Node does not list at all.
    """
    return name.startswith(aliases.LISTED_OR_REFUSED) if known is None else amount > known
