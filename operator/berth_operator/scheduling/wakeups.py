"""Which of the pods that a change may help are tried at once: the first of each kind, and of all.

What becomes free serves few, and those must not come after one that has only just arrived. Namespaces
take turns with the places of a kind, and with those of all: however many pods of one are woken, and of
however many kinds, they keep none of another out of line.
"""

import collections
import itertools
import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from berth_operator.scheduling import queued_pods

TRIED_OF_A_KIND: Final = 16
TRIED_AT_ONCE: Final = 1024
KIND_NUMBER: Final = operator.attrgetter("kind_number")


def first_to_try(found: Sequence[queued_pods.Entry], suspended: Collection[str]) -> Collection[str]:
    """Return the uids of those that are tried at once, of pods in order, without these namespaces."""
    able = [one for one in found if one.pod_info.namespace not in suspended] if suspended else found
    return {one.pod_info.uid for one in _in_turns(_first_of_kinds(able), TRIED_AT_ONCE)}


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
