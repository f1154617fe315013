"""What the leader tells people of nodes beside their Devices: one line of the log for each change.

An agent falls silent or is heard again; a source of an agent fails or is back; devices are
cordoned or no more; a cordon names nothing, of which an Event on the Device tells as well. It
hears the summaries of nodes as they are made. How things stand when a leader begins is told
in one line for all nodes.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from berth_crds import logs
from berth_crds.client import resources
from berth_operator.engine import node_summaries
from berth_operator.kube import events

log = logging.getLogger(__name__)

NO_SUCH_DEVICE: Final = "NoSuchDevice"

UidOf = Callable[[str], str]


class NodeNews:
    """Compares each summary with the one before it, and tells what has changed."""

    def __init__(self, tell: Callable[[events.Note], None], uid_of: UidOf) -> None:
        """Begin with nothing known; `uid_of` gives the uid of a Device."""
        self._tell = tell
        self._uid_of = uid_of
        self._known: dict[str, node_summaries.NodeSummary] = {}

    def begin(self, found: Iterable[node_summaries.NodeSummary]) -> None:
        """Record how things stand, and write that in one line."""
        self._known = {summary.node: summary for summary in found}
        nodes = self._known.values()
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

    def hear(self, found: Iterable[node_summaries.NodeSummary]) -> None:
        """Write what has changed on these nodes."""
        for summary in found:
            before = self._known.get(summary.node)
            self._known[summary.node] = summary
            if before is not None:
                _report_agent(before, summary)
                _report_cordon(before, summary)
            if summary.unmatched_cordon and (
                before is None or before.unmatched_cordon != summary.unmatched_cordon
            ):
                self._report_unknown(summary)

    def _report_unknown(self, summary: node_summaries.NodeSummary) -> None:
        if summary.unmatched_cordon:
            subject = events.Subject("", summary.node, self._uid_of(summary.node), resources.DEVICES)
            self._tell(events.Note(subject, NO_SUCH_DEVICE, _sentence(summary), warning=True))
            log.warning(
                "node %s: %s",
                summary.node,
                node_summaries.cordon_warning(summary.unmatched_cordon),
                extra=logs.node(summary.node),
            )


def _sentence(summary: node_summaries.NodeSummary) -> str:
    """Return what a person who has cordoned something is told of what it did not do."""
    warning = node_summaries.cordon_warning(summary.unmatched_cordon)
    return f"The {warning}. Write the uuid of a device, the minor of a GPU, or all."


def _report_agent(before: node_summaries.NodeSummary, now: node_summaries.NodeSummary) -> None:
    if before.silent != now.silent:
        said = "its agent is silent; no card of it is given out" if now.silent else "its agent is heard again"
        log.info("node %s: %s", now.node, said, extra=logs.node(now.node))
    if before.failed != now.failed:
        said = f"no card is given out: {now.failed}" if now.failed else "the sources of its agent are well"
        log.info("node %s: %s", now.node, said, extra=logs.node(now.node))


def _report_cordon(before: node_summaries.NodeSummary, now: node_summaries.NodeSummary) -> None:
    for verb, uuids in (
        ("cordoned", set(now.cordoned) - set(before.cordoned)),
        ("cordoned no more", set(before.cordoned) - set(now.cordoned)),
    ):
        if uuids:
            extra = logs.node(now.node, devices=sorted(uuids))
            log.info("node %s: %s: %s", now.node, verb, ", ".join(sorted(uuids)), extra=extra)
