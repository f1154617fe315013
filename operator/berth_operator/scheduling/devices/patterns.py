r"""Regular expressions for models, which every user who may create a pod may write.

The dialect is RE2's, because RE2 takes a time that is linear in pattern and name, whatever
the two say: it has no look-around and no references back to groups. What a pattern may
take of memory, and so the time of reading it, is bounded as well. A pattern is searched,
whatever the case, in the name of a model without its vendor and with dashes for spaces,
such as `A100-SXM4-80GB`. `(A100|H100).*80GB` and `^Tesla-(T|V)\d+` are fine. Models that
must not match have a pattern of their own.
"""

import functools
from typing import Any, Final

import re2

from berth_crds import names

LONGEST: Final = 256
MOST_MEMORY: Final = 1 << 18  # Of one pattern once it is read.
MOST_INSTRUCTIONS: Final = 1_000  # That it is compiled to: the worst takes microseconds for each name.
MOST_REMEMBERED: Final = 64
SHOWN: Final = 60  # Characters of what RE2 says, which repeats the pattern.
LOOKING_AROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")


def fault(pattern: str) -> str:
    """Return why a pattern is not taken; nothing where it is."""
    if len(pattern) > LONGEST:
        return f"is longer than {LONGEST} characters"
    try:
        compiled = _read(pattern)
    except (re2.error, UnicodeError) as error:
        return _said(error)
    if compiled.programsize > MOST_INSTRUCTIONS:
        return "is too large once it is compiled; use smaller counts and fewer classes of characters"
    return ""


def _said(error: Exception) -> str:
    message = error.args[0].decode(errors="replace") if isinstance(error, re2.error) else "it is no text"
    if "pattern too large" in message:
        return "is too large once it is compiled; use smaller counts and fewer classes of characters"
    if message.endswith(LOOKING_AROUND):
        return (
            f"looks around, which RE2 does not do; write {names.AVOID_MODEL_PATTERN} for what must not match"
        )
    return f"is not a regular expression of RE2: {message[:SHOWN]}"


def found(pattern: str, text: str) -> bool | None:
    """Return whether a pattern is found in a text, or None for a pattern that is not taken."""
    compiled = _compiled(pattern)
    return None if compiled is None else compiled.search(text) is not None


@functools.lru_cache(maxsize=MOST_REMEMBERED)
def _compiled(pattern: str) -> Any:
    return None if fault(pattern) else _read(pattern)


def _read(pattern: str) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.never_capture = True  # Groups are not asked for, and without them a search is faster by far.
    options.log_errors = False  # They would go to stderr, without the name of the pod.
    options.max_mem = MOST_MEMORY
    compiled = re2.compile(pattern, options)
    re2.purge()  # It would remember twice as many of its own accord.
    return compiled
