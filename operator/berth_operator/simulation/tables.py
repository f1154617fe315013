"""Tables for people: columns as wide as their widest cell, the last of any width."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berth_crds import text

MAX_LENGTH: Final = 4000
GAP: Final = "   "
EMPTY_CELL: Final = "-"

Cells = Sequence[str]


def table(head: Cells, rows: Iterable[tuple[Cells, Sequence[str]]]) -> Iterator[str]:
    """Return the lines of a table; further lines of a row stand below its last cell."""
    listed = [(head, ()), *((tuple(map(_clean, cells)), details) for cells, details in rows)]
    widths = [max(len(cells[at]) for cells, _ in listed) for at in range(len(head) - 1)]
    margin = " " * (sum(widths) + len(GAP) * len(widths))
    for cells, details in listed:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        yield GAP.join([*padded, cells[-1]]).rstrip()
        yield from (f"{margin}{_clean(line)}".rstrip() for line in details)


def _clean(cell: str) -> str:
    return text.line(cell, most=MAX_LENGTH)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 pod`, `2 pods`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
