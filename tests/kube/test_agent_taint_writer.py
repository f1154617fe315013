"""The taint of a silent agent on the real server: written and removed once, and nobody else's is lost."""

import dataclasses
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from berth_crds.client import api, resources
from berth_operator.engine.ledger import Ledger
from berth_operator.kube.agent_taint_writer import TAINT, AgentTaintWriter
from berth_operator.scheduling.liveness import State
from berth_operator.scheduling.policy import Policy
from berth_operator.translate import nodes, raw
from kube import servers
from kube.conftest import RecordingApi
from support import builders, clock

OTHER = {"key": "example.com/a", "value": "b", "effect": "NoExecute"}
TIMED = {**OTHER, "timeAdded": "2026-01-01T00:00:00Z"}


class Tainting:
    """A Node on the real server, a ledger that knows it, and the writer."""

    def __init__(self, session: RecordingApi, admin: api.Api) -> None:
        self.name = f"silent-{secrets.token_hex(3)}"
        self.state = State.SILENT
        self.time = clock.Clock()
        self.ledger = Ledger(self.time)
        self.ledger.policy_seen(dataclasses.replace(Policy(), taint_silent=True))
        self.session, self.admin = session, admin
        self.writer = AgentTaintWriter(
            session, self.ledger, servers.unlimited(), clock=self.time, state_of=lambda _: self.state
        )

    def reports_again(self) -> None:
        """Have the agent be known to be alive."""
        self.state = State.READY
        self.ledger.changes.record(self.name)

    async def has(self, *taints: dict[str, str]) -> None:
        """Have somebody else write all taints of the Node."""
        body = msgspec.json.encode({"spec": {"taints": taints or None}})
        path = resources.NODES.path(self.name)
        await self.admin.send("PATCH", path, body=body, content=api.MERGE_PATCH)

    async def see(self) -> list[dict[str, str]]:
        """Have the ledger see the Node, and return its taints."""
        self.ledger.node_seen(nodes.read(await self.admin.get(resources.NODES, self.name, into=raw.Node)))
        return await self.taints()

    async def taints(self) -> list[dict[str, str]]:
        """Return the taints of the Node."""
        body: dict[str, Any] = await self.admin.get(resources.NODES, self.name, into=dict)
        return [dict(one) for one in body["spec"].get("taints", [])]

    async def caught_up(self) -> list[dict[str, str]]:
        """Catch up, and return what the Node has then."""
        await self.writer.catch_up()
        return await self.see()


@pytest.fixture
async def node(session: RecordingApi, admin: api.Api) -> AsyncIterator[Tainting]:
    """Lend a Node with a Device, without taints."""
    lent = Tainting(session, admin)
    await admin.create(resources.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": lent.name}})
    await lent.has()
    lent.ledger.device_seen(builders.device(lent.name, 1))
    yield lent
    await admin.delete(resources.NODES, lent.name)


@pytest.mark.parametrize("others", [(), (TIMED,)], ids=["alone", "beside another"])
async def test_it_comes_and_goes_with_one_write_each(node: Tainting, others: tuple[Any, ...]) -> None:
    """What others have written, and when, stays as it is."""
    await node.has(*others)
    await node.see()

    added = [await node.caught_up() for _ in range(3)]
    node.reports_again()
    removed = [await node.caught_up() for _ in range(3)]

    assert added == [[*others, TAINT]] * 3
    assert removed == [[*others]] * 3
    assert len(node.session.sent) == 2


async def test_what_others_wrote_meanwhile_is_not_lost(node: Tainting) -> None:
    """A list that is not as it was read is not written; it is once it was read."""
    await node.see()
    await node.has(OTHER)
    await node.writer.catch_up()
    assert await node.taints() == [OTHER]
    await node.see()
    node.time.advance(10)
    assert await node.caught_up() == [OTHER, TAINT]

    node.reports_again()
    await node.has(TAINT, OTHER)
    await node.writer.catch_up()
    assert await node.taints() == [TAINT, OTHER]
    await node.see()
    node.time.advance(10)
    assert await node.caught_up() == [OTHER]


async def test_it_is_not_written_twice(node: Tainting) -> None:
    """Neither while the watch has not shown it yet, nor where another process was faster."""
    await node.has(OTHER)
    await node.see()
    for _ in range(3):
        await node.writer.catch_up()
    assert len(node.session.sent) == 1
    node.time.advance(1000)

    await node.writer.catch_up()

    assert await node.taints() == [OTHER, TAINT]
