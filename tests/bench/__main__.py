"""`make bench SCENARIO=NAME`: finds the scenario of that name, or says which there are."""

import runpy
import sys
from collections.abc import Sequence
from typing import Final

SCENARIOS: Final = ("fill", "fractions", "stream", "churn", "answers", "restart")
UNKNOWN: Final = 2


def main(words: Sequence[str]) -> int:
    """Run a scenario with its own arguments."""
    name = words[0] if words else SCENARIOS[0]
    if name not in SCENARIOS:
        print(f"bench: there is no scenario {name}: it is one of {', '.join(SCENARIOS)}.", file=sys.stderr)
        return UNKNOWN
    sys.argv[1:] = words[1:]
    runpy.run_module(f"bench.{name}", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
