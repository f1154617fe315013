"""How a program of the tests that a person starts comes to its end.

`make demo`, `make cluster`, `make chaos`, `make bench` and `testbed up` start servers; whatever
ends the program, these are stopped and removed first, and troubles are sentences.
"""

import signal
import sys
from collections.abc import Callable
from typing import Final

from testbed import builder, cluster, processes, waiting

INTERRUPTED: Final = 130  # 128 and the number of SIGINT, as shells tell it.
TROUBLES: Final = (builder.Unavailable, processes.CannotStart, cluster.KubectlFailed, waiting.TimedOut)


def exit_code(name: str, work: Callable[[], int | None], *, last_words: str = "") -> int:
    """Do some work and return the exit code of the program; the last words are those of one interrupted."""
    # Any of these is a wish to end in good order; even SIGINT, which a shell script's `&` sets to be ignored.
    for wish in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(wish, signal.default_int_handler)
    try:
        return work() or 0
    except KeyboardInterrupt:
        if last_words:
            print(f"\n{name}: {last_words}", file=sys.stderr)
        return INTERRUPTED
    except TROUBLES as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
