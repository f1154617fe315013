"""Which of the pods that a change may help are tried at once: the first of each kind, and of all.

What becomes free serves few, and those must not come after one that has only just arrived. Namespaces
take turns with the places of a kind, and with those of all: however many pods of one are woken, and of
however many kinds, they keep none of another out of line.

One change may wake all of fifty thousand pods. To sort them in at once would keep everybody waiting for two
seconds, so each round sorts in some of them, and among these are the first of each namespace.
"""

import collections
import contextlib
import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from berth_operator.scheduling import queue_order, queued_pods, queues

K = TypeVar("K", bound=tuple[Any, ...] | float)
Rank = tuple[bool, int, int, queue_order.Order]

TRIED_OF_A_KIND: Final = 16
# Pods that a round sorts in after they were woken, or takes out of backoff: about as many as it can try, so
# that it has time left to try them.
MOST_SORTED_IN: Final = 128
FIRST_OF_A_NAMESPACE: Final = 8
KIND_NUMBER: Final = operator.attrgetter("kind_number")


def first_to_try(found: Sequence[queued_pods.Entry], suspended: Collection[str]) -> Collection[str]:
    """Return the uids of those that are tried at once, of pods in order, without these namespaces."""
    able = [one for one in found if one.pod_info.namespace not in suspended] if suspended else found
    return {one.pod_info.uid for one in _first_of_kinds(able)}


def rank(entry: queued_pods.Entry) -> Rank:
    """Return by what pods are sorted in: priority, what a label adds, and order."""
    return entry.demoted, entry.order[0], -entry.extra, entry.order


def take_some(
    queue: queues.Queue[K],
    entries: Mapping[str, queued_pods.Entry],
    is_due: Callable[[queued_pods.Entry], bool] = lambda _: True,
) -> Iterator[queued_pods.Entry]:
    """Yield as many pods of a queue as a round sorts in, which leave it.

    First come some of each namespace, then whoever is first. A queue is sorted by what makes pods due.
    """
    if queue.first() is None:
        return  # As in most rounds.
    room, counts = MOST_SORTED_IN, collections.Counter[str]()
    for skipped in (lambda one: counts[one] >= FIRST_OF_A_NAMESPACE, lambda _: False):
        with contextlib.closing(queues.walk((queue, room), skipped=skipped)) as tickets:
            for entry in itertools.takewhile(is_due, (entries[uid] for _, _, uid in tickets)):
                entry.ticket = 0
                counts[entry.pod_info.namespace] += 1
                room -= 1
                yield entry


def _first_of_kinds(found: Sequence[queued_pods.Entry]) -> Sequence[queued_pods.Entry]:
    counts = collections.Counter(map(KIND_NUMBER, found))
    crowds: dict[int, list[queued_pods.Entry]] = {
        kind: [] for kind, count in counts.items() if count > TRIED_OF_A_KIND
    }
    if not crowds:
        return found
    for entry in found:
        if entry.kind_number in crowds:
            crowds[entry.kind_number].append(entry)
    first = {one.pod_info.uid for crowd in crowds.values() for one in _in_turns(crowd, TRIED_OF_A_KIND)}
    return [one for one in found if one.kind_number not in crowds or one.pod_info.uid in first]


def _in_turns(found: Sequence[queued_pods.Entry], most: int) -> Iterable[queued_pods.Entry]:
    """Return so many pods: the first of each namespace, then the second of each, and so on."""
    if len(found) <= most:
        return found
    turns: list[list[queued_pods.Entry]] = []
    had: dict[str, int] = {}
    for entry in found:
        namespace = entry.pod_info.namespace
        turn = had.get(namespace, 0)
        if turn < most:  # Later ones would not be taken even if there were no other namespace.
            had[namespace] = turn + 1
            if turn == len(turns):
                turns.append([])
            turns[turn].append(entry)
    return itertools.islice(itertools.chain.from_iterable(turns), most)
