"""Where benchmarks write down what they found, and the tables that they print."""

import datetime as dt
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "build" / "bench"

# The figures of one measurement by name, as they are written down.
Row = Mapping[str, Any]
K = TypeVar("K", bound=Hashable)


class Table:
    """A table of figures: for each column its head, the name of its figure, and how that is written."""

    def __init__(self, width: int, *columns: tuple[str, str, str]) -> None:
        self._width = width
        self.columns = columns

    def heads(self, title: str) -> str:
        """Write the first line."""
        return f"{title:<{self._width}}" + "  ".join(
            head.rjust(len(form.format(0))) for head, _, form in self.columns
        )

    def line(self, title: str, row: Row) -> str:
        """Write the figures of one row."""
        return f"{title:<{self._width}}" + "  ".join(form.format(row[key]) for _, key, form in self.columns)

    def medians(self, rows: Sequence[Row]) -> Row:
        """Take the median of each figure."""
        return {key: statistics.median(row[key] for row in rows) for _, key, _ in self.columns}

    def medians_by(self, kind_of: Callable[[Row], K], rows: Sequence[Row]) -> dict[K, Row]:
        """Take the medians of each kind of rows, in the order in which the kinds come first."""
        kinds: dict[K, list[Row]] = {}
        for row in rows:
            kinds.setdefault(kind_of(row), []).append(row)
        return {kind: self.medians(mine) for kind, mine in kinds.items()}


class Promise(NamedTuple):
    """What is promised of the figures, and whether they keep it."""

    sentence: str
    kept: bool

    def __str__(self) -> str:
        """Write it as a line of a report."""
        return f"{self.sentence}: {'held' if self.kept else 'NOT HELD'}"


def exit_code(promises: Iterable[Promise]) -> int:
    """Return how a program ends that has judged these."""
    return 0 if all(one.kept for one in promises) else 1


def write(name: str, found: Sequence[Row] | Row) -> None:
    """Write what was found: one flat record, or a list of them."""
    write_text(name, json.dumps(dated(found), indent=1) + "\n")


def dated(found: Sequence[Row] | Row) -> Row:
    """Return what was found, and of which commit that is, when and by which arguments it was found."""
    measured = {
        "commit": commit(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "arguments": sys.argv[1:],
    }
    return {"measured": measured, "found": found}


def commit() -> str:
    """Return which commit lies here, and whether files were changed since; empty where git does not know."""
    words = ("git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")
    try:
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def write_text(name: str, text: str) -> None:
    """Write a file among the results, and say where."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / name
    path.write_text(text)
    print(f"\nwritten to {path.relative_to(ROOT)}", file=sys.stderr)
