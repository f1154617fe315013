"""A bind that is held up on its way keeps its card, for as long as its sender leads."""

import asyncio

import pytest

from e2e.stage import Stage, cards_of
from support import manifests
from testbed import calls, interceptor
from testbed.interceptor import Deed, Fault


@pytest.mark.slow
async def test_a_bind_that_is_held_up_keeps_its_card(stage: Stage) -> None:
    """Its sender gives up and finds the pod without a node; the only card still goes to nobody else (I1)."""
    gate, held = asyncio.Event(), asyncio.Event()

    def judge(call: calls.Call) -> Fault:
        if call.kind == "create pods/binding" and call.name == "first" and not held.is_set():
            held.set()
            return Fault(Deed.HOLD, 0.0, gate)
        return interceptor.PASS

    await stage.nodes(lone="1xT4")
    async with interceptor.Interceptor(stage.cluster, judge=judge) as wire:

        async def answered() -> bool:
            return all(one.status for one in wire.seen if one.deed is Deed.HOLD)

        await stage.deciding_operator(wire=wire)
        await stage.until_ready("lone")
        await stage.create(manifests.pod("first"))
        await asyncio.wait_for(held.wait(), 15)
        await stage.create(manifests.pod("rival"))

        # Sent again once it is clear that nobody answers
        await stage.until_bound("first")
        gate.set()
        await stage.until("the late copy to be answered", answered)
        now = await stage.pods()

    assert cards_of(now["first"])
    assert "nodeName" not in now["rival"]["spec"]


@pytest.mark.slow
async def test_who_ends_with_a_bind_on_its_way_does_not_release_the_lease(stage: Stage) -> None:
    """The next leader has to wait out what may still arrive, and it does so only for a Lease that lapsed."""
    gate, held = asyncio.Event(), asyncio.Event()

    def judge(call: calls.Call) -> Fault:
        if call.kind == "create pods/binding":
            held.set()
            return Fault(Deed.HOLD, 0.0, gate)
        return interceptor.PASS

    await stage.nodes(lone="1xT4")
    async with interceptor.Interceptor(stage.cluster, judge=judge) as wire:
        leader = await stage.deciding_operator(wire=wire)
        await stage.until_ready("lone")
        await stage.create(manifests.pod("first"))
        await asyncio.wait_for(held.wait(), 15)
        leader.process.terminate()
        await asyncio.to_thread(leader.process.wait, 20)
        gate.set()

    assert (await stage.leader())["holderIdentity"]
    assert "the Lease is left to lapse" in leader.log.read_text()
