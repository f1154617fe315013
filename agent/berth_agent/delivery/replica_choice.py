"""Which replicas of shared cards a pod should get that the scheduler chose none for. Pure."""

import collections
from collections.abc import Callable, Collection, Mapping, Sequence


def best_replicas(
    available: Sequence[str],
    must_include: Sequence[str],
    size: int,
    room: Mapping[str, int],
    *,
    card_of: Callable[[str], str],
    packed: bool,
) -> tuple[str, ...]:
    """Return `size` available replicas, among them those that must be; empty where there are too few.

    `room` is how many replicas of a card are promised to nobody. Each next replica is of the card that has
    most room left, or where they are `packed` of the one that has least; between equals of the first.
    """
    chosen = list(must_include)
    left = dict(room)
    for one in must_include:
        left[card_of(one)] = left.get(card_of(one), 0) - 1
    rest = _by_card(available, frozenset(must_include), card_of)
    preference = 1 if packed else -1
    while len(chosen) < size:
        able = [card for card, replicas in rest.items() if replicas and left.get(card, 0) > 0]
        if not able:
            return ()
        best = min(able, key=lambda card: (preference * left[card], rest[card][0]))
        chosen.append(available[rest[best].popleft()])
        left[best] -= 1
    return tuple(chosen)


def _by_card(
    available: Sequence[str], excluded: Collection[str], card_of: Callable[[str], str]
) -> dict[str, collections.deque[int]]:
    """Return the positions of the replicas of each card."""
    found: dict[str, collections.deque[int]] = {}
    for at, one in enumerate(available):
        if one not in excluded:
            found.setdefault(card_of(one), collections.deque()).append(at)
    return found
