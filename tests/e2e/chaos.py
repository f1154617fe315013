"""`make chaos`: break operators on a real API server, as many rounds as asked.

Each round has a seed of its own; a failure prints it, with the command that plays the
round again. The timing of processes is not in our hands, so a replay does the same
things, at nearly the same moments.

    make chaos N=200
    make chaos N=1 SEED=17 SCENARIO=races
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from typing import Final

from e2e import fleet, rig, scenarios
from e2e import stage as stages
from e2e.stage import Stage
from support import kubelet, pod_invariants
from testbed import cluster as clusters
from testbed import console, interceptor, processes

# Nobody harms the agents: their Leases need not be a quarter of all that the server hears.
CALM: Final = ("--interval", "2", "--lease-duration", "8")


async def furnish(stage: Stage) -> pod_invariants.Cards:
    """Add the nodes, one without cards or agent among them, and give their cards."""
    await stage.machines(kubelet.FakeNode(f"{stage.namespace}-bare"))
    await stage.nodes(*CALM, **{f"{stage.namespace}-{at}": "8xT4" for at in range(4)})
    devices = await stage.devices()
    return pod_invariants.cards_of(
        {name: one for name, one in devices.items() if name.startswith(stage.namespace)}
    )


async def play(
    stage: Stage,
    cards: pod_invariants.Cards,
    story: scenarios.Story,
    *,
    seed: int,
    flags: tuple[str, ...] = (),
) -> rig.Rig:
    """Play one round, and raise if it ends badly."""
    async with rig.Rig(stage, seed, cards, flags=flags) as on:
        await story(on)
        await on.settle()
    return on


# ---------------------------------------------------------------- rounds


async def rounds(base: fleet.Fleet, arguments: argparse.Namespace) -> int:
    """Play all rounds; stop at the first that fails."""
    chosen = [arguments.scenario] if arguments.scenario else list(scenarios.SCENARIOS)
    async with stages.lent(base) as stage:
        cards = await furnish(stage)
        for at in range(arguments.rounds):
            seed, name = arguments.seed + at, chosen[(arguments.seed + at) % len(chosen)]
            if not await _round(stage, cards, name, seed):
                return 1
    return 0


async def _round(stage: Stage, cards: pod_invariants.Cards, name: str, seed: int) -> bool:
    started = time.monotonic()
    try:
        on = await play(stage, cards, scenarios.SCENARIOS[name], seed=seed)
    except Exception as error:  # noqa: BLE001  Whatever went wrong, its seed is wanted.
        what = str(error) or type(error).__name__
        print(f"seed {seed}: {name}: FAILED after {time.monotonic() - started:.1f} s: {what}")
        for program in stage.fleet.programs:
            print(f"\n{program.name} said:\n{processes.tail(program.log, lines=40)}")
        print(f"\nPlay it again: make chaos N=1 SEED={seed} SCENARIO={name}", flush=True)
        return False
    faults = sum(
        record.deed is not interceptor.Deed.NOTHING for replica in on.replicas for record in replica.wire.seen
    )
    print(
        f"seed {seed}: {name}: {time.monotonic() - started:.1f} s, {len(on.invariants.binds)} binds in "
        f"{len({one.term for one in on.invariants.binds})} terms, {faults} faults at calls, "
        f"{sum(len(replica.exits) for replica in on.replicas)} processes ended, "
        f"all bound {on.took:.1f} s after the last fault",
        flush=True,
    )
    return True


def main(words: Sequence[str] | None = None) -> int:
    """Start a cluster, play, and leave nothing behind."""
    arguments = _parser().parse_args(words)
    return console.exit_code("chaos", lambda: run(arguments))


def run(arguments: argparse.Namespace) -> int:
    """Play all rounds on a cluster of their own."""
    with clusters.Cluster() as testbed:
        base = fleet.Fleet(testbed)
        base.install()
        testbed.kubectl("get", "devices,gpupods,placementpolicies", "--all-namespaces")
        return asyncio.run(rounds(base, arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos", description="Break operators, in rounds.")
    parser.add_argument("--rounds", type=int, default=len(scenarios.SCENARIOS), help="how many rounds")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the seed of the first")
    parser.add_argument("--scenario", choices=sorted(scenarios.SCENARIOS), help="only this one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
