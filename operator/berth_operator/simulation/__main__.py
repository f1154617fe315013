"""The program `berth-simulation`; Ctrl-C ends it silently from the start."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

EXIT_INTERRUPTED: Final = 130


def main(words: Sequence[str] | None = None) -> int:
    """Run the program."""
    # Not at the top: importing all modules takes long enough for an interrupt.
    from berth_operator.simulation import cli  # noqa: PLC0415

    return cli.run(sys.argv[1:] if words is None else words)


def start() -> int:
    """Run the program with its arguments; Ctrl-C exits at once."""
    # An exception could be lost, or printed, in the middle of an import.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    return main()


if __name__ == "__main__":
    sys.exit(start())
