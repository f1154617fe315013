"""Tables for people: columns as wide as their widest cell, the last as wide as it likes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from berth_crds import text

LONGEST: Final = 4000
GAP: Final = "   "
NOTHING: Final = "-"

Cells = Sequence[str]


def table(head: Cells, rows: Iterable[tuple[Cells, Sequence[str]]]) -> Iterator[str]:
    """Lay out rows; the lines that belong to a row stand below its last cell."""
    listed = [(head, ()), *((tuple(map(_clean, cells)), below) for cells, below in rows)]
    widths = [max(len(cells[at]) for cells, _ in listed) for at in range(len(head) - 1)]
    margin = " " * (sum(widths) + len(GAP) * len(widths))
    for cells, below in listed:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        yield GAP.join([*padded, cells[-1]]).rstrip()
        yield from (f"{margin}{_clean(line)}".rstrip() for line in below)


def _clean(cell: str) -> str:
    return text.line(cell, most=LONGEST)


def counted(count: int, one: str, many: str = "") -> str:
    """Say how many there are: `1 pod`, `2 pods`."""
    return f"{count} {one if count == 1 else many or one + 's'}"
