"""The log's lines of binds: one for each pod as long as they are few, and how many more there were.

Hundreds of pods may be bound in a second, and a log is no place for each of them: an Event
and the pod itself tell the same. So a few at once have a line of their own, and one more every
two seconds, which together are as many as the log takes of a kind. Of the others one line each
ten seconds tells how many they were. Lines of level debug have no limit, so there each is found.
"""

import asyncio
import collections
import logging
from collections.abc import Iterator
from typing import Any, Final

from berth_crds import json_lines, logs
from berth_crds.vocabulary import DeviceType
from berth_operator.engine import ports
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.devices import allocator

log = logging.getLogger(__name__)

# In any window of the log's limit as many as that takes: half at once, and half one after the other.
LINES_AT_ONCE: Final = logs.MOST_OF_A_KIND // 2
SECONDS_A_LINE: Final = logs.WINDOW_SECONDS / (logs.MOST_OF_A_KIND - LINES_AT_ONCE)
PERIOD_SECONDS: Final = 10.0
MOST_NAMESPACES: Final = 3


class BindLog:
    """Writes of each bind that was carried out, or counts it."""

    def __init__(self, clock: ports.Clock, logger: logging.Logger = log) -> None:
        self._clock = clock
        self._logger = logger
        self._lines: float = LINES_AT_ONCE  # So many may be written now.
        self._since = clock()
        self._more: collections.Counter[str] = collections.Counter()  # Those without a line, by namespace.

    def bound(self, candidate: queued_pods.Candidate, placement: decisions.Placement, where: str) -> None:
        """Write where a pod went, if it has a line."""
        level = logging.INFO
        if not self._has_line():
            self._more[candidate.namespace] += 1
            level = logging.DEBUG
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "bound %s", where, extra=_fields(candidate, placement))

    async def run(self) -> None:
        """Sum up for ever what had no line."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            self.sum_up()

    def sum_up(self) -> None:
        """Write how many pods had no line since the last time."""
        if not self._more:
            return
        more, self._more = self._more, collections.Counter()
        self._logger.info(
            "%d more pods were bound: %s",
            more.total(),
            ", ".join(_most_frequent(more)),
            extra=logs.fields(pods=more.total(), namespaces=dict(more.most_common(json_lines.MOST_ITEMS))),
        )

    def _has_line(self) -> bool:
        now = self._clock()
        self._lines = min(LINES_AT_ONCE, self._lines + (now - self._since) / SECONDS_A_LINE)
        self._since = now
        if self._lines < 1:
            return False
        self._lines -= 1
        return True


def _most_frequent(more: collections.Counter[str]) -> Iterator[str]:
    """Name the namespaces that had most, and count the rest."""
    named = more.most_common(MOST_NAMESPACES)
    yield from (f"{count} of {namespace}" for namespace, count in named)
    if others := more.total() - sum(count for _, count in named):
        yield f"{others} of {len(more) - len(named)} other namespaces"


def _fields(candidate: queued_pods.Candidate, placement: decisions.Placement) -> dict[str, Any]:
    held = allocator.held(placement.grants)
    cards = [_card(one) for one in held[: json_lines.MOST_ITEMS] if one.type == DeviceType.GPU]
    return logs.fields(
        namespace=candidate.namespace,
        pod=candidate.name,
        uid=candidate.uid,
        node=placement.node,
        cards=cards,
    )


def _card(share: decisions.Share) -> dict[str, Any]:
    """Return what a pod has of a card, in the words of its allocation."""
    found = {"uuid": share.uuid, "minor": share.minor, "core": share.core, "memory": share.memory}
    return found | ({"profile": share.profile} if share.profile else {})
