"""One run of the program: the output, or one line and an exit code that say why there is none."""

import errno
import gc
import os
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from berth_crds import flags
from berth_operator.simulation import cli, input_errors

EXIT_NO_OUTPUT: Final = 1
EXIT_PIPE: Final = 141  # As of a program that the signal ended.


def run(words: Sequence[str]) -> int:
    """Run and return the exit code; a closed pipe is no error message."""
    # Everything that is read stays until the end: garbage collection would be lost time.
    gc.disable()
    try:
        options = cli.parse(words)
        _write(sys.stdout, options)
    except input_errors.InputError as error:
        _print_error(str(error))
        return flags.EXIT_UNUSABLE
    except BrokenPipeError:
        # Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except RecursionError:
        _print_error("the input is nested too deep")
        return flags.EXIT_UNUSABLE
    except OSError as error:
        _print_error(f"the output cannot be written: {error.strerror}")
        return EXIT_NO_OUTPUT
    return 0


def _print_error(what: str) -> None:
    # Python has None for a stream that was closed before it started.
    if sys.stderr is not None:
        sys.stderr.write(f"{cli.PROGRAM}: {what}\n")


def _write(out: TextIO | None, options: cli.Options) -> None:
    if out is None:
        raise OSError(errno.EBADF, "it is closed")
    if hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", newline="\n")
    out.writelines(options.run(options))
    out.flush()
