"""The log lines of binds: one for each pod while binds are few, and counts of the others.

Hundreds of pods may be bound in a second, and each also has an Event. So a burst of a few pods
has lines of their own, and one more pod every two seconds, which together are as many as the log
takes of a kind. One line every ten seconds counts the others. Lines of level debug have no limit.
"""

import asyncio
import collections
import logging
from collections.abc import Iterator
from typing import Any, Final

from berth_crds import logs
from berth_crds.vocabulary import DeviceType
from berth_operator.engine import ports
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.devices import allocator

log = logging.getLogger(__name__)

# In any window as many as the log's limit: half of them in a burst, and half one after the other.
BURST_LINES: Final = logs.MOST_OF_A_KIND // 2
SECONDS_A_LINE: Final = logs.WINDOW_SECONDS / (logs.MOST_OF_A_KIND - BURST_LINES)
PERIOD_SECONDS: Final = 10.0
MOST_NAMESPACES: Final = 3


class BindLog:
    """Logs each bind that was carried out, or counts it."""

    def __init__(self, clock: ports.Clock, logger: logging.Logger = log) -> None:
        self._clock = clock
        self._logger = logger
        self._lines: float = BURST_LINES  # That may be written now.
        self._since = clock()
        self._unlogged: collections.Counter[str] = collections.Counter()  # Pods without a line, by namespace.

    def bound(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement, where: str) -> None:
        """Log where a pod was bound, or count it."""
        level = logging.INFO
        if not self._acquire_line():
            self._unlogged[pod_info.namespace] += 1
            level = logging.DEBUG
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "bound %s", where, extra=_fields(pod_info, placement))

    async def run(self) -> None:
        """Log the number of pods without a line, periodically, for ever."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            self.sum_up()

    def sum_up(self) -> None:
        """Log how many pods had no line since the last call."""
        unlogged, self._unlogged = self._unlogged, collections.Counter()
        if unlogged:
            self._logger.info(
                "%d more pods were bound: %s",
                unlogged.total(),
                ", ".join(_most_frequent(unlogged)),
                extra=logs.fields(
                    pods=unlogged.total(), namespaces=dict(unlogged.most_common(logs.MOST_ITEMS))
                ),
            )

    def _acquire_line(self) -> bool:
        now = self._clock()
        self._lines = min(BURST_LINES, self._lines + (now - self._since) / SECONDS_A_LINE)
        self._since = now
        if self._lines < 1:
            return False
        self._lines -= 1
        return True


def _most_frequent(unlogged: collections.Counter[str]) -> Iterator[str]:
    """Yield the namespaces with most pods, and the number of the rest."""
    named = unlogged.most_common(MOST_NAMESPACES)
    yield from (f"{count} of {namespace}" for namespace, count in named)
    if others := unlogged.total() - sum(count for _, count in named):
        yield f"{others} of {len(unlogged) - len(named)} other namespaces"


def _fields(pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> dict[str, Any]:
    held = allocator.peak_shares(placement.grants)
    return logs.fields(
        namespace=pod_info.namespace,
        pod=pod_info.name,
        uid=pod_info.uid,
        node=placement.node,
        cards=[_card(one) for one in held[: logs.MOST_ITEMS] if one.type == DeviceType.GPU],
    )


def _card(share: decisions.Share) -> dict[str, Any]:
    """Return a pod's share of a card, with the keys of its allocation annotation."""
    found = {"uuid": share.uuid, "minor": share.minor, "core": share.core, "memory": share.memory}
    return found | ({"profile": share.profile} if share.profile else {})
