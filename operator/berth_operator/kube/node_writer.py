"""What writers of Nodes have in common: which Nodes are compared when, and what a failure means.

It is level-based: all nodes are compared at the start, when the policy changes, and every few minutes; in
between, those that have changed and those whose write failed. Nodes are written one after another, behind the
binds and with a rate limit of their own: nothing waits for these writes.
"""

import abc
import asyncio
import logging
from typing import Final, Generic, TypeVar

from berth_crds import logs
from berth_crds.client import api, errors
from berth_operator.engine import ports, rate_limiter
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import write_failures

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
FULL_PASS_SECONDS: Final = 300.0
WRITE_SECONDS: Final = 5.0
# What the server says of one Node. To be forbidden concerns all, unless an admission policy says it.
REFUSALS: Final = (errors.BadRequest, errors.Conflict, errors.Invalid, errors.Oversized)
COMPARED_AT_ONCE: Final = 100  # Nodes between two awaits.

Change = TypeVar("Change")


class NodeWriter(abc.ABC, Generic[Change]):
    """Keeps something right on each Node."""

    WRITTEN: str  # What is written, for logs.

    def __init__(
        self, session: api.Api, ledger: Ledger, limiter: rate_limiter.RateLimiter, *, clock: ports.Clock
    ) -> None:
        """Start with no node compared."""
        self.session = session
        self.ledger = ledger
        self._changes = ledger.changes.reader()
        self._rate_limiter = limiter
        self._clock = clock
        self._failures = write_failures.WriteFailures[str](clock)
        self._compared_by: object = None  # The part of the policy at the last full pass.
        self._next_full_pass = 0.0
        self._due: set[str] = set()
        self._last_tried = ""  # The node whose write met the last outage.

    @abc.abstractmethod
    def policy_part(self) -> object:
        """Return the part of the policy that matters here; all nodes are compared when it changes."""

    @abc.abstractmethod
    def change(self, node: str) -> Change | None:
        """Return what is to be written on a Node; None where nothing is."""

    @abc.abstractmethod
    async def write(self, node: str, change: Change) -> None:
        """Write a change."""

    def on_full_pass(self) -> None:
        """Forget what only spares comparisons, since all nodes are compared now."""

    def stays_due(self, node: str) -> bool:  # noqa: ARG002
        """Whether a node is to be compared again although nothing of it changes."""
        return False

    async def run(self) -> None:
        """Keep all Nodes right for ever."""
        while True:
            await self.catch_up()
            await asyncio.sleep(LOOK_SECONDS)

    async def catch_up(self) -> None:
        """Write what differs on the nodes that have changed, and what could not be written before."""
        self._due |= self._changed()
        for at, node in enumerate(sorted(self._due, key=self._turn)):
            if at % COMPARED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if not self._failures.in_backoff(node) and not await self._settle(node):
                self._last_tried = node
                return  # The server is unavailable, or seems so: the next pass begins behind this node.

    def _turn(self, node: str) -> tuple[bool, bool, str]:
        """Return when a node has its turn: those that failed alone come last."""
        return self._failures.failed_alone(node), node <= self._last_tried, node

    def _changed(self) -> set[str]:
        """Return the nodes to compare: those that have changed, or all."""
        changed, part, now = self._changes.read(), self.policy_part(), self._clock()
        if changed is not None and part == self._compared_by and now < self._next_full_pass:
            return changed
        self._compared_by, self._next_full_pass = part, now + FULL_PASS_SECONDS
        self.on_full_pass()
        return set(self.ledger.inventory.index)

    async def _settle(self, node: str) -> bool:
        """Write what differs on a Node; return whether the server is there."""
        try:
            if self.change(node) is not None:
                await self._rate_limiter.acquire()
            if (change := self.change(node)) is not None:  # Much may have happened during the wait.
                await self.write(node, change)
        except errors.NotFound:
            log.debug("node %s is gone", node)
        except errors.ClientError as error:
            return self._failed(node, error)
        except Exception:  # Berth's own fault, which is to concern this node alone.
            log.exception("node %s: its %s is not written", node, self.WRITTEN, extra=logs.node(node))
            self._due.discard(node)
            return True
        self._failures.succeeded(node)
        if not self.stays_due(node):
            self._due.discard(node)
        return True

    def _failed(self, node: str, error: errors.ClientError) -> bool:
        """Have a write tried again later; return whether only this node is concerned."""
        if isinstance(error, errors.Throttled):
            self._rate_limiter.back_off(error.pause)
        if isinstance(error, REFUSALS):
            self._failures.refused(node)
        elif errors.is_systemic(error) or self._failures.failed(node):
            log.debug("the %s of nodes is not written: %s", self.WRITTEN, error)
            return False
        # A Node that is other than it was read is no fault; the watch will show it.
        outdated = isinstance(error, errors.Invalid | errors.Conflict)
        log.log(
            logging.DEBUG if outdated else logging.WARNING,
            "node %s: its %s is not written: %s",
            node,
            self.WRITTEN,
            error,
            extra=logs.node(node),
        )
        return True
