"""Which lines the state of a machine can have, as state.h lists them: others would change nothing."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

NUMBER: Final = r"(?:0|[1-9]\d*)"
CALL: Final = r"nvml\w+"
DRIVER: Final = (
    *("driver.version", "driver.nvml", "driver.cuda", "driver.error", "driver.reset"),
    "driver.profiles",
)
# A small n stands for a number, and CALL for the name of one of NVML's functions.
OF_A_CARD: Final = (
    *("uuid", "name", "serial", "minor", "module", "brand", "architecture", "numa", "bus", "capability"),
    *("absent", "lost", "reset", "memory", "utilization", "power", "power.limit", "temperature"),
    *("encoder", "decoder"),
    *("clock.n", "clock.max.n", "threshold.n", "ecc.mode", "ecc.n.n", "rows", "pages", "cpus", "memories"),
    *("events", "field.n", "fabric", "process.n", "usage.n", "nvlinks", "nvlink.n", "nvlink.version"),
    *("mig.mode", "mig.max", "mig.n", "profile.n", "error.CALL", "hang.CALL"),
)
KEYS: Final = (
    *DRIVER,
    *(f"card.n.{each}" for each in OF_A_CARD),
    *("ancestor.n.n", "p2p.n.n", "event.n", "error.CALL", "hang.CALL"),
)


def _pattern(key: str) -> str:
    parts = {"n": NUMBER, "CALL": CALL}
    return r"\.".join(parts.get(part, re.escape(part)) for part in key.split("."))


KNOWN: Final = re.compile("|".join(map(_pattern, KEYS)))


def fault(changes: Mapping[str, object], state: Iterable[str]) -> str:
    """Return in one sentence what is wrong with changes of a state that has these keys; empty if nothing."""
    there = {*state, *changes}
    for key in changes:
        if not KNOWN.fullmatch(key):
            return f"no machine has a line {key!r}{_nearest(key)}"
        kind, _, rest = key.partition(".")
        if kind == "card" and f"card.{rest.partition('.')[0]}.uuid" not in there:
            return f"{key!r}: this machine has no card {rest.partition('.')[0]}"
    return ""


def _nearest(key: str) -> str:
    """Return a question for the line that was meant, with the numbers that were written."""
    numbers = iter(re.findall(r"(?<=\.)\d+", key))
    found = difflib.get_close_matches(re.sub(r"(?<=\.)\d+", "n", key), KEYS, n=1)
    meant = [re.sub(r"\bn\b", lambda _: next(numbers, "N"), each) for each in found]
    return f"; did you mean {meant[0]}?" if meant else ""
