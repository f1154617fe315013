"""What the cases of Kubernetes' own scheduling tests have in common: nodes, pods, and where these must be.

A case tells what Kubernetes' test asks of a scheduler. Where Berth does otherwise it ends with `Missed`, and
only there: anything else that goes wrong is a fault of the case.
"""

import contextlib
import dataclasses
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from berth_crds.client import errors, resources
from e2e.provisioner import HOST, Storage
from e2e.stage import SOON, Pod, Stage, Thing
from support import kubelet, manifests
from testbed import waiting

SCARCE: Final = "example.com/scarce"  # A resource that nodes have as a test wants it.
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Missed(AssertionError):
    """A pod is not where a scheduler of Kubernetes has to put it."""


@dataclasses.dataclass
class Bed:
    """A stage, storage, and how long a pod may take to get its node."""

    stage: Stage
    storage: Storage
    patience: float = SOON
    _made: list[tuple[resources.Resource, str, str]] = dataclasses.field(default_factory=list)

    # ------------------------------------------------------------ objects

    async def nodes(self, *names: str, zones: Mapping[str, str] = {}, **fields: Any) -> list[str]:
        """Add nodes, some in zones, and return their names in this test."""
        made = [f"{name}-{secrets.token_hex(3)}" for name in names]
        labels = fields.pop("labels", {})
        await self.stage.machines(
            *(
                kubelet.FakeNode(full, labels | zone_of(zones.get(name, "")), **fields)
                for name, full in zip(names, made, strict=True)
            )
        )
        return made

    async def change(self, node: str, **fields: Any) -> None:
        """Change the specification of a node."""
        await self.stage.patch(resources.NODES, node, {"spec": fields})

    async def label(self, node: str, **labels: str) -> None:
        """Put labels on a node."""
        await self.stage.patch(resources.NODES, node, {"metadata": {"labels": labels}})

    async def shared(self, resource: resources.Resource, body: Thing) -> str:
        """Make an object that belongs to no namespace, under a name of this test; return the name."""
        name = body["metadata"].get("name") or f"case-{secrets.token_hex(3)}"
        about = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        await self.stage.admin.create(resource, body | about)
        self._made.append((resource, name, ""))
        return name

    async def own(self, resource: resources.Resource, body: Thing) -> None:
        """Make an object in the namespace of this test."""
        about = {"apiVersion": resource.api_version, "kind": resource.kind}
        await self.stage.admin.create(resource, body | about, namespace=self.stage.namespace)
        self._made.append((resource, body["metadata"]["name"], self.stage.namespace))

    async def priority(self, value: int) -> str:
        """Make a class of priority, wait until the server admits pods of it, and return its name."""
        name = await self.shared(resources.PRIORITY_CLASSES, {"metadata": {}, "value": value})
        trial = msgspec.json.encode(manifests.pod("trial", {}, priorityClassName=name))
        path = resources.PODS.path(namespace=self.stage.namespace)

        async def admitted() -> bool:
            with contextlib.suppress(errors.Forbidden):  # Admission reads classes from a copy that is late.
                await self.stage.admin.send("POST", path, params={"dryRun": "All"}, body=trial)
                return True
            return False

        await waiting.eventually(admitted, what=f"pods of {name} to be admitted")
        return name

    async def close(self) -> None:
        """Remove all that was made but pods: a controller would make these anew."""
        for resource, name, namespace in self._made:
            with contextlib.suppress(errors.NotFound):
                await self.stage.admin.delete(resource, name, namespace=namespace)

    # ------------------------------------------------------------ what a scheduler has to do

    async def bound(self, *names: str) -> dict[str, str]:
        """Wait until these pods have a node, as they must, and return their nodes."""
        try:
            found = await self.stage.until_bound(*names, seconds=self.patience)
        except waiting.TimedOut as error:
            raise Missed(str(error)) from error
        return {name: found[name] for name in names}

    async def placed(self, *pods: Pod) -> dict[str, str]:
        """Create pods that must get a node, and return their nodes."""
        await self.stage.create(*pods)
        return await self.bound(*(one["metadata"]["name"] for one in pods))

    async def goes_to(self, pod: Pod, *nodes: str) -> str:
        """Create a pod that must go to one of these nodes, and return which."""
        [node] = (await self.placed(pod)).values()
        if node not in nodes:
            raise Missed(f"{pod['metadata']['name']} is on {node}, and not on {' or '.join(nodes)}")
        return node

    async def evicted(self, *names: str) -> None:
        """Wait until these pods are gone or about to go, as they must."""

        async def leaving() -> bool:
            there = await self.stage.pods()
            return all("deletionTimestamp" in there.get(name, GONE)["metadata"] for name in names)

        try:
            await self.stage.until(f"{', '.join(names)} to go", leaving, seconds=self.patience)
        except waiting.TimedOut as error:
            raise Missed(str(error)) from error

    async def left(self) -> list[str]:
        """Return the names of the pods that have a node, and are not about to go."""
        there = await self.stage.pods()
        return [
            name for name in await self.stage.bound() if "deletionTimestamp" not in there[name]["metadata"]
        ]

    async def waits(self, pod: Pod, word: str) -> None:
        """Create a pod that must wait; its condition and an event say why."""
        name = pod["metadata"]["name"]
        told = await self.stage.waiting_pod(pod, word)
        assert told["reason"] == "Unschedulable"
        await self.event(name, "Warning", "FailedScheduling", word)
        assert name not in await self.stage.bound()

    async def event(self, name: str, kind: str, reason: str, word: str) -> None:
        """Wait for an event about a pod."""

        async def there() -> bool:
            found = [one for one in await self.stage.events(name) if word in one["message"]]
            return (kind, reason) in [(one["type"], one["reason"]) for one in found]

        await self.stage.until(f"an event {reason} about {name}", there)


Case = Callable[[Bed], Awaitable[None]]

GONE: Final[Thing] = {"metadata": {"deletionTimestamp": "gone"}}

# ---------------------------------------------------------------- pods


def plain(name: str, limits: Mapping[str, object] = {}, labels: Mapping[str, str] = {}, **spec: Any) -> Pod:
    """Return a pod of ours without cards."""
    return manifests.pod(name, limits, meta={"labels": dict(labels)}, **spec)


def zone_of(zone: str) -> dict[str, str]:
    """Return the label of a zone, if there is one."""
    return {"topology.kubernetes.io/zone": zone} if zone else {}


def on_nodes(key: str, *values: str) -> Thing:
    """Require that a label of the node has one of these values."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [within(key, *values)]}]}}}


def on_node(name: str) -> Thing:
    """Require a node by its name, as the pods of a DaemonSet do."""
    terms = [{"matchFields": [within("metadata.name", name)]}]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def within(key: str, *values: str) -> Thing:
    """Write that a key has one of these values."""
    return {"key": key, "operator": "In", "values": list(values)}


def near(app: str, key: str = HOST) -> Thing:
    """Write the term that means the pods of an application."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def spread(app: str, key: str, when: str = "DoNotSchedule") -> list[Thing]:
    """Write a constraint that spreads the pods of an application by one at most."""
    return [near(app, key) | {"maxSkew": 1, "whenUnsatisfiable": when}]
