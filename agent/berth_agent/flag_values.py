"""Parsers of flag values: each returns a value, or raises one sentence about the text.

argparse puts the name of the flag before the sentence. Nothing here knows which flags there are.
"""

import argparse
import math
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from berth_agent import config_choice, plugin_choices, xid_choices
from berth_crds import schema_limits, vocabulary, wire
from berth_crds.text import quoted

DAY_SECONDS: Final = 86400
MOST_MIB: Final = 1 << 20
LEVELS: Final = ("debug", "info", "warning", "error")
STRATEGIES: Final = frozenset(map(str, vocabulary.SharingStrategy))
YES: Final = frozenset({"true", "yes", "on", "1"})
NO: Final = frozenset({"false", "no", "off", "0"})
EVERY_XID: Final = frozenset({"all", "xids"})
LARGEST_XID: Final = 4294967295
CDI_KIND: Final = re.compile(r"[A-Za-z]([-A-Za-z0-9_.]*[A-Za-z0-9])?/[A-Za-z]([-A-Za-z0-9_]*[A-Za-z0-9])?")


def patterns(text: str) -> tuple[str, ...]:
    """Return patterns of names, separated by commas."""
    patterns = tuple(part.strip() for part in text.split(",") if part.strip())
    if not patterns:
        raise argparse.ArgumentTypeError(f"{quoted(text)} names no resource")
    return patterns


def names(text: str) -> tuple[str, ...]:
    """Return names, separated by commas; there may be none."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def files(text: str) -> tuple[Path, ...]:
    """Return files, separated by commas; there may be none."""
    return tuple(map(Path, names(text)))


def cdi_kind(text: str) -> str:
    """Return a kind of CDI devices; an empty text is none."""
    if text and not CDI_KIND.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not VENDOR/CLASS, such as nvidia.com/gpu")
    return text


def list_strategies(text: str) -> tuple[str, ...]:
    """Return ways to tell containers of their devices, separated by commas."""
    words = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not words or not set(words) <= set(plugin_choices.LIST_STRATEGIES):
        raise argparse.ArgumentTypeError(
            f"{quoted(text)} is not a list of {', '.join(plugin_choices.LIST_STRATEGIES)}"
        )
    return words


def fallbacks(text: str) -> tuple[str, ...]:
    """Return the ways to find a configuration, in their order."""
    found = names(text)
    for one in found:
        if one not in config_choice.FALLBACKS:
            raise argparse.ArgumentTypeError(f"{quoted(one)} is none of {', '.join(config_choice.FALLBACKS)}")
    return found


def xids(text: str) -> xid_choices.XidChoice:
    """Return a choice of NVIDIA's error numbers: some, separated by commas, or `all`."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    numbers = [word for word in words if word not in EVERY_XID]
    for word in numbers:
        if not (word.isascii() and word.isdecimal()) or int(word) > LARGEST_XID:
            raise argparse.ArgumentTypeError(
                f"{quoted(word)} is neither the number of an XID nor the word all"
            )
    return xid_choices.XidChoice(frozenset(map(int, numbers)), len(numbers) < len(words))


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


def mebibytes(text: str) -> int:
    """Return a number of MiB, which may be zero, up to a TiB."""
    if not text.isdecimal() or not 0 <= int(text) <= MOST_MIB:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number of MiB from 0 to {MOST_MIB}")
    return int(text)


def one_of(words: Collection[str]) -> Callable[[str], str]:
    """Return a parser that takes one of these words, in any case."""

    # Not `choices`: argparse does not check defaults, and so the environment, against those.
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise argparse.ArgumentTypeError(f"{quoted(text)} is none of {', '.join(words)}")
        return text.lower()

    return parse
