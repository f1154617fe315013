"""A bind that is held up on its way is known to the leader that follows its sender."""

import asyncio

import pytest

from berth_operator.kube import elector
from e2e.stage import Stage
from support import manifests
from testbed import calls, interceptor
from testbed.interceptor import Deed, Fault


@pytest.mark.slow
async def test_who_ends_with_a_bind_on_its_way_says_so(stage: Stage) -> None:
    """The Lease is free, and the next leader waits out and voids what may still arrive."""
    gate, held = asyncio.Event(), asyncio.Event()

    def judge(call: calls.Call) -> Fault:
        if call.kind != "create pods/binding":
            return interceptor.PASS
        held.set()
        return Fault(Deed.HOLD, 0.0, gate)

    await stage.nodes(lone="1xT4")
    async with interceptor.Interceptor(stage.cluster, judge=judge) as wire:
        leader = await stage.deciding_operator(wire=wire)
        await stage.until_ready("lone")
        await stage.create(manifests.pod("first"))
        await asyncio.wait_for(held.wait(), 15)
        leader.process.terminate()
        await stage.ended(leader)
        gate.set()

    free = await stage.leader()
    assert not free["holderIdentity"]
    assert free["leaseDurationSeconds"] > elector.RELEASED_SECONDS
    assert "released the Lease; binds may still be under way" in leader.log.read_text()
