"""The ways in which operators are broken: a table of scenarios, each a short story.

A scenario starts replicas on a rig, lets pods come, and does its worst; when it returns,
the worst is over, and the rig judges what is left. All chance comes from the rig's seed.
"""

import asyncio
import dataclasses
import datetime as dt
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from berth_operator.kube import leadership
from e2e import disasters, plans, rig
from e2e.plans import Aim
from testbed import calls, interceptor, waiting
from testbed.interceptor import Deed, Fault

SKEWED: Final = Path(__file__).resolve().parents[1] / "support" / "skewed"
HOUR: Final = 3600.0
PATIENCE_SECONDS: Final = 45.0  # A node may be passed over for half a minute.

Story = Callable[[rig.Rig], Awaitable[None]]


# ---------------------------------------------------------------- killed at a call


async def kills(on: rig.Rig, *, aims: tuple[Aim, ...] = (), replicas: int = 0, hurried: bool = False) -> None:
    """Operators are killed at chosen calls: before the server hears of it, after it acted, and after that."""
    on.hurried = hurried
    faults = plans.AimedFaults(aims or _aims_of(on))
    on.plan = faults
    await on.start(replicas or on.chance.choice((1, 2)), deciding=False)
    async with on.workload.arriving():
        await on.carry_out(faults)


def _aims_of(on: rig.Rig) -> list[Aim]:
    dealt = plans.kills_of(on.seed, len(SCENARIOS))
    return [Aim(kind, Fault(deed, on.chance.uniform(0.0, 0.05))) for kind, deed in dealt]


async def kills_at_any_moment(on: rig.Rig) -> None:
    """Operators are killed at moments that no call marks."""
    await on.start(2)
    async with on.workload.arriving():
        for _ in range(on.chance.randint(1, 3)):
            await asyncio.sleep(on.chance.uniform(0.0, 3.0))
            on.chance.choice(on.replicas).kill()


# ---------------------------------------------------------------- asleep


async def sleeps(on: rig.Rig) -> None:
    """A leader is stopped for longer than its Lease and woken up: it ends, and another one leads."""
    leader, _ = await on.start_pair()
    async with on.workload.arriving():
        await asyncio.sleep(on.chance.uniform(0.5, 1.5))
        before = len(leader.exits)
        leader.signal(signal.SIGSTOP)
        await on.deciding(leader)
        await asyncio.sleep(on.chance.uniform(0.0, 2.0))
        asleep = len(leader.wire.seen)
        leader.signal(signal.SIGCONT)
        await waiting.eventually(lambda: len(leader.exits) > before, what="the sleeper to end")
    if leader.exits[-1] != leadership.EXIT_LOST:
        raise rig.Wrong(f"the sleeper ended with {leader.exits[-1]}")
    # The one that was on its way from the check of the lead to the wire may still arrive.
    if sum(one.call.kind == plans.BIND for one in leader.wire.seen[asleep:]) > 1:
        raise rig.Wrong("the sleeper went on binding when it woke up")


async def naps(on: rig.Rig) -> None:
    """Operators are stopped for any time, shorter or longer than their Lease, again and again."""
    await on.start(2)
    async with on.workload.arriving():
        for _ in range(3):
            one = on.chance.choice(on.replicas)
            one.signal(signal.SIGSTOP)
            await asyncio.sleep(on.chance.uniform(0.1, 8.0))
            one.signal(signal.SIGCONT)


# ---------------------------------------------------------------- binds and the change of leader


@dataclasses.dataclass
class Holding:
    """Holds the binds of one operator, and cuts it off; perhaps forwards them when another takes the lead."""

    on: rig.Rig
    victim: rig.Replica
    most: int
    race: bool
    gate: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    held: int = 0
    done: bool = False

    def judge(self, sender: plans.Sender, call: calls.Call) -> Fault:
        """Hold binds, up to a number; the other's write of the Lease opens the gate of a race."""
        if sender is self.victim and call.kind == plans.BIND and self.held < self.most:
            self.held += 1
            return Fault(Deed.HOLD, self.on.chance.uniform(0.0, 0.05) if self.race else 0.0, self.gate)
        if self.race and sender is not self.victim and call.kind == "update leases":
            self.gate.set()
        return interceptor.PASS

    async def holds(self) -> None:
        """Wait until as many binds are held as should be, or their sender has lost the lead by itself."""
        await waiting.eventually(
            lambda: self.held >= self.most or (self.held and self.gate.is_set()),
            what=f"{self.most} binds to be held",
            instead=lambda: f"{self.held}",
        )

    async def answered(self) -> list[interceptor.Record]:
        """Wait until the server has decided on all of them."""
        records = [one for one in self.victim.wire.seen if one.deed is Deed.HOLD]
        await waiting.eventually(
            lambda: all(one.status for one in records), what="the server to decide on the held binds"
        )
        return records


async def fenced(on: rig.Rig, *, skews: tuple[float, ...] = ()) -> None:
    """Binds are held past the change of leader and then forwarded: the server refuses every one."""
    leader, _ = await on.start_pair(*(wrong_clock(skew) for skew in skews))
    if skews:
        await _shows(on, skews[on.replicas.index(leader)])
    holding = Holding(on, leader, most=3, race=False)
    on.plan = holding
    await on.workload.burst(6)
    await holding.holds()
    on.depose(leader)
    await on.deciding(leader)
    holding.gate.set()
    for record in await holding.answered():
        if record.status != 403 or "not of the term" not in record.text:
            raise rig.Wrong(f"a late bind of {record.call.name} was answered {record.status} {record.text!r}")
    on.forgive()


async def late(on: rig.Rig) -> None:
    """Binds are held up past every deadline of their sender, who leads on: nobody else gets their cards."""
    await on.start(1)
    leader = await on.deciding()
    holding = Holding(on, leader, most=on.chance.choice((1, 4)), race=False)
    on.plan = holding
    await on.workload.burst(20)
    await holding.holds()
    await asyncio.sleep(on.chance.uniform(5.0, 12.0))
    holding.gate.set()
    await holding.answered()


async def races(on: rig.Rig) -> None:
    """Binds arrive just when the Lease changes hands: none counts that the new leader did not see."""
    leader, _ = await on.start_pair()
    holding = Holding(on, leader, most=20, race=True)
    on.plan = holding
    await on.workload.burst(30)
    await holding.holds()
    on.depose(leader)
    await on.deciding(leader)
    await holding.answered()
    on.forgive()


# ---------------------------------------------------------------- clocks


async def clocks(on: rig.Rig) -> None:
    """Two operators whose clocks are an hour apart: neither steals the lead, and each can take it over."""
    skews = [on.chance.choice((-1, 1)) * HOUR / 2]
    skews.append(-skews[0])
    leader, other = await on.start_pair(*(wrong_clock(skew) for skew in skews))
    await _shows(on, skews[on.replicas.index(leader)])
    async with on.workload.arriving():
        before = (await on.stage.leader())["leaseTransitions"]
        await asyncio.sleep(2 + on.chance.uniform(0.0, 6.0))
        if (await on.stage.leader())["leaseTransitions"] != before or leader.exits:
            raise rig.Wrong("the lead changed hands though its holder was well")
        leader.bar()
        await on.deciding(leader)
        leader.barred = False
        await _shows(on, skews[on.replicas.index(other)])


def wrong_clock(skew: float) -> Mapping[str, str]:
    """Return the environment of a process that lives elsewhere in time."""
    path = os.pathsep.join([str(SKEWED), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "BERTH_TEST_SKEW": str(skew)}


async def _shows(on: rig.Rig, skew: float) -> None:
    """Make sure that the clock is as wrong as it should be."""
    written = dt.datetime.fromisoformat((await on.stage.leader())["renewTime"]).timestamp()
    if abs(written - time.time() - skew) > 60:
        raise rig.Wrong("the clock of the leader is not as wrong as it should be")


# ---------------------------------------------------------------- the wire


async def answers(on: rig.Rig) -> None:
    """Requests and answers are delayed, dropped, doubled and refused, whatever they are."""
    await on.start(on.chance.choice((1, 2)), deciding=on.chance.random() < 0.5)
    async with on.workload.arriving():
        faults = plans.RandomFaults(on.chance, odds=on.chance.choice((0.1, 0.3, 0.6)), seconds=8.0)
        await on.carry_out(faults)


async def every_answer(on: rig.Rig) -> None:
    """Each kind of answer is lost once and doubled once, the election's included, and each watch reset."""
    kinds = [kind for kind in plans.KINDS if not kind.startswith("watch")]
    aims = [Aim(kind, Fault(deed)) for deed in (Deed.LOSE, Deed.TWICE) for kind in kinds]
    cuts = [
        Aim(kind, Fault(Deed.CUT, on.chance.uniform(0.0, 2.0))) for kind in plans.KINDS if kind not in kinds
    ]
    faults = plans.AimedFaults([*aims, *cuts])
    on.plan = faults
    await on.start(1, deciding=False)
    async with on.workload.arriving():
        await on.carry_out(faults)


# ---------------------------------------------------------------- volumes


async def volumes(on: rig.Rig) -> None:
    """Operators are killed, and answers lost, while claims get volumes; each pod is where its volume is."""
    claims = sorted(plans.OF_CLAIMS)
    deeds = (Deed.KILL_BEFORE, Deed.KILL_AFTER, Deed.KILL_BETWEEN, Deed.LOSE, Deed.TWICE, Deed.DROP)
    faults = plans.AimedFaults(
        Aim(kind, Fault(deed, on.chance.uniform(0.0, 0.05)))
        for deed in on.chance.sample(deeds, 3)
        for kind in claims
    )
    on.within = PATIENCE_SECONDS
    await on.start(2)
    await on.workload.claims(*(local for local in (True, False) for _ in range(3)))
    await on.carry_out(faults)
    await waiting.eventually(
        lambda: set(on.workload.claimed.names).isdisjoint(on.waiting()),
        what="all pods with claims to be bound",
        seconds=2 * PATIENCE_SECONDS,
    )
    if wrong := await on.workload.claimed.faults():
        raise rig.Wrong("\n".join(wrong))


# ---------------------------------------------------------------- in good order


async def retires(on: rig.Rig) -> None:
    """A leader ends in order amid its work, and the other one has all pods bound within five seconds."""
    leader, _ = await on.start_pair()
    async with on.workload.arriving():
        await asyncio.sleep(on.chance.uniform(0.5, 2.0))
        status = await leader.retire()
    on.within = rig.CLEAN_SECONDS
    if status != 0:
        raise rig.Wrong(f"the leader ended with {status}")


SCENARIOS: Final[Mapping[str, Story]] = {
    "kills": kills,
    "kills-at-any-moment": kills_at_any_moment,
    "sleeps": sleeps,
    "naps": naps,
    "fenced": fenced,
    "late": late,
    "races": races,
    "two-servers": disasters.two_servers,
    "clocks": clocks,
    "answers": answers,
    "every-answer": every_answer,
    "restored": disasters.restored,
    "refused-binds": disasters.refused_binds,
    "spoiled-records": disasters.spoiled_records,
    "kinds-made-again": disasters.kinds_made_again,
    "volumes": volumes,
    "retires": retires,
}
