"""`make fuzz`: whether any pod, or any number of pods, can hold the operator's loop up or fill its memory.

Pods are drawn from a seed (`bench.pod_generator`), and so are links of nodes whose agents have gone
wrong. Pods are delivered as the API would: as JSON, through the informer's codec and the
feed's sink, to a real ledger of a thousand nodes. Rounds of the real loop decide, bind and
explain. Of each pod is measured how long it kept the loop: its translation, its decision,
the look at why it waits, and the answer to somebody who asks for that; in time of this
thread, so that what else runs on the machine counts for little. What takes too long is tried
again, alone and with nothing remembered, before it is called broken. Pods leave again, so
that memory has no reason to grow.

    make fuzz MINUTES=60
    make fuzz MINUTES=5 SEED=17
    make fuzz ARGS="--pod build/bench/fuzz-17-4711.yaml"
"""

import argparse
import array
import asyncio
import collections
import contextlib
import dataclasses
import gc
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from bench import mutations, pod_generator, results
from bench.in_memory_operator import InMemoryOperator, Spent
from berth_operator.engine import garbage_collection

NODES: Final = 1000
MOST_SECONDS: Final = 0.05  # Of one pod, everything together.
# A round may take about as long, and cannot be tried again where the machine was slow: a few may have been.
ROUND: Final = 2
SLOW_ROUNDS: Final = 3
SLOW_PART: Final = 0.001
MOST_GROWTH: Final = 64 << 20  # Bytes in an hour, after the first part of it.
WARM: Final = 0.2  # That part.
NEW_BOARD: Final = 0.2  # How often an odd node's agent publishes other links before a round.
TRIES: Final = 3  # Before something is called too slow.
BURSTS: Final = (1, 1, 1, 1, 1, 1, 5, 40)


# ---------------------------------------------------------------- one run


@dataclasses.dataclass(slots=True)
class Broken:
    """A bound that was broken: by which pod, and by how much."""

    what: str
    pod: pod_generator.Pod | None = None


class Run:
    """Draws pods and watches bounds."""

    def __init__(self, operator: InMemoryOperator, seed: int, *, most: float | None = None) -> None:
        self.operator = operator
        self.seed = seed
        self.count = self.rounds = self.slow_rounds = self.tried_again = 0
        self._most = MOST_SECONDS if most is None else most
        row_uuids = (
            card.uuid
            for info in operator.ledger.inventory.each()
            for card in (info.device.cards if info.device else ())
        )
        self.draw = pod_generator.PodGenerator(seed, tuple(row_uuids), mutations.ALL)
        self._dice = random.Random(seed)
        self._topologies = pod_generator.PodGenerator(seed, (), mutations.ALL)
        # In arrays, for what is noted of a hundred thousand pods must not look like a leak.
        self.figures: dict[str, array.array[float]] = collections.defaultdict(lambda: array.array("d"))
        self.worst: dict[str, tuple[float, int]] = {}

    async def burst(self) -> Broken | None:
        """Have some pods come, and make a round."""
        operator, many = self.operator, self._dice.choice(BURSTS)
        drawn: dict[str, pod_generator.Pod] = {}
        for _ in range(many):
            made = self.draw.next()
            self.count += 1
            drawn[operator.deliver(made)] = made
        if self._topologies.dice.random() < NEW_BOARD and (broken := self.republished()):
            return broken
        slow = self.judge_round(await operator.round())
        for uid, made in drawn.items():
            operator.ask(uid)
            spent = operator.spent[uid]
            self.draw.took(made, dataclasses.asdict(spent))
            self._note_all(spent)
            if spent.total > self._most and (broken := await self.confirmed(made)):
                return broken
        operator.tidy()
        return slow

    def judge_round(self, seconds: float) -> Broken | None:
        """Return what is broken if too many rounds have been too long."""
        self._note("round", seconds)
        self.rounds += 1
        self.slow_rounds += seconds > self._most * ROUND
        if self.slow_rounds <= max(SLOW_ROUNDS, SLOW_PART * self.rounds):
            return None
        return Broken(
            f"{self.slow_rounds} of {self.rounds} rounds took too long, the last {seconds * 1e3:.1f} ms"
        )

    def republished(self) -> Broken | None:
        """Have an agent publish other links, and say so if that takes too long each time."""
        topology = self._topologies.topology()
        least = min(
            self.operator.publish(topology._replace(salt=topology.salt + more)) for more in range(TRIES)
        )
        self._note("topology", least)
        if least <= self._most:
            return None
        return Broken(f"{topology.sort}: links that took {least * 1e3:.1f} ms to be read")

    async def confirmed(self, made: pod_generator.Pod) -> Broken | None:
        """Try a pod again, alone and with nothing remembered, and say so if it is as slow each time."""
        found = []
        self.tried_again += 1
        for _ in range(TRIES):
            self.operator.forget()
            uid = self.operator.deliver(made)
            await self.operator.round()
            self.operator.ask(uid)
            found.append(self.operator.spent[uid])
            self.operator.end(uid)
            if found[-1].total <= self._most:
                return None
        least = min(found, key=lambda one: one.total)
        parts = ", ".join(f"{name} {getattr(least, name) * 1e3:.1f}" for name in SPENT)
        return Broken(f"a pod took {least.total * 1e3:.1f} ms of the loop ({parts})", made)

    def _note_all(self, spent: Spent) -> None:
        for name in (*SPENT, "total"):
            if getattr(spent, name):
                self._note(name, getattr(spent, name))

    def _note(self, name: str, seconds: float) -> None:
        self.figures[name].append(seconds)
        if seconds > self.worst.get(name, (0.0, 0))[0]:
            self.worst[name] = seconds, self.count

    def summary(self) -> dict[str, Any]:
        """Return the figures in milliseconds."""
        return {
            name: {
                **{f"p{at}": round(float(np.percentile(found, at)) * 1e3, 2) for at in (50, 99)},
                "most": round(self.worst[name][0] * 1e3, 2),
            }
            for name, found in self.figures.items()
            if found
        }


SPENT: Final = tuple(field.name for field in dataclasses.fields(Spent))


def memory() -> int:
    """Return what this process takes of memory now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def fuzz(run: Run, minutes: float, tell: Callable[[str], None]) -> tuple[Broken | None, dict[str, Any]]:
    """Draw pods for so long, and give what was broken, if anything, and the figures."""
    garbage_collection.settle()
    began, warm, minute = time.monotonic(), 0, 0
    while (passed := time.monotonic() - began) < minutes * 60:
        broken = await run.burst()
        if broken is not None:
            return broken, _figures(run, passed, warm)
        if not warm and passed > WARM * minutes * 60:
            gc.collect()
            warm = memory()
        if passed > (minute + 1) * 60:
            minute += 1
            tell(_line(run, minute))
    gc.collect()
    found = _figures(run, minutes * 60, warm)
    return judge_memory(found["grown"], minutes), found


def judge_memory(grown: int, minutes: float) -> Broken | None:
    """Return what is broken if more has stayed in memory than may."""
    allowed = int(MOST_GROWTH * max(1.0, (1 - WARM) * minutes / 60))
    if grown <= allowed:
        return None
    return Broken(f"memory grew by {grown >> 20} MiB; {allowed >> 20} are allowed")


def _figures(run: Run, seconds: float, warm: int) -> dict[str, Any]:
    now = memory()
    return {
        "seed": run.seed,
        "pods": run.count,
        "seconds": round(seconds),
        "rounds": run.rounds,
        "slow rounds": run.slow_rounds,
        "tried again": run.tried_again,
        "answers": dict(run.operator.status_writer.answers),
        "memory": now,
        "grown": max(0, now - warm) if warm else 0,
        "milliseconds": run.summary(),
    }


def _line(run: Run, minute: int) -> str:
    total, most = run.summary()["total"], run.worst["round"][0] * 1e3
    return (
        f"{minute:>4} min {run.count:>8} pods, ms of the loop for each: p50 {total['p50']:.1f} "
        f"p99 {total['p99']:.1f} most {total['most']:.1f}; longest round {most:.1f}; "
        f"{memory() >> 20} MiB, {len(run.operator.waiting)} wait, {len(run.operator.held)} bound"
    )


# ---------------------------------------------------------------- the program


async def replayed(operator: InMemoryOperator, made: pod_generator.Pod) -> Broken | None:
    """Play one pod again."""
    run = Run(operator, 0)
    garbage_collection.settle()
    return await run.confirmed({**made, "metadata": {"annotations": {}, "labels": {}, **made["metadata"]}})


def saved(broken: Broken, run: Run) -> Iterator[str]:
    """Write down what broke a bound, and give lines that tell of it."""
    yield f"broken by pod {run.count} of seed {run.seed}: {broken.what}"
    yield f"again: make fuzz SEED={run.seed}"
    if broken.pod is not None:
        path = results.FOLDER / f"fuzz-{run.seed}-{run.count}.yaml"
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **broken.pod}, allow_unicode=True))
        yield f'the pod alone: make fuzz ARGS="--pod {path.relative_to(results.ROOT)}"'


def verdict(broken: Broken | None, run: Run, figures: dict[str, Any]) -> Iterator[str]:
    """Yield lines that say whether the bounds were kept; if not, by which pod, and how to play it again."""
    if broken is not None:
        yield from saved(broken, run)
        return
    most, _ = run.worst.get("total", (0.0, 0))
    yield (
        f"kept: of {run.count} pods none held the loop for more than {MOST_SECONDS * 1e3:g} ms when tried "
        f"again (the longest first time {most * 1e3:.1f} ms), and memory grew by {figures['grown'] >> 20} MiB"
    )


async def main(words: Sequence[str]) -> int:
    """Run, print, and write the results; 0 if all bounds were kept."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--seed", type=int, default=None, help="play the same pods again")
    parser.add_argument("--nodes", type=int, default=NODES, help="of eight cards each (1000)")
    parser.add_argument("--pod", type=Path, default=None, help="play only the pod of this file")
    chosen = parser.parse_args(words)
    with contextlib.closing(InMemoryOperator(chosen.nodes)) as operator:
        return await _played(operator, chosen)


async def _played(operator: InMemoryOperator, chosen: argparse.Namespace) -> int:
    if chosen.pod is not None:
        alone = await replayed(operator, yaml.safe_load(chosen.pod.read_text()))
        print(alone.what if alone else "it keeps within the bounds")
        return 1 if alone else 0
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(1 << 20)
    run = Run(operator, seed)
    print(f"seed {seed}, {chosen.nodes} nodes, {chosen.minutes:g} minutes", flush=True)
    broken, figures = await fuzz(run, chosen.minutes, lambda line: print(line, flush=True))
    results.write("fuzz.json", figures)
    print(json.dumps(figures, indent=1))
    for line in verdict(broken, run, figures):
        print(line, file=sys.stderr if broken else sys.stdout)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
