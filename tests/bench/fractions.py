"""`make bench SCENARIO=fractions`: filling a cluster with pods that share cards, and with pods of whole ones.

It is the scenario `fill`, with as many pods each time. Only Berth gives out parts of a card, so it is
compared with itself: a pod that gets a part should cost no more than one that gets a whole card. The sizes
take turns.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from bench import bench_cluster, fill, plots, results, scenario, systems

RESULT: Final = "fractions.json"
PERCENTS: Final = (bench_cluster.WHOLE, 50, 25)
BERTH: Final = systems.ALL["berth"]


async def compare(chosen: argparse.Namespace) -> list[results.Row]:
    """Run everything, the order of the sizes reversed from run to run."""
    rows: list[results.Row] = []
    async with scenario.furnished(chosen.nodes) as place:
        bench = fill.Bench(place, chosen.pods, None)
        scenario.tell("warming up")
        await bench.run(BERTH, 0, pods=min(chosen.pods, chosen.warm_up))
        for number in range(1, chosen.runs + 1):
            for percent in chosen.percents if number % 2 else reversed(chosen.percents):
                row = await bench.run(BERTH, number, percent=percent)
                rows.append({**row, "scenario": "fractions", "percent": percent})
                scenario.tell(f"run {number}: {fill.TABLE.line(title(percent), rows[-1])}")
    return rows


# ---------------------------------------------------------------- what is printed


def title(percent: int) -> str:
    """Name the pods of one size."""
    return "a whole card each" if percent == bench_cluster.WHOLE else f"{percent} % of a card each"


def medians(rows: Sequence[results.Row]) -> dict[int, results.Row]:
    """Take the medians of each size, the largest first."""
    return fill.TABLE.medians_by(
        lambda row: int(row["percent"]), sorted(rows, key=lambda row: -int(row["percent"]))
    )


def report(rows: Sequence[results.Row]) -> str:
    """Write the table of medians, and how parts compare with whole cards."""
    found = medians(rows)
    lines = ["", fill.TABLE.heads("median of the runs")]
    lines += [fill.TABLE.line(title(percent), figures) for percent, figures in found.items()]
    if whole := found.get(bench_cluster.WHOLE):
        lines.append("")
        for percent, part in found.items():
            if part is not whole:
                speed, cost = (part[key] / whole[key] for key in ("pods_per_s", "cpu_ms_per_pod"))
                lines.append(
                    f"{title(percent)} against whole cards: {speed:.2f} of the pods/s, {cost:.2f} of the CPU"
                )
    return "\n".join(lines)


def main() -> int:
    """Run, print and write the results."""
    parser = argparse.ArgumentParser(prog="make bench SCENARIO=fractions", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each size")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes with eight cards each")
    parser.add_argument("--pods", type=int, default=4000, help="waiting pods")
    fill.add_warm_up(parser)
    parser.add_argument(
        "--percents", type=int, nargs="+", default=list(PERCENTS), help="of a card that each pod asks for"
    )
    chosen = parser.parse_args()
    if not all(1 <= percent <= bench_cluster.WHOLE for percent in chosen.percents):
        parser.error(f"a part of a card has from 1 to {bench_cluster.WHOLE} percent")
    rows = scenario.finish(compare(chosen))
    print(report(rows))
    results.write(RESULT, rows)
    found = {title(percent): figures["pods_per_s"] for percent, figures in medians(rows).items()}
    plots.write("fractions-pods-per-s.svg", "Pods bound", "a second", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
