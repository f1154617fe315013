"""Parsers of flag values: each returns a value, or raises one sentence about the text.

argparse puts the name of the flag before the sentence. Nothing here knows which flags there are.
"""

import argparse
import math
from typing import Final

from berth_agent import xid_choices
from berth_crds import logs, schema_limits, vocabulary, wire
from berth_crds.text import quoted

DAY_SECONDS: Final = 86400
LEVELS: Final = ("debug", "info", "warning", "error")
STRATEGIES: Final = frozenset(map(str, vocabulary.SharingStrategy))
YES: Final = frozenset({"true", "yes", "on", "1"})
NO: Final = frozenset({"false", "no", "off", "0"})


def patterns(text: str) -> tuple[str, ...]:
    """Return patterns of names, separated by commas."""
    patterns = tuple(part.strip() for part in text.split(",") if part.strip())
    if not patterns:
        raise argparse.ArgumentTypeError(f"{quoted(text)} names no resource")
    return patterns


def xids(text: str) -> xid_choices.XidChoice:
    """Return a choice of NVIDIA's error numbers."""
    try:
        return xid_choices.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def sharing(text: str) -> wire.Sharing | None:
    """Return how cards are shared; None for an empty text."""
    strategy, _, count = text.partition(":")
    if not text:
        return None
    if (
        strategy not in STRATEGIES
        or not count.isdecimal()
        or not 1 < int(count) <= schema_limits.MOST_REPLICAS
    ):
        raise argparse.ArgumentTypeError(
            f"{quoted(text)} is not STRATEGY:REPLICAS, such as time-slicing:4 or mps:2 "
            f"(2 to {schema_limits.MOST_REPLICAS})"
        )
    return wire.Sharing(strategy, int(count))


def yes_or_no(text: str) -> bool:
    """Return whether a text means yes."""
    if text.lower() not in YES | NO:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is neither true nor false")
    return text.lower() in YES


def seconds(text: str) -> float:
    """Return a number of seconds above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a number of seconds above zero")
    return value


def whole_seconds(text: str) -> int:
    """Return a whole number of seconds above zero, up to a day."""
    if not text.isdecimal() or not 1 <= int(text) <= DAY_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{quoted(text)} is not a whole number of seconds from 1 to {DAY_SECONDS}"
        )
    return int(text)


def level(text: str) -> str:
    """Return the level of the log."""
    # Not `choices`: argparse does not check defaults, and so the environment, against those.
    if text.lower() not in LEVELS:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is none of {', '.join(LEVELS)}")
    return text.lower()


def log_format(text: str) -> str:
    """Return the format of the log."""
    if text.lower() not in logs.FORMATS:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is none of {', '.join(logs.FORMATS)}")
    return text.lower()
