"""Devices whose links no hardware has, or hardly any: what an agent gone wrong may publish all the same."""

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from berth_crds import wire
from berth_operator.scheduling.devices import device_facts
from berth_operator.translate import devices
from support import builders

CARDS: Final = 64  # A Device lists no more.
MOST_LINKS: Final = 64  # Between two cards.

Pairs = set[tuple[int, int]]


_salts = itertools.count(1)


def device(node: str, sort: str, *, places: int = 0) -> device_facts.Device:
    """Return a Device with a topology of this sort that nobody has seen before, as the core knows it."""
    return devices.read(published(node, SORTS[sort](), salt=next(_salts), places=places))


def published(node: str, pairs: Pairs, *, salt: int = 0, places: int = 0) -> wire.Device:
    """Return a Device with these links; `salt` varies their number, `places` cards share a place."""
    size = 1 + max(map(max, pairs), default=CARDS - 1)
    return builders.published(node, cards=_cards(node, pairs, size, salt, places))


def _cards(node: str, pairs: Pairs, size: int, salt: int, places: int) -> Sequence[dict[str, Any]]:
    return [
        {
            "topology": {"numaNode": at // places, "pcieRoot": f"r{at // places}"} if places else {},
            "links": [
                {"peer": builders.uuid(node, to), "kind": "nvlink", "count": _count(at, to, salt)}
                for to in range(size)
                if (at, to) in pairs
            ],
        }
        for at in range(size)
    ]


def _count(a: int, b: int, salt: int) -> int:
    return 1 + (a * b * 7 + salt * (a + b + 1)) % MOST_LINKS


def _joined(groups: Iterable[Iterable[int]]) -> Pairs:
    """Join each two cards of a group."""
    return {(a, b) for group in map(tuple, groups) for a in group for b in group if a != b}


def apart(part: int, size: int = CARDS) -> Pairs:
    """Join each card with all but its own group of so many: there are as many cliques as paths."""
    return {(a, b) for a in range(size) for b in range(size) if a // part != b // part}


def missing(pairs: int, size: int = CARDS) -> Pairs:
    """Join all cards but so many pairs: each pair doubles the cliques."""
    return {(a, b) for a, b in apart(1, size) if a // 2 != b // 2 or a // 2 >= pairs}


def disjoint(part: int, size: int = CARDS) -> Pairs:
    """Make cliques of so many cards that have none in common."""
    return _joined(range(first, first + part) for first in range(0, size, part))


def drawn(chance: random.Random, count: int, part: int, size: int = CARDS) -> Pairs:
    """Make so many cliques of any cards."""
    return _joined(chance.sample(range(size), part) for _ in range(count))


def torus(size: int = CARDS, side: int = 4) -> Pairs:
    """Join each card with its next ones in three directions."""
    steps = (1, side, side * side)
    one_way = {(at, (at + step) % size) for at in range(size) for step in steps}
    return one_way | {(b, a) for a, b in one_way}


# Some of each sort: what hardware may have, what it nearly has, and what has cliques without number.
SORTS: Final[dict[str, Callable[[], Pairs]]] = {
    "groups of three, joined with all others": lambda: apart(3, 63),
    "pairs, joined with all others": lambda: apart(2),
    "all joined unevenly": lambda: apart(1),
    "all joined but for two pairs": lambda: missing(2),
    "all joined but for twelve pairs": lambda: missing(12),
    "eight cliques of eight": lambda: disjoint(8),
    "four cliques of sixteen": lambda: disjoint(16),
    "two cliques of thirty-two": lambda: disjoint(32),
    "a torus": torus,
    "cliques of cliques": lambda: drawn(random.Random(1), 24, 12),
    "links by chance": lambda: drawn(random.Random(2), 400, 2),
    "no links": set,
}
