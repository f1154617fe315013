"""How deep values are nested that the API server stores, and what may be read of them.

The author of an object may nest its managed fields thousands of levels deep. None of our kinds
has nearly so many. The readers of JSON call themselves for each level, also of what they skip,
as deep as Python lets them: `raise_limits` makes that enough for all that a server stores, and
gives each thread the stack for it. Some versions of Python have a fixed limit there, and some
systems less stack, so `cut_deep_values` empties what is nested deeper than any of our kinds is.
That takes longer, so it is done only after a reader has failed.
"""

import re
import resource
import sys
import threading
from collections.abc import Iterator
from typing import Final

STORED_LEVELS: Final = 10_000  # Servers, which are written in Go, take no text with more levels.
SPARE_LEVELS: Final = 2_000  # For what is around an object, and for the calls that lead to its reader.
STACK_BYTES: Final = (
    8 << 20
)  # In bytes; the neediest reader takes less than two thirds of it for so many levels.
KEPT_LEVELS: Final = 100  # Levels; the deepest of our kinds, in a list, has less than a third.

_escape: Final = re.compile(rb"\\.", re.DOTALL)
_word_or_bracket: Final = re.compile(rb'"[^"]*"?|[\[\]{}]')
_OPENING: Final = frozenset((b"[", b"{"))


def raise_limits() -> None:
    """Raise the limits of this program, and of its later threads, to the deepest text of a server.

    Where the stack of the first thread is too small for that, the limit is left as it is.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if soft != resource.RLIM_INFINITY and soft < STACK_BYTES:
        return
    threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), STORED_LEVELS + SPARE_LEVELS))


def cut_deep_values(body: bytes) -> bytes:
    """Return a text in JSON as it is, but for lists and objects deeper than `KEPT_LEVELS`, emptied."""
    kept, done, level = [], 0, 0
    for bracket in _brackets(body):
        if bracket[0] in _OPENING:
            level += 1
            if level == KEPT_LEVELS + 1:
                kept.append(body[done : bracket.end()])
                done = len(body)  # Of a text that ends within it nothing more is kept.
        else:
            if level == KEPT_LEVELS + 1:
                done = bracket.start()
            level -= 1
    return b"".join([*kept, body[done:]])


def _brackets(body: bytes) -> Iterator[re.Match[bytes]]:
    """Find all brackets that are not within words."""
    # A quote that is a part of a word would end it.
    unescaped = _escape.sub(b"__", body)
    return (found for found in _word_or_bracket.finditer(unescaped) if not found[0].startswith(b'"'))
