"""How much of a card is held, in the same words everywhere."""

import math
from typing import Final

MIB: Final = 1 << 20
SLACK_BITS: Final = 16
WHOLE: Final = 100  # Percent of a card's compute.
BYTES: Final = (("GiB", 1 << 30), ("MiB", MIB), ("KiB", 1 << 10), ("bytes", 1))


def figure(amount: float, scale: int, *, up: bool) -> str:
    """Write a number with one decimal at most."""
    tenths = math.ceil(amount * 10 / scale) if up else math.floor(amount * 10 / scale)
    return f"{tenths // 10}.{tenths % 10}" if tenths % 10 else str(tenths // 10)


def memory_amount(size: int, *, up: bool) -> str:
    """Write an amount of memory in the unit in which it reads best."""
    name, scale = next((one for one in BYTES if size >= one[1]), BYTES[-1] if size else BYTES[0])
    return f"{figure(size, scale, up=up)} {name}"


def describe(core: int, memory: int, card_memory: int) -> str:
    """Return which part of a card is held, compute and memory; empty where it is all of it."""
    if not _one_figure(core, memory, card_memory):
        return describe_both(core, memory)
    return "" if core >= WHOLE else f"{core} %"


def describe_both(core: int, memory: int) -> str:
    """Return compute and memory of a part of a card, as far as either is held."""
    # A share in percent may be some bytes short of its figure, which would round it down to the next.
    size = memory + (memory >> SLACK_BITS)
    parts = f"{core} %" if core else "", memory_amount(size, up=False) if memory or not core else ""
    return " and ".join(filter(None, parts))


def _one_figure(core: int, memory: int, card_memory: int) -> bool:
    """Whether compute and memory are the same part, as far as percents are exact."""
    if not core or not card_memory or not memory:
        return core > 0  # Where the memory of the card is unknown, its compute is enough.
    if core >= WHOLE:
        return card_memory - memory < MIB
    return abs(memory * WHOLE - core * card_memory) < card_memory
