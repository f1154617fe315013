"""An hour of faults of every kind: the agent lives, ends with the truth, and writes only what changed.

Time runs sixty times as fast: a tick of 0.2 s stands for twelve seconds, and the agent's clock
says so. The driver, the kubelet and the way to the API server fail by chance, each on its own;
nothing is waited for in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

import grpc
import pytest

from berth_agent import device_spec
from berth_agent.health import health_rules
from berth_crds import names, wire
from berth_crds.client import errors, informer, resources
from support import nodes
from support.nvml import presets
from support.podresources import Kubelet
from testbed import proxy

if TYPE_CHECKING:
    from agent.conftest import Scene

SEED: Final = int(os.environ.get("BERTH_SOAK_SEED", "20"))  # Another one is another hour.
FASTER: Final = 60
HOUR_SECONDS: Final = 3600 / FASTER
LONGEST_PAUSE_SECONDS: Final = 1.0
RECOVERY_SECONDS: Final = 90.0
CARDS: Final = 8
HELD: Final = 5  # The card that a pod holds; all happens to it but to be taken out of the machine.
CALLS: Final = (
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetRemappedRows",
    "nvmlEventSetWait_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
)
CODES: Final = (3, 4, 9, 15, 16, 999)
XIDS: Final = (13, 31, 43, 48, 63, 74, 79, 94, 95, 119)


class Revisions:
    """Every revision of one Device, as a watch of somebody else tells them."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def upserted(self, thing: wire.Device) -> None:
        """See one more."""
        self.seen.add(thing.metadata.resource_version)

    def deleted(self, meta: wire.Meta) -> None:
        """See it go."""


class Trouble:
    """What befalls a node, one deed after the other, by a chance that has a seed."""

    def __init__(self, scene: Scene, rig: nodes.Mocked, kubelet: Kubelet, wire_: proxy.Proxy) -> None:
        self.scene, self.machine, self.kubelet, self.wire = scene, rig.machine, kubelet, wire_
        self.chance = random.Random(SEED)
        self.deeds = 0
        self._unplugged: set[int] = set()

    async def for_an_hour(self) -> None:
        """Do one thing after the other; at first the API server is away for ten minutes."""
        await self.ten_minutes_alone()
        end = time.monotonic() + HOUR_SECONDS
        while time.monotonic() < end:
            await self.chance.choice(self._possible())()
            self.deeds += 1
            await asyncio.sleep(self.chance.uniform(0.0, LONGEST_PAUSE_SECONDS))

    async def ten_minutes_alone(self) -> None:
        """Stop the API server, and have something happen meanwhile that must not be lost."""
        self.wire.refuse()
        self.wire.cut()
        self.machine.raise_xid(self.a_card(), 79)
        self.machine.lose(self.a_card())
        await asyncio.sleep(600 / FASTER)
        await self.wire.accept()

    def _possible(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            *(self.card, self.card, self.driver, self.call, self.call, self.error),
            *(self.kubelet_fails, self.kubelet_fails, self.way, self.by_hand, self.slot),
        ]

    def a_card(self) -> int:
        """Choose a card."""
        return self.chance.randrange(CARDS)

    async def card(self) -> None:
        """Have a card fall off the bus, answer again, be reset, or fill up."""
        machine = self.machine
        self.chance.choice((machine.lose, machine.find, machine.find, machine.reset))(self.a_card())
        machine.fill(self.a_card(), self.chance.randrange(1 << 30))

    async def driver(self) -> None:
        """Unload the driver for a while, or load it anew."""
        self.machine.unload(self.chance.choice((9, 18, 999)))
        await asyncio.sleep(self.chance.uniform(0.0, 2.0))
        self.machine.load()

    async def call(self) -> None:
        """Have a call hang or fail, on one card or on all, for a while."""
        call, card = self.chance.choice(CALLS), self.chance.choice((None, self.a_card()))
        if self.chance.random() < 0.5:
            self.machine.hang(call, card=card)
            await asyncio.sleep(self.chance.uniform(0.0, 2.0))
            self.machine.release(call, card=card)
        else:
            self.machine.fail(call, self.chance.choice(CODES), card=card)
            await asyncio.sleep(self.chance.uniform(0.0, 1.0))
            self.machine.fail(call, None, card=card)

    async def error(self) -> None:
        """Have the driver tell errors, harmless ones and others."""
        for _ in range(self.chance.randint(1, 5)):
            self.machine.raise_xid(self.a_card(), self.chance.choice(XIDS))

    async def slot(self) -> None:
        """Remove a card from the machine, or put one back."""
        if self._unplugged and self.chance.random() < 0.6:
            self.machine.plug(self._unplugged.pop())
        elif len(self._unplugged) < 2:
            card = self.chance.choice(sorted(set(range(CARDS)) - self._unplugged - {HELD}))
            self.machine.unplug(card)
            self._unplugged.add(card)

    async def kubelet_fails(self) -> None:
        """Have the kubelet refuse, hang, or be started anew."""
        how = self.chance.randrange(3)
        if how == 0:
            self.kubelet.refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        elif how == 1:
            self.kubelet.gate = asyncio.Event()
        else:
            await self.kubelet.stop()
        await asyncio.sleep(self.chance.uniform(0.0, 2.0))
        await self.kubelet_is_well(restart=how == 2)

    async def kubelet_is_well(self, *, restart: bool) -> None:
        """End what the kubelet suffers from."""
        self.kubelet.refusal = None
        if self.kubelet.gate:
            self.kubelet.gate.set()
            self.kubelet.gate = None
        if restart:
            await self.kubelet.start()

    async def way(self) -> None:
        """Cut or block the way to the API server for a while."""
        if self.chance.random() < 0.5:
            self.wire.cut()
            return
        self.wire.refuse()
        self.wire.cut()
        await asyncio.sleep(self.chance.uniform(0.0, 3.0))
        await self.wire.accept()

    async def by_hand(self) -> None:
        """Delete the Device, or write nonsense into it."""
        with contextlib.suppress(errors.NotFound):
            if self.chance.random() < 0.3:
                await self.scene.admin.delete(resources.DEVICES, self.scene.node)
            else:
                await self.scene.patch_device({"spec": {"driver": {"version": f"0.{self.chance.random()}"}}})


@contextlib.asynccontextmanager
async def revisions(scene: Scene) -> AsyncIterator[Revisions]:
    """Follow the Device beside the block."""
    seen = Revisions()
    scope = resources.Scope(fields=f"metadata.name={scene.node}")
    watch = informer.Informer(scene.admin, resources.DEVICES, wire.Device, seen, scope=scope)
    task = asyncio.create_task(watch.run())
    await watch.wait_synced()
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])


def conditions(device: wire.Device) -> set[tuple[str, str]]:
    """Return each condition with what it says."""
    return {(each.type, each.status) for each in device.status.conditions}


@contextlib.asynccontextmanager
async def soaked(scene: Scene, rig: nodes.Mocked, kubelet: Kubelet) -> AsyncIterator[Trouble]:
    """Run an agent for an hour of faults, which are over when the block begins."""
    account = names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT
    async with proxy.Proxy(scene.cluster.port) as way:
        trouble = Trouble(scene, rig, kubelet, way)
        kubeconfig = scene.cluster.kubeconfig_for(*account, server=way.server)
        with contextlib.closing(rig.start()) as looking:
            async with scene.agent(source=looking, kubeconfig=kubeconfig):
                whole = await scene.until_device(lambda it: len(it.spec.devices) == CARDS, what="the cards")
                given = whole.spec.devices[HELD].uuid
                kubelet.says([(f"{scene.namespace}/p", {"main": {"nvidia.com/gpu": [given]}})])
                await scene.foreign_pod("p")
                await trouble.for_an_hour()
                rig.machine.change({key: None for key in rig.machine.read() if ".lost" in key})
                yield trouble


Identity = tuple[str, int, int, str, str]


def as_told(device: wire.Device) -> set[Identity]:
    """Return what the Device says the cards are."""
    places = ((card, card.topology.bus_id if card.topology else "") for card in device.spec.devices)
    return {(card.uuid, card.index or 0, card.minor, card.model, where or "") for card, where in places}


def as_made(rig: nodes.Mocked) -> set[Identity]:
    """Return what the cards are, as it stands in the file of the mock and read by nobody of the agent."""
    state = rig.machine.read()
    plugged = [card for card in range(CARDS) if f"card.{card}.absent" not in state]
    words = ([state[f"card.{card}.{key}"] for key in ("uuid", "minor", "name", "bus")] for card in plugged)
    return {
        (uuid, index, int(minor), name, bus.lower().removeprefix("0000"))
        for index, (uuid, minor, name, bus) in enumerate(words)
    }


def all_well(device: wire.Device) -> bool:
    """Return whether nothing is said against any source or card."""
    sources = {("NVMLReady", "True"), ("PodResourcesReady", "True")}
    return conditions(device) == sources and not device.status.devices


def sixty_times_as_fast() -> Callable[[], dt.datetime]:
    """Return a clock on which an hour takes a minute."""
    noon, started = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC), time.monotonic()
    return lambda: noon + dt.timedelta(seconds=(time.monotonic() - started) * FASTER)


@pytest.mark.slow
@pytest.mark.thorough
async def test_an_hour_of_faults_ends_with_the_truth(
    scene: Scene, place: nodes.Place, kubelet: Kubelet
) -> None:
    """Device and GpuPod say at last what is so; each write of the agent changed something."""
    rig = place(presets.DGX_A100)
    scene.rules = health_rules.HealthRules(cool_down=60 / FASTER, clean_probes=3)
    scene.deadline = 0.5
    scene.clock = sixty_times_as_fast()
    await scene.create_node()
    async with revisions(scene) as revised:
        async with soaked(scene, rig, kubelet) as trouble:
            settled = await scene.until_device(all_well, what="all well", seconds=RECOVERY_SECONDS)
            await scene.until_gpupod("p", lambda it: it.spec.containers, what="the GpuPod")
            beat = await scene.heartbeat()
            await asyncio.sleep(2.0)
            assert await scene.device() == settled, "the agent writes though nothing changes"
            assert await scene.heartbeat() != beat, "the agent does not vouch for it"
            rig.machine.lose(HELD)
            hurt = await scene.until_device(lambda it: it.status.devices, what="the sick card")

        assert as_told(settled) == as_made(rig)
        assert [(each.uuid, each.reason) for each in hurt.status.devices] == [
            (rig.machine.read()[f"card.{HELD}.uuid"], "GpuIsLost")
        ]
        assert hurt.spec == settled.spec
        rig.machine.find(HELD)
        with contextlib.closing(rig.start()) as fresh:
            assert settled.spec == device_spec.spec(scene.node, nodes.look(fresh), None)
        await asyncio.sleep(1.0)  # The log has a line for each write just after its answer.
        written = [each for each in scene.writes() if each.resource == names.DEVICES and each.code < 300]
    assert trouble.deeds > HOUR_SECONDS / 3
    assert len(written) <= len(revised.seen), "a write that changed nothing"
