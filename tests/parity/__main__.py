"""`make parity`: whether Berth lets pods on exactly the nodes that kube-scheduler does.

Clusters and pods are drawn from a seed, over all fields that the filters of kube-scheduler read. Both are
asked: kube-scheduler on a real API server, and Berth's own translation, ledger and constraints on the objects
that the server returns. A difference is shrunk to the smallest manifests and written to tests/parity/corpus,
where a test replays it from then on. It ends with 1 if there was any.

    make parity N=2000
    make parity N=20000 SEED=7
    make parity ARGS="--clusters 500 --pods 500"
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from parity import comparing, corpus, drawing, own, scenes, shrinking
from parity.comparing import Compared
from parity.dice import Dice
from parity.stock import Stock, control_plane, started

PODS_EACH: Final = 10  # Of each cluster, unless something else is asked for.
EVERY_SECONDS: Final = 10.0
MOST_SHRUNK: Final = 5  # Differences that are shrunk: of very many, most are the same one.


class Run:
    """Draws clusters and compares."""

    def __init__(self, stock: Stock, seed: int, folder: Path) -> None:
        self.tally = comparing.Tally()
        self._stock = stock
        self._seed = seed
        self._folder = folder
        self._serves_anti_affinity = own.serves_anti_affinity()

    async def cluster(self, number: int, pods: int) -> None:
        """Draw a cluster and some pods, and compare."""
        dice = Dice(f"{self._seed}/{number}")
        theme = drawing.theme(dice)
        cluster = self._served(drawing.cluster(dice, theme))
        asking = drawing.asking(dice, cluster, pods, theme)
        found = await comparing.compare(self._stock, cluster, asking)
        self.tally.refused += pods - len(found)
        for one in found:
            self.tally.add(one)
        for one in found:
            if one.differs:
                await self._differing(one, number)

    def _served(self, cluster: scenes.Cluster) -> scenes.Cluster:
        """Return the cluster without anti-affinity of the pods there, if Berth does not serve that."""
        if self._serves_anti_affinity:
            return cluster
        self.tally.left_out[own.ANTI_AFFINITY] += sum(map(_has_anti_affinity, cluster.pods))
        return scenes.Cluster(cluster.nodes, tuple(map(own.without_anti_affinity, cluster.pods)))

    async def _differing(self, found: Compared, number: int) -> None:
        """Ask again, and if the difference is still there, shrink it and keep it."""
        question = corpus.pruned(found.question)
        if not await self._still_differs(question):
            self.tally.not_repeated += 1
            return
        self.tally.differing += 1
        print(
            f"cluster {number}: kube-scheduler {found.stock}; Berth {found.own} {found.own.words}", flush=True
        )
        if self.tally.differing > MOST_SHRUNK:
            return
        smallest = await shrinking.shrink(question, self._still_differs)
        again = await comparing.compare_one(self._stock, smallest)
        assert again is not None
        title = f"Seed {self._seed}, cluster {number}."
        case = corpus.Case(title, corpus.pruned(again.question), scenes.expected(again.stock, again.question))
        path = self._folder / f"seed-{self._seed}-{number}-{self.tally.differing}.yaml"
        corpus.write(path, case)
        print(f"  smallest: kube-scheduler {again.stock}; Berth {again.own}; {path}", flush=True)

    async def _still_differs(self, question: scenes.Question) -> bool:
        found = await comparing.compare_one(self._stock, question)
        return found is not None and found.differs


def _has_anti_affinity(pod: scenes.Object) -> bool:
    return own.REQUIRED in pod["spec"].get("affinity", {}).get("podAntiAffinity", {})


async def compare(run: Run, clusters: int, pods: int) -> None:
    """Compare so many clusters and pods, and tell of the progress."""
    began = told = time.monotonic()
    for number in range(clusters):
        await run.cluster(number, pods * (number + 1) // clusters - pods * number // clusters)
        if time.monotonic() - told > EVERY_SECONDS:
            told = time.monotonic()
            print(f"{told - began:5.0f} s  {_progress(run, number + 1, clusters)}", flush=True)
    print(f"{time.monotonic() - began:5.0f} s  {_progress(run, clusters, clusters)}", flush=True)


def _progress(run: Run, number: int, clusters: int) -> str:
    tally = run.tally
    return (
        f"{number} of {clusters} clusters, {tally.compared} pods compared, {tally.pods_left_out} left out, "
        f"{tally.differing} differences"
    )


async def main(words: Sequence[str]) -> int:
    """Compare, and print what was found; 0 if there was no difference."""
    parser = argparse.ArgumentParser(
        prog="make parity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=_count, default=2000, help="so many, over all clusters (2000)")
    parser.add_argument("--clusters", type=_count, default=None, help=f"so many (one for {PODS_EACH} pods)")
    parser.add_argument("--seed", type=int, default=None, help="draw the same clusters and pods again")
    parser.add_argument(
        "--corpus",
        type=Path,
        default=corpus.FOLDER,
        help="where differences are written (tests/parity/corpus)",
    )
    chosen = parser.parse_args(words)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(1 << 20)
    clusters = chosen.clusters or -(-chosen.pods // PODS_EACH)
    print(f"seed {seed}, {clusters} clusters, {chosen.pods} pods", flush=True)
    with control_plane() as testbed:
        async with started(testbed) as stock:
            run = Run(stock, seed, chosen.corpus)
            try:
                await compare(run, clusters, chosen.pods)
            finally:  # Of a run that is interrupted, too.
                print("\n".join(run.tally.lines()), flush=True)
    return 1 if run.tally.differing else 0


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
