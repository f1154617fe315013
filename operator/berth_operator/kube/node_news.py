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
from berth_operator.engine import summaries
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
        self._known: dict[str, summaries.Summary] = {}

    def begin(self, found: Iterable[summaries.Summary]) -> None:
        """Record how things stand, and write that in one line."""
        self._known = {one.node: one for one in found}
        nodes = self._known.values()
        log.info(
            "nodes with devices: %d; with a silent agent: %d; with a source that failed: %d; "
            "with cordoned devices: %d",
            len(nodes),
            sum(one.silent for one in nodes),
            sum(bool(one.failed) for one in nodes),
            sum(bool(one.cordoned) for one in nodes),
        )
        for one in nodes:
            self._report_unknown(one)

    def hear(self, found: Iterable[summaries.Summary]) -> None:
        """Write what has changed on these nodes."""
        for one in found:
            before = self._known.get(one.node)
            self._known[one.node] = one
            if before is not None:
                _report_agent(before, one)
                _report_cordon(before, one)
            if one.astray and (before is None or before.astray != one.astray):
                self._report_unknown(one)

    def _report_unknown(self, one: summaries.Summary) -> None:
        if one.astray:
            subject = events.Subject("", one.node, self._uid_of(one.node), resources.DEVICES)
            self._tell(events.Note(subject, NO_SUCH_DEVICE, _sentence(one), warning=True))
            log.warning("node %s: %s", one.node, summaries.nameless(one.astray), extra=logs.node(one.node))


def _sentence(one: summaries.Summary) -> str:
    """Return what a person who has cordoned something is told of what it did not do."""
    return f"The {summaries.nameless(one.astray)}. Write the uuid of a device, the minor of a GPU, or all."


def _report_agent(before: summaries.Summary, now: summaries.Summary) -> None:
    if before.silent != now.silent:
        said = "its agent is silent; no card of it is given out" if now.silent else "its agent is heard again"
        log.info("node %s: %s", now.node, said, extra=logs.node(now.node))
    if before.failed != now.failed:
        said = f"no card is given out: {now.failed}" if now.failed else "the sources of its agent are well"
        log.info("node %s: %s", now.node, said, extra=logs.node(now.node))


def _report_cordon(before: summaries.Summary, now: summaries.Summary) -> None:
    for verb, uuids in (
        ("cordoned", set(now.cordoned) - set(before.cordoned)),
        ("cordoned no more", set(before.cordoned) - set(now.cordoned)),
    ):
        if uuids:
            extra = logs.node(now.node, devices=sorted(uuids))
            log.info("node %s: %s: %s", now.node, verb, ", ".join(sorted(uuids)), extra=extra)
