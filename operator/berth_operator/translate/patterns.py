r"""Regular expressions that a pod may bring along, and why one may not.

The dialect is Python's `re`; a pattern is searched, whatever the case, in the name of a
model without its vendor and with dashes for spaces, such as `A100-SXM4-80GB`. Anybody who
may create a pod may write one, and a bad one can take a regular expression engine longer
than the age of a cluster. So only what is cheap by its form is taken: no group is
repeated, nothing refers back to a group, and the choices that are left, multiplied, must
stay below a bound. `(A100|H100).*80GB`, `^Tesla-(T|V)\d+` and `^(?!.*PCIe)` are fine.
"""

import itertools
import re
from typing import Final

from berth_operator.translate import refusals

LONGEST: Final = 256
NAME: Final = 64  # Characters of a model's name that a repetition may have to try.
MOST_STEPS: Final = 10_000_000  # About a tenth of a second for the worst pattern there is.

TOKEN: Final = re.compile(
    r"""
    (?P<escape>\\.)
  | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
  | (?P<flag>\(\?i\))
  | (?P<open>\((?:\?(?:P<\w+>|[:=!]))?)
  | (?P<close>\))
  | (?P<bar>\|)
  | (?P<fixed>\{\d+\})
  | (?P<optional>\?)
  | (?P<repeat>[*+]|\{\d*,\d*\})
  | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)
QUANTIFIERS: Final = frozenset({"fixed", "optional", "repeat"})
# Sets that look like operations on sets: Python warns that it may read them so one day.
SET_OPERATIONS: Final = ("[", "--", "&&", "||", "~~")

Token = tuple[str, str]  # Its kind and its text.


def fault(pattern: str) -> str:
    """Say why a pattern is not taken; nothing where it is."""
    if len(pattern) > LONGEST:
        return f"is longer than {LONGEST} characters"
    tokens = [(found.lastgroup or "", found.group()) for found in TOKEN.finditer(pattern)]
    odd = _odd_form(tokens)
    if odd:
        return odd
    try:
        re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is not a regular expression of Python: {refusals.shown(error)}"
    return "" if _steps(tokens) <= MOST_STEPS else "takes too long to try; use fewer repetitions and choices"


def _odd_form(tokens: list[Token]) -> str:
    pairs = itertools.pairwise([("", ""), *tokens])
    return next((odd for before, token in pairs if (odd := _odd(before[0], *token))), "")


def _odd(before: str, kind: str, text: str) -> str:
    if kind in {"repeat", "fixed"} and before == "close":
        return "repeats a group; write it out instead"
    if kind == "optional" and before == "open":
        return "uses an extension (?...) other than (?:...), (?=...), (?!...) and (?P<name>...)"
    if kind == "escape" and text[1] in "123456789":
        return "refers back to a group"
    if (kind, text) == ("plain", "["):
        return "opens a set that it does not close"
    if kind == "set" and any(mark in text[1:-1] for mark in SET_OPERATIONS):
        return r"nests sets; put a backslash before [, -, &, | and ~ in a set"
    return ""


def _steps(tokens: list[Token]) -> int:
    """Bound the work: every choice may have to be combined with every other, from every start."""
    steps, repeats, groups = NAME, 0, [1]
    before = ""
    for kind, _ in tokens:
        match kind:
            case "repeat" if before not in QUANTIFIERS:
                repeats += 1
                steps = steps * NAME // repeats
            case "optional" if before not in QUANTIFIERS:
                steps *= 2
            case "open":
                groups.append(1)
            case "bar":
                groups[-1] += 1
            case "close" if len(groups) > 1:
                steps *= groups.pop()
        # What follows a quantifier directly only says how greedy it is.
        before = "" if before in QUANTIFIERS else kind
    return steps * groups[0]
