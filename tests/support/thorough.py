"""How much a run tries: `make thorough` draws, repeats and combines more than `make test` has time for."""

import os
from typing import Any, Final

import pytest

FULL: Final = bool(os.environ.get("BERTH_FULL"))
OF_ALL: Final = 8


def examples(count: int) -> int:
    """Return how many examples a property draws: all of these in full, else an eighth."""
    return count if FULL else max(1, count // OF_ALL)


def case(*values: Any, id: str | None = None) -> Any:  # noqa: A002  It is what pytest calls it.
    """Return a parameter that only a thorough run tries."""
    return pytest.param(*values, id=id, marks=pytest.mark.thorough)
