"""Reports the summaries of nodes: their changes to the log, all of them to the statuses.

An agent becomes silent or renews its Lease again; a source of an agent fails or recovers; devices
are cordoned or uncordoned; a cordon names no device, which is also an Event on the Device: each is one
log line. A new leader logs the state of all nodes in one line. Pods that were given other cards than they
were promised get an Event (`swap_events`).

All nodes are summed up once, and from then on those that have changed. A thousand nodes take a
while, so other tasks run in between.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import Final

from berth_crds import logs
from berth_crds.client import resources
from berth_operator.engine import change_log, node_summaries, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import events, swap_events, unchosen_events

log = logging.getLogger(__name__)

SUM_UP_SECONDS: Final = 0.5  # How often nodes that have changed are summed up ...
FLUSH_SECONDS: Final = 0.5  # ... and how often the `reconciler` writes the statuses that differ.
NO_SUCH_DEVICE: Final = "NoSuchDevice"

Show = Callable[[list[node_summaries.NodeSummary]], None]
UidOf = Callable[[str], str]


class NodeLog:
    """Compares each summary with the one before it, and logs what has changed."""

    def __init__(self, record: Callable[[events.Event], None], uid_of: UidOf) -> None:
        """Start without summaries; `uid_of` returns the uid of a Device."""
        self._record = record
        self.swaps = swap_events.SwapEvents(record)
        self.unchosen = unchosen_events.UnchosenEvents(record)
        self._uid_of = uid_of
        self._last: dict[str, node_summaries.NodeSummary] = {}

    def begin(self, found: Iterable[node_summaries.NodeSummary]) -> None:
        """Record the state of all nodes, and log it in one line."""
        self._last = {summary.node: summary for summary in found}
        nodes = self._last.values()
        log.info(
            "nodes with devices: %d; with a silent agent: %d; with a source that failed: %d; "
            "with cordoned devices: %d",
            len(nodes),
            sum(summary.silent for summary in nodes),
            sum(bool(summary.failed) for summary in nodes),
            sum(bool(summary.cordoned) for summary in nodes),
        )
        for summary in nodes:
            self._report_unknown(summary)

    def update(self, found: Iterable[node_summaries.NodeSummary]) -> None:
        """Log what has changed on these nodes."""
        for summary in found:
            before = self._last.get(summary.node)
            self._last[summary.node] = summary
            if before is not None:
                _report_agent(before, summary)
                _report_cordon(before, summary)
            if before is None or before.unmatched_cordon != summary.unmatched_cordon:
                self._report_unknown(summary)

    def keep_only(self, existing: Collection[str]) -> None:
        """Forget all nodes but these."""
        if len(self._last) > len(existing):
            self._last = {node: summary for node, summary in self._last.items() if node in existing}

    def _report_unknown(self, summary: node_summaries.NodeSummary) -> None:
        if summary.unmatched_cordon:
            self._record(
                events.Event(
                    events.InvolvedObject("", summary.node, self._uid_of(summary.node), resources.DEVICES),
                    NO_SUCH_DEVICE,
                    _sentence(summary),
                    warning=True,
                )
            )
            log.warning(
                "node %s: %s",
                summary.node,
                node_summaries.cordon_warning(summary.unmatched_cordon),
                extra=logs.node(summary.node),
            )


def _sentence(summary: node_summaries.NodeSummary) -> str:
    """Return the message of the Event for a cordon that names no device."""
    warning = node_summaries.cordon_warning(summary.unmatched_cordon)
    return f"The {warning}. Use the uuid of a device, the minor of a GPU, or all."


def _report_agent(before: node_summaries.NodeSummary, now: node_summaries.NodeSummary) -> None:
    silence = (
        "its agent is silent; no new pod gets its cards" if now.silent else "its agent renews its Lease again"
    )
    failure = (
        f"no new pod gets its cards: {now.failed}" if now.failed else "the sources of its agent work again"
    )
    for message, changed in (
        (silence, before.silent != now.silent),
        (failure, before.failed != now.failed),
    ):
        if changed:
            log.info("node %s: %s", now.node, message, extra=logs.node(now.node))


def _report_cordon(before: node_summaries.NodeSummary, now: node_summaries.NodeSummary) -> None:
    for verb, uuids in (
        ("cordoned", set(now.cordoned) - set(before.cordoned)),
        ("uncordoned", set(before.cordoned) - set(now.cordoned)),
    ):
        if uuids:
            log.info(
                "node %s: %s: %s",
                now.node,
                verb,
                ", ".join(sorted(uuids)),
                extra=logs.node(now.node, devices=sorted(uuids)),
            )


async def report_summaries(ledger: Ledger, show: Show, log: NodeLog, *, clock: ports.Clock) -> None:
    """Show and log the summaries of all nodes once, and those of changed ones periodically, for ever."""
    changes = ledger.changes.reader()
    log.begin([summary async for portion in _portions(ledger, changes, show, clock) for summary in portion])
    while True:
        await asyncio.sleep(SUM_UP_SECONDS)
        async for portion in _portions(ledger, changes, show, clock):
            log.update(portion)
        log.keep_only(ledger.inventory.index)
        log.swaps.report(ledger, clock())
        log.unchosen.report(ledger, clock())


async def _portions(
    ledger: Ledger, changes: change_log.ChangeReader, show: Show, clock: ports.Clock
) -> AsyncIterator[list[node_summaries.NodeSummary]]:
    """Sum up and show what has changed until now; other tasks run after each portion."""
    changed, inventory = changes.read(), ledger.inventory
    for portion in node_summaries.portions(
        inventory, set(inventory.index) if changed is None else changed, clock
    ):
        show(portion)
        yield portion
        await asyncio.sleep(0)
