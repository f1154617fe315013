"""One run of the program: the answer, or one line and an exit code that say why there is none."""

import errno
import gc
import os
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from berth_crds import flags
from berth_operator.simulation import cli, mistakes

EXIT_UNWRITTEN: Final = 1
EXIT_PIPE: Final = 141  # As of a program that the signal ended.


def run(words: Sequence[str]) -> int:
    """Run; nobody is told of a reader who left early."""
    # Everything that is read stays until the end: to look for garbage in it is lost time.
    gc.disable()
    try:
        chosen = cli.parse(words)
        _write(sys.stdout, chosen)
    except mistakes.Mistake as mistake:
        _say(str(mistake))
        return flags.EXIT_UNUSABLE
    except BrokenPipeError:
        # Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except RecursionError:
        _say("the input is nested too deep")
        return flags.EXIT_UNUSABLE
    except OSError as error:
        _say(f"the output cannot be written: {error.strerror}")
        return EXIT_UNWRITTEN
    return 0


def _say(what: str) -> None:
    # Python has None for a stream that was closed before it started.
    if sys.stderr is not None:
        sys.stderr.write(f"{cli.PROGRAM}: {what}\n")


def _write(out: TextIO | None, chosen: cli.Chosen) -> None:
    if out is None:
        raise OSError(errno.EBADF, "it is closed")
    if hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", newline="\n")
    out.writelines(chosen.run(chosen))
    out.flush()
