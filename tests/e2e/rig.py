"""A rig to break operators on: replicas that are started again whenever they end, each behind its own wire.

A `Replica` is what a Deployment makes of one: whatever process it has, another one
takes its place when it ends. All it says to the API server goes through an interceptor.
A `Rig` has replicas, pods that come and go all the while, invariants that are judged at
every revision, and one way to end: all that fits must be bound in time, and nothing may
ever have been wrong.
"""

import asyncio
import contextlib
import random
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from berth_crds import names
from berth_crds.client import errors
from berth_operator.kube import leadership
from e2e import plans, provocations
from e2e.conditions import condition
from e2e.stage import Stage, cards_of
from e2e.workload import FINISHED, Workload
from support import pod_invariants
from testbed import calls, interceptor, processes, waiting
from testbed.interceptor import Fault

WITHIN_SECONDS: Final = 20.0  # From the last fault until all that fits is bound.
MOST_LOSSES: Final = 3  # Of the lead while that is awaited: the machine may be busy with other things.
CLEAN_SECONDS: Final = 5.0  # The same after a leader that ended in order.
DEALT_SECONDS: Final = 90.0  # From one fault to the next: a plan that waits longer waits for ever.


class Wrong(AssertionError):
    """A promise was broken."""


class Replica:
    """The place of one replica."""

    def __init__(self, rig: "Rig", number: int, *flags: str, env: Mapping[str, str] | None = None) -> None:
        self._rig = rig
        self._number = number
        self._flags = flags
        self._env = env
        self._kept: asyncio.Task[None]
        self.wire = interceptor.Interceptor(rig.stage.cluster, judge=self._judge, kill=self.kill)
        self.program: processes.Program
        self._programs: list[processes.Program] = []
        self.lives: list[tuple[str, int]] = []  # The name of each process, and how much was seen before it.
        self.exits: list[int] = []
        self.doomed = self.cut_off = False
        self.lost_at = float("-inf")  # When a process last ended because it had lost the lead.
        self.barred = False  # Nobody takes the place of a process that ended: another replica leads.

    async def __aenter__(self) -> Self:
        """Listen, and start the first process."""
        await self.wire.__aenter__()
        cluster, where = self._rig.stage.cluster, (names.SYSTEM_NAMESPACE, names.OPERATOR_ACCOUNT)
        path = await asyncio.to_thread(cluster.kubeconfig_for, *where, server=self.wire.server)
        self._flags = ("--kubeconfig", str(path), *self._flags)
        self._start()
        self._kept = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process for good, if need be by force."""
        self._kept.cancel()
        await asyncio.gather(self._kept, return_exceptions=True)
        self.program.process.send_signal(signal.SIGCONT)
        self.program.kill()
        await self.wire.__aexit__(kind, error, trace)

    def _start(self) -> None:
        name = f"{self._rig.name}-{self._number}-{len(self.lives)}"
        self.lives.append((name, len(self.wire.seen)))
        self.doomed = self.cut_off = False
        # Two losses in a row: the machine is too busy for short terms. With the usual ones it is not.
        terms = () if self.exits[-2:] == [leadership.EXIT_LOST] * 2 else self._rig.terms
        self.program = self._rig.stage.fleet.operator(*terms, *self._flags, name=name, env=self._env)
        self._programs.append(self.program)

    async def _keep(self) -> None:
        while True:
            if not self.program.alive() and not self.barred:
                # Whoever loses the lead on a machine that is too busy ends as well: time counts from there.
                self.wire.note()
                self.exits.append(self.program.process.wait())
                lost = self.exits[-1] == leadership.EXIT_LOST
                self.lost_at = time.monotonic() if lost else self.lost_at
                self._start()
            await asyncio.sleep(0.05)

    def _judge(self, call: calls.Call) -> Fault:
        if self.cut_off:
            return Fault(interceptor.Deed.DROP)
        return self._rig.plan.judge(self, call)

    # ------------------------------------------------------------ what is done to it

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal, and count that as a fault."""
        self.wire.note()
        with contextlib.suppress(ProcessLookupError):
            self.program.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process."""
        self.signal(signal.SIGKILL)

    def bar(self) -> None:
        """Kill the process, and let no other take its place until the replica is no longer barred."""
        self.barred = True
        self.kill()

    def ends(self) -> list[tuple[str, int]]:
        """Name the processes that ended, and their exit statuses."""
        return [(name, code) for (name, _), code in zip(self.lives, self.exits, strict=False)]

    def said(self, word: str) -> bool:
        """Whether the present process has said a word."""
        return word in self.program.log.read_text()

    def last_words(self) -> str:
        """Return how its processes ended, and the end of what the last one said, and the one before."""
        said = "\n".join(processes.tail(one.log, lines=40) for one in self._programs[-2:])
        return f"{self.program.name}, after others that ended with {self.exits}:\n{said}"

    async def retire(self) -> int:
        """End the process in order, and give its exit status."""
        self._kept.cancel()
        await asyncio.gather(self._kept, return_exceptions=True)
        self.signal(signal.SIGCONT)
        # Before it says this, a process has not learned yet to end in order.
        await waiting.eventually(
            lambda: self.said("talking to") or not self.program.alive(), what="an operator to start"
        )
        self.signal(signal.SIGTERM)
        return await self._rig.stage.ended(self.program)


class Rig:
    """Everything of one round."""

    def __init__(
        self, stage: Stage, seed: int, cards: pod_invariants.Cards, *, flags: tuple[str, ...] = ()
    ) -> None:
        self.stage = stage
        self.seed = seed
        self.chance = chance = random.Random(seed)
        self.name = f"{stage.namespace}-{seed}-{secrets.token_hex(2)}"
        self.plan: plans.Plan = plans.AimedFaults()
        self.replicas: list[Replica] = []
        self.workload = Workload(stage, chance, self.waiting)
        self.invariants = pod_invariants.WatchedInvariants(stage.cluster, stage.namespace, cards)
        self.within = WITHIN_SECONDS
        self.took = 0.0
        self.hurried = False  # Whether waits that nothing needs are cut short.
        self.terms = flags
        self._close = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        await self._close.enter_async_context(self.invariants)
        self._close.push_async_callback(self.workload.clear)
        # Replicas end by force, and whoever starts next need not wait until the Lease of one of them lapses.
        self._close.push_async_callback(self.stage.vacate)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove all that was started."""
        await self._close.aclose()

    # ------------------------------------------------------------ who plays

    async def start(
        self, count: int, *envs: Mapping[str, str], deciding: bool = True, flags: Sequence[str] = ()
    ) -> None:
        """Start some replicas, and wait until one of them decides."""
        for number in range(count):
            env = envs[number] if envs else None
            replica = Replica(self, number, *flags, env=env)
            self.replicas.append(await self._close.enter_async_context(replica))
        if deciding:
            await self.deciding()

    async def deciding(self, *but: Replica) -> Replica:
        """Wait until a replica other than these decides, and give it."""
        return await waiting.eventually(
            lambda: next((one for one in self.replicas if one not in but and one.said("deciding:")), None),
            what="an operator to decide",
            seconds=40,
        )

    async def start_pair(self, *envs: Mapping[str, str]) -> tuple[Replica, Replica]:
        """Start two replicas, wait until one of them decides and the other stands by, and give both."""
        await self.start(2, *envs)
        leader = await self.deciding()
        [other] = [one for one in self.replicas if one is not leader]
        await waiting.eventually(lambda: other.said("campaigning"), what="one to stand by", seconds=40)
        return leader, other

    async def carry_out(self, plan: plans.Plan) -> None:
        """Let a plan have its way until it is done, calling forth what it waits for."""
        self.plan = plan
        left, deadline = 0, 0.0
        while not plan.done:
            if isinstance(plan, plans.AimedFaults):
                if len(plan.left) != left:
                    left, deadline = len(plan.left), time.monotonic() + DEALT_SECONDS
                if time.monotonic() > deadline:
                    never = ", ".join(map(str, plan.left))
                    raise Wrong(f"calls that never came: {never}\n{self.last_words()}")
                await provocations.provoke(plan.wanted(), self.stage, self.workload, self.replicas[0].wire)
                await self._hurry(plan)
            await asyncio.sleep(0.5)

    async def _hurry(self, faults: plans.AimedFaults) -> None:
        """Release a dead leader's Lease for it, where it surely left no bind under way.

        The wait is there for binds under way, and the interceptor in the middle knows that there
        are none; those who were killed at a bind are waited out.
        """
        if not self.hurried or not faults.dealt or faults.dealt[-1].kind == plans.BIND:
            return
        binds = [one for replica in self.replicas for one in replica.wire.seen if one.call.kind == plans.BIND]
        with contextlib.suppress(errors.NotFound):
            holder = (await self.stage.leader()).get("holderIdentity", "").split("_")[0]
            if holder and not any(one.open for one in binds) and holder in self._dead():
                await self.stage.vacate()

    def _dead(self) -> set[str]:
        return {name for replica in self.replicas for name, _ in replica.lives[:-1]}

    def depose(self, leader: Replica) -> None:
        """End the lead of a replica: kill it, stop it, or cut it off."""
        how = self.chance.choice(("kill", "stop", "cut off"))
        if how == "kill":
            leader.bar()
        elif how == "stop":
            leader.signal(signal.SIGSTOP)
        else:
            leader.cut_off = True

    def forgive(self) -> None:
        """Let those go on who were deposed."""
        for replica in self.replicas:
            replica.barred = False
            replica.signal(signal.SIGCONT)

    @contextlib.asynccontextmanager
    async def another_history(self) -> AsyncIterator[None]:
        """Let the block restart the server, perhaps from earlier data: what was after those never was."""
        async with self.invariants.paused():
            yield
        self.replicas[0].wire.note()
        self.workload.made = self.invariants.names()

    # ------------------------------------------------------------ the end

    async def settle(self) -> None:
        """All that fits is bound in time, no card is withheld for nobody, and nothing was ever wrong."""
        await self.workload.rest()
        start = max(self.workload.last, self._last_fault())
        await self._until_bound(start, self._limit())
        self.took = max(0.0, time.monotonic() - start)
        await self._fill(max(time.monotonic() + CLEAN_SECONDS, start + self._limit()))
        self.check()
        await self._retire()

    async def _retire(self) -> None:
        """End all in order, which also spares the next round the wait for a Lease to lapse."""
        statuses = await asyncio.gather(*(replica.retire() for replica in self.replicas))
        if not {0, leadership.EXIT_LOST}.issuperset(statuses):
            raise Wrong(f"asked to end, operators ended with {statuses}")

    def _limit(self) -> float:
        """Return how soon after the last fault all is bound: later if a lead was lost just now."""
        since = time.monotonic() - max(replica.lost_at for replica in self.replicas)
        return max(self.within, WITHIN_SECONDS if since < WITHIN_SECONDS else 0.0)

    def _last_fault(self) -> float:
        return max(replica.wire.last_fault for replica in self.replicas)

    async def _until_bound(self, start: float, seconds: float) -> None:
        """Wait until all that fits is bound."""
        left = start + seconds - time.monotonic()
        try:
            await self.eventually(lambda: not self.waiting(), what="all to be bound", seconds=left)
        except waiting.TimedOut:
            raise Wrong(f"still not bound after {seconds:g} s:\n{await self._why()}") from None

    async def eventually(
        self, condition: Callable[[], bool], *, what: str, seconds: float, losses: int = MOST_LOSSES
    ) -> None:
        """Wait; a lead that is lost meanwhile is a fault like any other, from which the time counts anew."""
        fault = self._last_fault()
        try:
            await waiting.eventually(condition, what=what, seconds=seconds)
        except waiting.TimedOut:
            if not losses or self._last_fault() == fault:
                raise
            left = self._last_fault() + WITHIN_SECONDS - time.monotonic()
            await self.eventually(condition, what=what, seconds=left, losses=losses - 1)

    def last_words(self) -> str:
        """Return what all replicas said last."""
        return "\n".join(replica.last_words() for replica in self.replicas)

    async def _why(self) -> str:
        """Return what pods that fit are told, and what else there is."""
        now = await self.stage.pods()
        told = {
            name: f"{now[name]['spec'].get('nodeName')} {condition(now[name], 'PodScheduled').get('message')}"
            for name in self.waiting()
            if name in now
        }
        held = [
            f"{name} {one['status'].get('phase')} on {one['spec']['nodeName']}, {cards_of(one)}"
            for name, one in now.items()
            if one["spec"].get("nodeName") and one["status"].get("phase") not in FINISHED
        ]
        waits = [f"{name} waits: {told.get(name)}" for name in self.waiting()]
        ends = [f"{life} ended with {code}" for one in self.replicas for life, code in one.ends()]
        return "\n".join([*waits, *held, *ends, self.last_words()])

    def waiting(self) -> list[str]:
        """Return the names of the pods that fit and wait."""
        pods = [one for one in self.invariants.pods.values() if not one["spec"].get("nodeName")]
        titles = [one["metadata"]["name"] for one in pods if "deletionTimestamp" not in one["metadata"]]
        gone = {name for _, change, name in self.invariants.revisions if change == "DELETED"}
        seen = self.invariants.names() | gone
        return [*(one for one in titles if self.workload.fits(one)), *(self.workload.made - seen)]

    async def _fill(self, deadline: float) -> None:
        """Ask for every card that nobody holds: all of them must be given."""
        await waiting.eventually(
            lambda: not any(map(Workload.passing, self.invariants.pods.values())),
            what="passing pods to finish",
            seconds=20,
        )
        await self.workload.fill(len(self.invariants.unheld()))
        deadline = max(deadline, self._last_fault() + self._limit())  # A lead may just have been lost.
        await self._until_bound(time.monotonic(), max(CLEAN_SECONDS, deadline - time.monotonic()))

    def check(self) -> None:
        """Raise if anything was wrong at any revision, or if an operator ended in a way it should not."""
        odd = [
            code for one in self.replicas for code in one.exits if code not in {-9, leadership.EXIT_LOST, 0}
        ]
        kinds = {record.call.kind for one in self.replicas for record in one.wire.seen}
        found = [
            *self.invariants.violations,
            *pod_invariants.overtaken(self.invariants.binds, self._pictures()),
            *(f"an operator ended with {code}" for code in odd),
            *(f"the suite does not know the call {kind!r}" for kind in sorted(kinds - set(plans.KINDS))),
        ]
        if found:
            raise Wrong("\n".join(found))

    def _pictures(self) -> dict[str, int]:
        """For each term, the revision of the pods up to which it knew them when its decisions began."""
        begun: dict[str, int] = {}
        for replica in self.replicas:
            for name, start in replica.lives:
                version = 0
                for record in replica.wire.seen[start:]:
                    # One of the process before, which was killed, may be seen only now.
                    if record.call.kind == plans.BIND and f"{name}_".encode() in record.asked:
                        break
                    if plans.shows_pods(record):
                        version = max(version, record.version)
                begun[name] = version
        terms = {bind.term for bind in self.invariants.binds}
        return {term: begun[term.split("_")[0]] for term in terms if term.split("_")[0] in begun}
