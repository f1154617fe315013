"""The load of cards in a Lease while policies, agents and operators are of different versions."""

import contextlib
import datetime as dt
import secrets
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field

import pytest

from berth_agent.publish import heartbeat
from berth_crds import names, wire
from berth_crds.client import api, errors, lease, resources
from berth_operator.translate import measured_load
from testbed import cluster as clusters
from testbed import waiting

IDLE, BUSY = "v1 0:5,0,0,0,0", "v1 0:95,0,0,0,0"
# As version 0.1.0 has it for the Leases of its agents.
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [coordination.k8s.io]
      apiVersions: [v1]
      resources: [leases]
      operations: [CREATE, UPDATE]
  matchConditions:
  - {{name: lease, expression: "request.name == '{name}'"}}
  validations:
  - expression: >-
      object.metadata.?annotations.orValue({{}}) ==
      (request.operation == 'UPDATE' ? oldObject.metadata.?annotations.orValue({{}}) : {{}})
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {name}, validationActions: [Deny]}}
"""


@dataclass
class Versions:
    """A node whose Lease agents of two versions renew, on a server with the policies of either."""

    cluster: clusters.Cluster
    admin: api.Api
    node: str
    uid: str
    started: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))

    @property
    def owner(self) -> wire.OwnerReference:
        """The Node as the owner of the Lease."""
        return wire.OwnerReference("v1", "Node", self.node, self.uid)

    def agent(self, name: str) -> heartbeat.Heartbeat:
        """Return the heartbeat of an agent of this version."""
        return heartbeat.Heartbeat(self.admin, self.node, identity=name, seconds=40, clock=self._now)

    async def renew_as_former(self, name: str) -> None:
        """Renew the Lease as an agent of version 0.1.0 does."""
        spec = lease.LeaseSpec(name, 40, lease.micro_time(self.started), lease.micro_time(self._now()))
        meta = {"name": self.node, "namespace": names.NODES_NAMESPACE, "ownerReferences": [self.owner]}
        item = {"metadata": meta, "spec": spec}
        await self.admin.apply(resources.LEASES, item, manager=names.AGENT_MANAGER)

    async def roll_policies_back(self) -> None:
        """Install the former policy, and wait until the server goes by it."""
        self.cluster.apply(POLICY.format(name=self.node))
        await waiting.eventually(self._refuses_annotations, what="the policy to hold")

    async def upgrade_policies(self) -> None:
        """Take it away again."""
        self.cluster.kubectl(
            "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", self.node
        )

        async def accepted() -> bool:
            return not await self._refuses_annotations()

        await waiting.eventually(accepted, what="the policy to be gone")

    async def _refuses_annotations(self) -> bool:
        change = b'{"metadata": {"annotations": {"berth.invalid/tried": "true"}}}'
        path = resources.LEASES.path(self.node, namespace=names.NODES_NAMESPACE)
        try:
            await self.admin.send(
                "PATCH", path, body=change, content=api.MERGE_PATCH, params={"dryRun": "All"}
            )
        except errors.ApiError:
            return True
        return False

    async def load(self) -> str:
        """Return what an operator reads in the Lease."""
        found = await self.admin.get(
            resources.LEASES, self.node, into=lease.Lease, namespace=names.NODES_NAMESPACE
        )
        return measured_load.text_in(found)

    def _now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)


class _Thing(wire.Struct, frozen=True):
    metadata: wire.Meta


@pytest.fixture
async def versions(berth: clusters.Cluster, admin: api.Api) -> AsyncIterator[Versions]:
    """Lend a Node; its Lease and the policy go with the cluster."""
    name = f"loads-{secrets.token_hex(3)}"
    await admin.create(resources.NODES, {"metadata": {"name": name}})
    uid = (await admin.get(resources.NODES, name, into=_Thing)).metadata.uid
    yield Versions(berth, admin, name, uid)
    with contextlib.suppress(errors.NotFound):
        await admin.delete(resources.NODES, name)


async def loads_after(versions: Versions, *renewals: Awaitable[None]) -> list[str]:
    """Return what an operator reads after each of these."""
    found = []
    for renewal in renewals:
        await renewal
        found.append(await versions.load())
    return found


async def test_a_lease_with_a_load_is_renewed_after_a_rollback(versions: Versions) -> None:
    """By the agent of this version under the former policies, and by the former agent."""
    agent = versions.agent("new")
    await agent.renew(versions.owner, IDLE)
    await versions.roll_policies_back()

    found = await loads_after(versions, agent.renew(versions.owner, BUSY), versions.renew_as_former("former"))

    assert found == [IDLE, ""]  # That which stays is not what the former agent has measured.


async def test_the_load_comes_back_with_the_next_upgrade(
    versions: Versions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents may come before the policies that let them publish it."""
    monkeypatch.setattr(heartbeat, "RENEWALS_WITHOUT_LOAD", 1)
    await versions.renew_as_former("former")
    await versions.roll_policies_back()
    agent = versions.agent("new")
    under_former = await loads_after(versions, *(agent.renew(versions.owner, load) for load in ("", BUSY)))
    await versions.upgrade_policies()

    found = await loads_after(versions, *(agent.renew(versions.owner, load) for load in (BUSY, IDLE, "")))

    assert under_former == ["", ""]
    assert found == [BUSY, IDLE, ""]


async def test_a_former_agent_takes_over_amid_an_upgrade(versions: Versions) -> None:
    """What the newer has measured counts no longer, and does again once there is one of this version."""
    found = await loads_after(
        versions,
        versions.agent("new").renew(versions.owner, BUSY),
        versions.renew_as_former("former"),
        versions.agent("newer").renew(versions.owner, BUSY),
        versions.agent("newest").renew(versions.owner, ""),
    )

    assert found == [BUSY, "", BUSY, ""]
