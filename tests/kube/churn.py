"""A cluster in which something always happens: nodes, cards, Leases and pods come, change and go.

Every step is one thing that a person, a kubelet, an agent or an operator may do, chosen by a
seeded chance. What it leaves behind is taken away at the end.
"""

import contextlib
import dataclasses
import datetime as dt
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from berth_crds import names
from berth_crds.client import api, errors, lease, resources
from support import builders, kubelet, manifests, pods

CARDS = 4


@dataclasses.dataclass(slots=True)
class Churn:
    """The means to change things, and what there is so far."""

    admin: api.Api
    client: pods.PodClient
    chance: random.Random
    nodes: list[str]
    pods: set[str] = dataclasses.field(default_factory=set)
    gpupods: set[str] = dataclasses.field(default_factory=set)
    serial: int = 0

    async def begin(self) -> None:
        """Make the nodes, their cards and their Leases, and a few pods."""
        for node in self.nodes:
            await self.make_node(node)
            await self.admin.create(resources.DEVICES, manifests.device(node))
            await self.renew(node)
        for _ in range(12):
            with contextlib.suppress(errors.Conflict):  # A gated pod cannot be bound.
                await self.new_pod()

    async def end(self) -> None:
        """Take everything away."""
        await self.client.delete(*self.pods)
        for name in self.gpupods:
            await self.drop(resources.GPU_PODS, name)
        for node in self.nodes:
            for resource in (resources.NODES, resources.DEVICES):
                await self.drop(resource, node)
            await self.drop(resources.LEASES, node)

    async def steps(self, count: int) -> None:
        """Do so many things."""
        for _ in range(count):
            step = self.chance.choice(STEPS)
            # A thing that cannot be done now (a pod bound twice, a node made twice) is no change.
            with contextlib.suppress(errors.ApiError):
                await step(self)

    # ------------------------------------------------------------ nodes, cards, signs of life

    def a_node(self) -> str:
        """Choose a node."""
        return self.chance.choice(self.nodes)

    async def make_node(self, node: str) -> None:
        """Create a node that is ready."""
        manifest = kubelet.FakeNode(node, extended={names.NVIDIA_GPU: CARDS}).manifest("2026-01-01T00:00:00Z")
        await self.admin.create(resources.NODES, manifest)
        await self.change(resources.NODES, node, {"spec": {"taints": None}})

    async def renew(self, node: str) -> None:
        """Renew the Lease of a node's agent."""
        now = lease.micro_time(dt.datetime.now(dt.UTC))
        await self.admin.apply(resources.LEASES, manifests.lease(node, now), manager="churn")

    async def change(
        self, resource: resources.Resource, name: str, change: dict[str, Any], *, sub: str = ""
    ) -> None:
        """Change an object."""
        path = resource.path(name, sub=sub)
        await self.admin.send("PATCH", path, body=msgspec.json.encode(change), content=api.MERGE_PATCH)

    async def drop(self, resource: resources.Resource, name: str) -> None:
        """Delete an object, if it is there."""
        namespaces = {resources.LEASES: names.NODES_NAMESPACE, resources.GPU_PODS: self.client.namespace}
        namespace = namespaces.get(resource, "")
        with contextlib.suppress(errors.NotFound):
            await self.admin.delete(resource, name, namespace=namespace)

    # ------------------------------------------------------------ pods

    def a_pod(self) -> str:
        """Choose a pod."""
        return self.chance.choice(sorted(self.pods))

    async def new_pod(self) -> None:
        """Create a pod of ours or of somebody else, gated or not; half of them are bound at once."""
        self.serial += 1
        name = f"p{self.serial}"
        spec: dict[str, Any] = {}
        if self.chance.random() < 0.2:
            spec["schedulerName"] = "somebody-else"
        if self.chance.random() < 0.2:
            spec["schedulingGates"] = [{"name": "example.com/g"}]
        await self.client.create(manifests.pod(name, self.chance.randint(0, 2), **spec))
        self.pods.add(name)
        if self.chance.random() < 0.5:
            await self.bind(name)

    async def bind(self, name: str = "") -> None:
        """Bind a pod: with an allocation, with a damaged one, or with none."""
        node = self.a_node()
        minors = self.chance.sample(range(CARDS), 2)
        kinds = [
            manifests.allocated(node, *minors[:1]),
            manifests.allocated(node, *minors),
            {names.ALLOCATION: "{"},
            manifests.allocated("elsewhere", 0),
            {},
        ]
        await self.client.bind(name or self.a_pod(), node, self.chance.choice(kinds))

    async def finish(self) -> None:
        """Have a pod end, well or badly."""
        phase = self.chance.choice(["Succeeded", "Failed", "Running"])
        await self.client.patch(self.a_pod(), {"status": {"phase": phase}}, sub="status")

    async def recreate(self) -> None:
        """Put another pod in the place of one."""
        name = self.a_pod()
        await self.client.delete(name)
        await self.client.create(manifests.pod(name))
        if self.chance.random() < 0.5:
            await self.bind(name)

    async def ungate(self) -> None:
        """Open a pod's gates."""
        await self.client.patch(self.a_pod(), {"spec": {"schedulingGates": None}})

    async def new_gpupod(self) -> None:
        """Write a GpuPod for a pod, mostly of the node where it is, as its agent does."""
        pod = await self.client.read(self.a_pod())
        node = pod.spec.node_name if self.chance.random() < 0.8 else self.a_node()
        minors = self.chance.sample(range(CARDS + 1), self.chance.randint(0, 2))
        thing = manifests.gpupod(pod.metadata.name, pod.metadata.uid, node, *minors)
        # It has no owner, so it outlives its pod, as it may for a while.
        await self.admin.create(resources.GPU_PODS, thing, namespace=self.client.namespace)
        self.gpupods.add(pod.metadata.name)

    async def drop_gpupod(self) -> None:
        """Delete the GpuPod of a pod."""
        await self.drop(resources.GPU_PODS, self.a_pod())

    async def null_condition(self) -> None:
        """Write a condition without words and times on a pod, as some programs do."""
        change = {"status": {"conditions": [{"type": "example.com/odd", "status": "True"}]}}
        await self.client.patch(self.a_pod(), change, sub="status")


STEPS: list[Callable[[Churn], Awaitable[Any]]] = [
    Churn.new_pod,
    Churn.new_pod,
    Churn.bind,
    Churn.bind,
    Churn.finish,
    Churn.recreate,
    Churn.ungate,
    Churn.null_condition,
    Churn.new_gpupod,
    Churn.new_gpupod,
    Churn.drop_gpupod,
    lambda churn: churn.client.delete(churn.a_pod()),
    lambda churn: churn.renew(churn.a_node()),
    lambda churn: churn.drop(resources.LEASES, churn.a_node()),
    lambda churn: churn.drop(resources.NODES, churn.a_node()),
    lambda churn: churn.make_node(churn.a_node()),
    lambda churn: churn.drop(resources.DEVICES, churn.a_node()),
    lambda churn: churn.admin.create(
        resources.DEVICES, manifests.device(churn.a_node(), churn.chance.randint(1, CARDS))
    ),
    lambda churn: churn.change(
        resources.NODES, churn.a_node(), {"spec": {"unschedulable": churn.chance.random() < 0.5}}
    ),
    lambda churn: _cordon(churn, churn.a_node()),
    lambda churn: _sicken(churn, churn.a_node()),
    lambda churn: churn.change(
        resources.POLICIES, "default", {"spec": {"strategy": churn.chance.choice(["binpack", "spread"])}}
    ),
]


async def _cordon(churn: Churn, node: str) -> None:
    cards = [builders.uuid(node, 0)] if churn.chance.random() < 0.5 else []
    await churn.change(resources.DEVICES, node, {"spec": {"cordon": cards}})


async def _sicken(churn: Churn, node: str) -> None:
    verdict = {
        "uuid": builders.uuid(node, 1),
        "health": churn.chance.choice(["Healthy", "Unhealthy"]),
        "reason": "Test",
    }
    await churn.change(resources.DEVICES, node, {"status": {"devices": [verdict]}}, sub="status")
