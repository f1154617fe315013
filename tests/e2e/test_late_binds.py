"""A bind that is held up on its way keeps its card, for as long as its sender leads."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from e2e.stage import Stage, cards_of
from support import manifests
from testbed import calls, interceptor, waiting
from testbed.interceptor import Deed, Fault


class FirstBindHeld:
    """What holds the first bind of a pod up until its gate opens."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.held = asyncio.Event()
        self.again = False  # Whether it is held up as well when it is sent again.

    def judge(self, call: calls.Call) -> Fault:
        """Hold the bind."""
        first = call.kind == "create pods/binding" and call.name == "first"
        if first and (self.again or not self.held.is_set()):
            self.held.set()
            return Fault(Deed.HOLD, 0.0, self.gate)
        return interceptor.PASS


@pytest.fixture
def holding() -> FirstBindHeld:
    """Yield what holds a bind up."""
    return FirstBindHeld()


@pytest.fixture
async def wire(stage: Stage, holding: FirstBindHeld) -> AsyncIterator[interceptor.Interceptor]:
    """Yield the wire of an operator whose first bind is held up, on a cluster with one card."""
    await stage.nodes(lone="1xT4")
    async with interceptor.Interceptor(stage.cluster, judge=holding.judge) as wire:
        yield wire


@pytest.mark.slow
async def test_a_bind_that_is_held_up_keeps_its_card(
    stage: Stage, wire: interceptor.Interceptor, holding: FirstBindHeld
) -> None:
    """Its sender gives up and finds the pod without a node; the only card still goes to nobody else (I1)."""
    await stage.deciding_operator(wire=wire)
    await stage.until_ready("lone")
    await stage.create(manifests.pod("first"))
    await asyncio.wait_for(holding.held.wait(), 15)
    await stage.create(manifests.pod("rival"))

    # Sent again once it is clear that nobody answers
    await stage.until_bound("first")
    holding.gate.set()
    await waiting.eventually(
        lambda: all(one.status for one in wire.seen if one.deed is Deed.HOLD), what="the late copy's answer"
    )
    now = await stage.pods()

    assert cards_of(now["first"])
    assert "nodeName" not in now["rival"]["spec"]


@pytest.mark.slow
async def test_who_ends_with_a_bind_on_its_way_does_not_release_the_lease(
    stage: Stage, wire: interceptor.Interceptor, holding: FirstBindHeld
) -> None:
    """The next leader has to wait out what may still arrive, and it does so only for a Lease that lapsed."""
    holding.again = True
    leader = await stage.deciding_operator(wire=wire)
    await stage.until_ready("lone")
    await stage.create(manifests.pod("first"))
    await asyncio.wait_for(holding.held.wait(), 15)
    leader.process.terminate()
    await stage.ended(leader)
    holding.gate.set()

    assert (await stage.leader())["holderIdentity"]
    assert "the Lease is left to lapse" in leader.log.read_text()
