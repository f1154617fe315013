"""Storage for end-to-end tests: a class, its claims and volumes, and a provisioner that a test plays.

It makes a volume for the node that is selected, or takes the node off the claim. The controller manager binds
both.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

from berth_crds.client import errors, resources
from e2e.stage import Stage, Thing
from support import kubelet, manifests, storage

CLAIMS, VOLUMES, CLASSES = resources.CLAIMS, resources.VOLUMES, resources.STORAGE_CLASSES
HOST: Final = "kubernetes.io/hostname"


class Storage:
    """A class of storage of its own for each test, its claims and volumes, and who provisions them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.name = f"late-{secrets.token_hex(3)}"
        self._volumes: list[str] = []

    async def start(self, provisioner: str = storage.PROVISIONER, **fields: Any) -> None:
        """Make the class."""
        await self.stage.admin.create(CLASSES, storage.storage_class(self.name, provisioner, **fields))

    async def claim(self, name: str = "data", **fields: Any) -> None:
        """Make a claim."""
        body = storage.claim(name, self.name, **fields)
        await self.stage.admin.create(CLAIMS, body, namespace=self.stage.namespace)

    async def read(self, name: str = "data") -> Thing:
        """Read a claim."""
        found: Thing = await self.stage.admin.get(CLAIMS, name, into=dict, namespace=self.stage.namespace)
        return found

    async def volume(self, labels: dict[str, str], *, of: Thing | None = None, name: str = "") -> str:
        """Make a volume that nodes with these labels can reach, perhaps of a claim."""
        name = name or f"{self.name}-{len(self._volumes)}"
        self._volumes.append(name)
        await self.stage.admin.create(VOLUMES, storage.volume(name, self.name, labels, of=of))
        return name

    async def selected(self, node: str = "", name: str = "data") -> str:
        """Wait until a node is selected for a claim, perhaps a certain one, and return it."""

        async def found() -> str | None:
            noted = (await self.read(name))["metadata"].get("annotations", {}).get(storage.SELECTED)
            return noted if noted and node in {"", noted} else None

        return await self.stage.until(f"a node to be selected for {name}", found)

    async def provide(self, name: str = "data") -> str:
        """Play the provisioner: make the volume for the selected node, and return the node."""
        node = await self.selected(name=name)
        await self.volume({HOST: node}, of=await self.read(name))
        return node

    async def refuse(self, name: str = "data") -> None:
        """Play a provisioner that cannot make the volume there."""
        change = {"metadata": {"annotations": {storage.SELECTED: None}}}
        await self.stage.patch(CLAIMS, name, change)

    async def bound(self, name: str = "data") -> None:
        """Wait until Kubernetes has bound a claim."""

        async def found() -> bool:
            return bool((await self.read(name))["status"].get("phase") == "Bound")

        await self.stage.until(f"{name} to be bound", found)

    async def close(self) -> None:
        """Remove what belongs to no namespace."""
        for resource, name in [(CLASSES, self.name), *((VOLUMES, name) for name in self._volumes)]:
            with contextlib.suppress(errors.NotFound):
                await self.stage.admin.delete(resource, name)


@contextlib.asynccontextmanager
async def lent(stage: Stage) -> AsyncIterator[Storage]:
    """Yield storage for claims that wait for their first pods, and take it away again."""
    made = Storage(stage)
    try:
        yield made
    finally:
        await made.close()


def using(name: str, *claims: str, **more: Any) -> Thing:
    """Return a pod of one card that uses these claims."""
    return manifests.pod(name, volumes=storage.using(*claims or ("data",)), **more)


async def nodes(stage: Stage, **zones: str) -> None:
    """Add nodes of a card each, in these zones."""
    await stage.machines(
        *(kubelet.FakeNode(name, labels={HOST: name, storage.ZONE: zone}) for name, zone in zones.items())
    )
    await stage.agent(**dict.fromkeys(zones, "1xT4"))
