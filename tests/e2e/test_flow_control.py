"""The API server serves Berth from shares of its own: what others ask keeps no bind and no Lease waiting."""

import asyncio
import contextlib
import re
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from berth_crds import names
from berth_crds.client import api, connection, errors
from e2e import fleet
from testbed import sessions, waiting

LEVEL = "X-Kubernetes-PF-PriorityLevel-UID"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
DEVICES = "/apis/berth.dev/v1alpha1/devices"
OPERATOR_LEASE = f"{LEASES}/{names.SYSTEM_NAMESPACE}/leases/{names.LEADER_LEASE}"
AGENT_LEASE, OTHER_LEASE = (f"{LEASES}/{names.NODES_NAMESPACE}/leases/{node}" for node in ("n1", "n2"))


@pytest.mark.parametrize(
    ("account", "path", "level"),
    [
        (names.OPERATOR_ACCOUNT, OPERATOR_LEASE, "leader-election"),
        (names.OPERATOR_ACCOUNT, "/api/v1/pods?limit=1", "berth-operator"),
        (names.AGENT_ACCOUNT, AGENT_LEASE, "exempt"),
        (names.AGENT_ACCOUNT, f"{LEASES}/{names.NODES_NAMESPACE}/leases", "berth-agent-reads"),
        (names.AGENT_ACCOUNT, DEVICES, "berth-agent-reads"),
    ],
)
async def test_requests_have_a_share_of_their_own(
    base: fleet.Fleet, account: str, path: str, level: str
) -> None:
    """The server says from which share it has served a request, whatever the answer was."""
    wanted = base.cluster.read(f"{PRIORITY_LEVELS}/{level}")["metadata"]["uid"]
    kubeconfig = base.cluster.kubeconfig_for(names.SYSTEM_NAMESPACE, account)

    async def served() -> bool:
        return bool(await served_from(kubeconfig, path) == wanted)

    await waiting.eventually(served, what=f"requests to be served from {level}")


PRIORITY_LEVELS: Final = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"


async def served_from(kubeconfig: Path, path: str) -> str:
    """Send a request, and return the uid of the priority level that it had."""
    link = connection.load(kubeconfig)
    headers = {"Authorization": await link.authorization()}
    async with (
        sessions.session(link.server, tls=link.trust) as session,
        session.get(path, headers=headers) as answer,
    ):
        return answer.headers[LEVEL]


SOON = 10.0
FEWEST_AT_WORK = 3  # However few places a small server has for them.
SLOW = 60  # More than the places of all levels that agents had or have.
ENDLESS = (
    "PATCH {path}?fieldManager=x&force=true HTTP/1.1\r\nHost: berth\r\nAuthorization: {token}\r\n"
    "Content-Type: application/apply-patch+yaml\r\nContent-Length: 1000\r\n\r\n{{"
)


class Request(asyncio.Protocol):
    """A request whose body does not come; what is answered, and that it ended, is noted."""

    def __init__(self) -> None:
        self.answer = b""
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Keep what is answered."""
        self.answer += data

    def connection_lost(self, _: Exception | None) -> None:
        """Note the end."""
        self.ended.set()


@contextlib.asynccontextmanager
async def bodies_that_never_end(
    base: fleet.Fleet, link: connection.Connection, path: str
) -> AsyncIterator[None]:
    """Have many requests under way whose bodies do not come; none of them is answered meanwhile."""

    async def at_work() -> bool:
        measured = await asyncio.to_thread(base.cluster.kubectl, "get", "--raw", "/metrics")
        found = re.findall(r'_current_executing_requests\{flow_schema="berth-agent.*\} (\d+)', measured)
        return sum(map(int, found)) >= FEWEST_AT_WORK

    token, url = await link.authorization(), urllib.parse.urlsplit(link.server)
    loop, host, port = asyncio.get_running_loop(), str(url.hostname), url.port or 0
    made = [await loop.create_connection(Request, host, port, ssl=link.trust or True) for _ in range(SLOW)]
    try:
        for transport, _ in made:
            transport.write(ENDLESS.format(path=path, token=token).encode())
        await waiting.eventually(at_work, what="the requests to have their places")
        yield
        assert {one.answer for _, one in made} == {b""}
    finally:
        for transport, one in made:
            transport.abort()
            await one.ended.wait()


@pytest.mark.parametrize("attacked", [AGENT_LEASE, f"{DEVICES}/n1"], ids=["its Lease", "its Device"])
async def test_bodies_that_never_end_keep_no_agent_from_its_lease(base: fleet.Fleet, attacked: str) -> None:
    """One agent's token can withhold neither the signs of life of other nodes, nor what agents read."""
    link = connection.load(base.cluster.kubeconfig_for(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT))
    apply = {"fieldManager": "x", "force": "true"}
    lease = msgspec.json.encode(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n2"}}
    )
    async with bodies_that_never_end(base, link, attacked), api.Api(link, agent="test-e2e") as agent:
        await agent.send("GET", DEVICES, deadline=SOON)
        with pytest.raises(errors.Forbidden):  # It is no node's token; what counts is that it is answered.
            await agent.send("PATCH", OTHER_LEASE, params=apply, body=lease, content=api.APPLY, deadline=SOON)
