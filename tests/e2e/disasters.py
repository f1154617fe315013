"""What befalls a whole control plane, and not one operator alone: scenarios for `scenarios`."""

import asyncio
import contextlib
import dataclasses
from typing import Final

from e2e import plans, rig
from testbed import calls, interceptor, twin, waiting
from testbed.interceptor import Deed, Fault

TAKEOVER_SECONDS: Final = 40.0  # A Lease, a retry and the wait, on a machine that is busy with other things.
RIVALS_SECONDS: Final = 8.0  # Pods that hold the cards until the late binds have arrived.
LATE_SECONDS: Final = 6.0
CREATED: Final = 201
RESTORED_SECONDS: Final = 40.0  # The server is not ready for some of them.
# With these a leader outlives the time in which the server is away.
LASTING: Final = ("--lease-duration", "20", "--renew-deadline", "15", "--retry-period", "1")


# ---------------------------------------------------------------- two API servers


@dataclasses.dataclass
class Detour:
    """Sends the binds of one operator to another server, of which it does not hear any more."""

    on: rig.Rig
    victim: rig.Seat
    server: str
    gate: asyncio.Event | None = None
    sent: int = 0
    done: bool = False

    def judge(self, sender: plans.Sender, call: calls.Call) -> Fault:
        """Divert each bind; with a gate, not before it opens."""
        if sender is self.victim and call.kind == plans.BIND:
            self.sent += 1
            return Fault(Deed.DETOUR, 0.0, self.gate, self.server)
        return interceptor.PASS


async def two_servers(on: rig.Rig, *, how: str = "") -> None:
    """An old leader's binds lie in a second API server, which is frozen, cut off or slow, and are late.

    The next leader gives all cards to others before that server goes on, with its old copy of the Lease.
    """
    how = how or on.chance.choice(("frozen", "cut off", "slow"))
    count = len(on.witness.unheld())
    async with twin.Twin(on.stage.cluster) as other:
        await on.start(2)
        leader = await on.deciding()
        await on.standby(leader)
        gate = asyncio.Event()
        detour = on.plan = Detour(on, leader, other.server, gate if how == "slow" else None)
        await leader.wire.warm(other.server, count)
        stall, go_on = {
            "frozen": (other.freeze, other.thaw),
            "cut off": (other.etcd.hold, other.etcd.resume),
            "slow": (lambda: other.etcd.hold(answers_only=True), other.etcd.resume),
        }[how]
        stall()
        await on.crowd.singles(count)
        await waiting.eventually(lambda: _true(detour.sent >= count), what="the binds to be sent")
        on.depose(leader)
        await _taken_by_rivals(on, count)
        gate.set()
        go_on()
        await _decided(leader)
    on.forgive()


async def _true(value: object) -> bool:
    return bool(value)


async def _taken_by_rivals(on: rig.Rig, count: int) -> None:
    """Have pods that come first take every card under the next leader."""
    rivals = await on.crowd.rivals(count, seconds=RIVALS_SECONDS)

    async def taken() -> bool:
        bound = {one["metadata"]["name"] for one in on.witness.pods.values() if one["spec"].get("nodeName")}
        return set(rivals) <= bound

    await waiting.eventually(taken, what="the rivals to be bound", seconds=TAKEOVER_SECONDS)


async def _decided(victim: rig.Seat) -> None:
    """Wait until the other server has said something to each bind, or has given it up."""
    binds = [one for one in victim.wire.seen if one.deed is Deed.DETOUR]

    async def answered() -> bool:
        return all(one.status for one in binds)

    with contextlib.suppress(waiting.TimedOut):
        await waiting.eventually(answered, what="the late binds to be answered", seconds=LATE_SECONDS)
    done = [one for one in binds if one.status == CREATED]
    if done:
        raise rig.Wrong(f"{len(done)} late binds were carried out, the first of {done[0].call.name}")


# ---------------------------------------------------------------- etcd


async def restored(on: rig.Rig) -> None:
    """The server's data are taken back to an older copy while pods come and go, and nobody says so."""
    await on.start(2, flags=LASTING if on.chance.random() < 0.5 else ())
    await on.deciding()
    cluster = on.stage.cluster
    async with on.crowd.coming():
        await asyncio.sleep(on.chance.uniform(1.0, 3.0))
        copy = await asyncio.to_thread(cluster.copy_etcd)
        await asyncio.sleep(on.chance.uniform(0.5, 4.0))
    async with on.another_history():
        await asyncio.to_thread(cluster.restore_etcd, copy)
    on.within = RESTORED_SECONDS
    async with on.crowd.coming():
        await asyncio.sleep(on.chance.uniform(1.0, 4.0))
