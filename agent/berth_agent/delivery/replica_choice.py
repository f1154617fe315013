"""Which replicas of shared cards a pod should get that the scheduler chose none for. Pure."""

from collections.abc import Callable, Mapping, Sequence


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
    rest = [one for one in available if one not in must_include]
    while len(chosen) < size:
        able = [one for one in rest if left.get(card_of(one), 0) > 0]
        if not able:
            return ()
        best = (min if packed else max)(able, key=lambda one: left[card_of(one)])
        rest.remove(best)
        chosen.append(best)
        left[card_of(best)] -= 1
    return tuple(chosen)
