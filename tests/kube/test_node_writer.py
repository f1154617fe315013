"""Writers of Nodes: one Node that cannot be written keeps no other waiting."""

from collections.abc import Callable
from typing import Any, Final, cast

import pytest

from berth_crds.client import api, errors
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import node_writer
from kube import servers
from support import builders, clock

NODES: Final = ("a1", "a2", "b1", "b2", "b3")
GOOD: Final = {"b1", "b2", "b3"}


class Writer(node_writer.NodeWriter[str]):
    """Writes each Node once, to a server that answers so for the first two."""

    WRITTEN = "mark"

    def __init__(self, fault: Callable[[], errors.ClientError]) -> None:
        self.now = clock.Clock()
        self.fault = fault
        self.tried: list[str] = []
        self.written: set[str] = set()
        ledger = Ledger(self.now)
        for name in NODES:
            ledger.node_seen(builders.node(name))
        super().__init__(cast(api.Api, None), ledger, servers.unlimited(), clock=self.now)

    def policy_part(self) -> Any:
        """Return nothing: no rule matters."""
        return None

    def change(self, node: str) -> str | None:
        """Return the mark of a Node that has none."""
        return None if node in self.written else "mark"

    async def write(self, node: str, change: str) -> None:  # noqa: ARG002  as in the base
        """Write the mark, or fail."""
        self.tried.append(node)
        if node not in GOOD:
            raise self.fault()
        self.written.add(node)

    async def pass_by(self, passes: int) -> None:
        """Make so many passes, as time goes by."""
        for _ in range(passes):
            await self.catch_up()
            self.now.advance(node_writer.LOOK_SECONDS)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda: errors.Invalid(422, "no"), id="refused"),
        pytest.param(lambda: errors.Forbidden(403, "denied by a policy"), id="forbidden"),
        pytest.param(lambda: errors.Unavailable(500, "the webhook failed"), id="failed"),
        pytest.param(lambda: errors.Unreachable("no answer in time"), id="not answered"),
    ],
)
async def test_nodes_that_cannot_be_written_keep_no_other_waiting(
    fault: Callable[[], errors.ClientError],
) -> None:
    """Whether that looks like an outage or not, all others have their turn within a few passes."""
    writer = Writer(fault)

    await writer.pass_by(4)

    assert writer.written == GOOD


async def test_what_the_server_refuses_is_tried_less_and_less_often() -> None:
    """However many Nodes it refuses: it has answered, so there is no outage."""
    writer = Writer(lambda: errors.Conflict(409, "no"))

    await writer.pass_by(120)

    assert writer.tried.count("a1") == writer.tried.count("a2") < 10


async def test_during_an_outage_one_node_is_tried_in_each_pass() -> None:
    """The server is not asked for each of thousands of Nodes."""
    writer = Writer(lambda: errors.Unreachable("it is down"))
    writer.written = set(GOOD)

    await writer.pass_by(6)

    assert writer.tried == ["a1", "a2", "a1", "a2", "a1", "a2"]
