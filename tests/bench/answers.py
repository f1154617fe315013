"""`make bench SCENARIO=answers`: how soon a freed card is used again, and a hopeless pod told so.

Our operator has filled the cluster and a crowd waits. First pods that fit nowhere are
made, evenly and then all at once: how long from the server's answer to the creation
until a watcher sees the pod say why it waits. Then pods end, one at a time and in bursts,
half of them deleted and half of them succeeded: how long from their end, as the watcher
sees it, until it sees another pod bound to the same card.
"""

import argparse
import asyncio
import collections
import dataclasses
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from bench import (
    bench_cluster,
    given_twice,
    operator_runs,
    plots,
    pod_watch,
    process_costs,
    results,
    scenario,
)
from berth_crds import names
from testbed import processes, waiting

RESULT: Final = "answers.json"
BOUND_SECONDS: Final = 1.0  # At the 99th percentile.
DELETED: Final = "deleted"
SUCCEEDED: Final = "succeeded"
ALL: Final = "all"

Thing = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """How long one pod or card had to wait: in which part, and of what kind."""

    part: str
    kind: str
    seconds: float


# ---------------------------------------------------------------- pods that fit nowhere


def too_many_cards(pod: Thing) -> None:
    """Ask for more cards than any node has."""
    pod["spec"]["containers"][0]["resources"]["limits"][names.NVIDIA_GPU] = str(bench_cluster.CARDS + 1)


def no_such_model(pod: Thing) -> None:
    """Ask for a model that no node has."""
    pod["metadata"]["annotations"] = {names.MODEL: "T4"}


def no_such_node(pod: Thing) -> None:
    """Ask for a label that no node carries."""
    pod["spec"]["nodeSelector"] = {"example.org/pool": "none"}


def all_full(_pod: Thing) -> None:
    """Ask for one card like everybody, where none is free."""


HOPELESS: Final[dict[str, Callable[[Thing], None]]] = {
    "more cards than a node has": too_many_cards,
    "a model nobody has": no_such_model,
    "a label nobody carries": no_such_node,
    "one card, all are taken": all_full,
}


def hopeless(count: int) -> list[tuple[str, Thing]]:
    """Make so many pods that fit nowhere, the kinds in turn."""
    made = []
    for at, (kind, spoil) in zip(range(count), itertools.cycle(HOPELESS.items()), strict=False):
        pod = bench_cluster.pod(at, names.SCHEDULER_NAME)
        spoil(pod)
        made.append((kind, pod))
    return made


# ---------------------------------------------------------------- the measurement


class Bench:
    """One cluster that is full, the crowd that waits there, and the operator that answers it."""

    def __init__(
        self,
        place: bench_cluster.BenchCluster,
        program: processes.Program,
        seen: pod_watch.PodWatch,
        crowd: str,
    ) -> None:
        self._place = place
        self._program = program
        self._seen = seen
        self._crowd = crowd
        self._numbers = itertools.count()
        holders = list(seen.held)
        random.Random(1).shuffle(holders)
        self._holders = collections.deque(holders)

    async def gather_crowd(self, count: int) -> None:
        """Let so many more pods wait for a card, and wait until each was told that there is none."""
        made = [bench_cluster.pod(next(self._numbers), names.SCHEDULER_NAME) for _ in range(count)]
        await asyncio.gather(*(self._place.send("POST", _pods(self._crowd), pod) for pod in made))
        mine = [pod_watch.PodName(self._crowd, pod["metadata"]["name"]) for pod in made]
        await self._until(lambda: all(one in self._seen.told for one in mine), "the crowd to be told")

    async def quiet(self) -> None:
        """Let the operator finish what it does aside."""
        await process_costs.quiet(self._program.process.pid, self._place.log)

    async def verdicts(self, part: str, count: int, *, a_second: float) -> list[Answer]:
        """Make pods that fit nowhere, so many a second (for zero: at once), and time what they are told."""
        namespace = self._place.cluster.namespace("hopeless")
        start = time.monotonic()
        made = hopeless(count)
        due = [start + at / a_second if a_second else start for at in range(count)]
        answered = await asyncio.gather(
            *(self._make(namespace, pod, moment) for (_, pod), moment in zip(made, due, strict=True))
        )
        who = [pod_watch.PodName(namespace, pod["metadata"]["name"]) for _, pod in made]
        told = self._seen.told
        await self._until(lambda: all(one in told for one in who), "the hopeless pods to be told so")
        await self._place.clear(namespace)
        return [
            Answer(part, kind, told[one] - since)
            for (kind, _), one, since in zip(made, who, answered, strict=True)
        ]

    async def _make(self, namespace: str, pod: Thing, moment: float) -> float:
        """Make a pod when its moment has come, and tell when the server had answered."""
        await asyncio.sleep(moment - time.monotonic())
        await self._place.send("POST", _pods(namespace), pod)
        return time.monotonic()

    async def frees(self, part: str, count: int, *, burst: int) -> list[Answer]:
        """End so many pods, some at a time, and time when their cards are used again."""
        found: list[Answer] = []
        ways = itertools.cycle((DELETED, SUCCEEDED))
        while len(found) < count:
            ending, way = self._choose(min(burst, count - len(found))), next(ways)
            await asyncio.gather(*(self._end(who, way) for who in ending))
            used = partial(self._used, ending)
            await self._until(used, "the cards of pods that ended to be used again")
            found += [Answer(part, way, self._seen.taken[who]) for who in ending]
            await self.gather_crowd(len(ending))
        return found

    def _choose(self, count: int) -> list[pod_watch.PodName]:
        """Name pods that the first fill bound, in no order."""
        return [self._holders.popleft() for _ in range(count)]

    def _used(self, ended: list[pod_watch.PodName]) -> bool:
        """Whether the cards of all these are somebody else's by now."""
        return all(who in self._seen.taken for who in ended)

    async def _end(self, who: pod_watch.PodName, way: str) -> None:
        path = f"{_pods(who.namespace)}/{who.name}"
        if way == DELETED:
            await self._place.send("DELETE", path, {"gracePeriodSeconds": 0})
        else:
            await self._place.send(
                "PATCH", f"{path}/status", {"status": {"phase": "Succeeded"}}, headers=bench_cluster.MERGE
            )

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        async def holds() -> bool:
            return condition() or not self._program.alive()

        try:
            await waiting.eventually(holds, what=what, seconds=60.0)
            assert self._program.alive(), "the operator ended"
        except AssertionError as error:
            raise SystemExit(f"{error}:\n{processes.tail(self._program.log, lines=40)}") from None


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


async def measure(chosen: argparse.Namespace) -> list[Answer]:
    """Fill the cluster, then measure all parts, run after run."""
    async with scenario.furnished(chosen.nodes) as place:
        full = chosen.nodes * bench_cluster.CARDS
        scenario.tell(f"filling all {full} cards with pods of one card each")
        program = await operator_runs.filled(place, full)
        try:
            async with pod_watch.watching(place) as seen:
                bench = Bench(place, program, seen, place.cluster.namespace("crowd"))
                scenario.tell(f"{chosen.crowd} more pods wait")
                await bench.gather_crowd(chosen.crowd)
                found: list[Answer] = []
                for number in range(1, chosen.runs + 1):
                    found += await one_run(bench, chosen, number)
                await given_twice.require_none(place, seen=seen.twice)
                return found
        finally:
            program.stop(grace=10.0)


async def one_run(bench: Bench, chosen: argparse.Namespace, number: int) -> list[Answer]:
    """Measure each part once."""
    size, crowd = chosen.burst, chosen.hopeless_burst
    parts = {
        f"verdict, {chosen.rate:g} a second": partial(
            bench.verdicts, count=chosen.hopeless, a_second=chosen.rate
        ),
        f"verdict, {crowd} at once": partial(bench.verdicts, count=crowd, a_second=0),
        "re-use, one at a time": partial(bench.frees, count=chosen.frees, burst=1),
        f"re-use, {size} at once": partial(bench.frees, count=chosen.frees, burst=size),
    }
    found: list[Answer] = []
    for part, work in parts.items():
        await bench.quiet()
        found += await work(part)
        scenario.tell(f"run {number}: {TABLE.line(part, record(found, part, ALL))}")
    return found


# ---------------------------------------------------------------- what is printed


TABLE: Final = results.Table(
    32,
    ("count", "count", "{:6}"),
    ("p50", "p50_s", "{:8.3f}"),
    ("p99", "p99_s", "{:8.3f}"),
    ("max", "max_s", "{:8.3f}"),
)


def record(found: Sequence[Answer], part: str, kind: str) -> results.Row:
    """Return the figures of a part, or of one kind in it: times that were measured, never means."""
    seconds = [one.seconds for one in found if one.part == part and kind in {ALL, one.kind}]
    p50, p99 = (float(np.percentile(seconds, at, method="inverted_cdf")) for at in (50, 99))
    return {
        "scenario": "answers",
        "part": part,
        "kind": kind,
        "count": len(seconds),
        "p50_s": p50,
        "p99_s": p99,
        "max_s": max(seconds),
    }


def summary(found: Sequence[Answer]) -> list[results.Row]:
    """Take each part together, and each of its kinds."""
    kinds: dict[str, list[str]] = {}
    for one in found:
        kinds.setdefault(one.part, [ALL]).append(one.kind)
    return [record(found, part, kind) for part in kinds for kind in dict.fromkeys(kinds[part])]


def report(rows: Sequence[results.Row]) -> str:
    """Write the table, and whether each part kept its bound."""
    lines = ["", TABLE.heads("seconds")]
    lines += [TABLE.line(row["part"] if row["kind"] == ALL else f"  {row['kind']}", row) for row in rows]
    return "\n".join([*lines, "", *map(str, promises(rows))])


def promises(rows: Sequence[results.Row]) -> Iterator[results.Promise]:
    """Judge each part."""
    for row in rows:
        if row["kind"] == ALL:
            sentence = f"{row['part']}: p99 within {BOUND_SECONDS:g} s ({row['p99_s']:.3f} s)"
            yield results.Promise(sentence, row["p99_s"] <= BOUND_SECONDS)


def main() -> int:
    """Run, print and write the results; 1 where a promise was not kept."""
    parser = argparse.ArgumentParser(prog="make bench SCENARIO=answers", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how often all is measured, on one cluster")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes with eight cards each, all taken")
    parser.add_argument("--crowd", type=int, default=200, help="pods that wait for a card all the time")
    parser.add_argument("--frees", type=int, default=200, help="pods that end in each part about re-use")
    parser.add_argument("--burst", type=int, default=20, help="pods that end at once in the second part")
    parser.add_argument("--hopeless", type=int, default=300, help="pods that fit nowhere, made evenly")
    parser.add_argument("--rate", type=float, default=20, help="of them, how many a second")
    parser.add_argument("--hopeless-burst", type=int, default=100, help="pods that fit nowhere, made at once")
    chosen = parser.parse_args()
    if 2 * chosen.runs * chosen.frees > bench_cluster.CARDS * chosen.nodes:
        parser.error(
            "more pods would end than the nodes have cards: more --nodes, or fewer --frees or --runs"
        )
    rows = summary(scenario.finish(measure(chosen)))
    print(report(rows))
    results.write(RESULT, rows)
    slowest = {row["part"]: row["p99_s"] for row in rows if row["kind"] == ALL}
    plots.write(
        "answers-p99.svg", "Until a card is used again or a pod is told why it waits, p99", "s", slowest
    )
    return results.exit_code(promises(rows))


if __name__ == "__main__":
    sys.exit(main())
