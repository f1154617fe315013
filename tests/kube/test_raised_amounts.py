"""What a Node begins to list counts when its kubelet has surely read it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from berth_crds import names, wire
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import raised_amounts, sinks
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import raw
from support import clock
from testbed import waiting

NODE = "n1"
OLD_NAME = "kubernetes.io/gpu-core"
MOMENT = 0.05


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less."""
    monkeypatch.setattr(raised_amounts, "SECONDS", MOMENT)


class Watched:
    """A ledger that hears of one Node."""

    def __init__(self, **listed: str) -> None:
        self.ledger = Ledger(clock.Clock())
        self.sink = sinks.NodeSink(self.ledger)
        self.see(listed)

    def see(self, listed: Mapping[str, str], **spec: Any) -> None:
        """Let the Node list so much."""
        amounts: raw.Resources = {**listed}
        status = raw.NodeStatus(allocatable=amounts)
        self.sink.upserted(raw.Node(wire.Meta(NODE), spec=raw.NodeSpec(**spec), status=status))

    @property
    def node(self) -> facts.Node:
        """The Node as decisions know it."""
        info = self.ledger.inventory.node(NODE)
        assert info is not None
        assert info.node is not None
        return info.node

    @property
    def counted(self) -> dict[str, int]:
        """What counts of that."""
        return dict(self.node.allocatable)


async def until(watched: Watched, **counted: int) -> None:
    """Wait until so much counts."""

    async def counts() -> bool:
        return watched.counted == counted

    await waiting.eventually(counts, what="the amounts to count")


@pytest.mark.parametrize(
    ("before", "after", "meanwhile"),
    [
        ({}, {OLD_NAME: "100"}, {}),
        ({OLD_NAME: "100"}, {OLD_NAME: "200"}, {OLD_NAME: 100}),
        ({names.GPU: "0"}, {names.GPU: "100"}, {names.GPU: 0}),
    ],
    ids=["a new name that a kubelet refuses", "more of it", "more of any name, such as a card that is back"],
)
async def test_more_counts_a_moment_later(
    before: dict[str, str], after: dict[str, str], meanwhile: dict[str, int]
) -> None:
    """The kubelet may not know of it yet."""
    watched = Watched(**before)

    watched.see(after)

    assert watched.counted == meanwhile
    await until(watched, **{name: int(amount) for name, amount in after.items()})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({names.GPU: "200", OLD_NAME: "200"}, {names.GPU: "100"}),
        ({}, {names.GPU: "100"}),
        ({"nvidia.com/gpu": "0", "cpu": "1"}, {"nvidia.com/gpu": "4", "cpu": "2"}),
    ],
    ids=["less", "a name that a kubelet does without", "what its kubelet itself writes"],
)
async def test_all_else_counts_at_once(before: dict[str, str], after: dict[str, str]) -> None:
    """No kubelet rejects a pod for it."""
    watched, fresh = Watched(**before), Watched(**after)

    watched.see(after)

    assert watched.counted == fresh.counted


async def test_a_cordon_counts_at_once_and_stays() -> None:
    """Only amounts wait; and what has changed meanwhile is not lost."""
    watched = Watched(**{OLD_NAME: "100"})

    watched.see({OLD_NAME: "200"})
    watched.see({OLD_NAME: "200"}, unschedulable=True)

    assert watched.node.unschedulable
    assert watched.counted == {OLD_NAME: 100}
    await until(watched, **{OLD_NAME: 200})
    assert watched.node.unschedulable


async def test_what_is_taken_back_meanwhile_never_counts() -> None:
    """The Node lists as much as before."""
    watched = Watched(**{OLD_NAME: "100"})

    watched.see({OLD_NAME: "200"})
    watched.see({OLD_NAME: "100"})
    await asyncio.sleep(3 * MOMENT)

    assert watched.counted == {OLD_NAME: 100}


async def test_a_node_that_went_meanwhile_does_not_come_back() -> None:
    """What it listed in the end is nobody's."""
    watched = Watched(**{OLD_NAME: "100"})

    watched.see({OLD_NAME: "200"})
    watched.sink.deleted(wire.Meta(NODE))
    await asyncio.sleep(3 * MOMENT)

    info = watched.ledger.inventory.node(NODE)
    assert info is None or info.node is None
