"""Nodes list what their devices can give, on the real server: written where it differs, and nobody else's."""

import dataclasses
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import api, resources
from berth_crds.vocabulary import NodeNames
from berth_operator.engine import node_capacity
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import node_capacity_writer
from berth_operator.scheduling import node_info
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import NO_OVERSALE, Oversale, Policy
from berth_operator.translate import nodes, raw
from kube import servers
from kube.conftest import RecordingApi
from support import builders, clock

KUBELET = "kubelet"
CPU = {"cpu": "8", "pods": "110"}


class Listing:
    """A Node on the real server, a ledger that knows it, and the writer."""

    def __init__(self, session: RecordingApi, admin: api.Api) -> None:
        self.name = f"lists-{secrets.token_hex(3)}"
        self.time = clock.Clock()
        self.ledger = Ledger(self.time)
        self.session, self.admin = session, admin
        self.writer = self.new_writer()

    def new_writer(self) -> node_capacity_writer.NodeCapacityWriter:
        """Return the writer of a process that has just been started."""
        return node_capacity_writer.NodeCapacityWriter(
            self.session, self.ledger, servers.unlimited(), clock=self.time
        )

    async def create(self) -> None:
        """Create the Node, as a kubelet does."""
        await self.admin.create(
            resources.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name}}
        )
        await self.lists(CPU, CPU)

    async def delete(self) -> None:
        """Delete the Node."""
        await self.admin.delete(resources.NODES, self.name)

    def has_cards(self, count: int) -> None:
        """Have the ledger see a Device."""
        self.ledger.device_seen(builders.device(self.name, count))

    def policy(self, which: NodeNames, oversale: Oversale = NO_OVERSALE) -> None:
        """Have the ledger see a policy."""
        self.ledger.policy_seen(dataclasses.replace(Policy(), node_names=which, oversale=oversale))

    async def lists(
        self, capacity: dict[str, Any], allocatable: dict[str, Any], manager: str = KUBELET
    ) -> None:
        """Have somebody else write what the Node lists."""
        await self.admin.send(
            "PATCH",
            resources.NODES.path(self.name, sub="status"),
            body=msgspec.json.encode({"status": {"capacity": capacity, "allocatable": allocatable}}),
            content=api.MERGE_PATCH,
            params={"fieldManager": manager},
        )

    async def see(self) -> dict[str, str]:
        """Have the ledger see the Node, and return what it lists beside the usual."""
        node = await self.admin.get(resources.NODES, self.name, into=raw.Node)
        self.ledger.node_seen(nodes.read(node))
        body = await self.admin.get(resources.NODES, self.name, into=dict)
        assert body["status"]["capacity"] == body["status"]["allocatable"]
        return {name: amount for name, amount in body["status"]["capacity"].items() if name not in CPU}

    async def caught_up(self) -> dict[str, str]:
        """See the Node, catch up, and return what it lists then."""
        await self.see()
        await self.writer.catch_up()
        return await self.see()

    @property
    def writes(self) -> int:
        """How much was written."""
        return len(self.session.sent)


@pytest.fixture
async def node(session: RecordingApi, admin: api.Api) -> AsyncIterator[Listing]:
    """Lend a Node with a Device of two cards."""
    lent = Listing(session, admin)
    await lent.create()
    lent.has_cards(2)
    lent.policy(NodeNames.BERTH)
    yield lent
    await lent.delete()


def cards(count: int) -> dict[str, str]:
    """Return what a Node with so many cards lists."""
    whole = dict.fromkeys((names.GPU, names.GPU_CORE, names.GPU_MEMORY_RATIO), str(100 * count))
    return whole | {names.GPU_MEMORY: str(builders.MEMORY * count)}


async def test_a_node_lists_its_cards_and_is_written_once(node: Listing) -> None:
    """What it lists already is not written again."""
    found = [await node.caught_up() for _ in range(3)]

    assert found == [cards(2)] * 3
    assert node.writes == 1


async def test_it_follows_the_cards_and_ends_with_them(node: Listing) -> None:
    """In both directions; the next process knows what this one wrote."""
    await node.caught_up()
    node.has_cards(3)
    more = await node.caught_up()
    node.has_cards(1)
    node.writer = node.new_writer()
    less = await node.caught_up()
    node.ledger.device_gone(node.name)

    assert (more, less, await node.caught_up()) == (cards(3), cards(1), {})


async def test_a_policy_adds_names_and_takes_them_away(node: Listing) -> None:
    """It is read live."""
    sizes = []
    for which in (NodeNames.KOORDINATOR, NodeNames.BERTH, NodeNames.NONE):
        node.policy(which)
        sizes.append(len(await node.caught_up()))

    assert sizes == [12, 4, 0]


async def test_core_that_a_policy_oversells_is_listed_while_it_does(node: Listing) -> None:
    """And afterwards as much as pods ask for."""
    node.policy(NodeNames.BERTH, Oversale(150, frozenset({"batch"})))
    during = await node.caught_up()
    pod = dataclasses.replace(builders.hold("p", node.name), amounts=((names.GPU_CORE, 230),))
    node.ledger.pod_bound(pod)
    node.policy(NodeNames.BERTH)

    assert during == cards(2) | {names.GPU_CORE: "300"}
    assert await node.caught_up() == cards(2) | {names.GPU_CORE: "230"}


async def test_what_a_kubelet_has_set_to_zero_is_written_again(node: Listing) -> None:
    """It does so when it is started again."""
    await node.caught_up()
    zeros = dict.fromkeys(cards(2), "0")
    await node.lists(zeros, zeros)

    assert await node.caught_up() == cards(2)


async def test_a_name_that_somebody_else_serves_is_theirs_until_they_are_gone(node: Listing) -> None:
    """A device plugin, whose numbers the kubelet writes; the other names are ours."""
    plugin = {names.GPU: "7"}
    await node.lists(plugin, plugin)
    beside = await node.caught_up()
    again = await node.caught_up()
    writes = node.writes
    gone = {names.GPU: "0"}
    await node.lists(gone, gone)

    assert beside == again == cards(2) | plugin
    assert writes == 2, "one that was refused, and one without that name"
    assert await node.caught_up() == cards(2)


async def test_names_of_koordinators_own_stay(node: Listing) -> None:
    """They are not ours to take away."""
    theirs = {"koordinator.sh/gpu": "200"}
    await node.lists(theirs, theirs, "koord-manager")

    assert await node.caught_up() == cards(2) | theirs
    assert await node.caught_up() == cards(2) | theirs
    assert node.writes == 1


async def test_a_fault_of_ours_concerns_one_node_alone(
    node: Listing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The others list what they have, and the log says what happened."""

    def of_node(
        info: node_info.NodeInfo, which: NodeNames, oversale: Oversale, unadmitted: node_capacity.Amounts
    ) -> node_capacity.Amounts | None:
        if info.node is not None and info.node.name == "a":
            raise ValueError("'npu' is not a valid DeviceType")
        return original(info, which, oversale, unadmitted)

    original = node_capacity.of_node
    monkeypatch.setattr(node_capacity, "of_node", of_node)
    node.ledger.node_seen(builders.node("a"))

    assert await node.caught_up() == cards(2)
    assert "node a: its capacity is not written" in caplog.text
    assert "'npu' is not a valid DeviceType" in caplog.text


async def test_what_strangers_put_on_a_node_does_not_have_it_list_more(node: Listing) -> None:
    """A pod may ask for anything, on any node; once the kubelet has admitted it, it counts."""
    await node.caught_up()
    asks = dataclasses.replace(builders.hold("p", node.name), amounts=(("kubernetes.io/gpu", 700),))
    node.ledger.pod_bound(asks, requirements=facts.ANYWHERE)
    before = await node.caught_up()

    node.ledger.pod_bound(asks)

    assert before == cards(2)
    assert await node.caught_up() == cards(2) | {"kubernetes.io/gpu": "700"}


async def test_a_node_that_is_gone_is_forgotten(node: Listing) -> None:
    """It is no failure."""
    await node.see()
    await node.delete()
    await node.writer.catch_up()
    writes = node.writes
    await node.writer.catch_up()

    assert node.writes == writes == 1
    await node.create()


@pytest.mark.parametrize(
    ("conflict", "found"),
    [
        ('conflict with "kubelet" using v1: .status.capacity.berth.dev/gpu', {names.GPU}),
        ('conflict with "kubelet" using v1: .status.allocatable.berth.dev/gpu-core', {names.GPU_CORE}),
        (
            "conflicts: .status.capacity.berth.dev/gpu .status.capacity.berth.dev/gpu-memory-ratio",
            {names.GPU, names.GPU_MEMORY_RATIO},
        ),
        ("the server is tired", set()),
    ],
)
def test_names_are_found_in_an_answer(conflict: str, found: set[str]) -> None:
    """One may begin like another."""
    assert node_capacity_writer.conflicting(conflict, cards(1)) == found
