"""The version before this one, as it was: from the history of the checkout."""

from pathlib import Path
from typing import Final

from release import cached, layout, sources

VERSION: Final = "0.1.0"
GOLDEN: Final = layout.ROOT / "tests" / "golden" / "versions"


def commit() -> str:
    """Return the commit from which that version was made."""
    return (GOLDEN / VERSION / "commit").read_text().strip()


def is_here() -> bool:
    """Return whether the history that is here reaches back to it."""
    return sources.has(commit())


def made() -> Path:
    """Return the folder of that version."""
    return cached.made(VERSION, commit())
