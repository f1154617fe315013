"""The program `berth-simulation`; Ctrl-C ends it without a word, from the first moment on."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

EXIT_INTERRUPTED: Final = 130


def main(words: Sequence[str] | None = None) -> int:
    """Run the program."""
    # Not at the top: reading all modules takes long enough for somebody to change their mind.
    from berth_operator.simulation import program  # noqa: PLC0415

    return program.run(sys.argv[1:] if words is None else words)


def _end_at_interrupts() -> None:
    """End at once at Ctrl-C; as an exception it could be lost, or be told of, halfway through an import."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))


def start() -> int:
    """Be the program."""
    _end_at_interrupts()
    return main()


if __name__ == "__main__":
    sys.exit(start())
