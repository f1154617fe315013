"""A bind that is held up on its way keeps the Lease of its sender, until it lapses."""

import asyncio

import pytest

from e2e.stage import Stage
from support import manifests
from testbed import calls, interceptor
from testbed.interceptor import Deed, Fault


@pytest.mark.slow
async def test_who_ends_with_a_bind_on_its_way_does_not_release_the_lease(stage: Stage) -> None:
    """The next leader has to wait out what may still arrive, and it does so only for a Lease that lapsed."""
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

    assert (await stage.leader())["holderIdentity"]
    assert "the Lease is left to lapse" in leader.log.read_text()
