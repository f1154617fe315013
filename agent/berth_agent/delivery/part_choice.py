"""Of which card a pod should get a part that the scheduler chose none for. Pure."""

from collections.abc import Callable, Mapping, Sequence


def best_part(
    available: Sequence[str],
    must_include: Sequence[str],
    size: int,
    left: Mapping[str, int],
    *,
    card_of: Callable[[str], str],
) -> tuple[str, ...]:
    """Return `size` available devices of one card, among them those that must be; empty where none has them.

    `left` is how many percent of each card are promised to nobody. The card that has least left, but enough,
    is the best, for others stay whole that way; between equals the first.
    """
    by_card: dict[str, list[str]] = {}
    for device in available:
        by_card.setdefault(card_of(device), []).append(device)
    cards = {card_of(device) for device in must_include} or by_card.keys()
    able = [card for card in by_card if card in cards and min(len(by_card[card]), left.get(card, 0)) >= size]
    if not able or (len(cards) > 1 and must_include):
        return ()
    best = min(able, key=lambda card: left[card])
    rest = (device for device in by_card[best] if device not in must_include)
    return (*must_include, *rest)[:size]
