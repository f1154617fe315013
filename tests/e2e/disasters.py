"""What befalls a whole control plane, and not one operator alone: scenarios for `scenarios`."""

import asyncio
import contextlib
import dataclasses
import json
import random
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from berth_crds import names
from berth_crds.client import api, errors, resources
from e2e import plans, rig, workload
from e2e.conditions import condition
from support import manifests
from testbed import calls, interceptor, second_apiserver, shipped, waiting
from testbed import cluster as clusters
from testbed.interceptor import Deed, Fault

TAKEOVER_SECONDS: Final = 40.0  # A Lease, a retry and the wait, on a machine that is busy with other things.
RIVALS_SECONDS: Final = 8.0  # Pods that hold the cards until the late binds have arrived.
CREATED: Final = 201
TOLD_SECONDS: Final = 60.0  # A Kopf that shows no life is found out and followed by another in less.
RESTORED_SECONDS: Final = 40.0  # The server is not ready for some of them.
# With these a leader outlives the time in which the server is away.
LASTING: Final = ("--lease-duration", "20", "--renew-deadline", "15", "--retry-period", "1")


# ---------------------------------------------------------------- two API servers


@dataclasses.dataclass
class Detour:
    """Sends the binds of one operator to another server, of which it does not hear any more.

    Until that is done nobody is told why a pod waits: this, too, would make its late bind void, and so hide
    whether the next leader does that on purpose.
    """

    on: rig.Rig
    victim: rig.Replica
    server: str
    gate: asyncio.Event | None = None
    sent: int = 0
    done: bool = False

    def judge(self, sender: plans.Sender, call: calls.Call) -> Fault:
        """Divert each bind until the detour is done; with a gate, not before it opens."""
        if sender is self.victim and call.kind == plans.BIND and not self.done:
            self.sent += 1
            return Fault(Deed.DETOUR, 0.0, self.gate, self.server)
        if call.kind == plans.STATUS and not plans.touches_pod(call.kind, call.asked) and not self.done:
            return Fault(Deed.REFUSE)
        return interceptor.PASS


async def two_servers(on: rig.Rig, *, how: str = "") -> None:
    """An old leader's binds lie in a second API server, which is frozen, cut off or slow, and are late.

    The next leader gives all cards to others before that server goes on, with its old copy of the Lease.
    """
    how = how or on.chance.choice(("frozen", "cut off", "slow"))
    count = len(on.invariants.unheld())
    async with second_apiserver.SecondApiServer(on.stage.cluster) as second:
        leader, other = await on.start_pair()
        gate = asyncio.Event()
        detour = on.plan = Detour(on, leader, second.server, gate if how == "slow" else None)
        await leader.wire.warm(second.server, count)
        stall, go_on = {
            "frozen": (second.freeze, second.thaw),
            "cut off": (second.etcd.hold, second.etcd.resume),
            "slow": (lambda: second.etcd.hold(answers_only=True), second.etcd.resume),
        }[how]
        stall()
        await on.workload.singles(count)
        await waiting.eventually(lambda: detour.sent >= count, what="the binds to be sent")
        on.depose(leader)
        await _taken_by_rivals(on, count, other)
        gate.set()
        go_on()
        await _decided(leader)
        detour.done = True  # The victim may come to lead again, and the other server is gone by then.
    on.forgive()


async def _taken_by_rivals(on: rig.Rig, count: int, heir: rig.Replica) -> None:
    """Have pods that come first take every card under the next leader, which rests until all are there.

    A card that it gave to another pod before that would be held for good.
    """
    heir.signal(signal.SIGSTOP)
    rivals = await on.workload.rivals(count, seconds=RIVALS_SECONDS)
    heir.signal(signal.SIGCONT)
    try:
        await on.eventually(
            lambda: set(rivals) <= on.invariants.bound(),
            what="the rivals to be bound",
            seconds=TAKEOVER_SECONDS,
        )
    except waiting.TimedOut as late:
        raise rig.Wrong(f"{late}\n{on.last_words()}") from None


async def _decided(victim: rig.Replica) -> None:
    """Wait until the other server has said something to each bind, or has given it up."""
    binds = [one for one in victim.wire.seen if one.deed is Deed.DETOUR]
    with contextlib.suppress(waiting.TimedOut):
        await waiting.eventually(
            lambda: all(one.status for one in binds),
            what="the late binds to be answered",
            seconds=6.0,
        )
    done = [one for one in binds if one.status == CREATED]
    if done:
        raise rig.Wrong(f"{len(done)} late binds were carried out, the first of {done[0].call.name}")


# ---------------------------------------------------------------- etcd


async def restored(on: rig.Rig) -> None:
    """The server's data are taken back to an older copy while pods come and go, and nobody says so."""
    await on.start(2, flags=LASTING if on.chance.random() < 0.5 else ())
    cluster = on.stage.cluster
    async with on.workload.arriving():
        await asyncio.sleep(on.chance.uniform(1.0, 3.0))
        copy = await asyncio.to_thread(cluster.copy_etcd)
        await asyncio.sleep(on.chance.uniform(0.5, 4.0))
    async with on.another_history():
        await asyncio.to_thread(cluster.restore_etcd, copy)
    on.within = RESTORED_SECONDS
    async with on.workload.arriving():
        await asyncio.sleep(on.chance.uniform(1.0, 4.0))


# ---------------------------------------------------------------- somebody who refuses


@dataclasses.dataclass
class Refusing:
    """Refuses the binds of some pods, dry runs of them, too, as a webhook or a policy would."""

    share: float
    over: bool = False

    @property
    def done(self) -> bool:
        """Whether nothing more will be refused."""
        return self.over

    def refuses(self, name: str) -> bool:
        """Whether the binds of a pod are refused: it is the same pods every time."""
        return not self.over and random.Random(name).random() < self.share

    def judge(self, sender: plans.Sender, call: calls.Call) -> Fault:
        """Refuse a bind, or let it pass."""
        refused = not sender.doomed and call.kind == plans.BIND and self.refuses(call.name)
        return Fault(Deed.REFUSE) if refused else interceptor.PASS


async def refused_binds(on: rig.Rig) -> None:
    """The binds of some pods are refused for a while; the others are bound meanwhile, and these later."""
    refusing = on.plan = Refusing(on.chance.choice((0.3, 0.6, 0.9)))
    await on.start(2)
    async with on.workload.arriving():
        await asyncio.sleep(on.chance.uniform(2.0, 5.0))
        killed = on.chance.random() < 0.5
        if killed:
            on.chance.choice(on.replicas).kill()
        await asyncio.sleep(on.chance.uniform(2.0, 5.0))
    await waiting.eventually(
        lambda: all(map(refusing.refuses, on.waiting())),
        what="the others to be bound",
        seconds=TAKEOVER_SECONDS,
    )
    on.within = on.within if killed else rig.CLEAN_SECONDS
    refusing.over = True
    on.replicas[0].wire.note()


# ---------------------------------------------------------------- records

GUARD: Final = "berth-held"
HOLDERS: Final = 6
SPOILED_SECONDS: Final = 4.0
SPOILINGS: Final[tuple[Callable[[str], dict[str, str | None]], ...]] = (
    lambda record: {names.ALLOCATION: record[: len(record) // 2]},
    lambda record: {names.ALLOCATION: record.replace('"core":100', '"core":-100')},
    lambda record: {names.ALLOCATION: record.replace("GPU-", "GPU-x")},
    lambda record: {names.ALLOCATION: record.replace('"v":1', '"v":2')},
    lambda _: {names.ALLOCATION: '{"v":1,"node":"elsewhere","containers":{}}', names.MINORS: None},
    lambda _: {names.ALLOCATION: None},
    lambda _: {names.ALLOCATION: None, names.MINORS: "7", names.container_key("main", "uuids"): "GPU-x"},
)


async def spoiled_records(on: rig.Rig) -> None:
    """Somebody spoils what bound pods hold, and leaders die: nobody else gets the cards of these pods."""
    await on.start(2)
    leader = await on.deciding()
    holders = await on.workload.singles(HOLDERS)
    await waiting.eventually(
        lambda: not set(holders) & set(on.waiting()),
        what="the holders to be bound",
        seconds=TAKEOVER_SECONDS,
    )
    async with _unguarded(on):
        for name in on.chance.sample(holders, on.chance.randint(1, HOLDERS)):
            await _spoil(on, name)
        leader.kill()
        async with on.workload.arriving():
            await asyncio.sleep(SPOILED_SECONDS)
            await on.deciding()
            await asyncio.sleep(SPOILED_SECONDS)
        for name in holders:
            await on.stage.delete(name)
    on.replicas[0].wire.note()


async def _spoil(on: rig.Rig, name: str) -> None:
    """Spoil the record of a pod, and take its GpuPod away, which would name the cards."""
    found = (await on.stage.pods())[name]["metadata"]["annotations"]
    words = on.chance.choice(SPOILINGS)(found[names.ALLOCATION])
    on.invariants.spoiled.add(name)
    await on.stage.patch(resources.PODS, name, {"metadata": {"annotations": words}})
    with contextlib.suppress(errors.NotFound):
        await on.stage.admin.delete(resources.GPU_PODS, name, namespace=on.stage.namespace)


@contextlib.asynccontextmanager
async def _unguarded(on: rig.Rig) -> AsyncIterator[None]:
    """Take the policy away that guards what pods hold, for the length of the block."""
    cluster, guarded = on.stage.cluster, f"{workload.MISFIT}-guarded"
    await on.stage.create(manifests.pod(guarded, schedulerName="nobody"))
    path = resources.PODS.path(guarded, namespace=on.stage.namespace)
    spoil = json.dumps({"metadata": {"annotations": {names.ALLOCATION: "{"}}}).encode()

    async def open_() -> bool:
        try:
            await on.stage.admin.send(
                "PATCH", path, params={"dryRun": "All"}, body=spoil, content=api.MERGE_PATCH
            )
        except (errors.Forbidden, errors.Invalid):
            return False
        return True

    async def shut() -> bool:
        return not await open_()

    await asyncio.to_thread(cluster.kubectl, "delete", "validatingadmissionpolicybinding", GUARD)
    try:
        await waiting.eventually(open_, what="the guard to be gone", seconds=20)
        yield
    finally:
        await asyncio.to_thread(on.stage.fleet.protect)
        await waiting.eventually(shut, what="the guard to be back", seconds=20)


# ---------------------------------------------------------------- the kinds themselves


async def kinds_made_again(
    on: rig.Rig, *, kinds: Sequence[str] = (), pauses: Sequence[float] = (), outage: bool | None = None
) -> None:
    """CRDs are deleted, and all objects of those kinds with them, and are applied again, more than once.

    Agents write their objects anew, and the leader tells of Devices and policies as before. In
    an outage the API server goes down while the kinds are gone, and comes back without them.
    """
    chance = on.chance
    await on.start(2)
    for pause in pauses or [chance.choice((0.0, 0.2, chance.uniform(0.0, 4.0))) for _ in range(3)]:
        async with on.workload.arriving():
            await asyncio.sleep(chance.uniform(0.5, 6.0))
            await asyncio.to_thread(_delete_kinds, on, kinds or chance.choice(KINDS_AT_ONCE))
        if chance.random() < 0.2 if outage is None else outage:
            async with on.another_history():
                await asyncio.to_thread(_restart_server, on)
        async with on.workload.arriving():
            await asyncio.sleep(pause)
            await asyncio.to_thread(make_kinds, on.stage.cluster)
        on.replicas[0].wire.note()
    await _told_again(on)
    on.replicas[0].wire.note()


KINDS_AT_ONCE: Final = (
    (names.DEVICES, names.GPU_PODS, names.POLICIES),
    (names.DEVICES,),
    (names.POLICIES,),
    (names.DEVICES, names.POLICIES),
)


def _delete_kinds(on: rig.Rig, kinds: Sequence[str]) -> None:
    on.stage.cluster.kubectl("delete", "crd", *(f"{one}.{names.GROUP}" for one in kinds), "--timeout=30s")


def _restart_server(on: rig.Rig) -> None:
    on.stage.cluster.crash_apiserver()
    on.stage.cluster.restart_apiserver()


def make_kinds(cluster: clusters.Cluster) -> None:
    """Apply the CRDs and the default policy, as a user would."""
    shipped.install_kinds(cluster)
    cluster.apply(shipped.MANIFESTS / "default-policy.yaml")


async def _told_again(on: rig.Rig) -> None:
    """Wait until each Device and the policy show what the leader says of them."""
    nodes = {card.node for card in on.invariants.cards.values()}

    async def told() -> bool:
        devices = await on.stage.devices()
        policy = await on.stage.admin.get(resources.POLICIES, names.DEFAULT_POLICY, into=dict)
        return bool(condition(policy, "Accepted")) and all(
            condition(devices.get(node, {}), "Ready").get("status") == "True" for node in nodes
        )

    await waiting.eventually(told, what="summaries and conditions after new kinds", seconds=TOLD_SECONDS)
