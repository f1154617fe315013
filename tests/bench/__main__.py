"""`make bench`: runs each scenario, or with SCENARIO=NAME the one of that name with its own arguments.

Together some of them are smaller (`SCENARIOS`); a scenario that is named alone is as large as its `--help`
says.
"""

import runpy
import sys
import time
from collections.abc import Sequence
from typing import Final

from bench import scenario
from testbed import console

# Each scenario, and how large it is where all are run.
SCENARIOS: Final = {
    "fill": ("--runs", "1"),
    "fractions": ("--runs", "1"),
    "stream": (),
    "churn": (),
    "answers": (),
    "restart": ("--runs", "1"),
    "growth": ("--nodes", "1000", "5000", "--pods", "0", "40000"),
    "agents": ("--nodes", "250", "500"),
}
HELP: Final = ("-h", "--help")
UNKNOWN: Final = 2


def main(words: Sequence[str]) -> int:
    """Run one scenario with its own arguments, or all."""
    if not words:
        return run_all()
    name, *rest = words
    if name in HELP:
        print(f"{__doc__}\nScenarios: {', '.join(SCENARIOS)}.")
        return 0
    if name.startswith("-"):
        print(f"bench: which scenario is {name} for? Name one of {', '.join(SCENARIOS)}.", file=sys.stderr)
        return UNKNOWN
    if name not in SCENARIOS:
        print(f"bench: there is no scenario {name}: it is one of {', '.join(SCENARIOS)}.", file=sys.stderr)
        return UNKNOWN
    return run(name, rest)


def run(name: str, words: Sequence[str]) -> int:
    """Run a scenario, and return the exit code of its program."""
    sys.argv[1:] = words
    try:
        runpy.run_module(f"bench.{name}", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    return 0


def run_all() -> int:
    """Run all, go on where one does not keep its bounds, and say at the end which these were."""
    start, failed = time.monotonic(), list[str]()
    for name, words in SCENARIOS.items():
        scenario.tell(f"{name}, after {(time.monotonic() - start) / 60:.0f} min")
        code = run(name, words)
        if code == console.INTERRUPTED:
            return code
        if code:
            failed.append(name)
    minutes = (time.monotonic() - start) / 60
    scenario.tell(f"all ran within {minutes:.0f} min; not as promised: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
