"""Backlogs of waiting pods, and whose turn it is in them."""

from collections.abc import Iterable
from typing import Final

from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent

FREED: Final = frozenset({ClusterEvent.CAPACITY_FREED})


def of(*pods: queued_pods.PodInfo) -> Backlog:
    """Return a backlog of these pods."""
    backlog = Backlog()
    for pod in pods:
        backlog.push(pod)
    return backlog


def requeue(
    *pods: queued_pods.PodInfo, awaited: Iterable[ClusterEvent] = FREED, now: float = 0.0, times: int = 1
) -> Backlog:
    """Return a backlog of these pods, each of which was requeued so many times and waits for these events."""
    backlog = of(*pods)
    for pod in pods:
        for _ in range(times):
            backlog.requeue(pod.uid, now=now, awaited=frozenset(awaited))
    return backlog


def ready(backlog: Backlog, now: float = 0.0, limit: int | None = None) -> list[str]:
    """Return the names of the pods whose turn it is."""
    return [pod.name for pod in backlog.active(now, limit)]
