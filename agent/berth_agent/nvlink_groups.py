"""Groups of cards that share an NVLink switch, found from the links of the cards.

Cards that all reach each other by the same number of NVLinks are on one switch, whatever the
name of the board is. Such a board is divided into halves down to single cards, in the order of
its sockets, because its makers pair them like that. A cube mesh has no such groups: its links
differ, and are published as they are.

Only complete boards count. A card that is lost for now is still part of its board: the caller
passes such cards as they were last known.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berth_agent import probe
from berth_crds import catalog, schema_limits, vocabulary, wire

PARTITION_SIZES: Final = (8, 4, 2, 1)
FULL_SIZES: Final = (8, 4)  # Of boards that the catalogue does not know.


def partitions(cards: Iterable[probe.Card]) -> tuple[wire.Partition, ...]:
    """Return the groups of every full board with an NVLink switch, the largest first."""
    full = tuple(board for board in _boards(sorted(cards, key=_by_socket)) if _is_full(board))
    sizes = itertools.product(PARTITION_SIZES, full)
    groups = (group for size, board in sizes for group in _cut(board, size))
    return tuple(itertools.islice(groups, schema_limits.MOST_PARTITIONS))


def _by_socket(card: probe.Card) -> tuple[bool, int, str, int]:
    # Neither index nor minor says where a card is: both follow the order in which the driver found it.
    return card.module_id is None, card.module_id or 0, card.location.bus_id or "", card.minor


def _nvlinks(card: probe.Card) -> dict[str, int | None]:
    return {link.peer: link.count for link in card.links if link.kind == vocabulary.LinkKind.NVLINK}


def _boards(cards: Sequence[probe.Card]) -> Iterator[tuple[probe.Card, ...]]:
    """Yield the sets of cards that NVLinks join, in the given order."""
    nvlinks = {card.uuid: _nvlinks(card) for card in cards}
    seen: set[str] = set()
    for card in cards:
        if card.uuid in seen or not nvlinks[card.uuid]:
            continue
        board = tuple(each for each in cards if each.uuid == card.uuid or each.uuid in nvlinks[card.uuid])
        seen.update(each.uuid for each in board)
        yield board


def _is_full(board: Sequence[probe.Card]) -> bool:
    """Whether all sockets are taken and all links between them are alike."""
    counts = {count for card in board for count in _nvlinks(card).values()}
    met = all(len(_nvlinks(card)) == len(board) - 1 for card in board)
    models = {card.model for card in board}
    return met and len(counts) == 1 and len(models) == 1 and len(board) in _sizes(board[0].model)


def _sizes(model: str) -> tuple[int, ...]:
    if (known := catalog.find(model)) is None:
        return FULL_SIZES
    return (known.layout.cards,) if known.layout.nvlinks is catalog.Nvlinks.FULL else ()


def _cut(board: Sequence[probe.Card], size: int) -> Iterator[wire.Partition]:
    """Yield the groups of one size, in the order of the sockets."""
    count = next(iter(_nvlinks(board[0]).values())) or 0
    for start in range(0, len(board) - size + 1, size):
        yield wire.Partition(
            members=tuple(card.uuid for card in board[start : start + size]),
            link=vocabulary.LinkKind.NVLINK if size > 1 else "",
            score=count if size > 1 else 0,
        )
