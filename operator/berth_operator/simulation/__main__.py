"""`python -m berth_operator.simulation`: one line and exit code 2 where the input is at fault."""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from berth_operator.simulation import cli, mistakes

EXIT_UNWRITTEN: Final = 1
EXIT_MISTAKE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141  # As of a program that the signal ended.


def main(words: Sequence[str] | None = None) -> int:
    """Run; nobody is told of a reader who left early or of Ctrl-C."""
    # Everything that is read stays until the end: to look for garbage in it is lost time.
    gc.disable()
    try:
        chosen = cli.parse(sys.argv[1:] if words is None else words)
        _write(sys.stdout, chosen)
    except mistakes.Mistake as mistake:
        print(f"{cli.PROGRAM}: {mistake}", file=sys.stderr)
        return EXIT_MISTAKE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except RecursionError:
        print(f"{cli.PROGRAM}: the input is nested too deep", file=sys.stderr)
        return EXIT_MISTAKE
    except OSError as error:
        print(f"{cli.PROGRAM}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return EXIT_UNWRITTEN
    return 0


def _write(out: TextIO, chosen: cli.Chosen) -> None:
    if hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", newline="\n")
    out.writelines(chosen.run(chosen))
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
