"""Kubernetes quantities as whole numbers.

`500m`, `1Gi`, `1e3` and `0.5` are all legal. Demands are rounded up and supplies down,
so that rounding never promises what is not there.
"""

import fractions
import functools
import itertools
import re
from collections.abc import Iterable
from typing import Final

from berth_crds.text import quoted
from berth_operator.scheduling.nodes import facts

Ratio = tuple[int, int]  # Not reduced: arithmetic on integers is much faster than on fractions.
RATIOS: Final[dict[str, Ratio]] = {
    "n": (1, 10**9),
    "u": (1, 10**6),
    "m": (1, 10**3),
    "": (1, 1),
    "k": (10**3, 1),
    "M": (10**6, 1),
    "G": (10**9, 1),
    "T": (10**12, 1),
    "P": (10**15, 1),
    "E": (10**18, 1),
    "Ki": (2**10, 1),
    "Mi": (2**20, 1),
    "Gi": (2**30, 1),
    "Ti": (2**40, 1),
    "Pi": (2**50, 1),
    "Ei": (2**60, 1),
}
PATTERN: Final = re.compile(
    r"(?P<number>[+-]?(\d+(\.\d*)?|\.\d+))(?:[eE](?P<power>[+-]?\d{1,2})|(?P<suffix>[KMGTPE]i|[numkMGTPE])?)",
    re.ASCII,
)


# Nearly all quantities are whole numbers of a unit, and a pod may have thousands of them.
PLAIN_DIGITS: Final = 15
PLAIN: Final = re.compile(rf"(\d{{1,{PLAIN_DIGITS}}})([KMGTPE]i|[numkMGTPE]?)", re.ASCII)
MAX_LENGTH: Final = 64  # The API server writes none with more than thirty characters.


@functools.lru_cache(maxsize=4096)
def exact(text: str) -> fractions.Fraction:
    """Return a quantity; raise ValueError if it is none."""
    return fractions.Fraction(*_ratio(text))


def demand(text: str | float, *, thousandths: bool = False) -> int:
    """Return a requested quantity, rounded up.

    A negative one counts as zero, and one that is no quantity as more than any node has.
    """
    text = str(text)
    milli = thousandths and text.endswith("m")
    digits = text[:-1] if milli else text
    if digits.isascii() and digits.isdigit() and len(digits) <= PLAIN_DIGITS:
        whole = int(digits) * (1000 if thousandths and not milli else 1)  # The usual case.
        return min(whole, facts.LARGEST)
    try:
        above, below = _ratio(text)
    except ValueError:
        return facts.LARGEST
    if above <= 0:
        return 0
    return min(-(-above * (1000 if thousandths else 1) // below), facts.LARGEST)


def supply(text: str | float, *, thousandths: bool = False, unreadable: int = 0) -> int:
    """Return a supplied quantity, rounded down; always less than the largest demand."""
    try:
        above, below = _ratio(str(text))
    except ValueError:
        return unreadable
    return max(0, min(above * (1000 if thousandths else 1) // below, facts.LARGEST - 1))


def sum_up_to(most: int, amounts: Iterable[int]) -> int:
    """Return the sum of amounts, of which there may be very many; they are read until it has come so far."""
    found = 0
    for found in itertools.accumulate(amounts):
        if found >= most:
            return most
    return found


@functools.lru_cache(maxsize=4096)
def _ratio(text: str) -> Ratio:
    if (plain := PLAIN.fullmatch(text)) is not None:
        number, suffix = plain.groups()
        above, below = RATIOS[suffix]
        return int(number) * above, below
    match = PATTERN.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise ValueError(f"{quoted(text)} is not a quantity")
    whole, _, part = match["number"].partition(".")
    power = int(match["power"] or 0) - len(part)
    above, below = RATIOS[match["suffix"] or ""]
    above *= int(whole + part)
    return (above * 10**power, below) if power >= 0 else (above, below * 10**-power)
