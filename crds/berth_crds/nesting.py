"""How deep values are nested that the API server stores, and what may be read of them.

Whoever may write an object may nest its managed fields thousands of levels deep. None of our
kinds has nearly so many. The readers of JSON call themselves for each level even of what they
skip, as deep as Python lets them call: `allow` makes that enough for all that a server stores,
and gives each thread the stack for it. Some versions of Python have a limit there that nobody
can move, and some systems less stack, so `cut` empties what is nested deeper than any of our
kinds is. That takes longer, and nobody does it before a reader has given up.
"""

import re
import resource
import sys
import threading
from collections.abc import Iterator
from typing import Final

STORED: Final = 10_000  # Servers, which are written in Go, take no text with more levels.
ROOM: Final = 2_000  # For what is around an object, and for the calls that lead to its reader.
STACK: Final = 8 << 20  # In bytes; the neediest reader takes less than two thirds of it for so many levels.
KNOWN: Final = 100  # Levels; the deepest of our kinds, in a list, has less than a third.

_escape: Final = re.compile(rb"\\.", re.DOTALL)
_word_or_bracket: Final = re.compile(rb'"[^"]*"?|[\[\]{}]')
_OPENING: Final = frozenset((b"[", b"{"))


def allow() -> None:
    """Let whatever a server stores be read in this program, and in the threads that it starts from now on.

    Where the stack of the first thread is too small for that, the limit is left as it is.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if soft != resource.RLIM_INFINITY and soft < STACK:
        return
    threading.stack_size(STACK)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), STORED + ROOM))


def cut(body: bytes) -> bytes:
    """Return a text in JSON as it is, but for lists and objects deeper than `KNOWN`, which are empty."""
    kept, done, level = [], 0, 0
    for bracket in _brackets(body):
        if bracket[0] in _OPENING:
            level += 1
            if level == KNOWN + 1:
                kept.append(body[done : bracket.end()])
                done = len(body)  # Of a text that ends within it nothing more is kept.
        else:
            if level == KNOWN + 1:
                done = bracket.start()
            level -= 1
    return b"".join([*kept, body[done:]])


def _brackets(body: bytes) -> Iterator[re.Match[bytes]]:
    """Find all brackets that are not within words."""
    # A quote that is a part of a word would end it.
    unescaped = _escape.sub(b"__", body)
    return (found for found in _word_or_bracket.finditer(unescaped) if not found[0].startswith(b'"'))
