"""The API server serves Berth from shares of its own: what others ask keeps no bind and no Lease waiting."""

import json
from pathlib import Path

import aiohttp
import pytest

from berth_crds import names
from berth_crds.client import connection
from e2e import fleet
from testbed import waiting

LEVEL = "X-Kubernetes-PF-PriorityLevel-UID"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
OPERATOR_LEASE = f"{LEASES}/{names.SYSTEM_NAMESPACE}/leases/{names.LEADER_LEASE}"
AGENT_LEASE = f"{LEASES}/{names.NODES_NAMESPACE}/leases/n1"


@pytest.mark.parametrize(
    ("account", "path", "level"),
    [
        (names.OPERATOR_ACCOUNT, OPERATOR_LEASE, "leader-election"),
        (names.OPERATOR_ACCOUNT, "/api/v1/pods?limit=1", "berth-operator"),
        (names.AGENT_ACCOUNT, AGENT_LEASE, "berth-agent-leases"),
        (names.AGENT_ACCOUNT, "/apis/berth.dev/v1alpha1/devices?limit=1", "berth-agents"),
    ],
)
async def test_requests_have_a_share_of_their_own(
    base: fleet.Fleet, account: str, path: str, level: str
) -> None:
    """The server says from which share it has served a request, whatever the answer was."""
    found = base.cluster.kubectl("get", "prioritylevelconfigurations", level, "--output=json")
    wanted = json.loads(found)["metadata"]["uid"]

    kubeconfig = base.cluster.kubeconfig_for(names.SYSTEM_NAMESPACE, account)

    async def served() -> bool:
        return bool(await served_from(kubeconfig, path) == wanted)

    await waiting.eventually(served, what=f"requests to be served from {level}")


async def served_from(kubeconfig: Path, path: str) -> str:
    """Send a request, and return the uid of the priority level that it had."""
    link = connection.load(kubeconfig)
    headers = {"Authorization": await link.authorization()}
    connector = aiohttp.TCPConnector(ssl=link.trust or True)
    async with (
        aiohttp.ClientSession(link.server, connector=connector) as session,
        session.get(path, headers=headers) as answer,
    ):
        return answer.headers[LEVEL]
