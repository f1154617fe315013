"""Says what is going on during the minutes that a first build takes: silence looks like a hang."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TICK_SECONDS = 10.0


def tell(sentence: str) -> None:
    """Print one line for the person who waits."""
    sys.stderr.write(f"testbed: {sentence}\n")
    sys.stderr.flush()


@contextmanager
def ticking(what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Tell every few seconds how long `what` has been going on."""
    started = time.monotonic()
    finished = threading.Event()

    def tick() -> None:
        while not finished.wait(TICK_SECONDS):
            say(f"{what}: {time.monotonic() - started:.0f} s so far")

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        finished.set()
        ticker.join()
