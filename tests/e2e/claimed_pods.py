"""Pods with claims in chaos, and a provisioner that takes its time, and says no now and then.

Each pod has a claim of its own. Most get a volume that is made; some find one that exists. What must hold: a
pod is bound only after its claim, and to a node that can reach its volume.
"""

import asyncio
import contextlib
import json
import random
import secrets
from typing import Any, Final

from berth_crds import tasks
from berth_crds.client import errors, resources
from e2e.provisioner import CLAIMS, HOST, VOLUMES, Storage
from e2e.stage import Pod, Stage
from support import kubelet, manifests, storage

LOOK_SECONDS: Final = 0.2
SLOWEST_SECONDS: Final = 1.0
REFUSALS: Final = 0.2  # How many of the first attempts are refused.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class ClaimedPods:
    """The claims of one round, their classes, and who provisions them."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self._stage = stage
        self._chance = chance
        self._made, self._local = Storage(stage), Storage(stage)
        self._task: asyncio.Task[None] | None = None
        self._refused: set[str] = set()
        self._count = 0
        self.names: list[str] = []

    async def start(self) -> None:
        """Make the classes, and begin to provision; only once."""
        if self._task is None:
            self._task = asyncio.create_task(self._provision())
            await self._made.start()
            await self._local.start(NO_PROVISIONER)

    async def pod(self, *, local: bool) -> Pod:
        """Make a claim, perhaps with a volume that exists, and return a pod that uses it."""
        await self.start()
        self._count += 1
        name = f"claimed-{self._count}-{secrets.token_hex(2)}"
        self.names.append(name)
        if local:
            node = self._chance.choice(sorted(await self._stage.devices()))
            await self._local.volume({HOST: node})
        await (self._local if local else self._made).claim(name)
        return manifests.pod(name, volumes=storage.using(name), annotations={kubelet.RUN_SECONDS: "5"})

    async def close(self) -> None:
        """Stop provisioning, and remove claims, volumes and classes; the pods are gone."""
        if self._task is None:
            return
        await tasks.end([self._task])
        for name in self.names:
            with contextlib.suppress(errors.NotFound):
                await self._stage.admin.delete(CLAIMS, name, namespace=self._stage.namespace)
        await self._made.close()
        await self._local.close()
        self.names.clear()

    # ------------------------------------------------------------ the provisioner

    async def _provision(self) -> None:
        while True:
            with contextlib.suppress(errors.ClientError):
                for claim in await self._items(CLAIMS, self._stage.namespace):
                    await self._serve(claim)
            await asyncio.sleep(LOOK_SECONDS)

    async def _serve(self, claim: dict[str, Any]) -> None:
        """Make the volume of a claim that has a node, or say no once."""
        name, spec = claim["metadata"]["name"], claim["spec"]
        node = claim["metadata"].get("annotations", {}).get(storage.SELECTED)
        if not node or spec.get("volumeName") or spec["storageClassName"] != self._made.name:
            return
        await asyncio.sleep(self._chance.uniform(0.0, SLOWEST_SECONDS))
        if name not in self._refused and self._chance.random() < REFUSALS:
            self._refused.add(name)
            await self._made.refuse(name)
        else:
            self._refused.add(name)
            with contextlib.suppress(errors.Conflict):
                await self._made.volume({HOST: node}, of=claim, name=f"made-{claim['metadata']['uid']}")

    async def _items(self, resource: resources.Resource, namespace: str = "") -> list[dict[str, Any]]:
        found = json.loads(await self._stage.admin.send("GET", resource.path(namespace=namespace)))
        return list(found["items"])

    # ------------------------------------------------------------ what must hold

    async def faults(self) -> list[str]:
        """Return which bound pods have claims without volumes, or volumes that their nodes cannot reach."""
        claims = {one["metadata"]["name"]: one for one in await self._items(CLAIMS, self._stage.namespace)}
        volumes = {one["metadata"]["name"]: one for one in await self._items(VOLUMES)}
        bound = await self._stage.bound()
        found = []
        for name in self.names:
            volume = volumes.get(claims.get(name, {}).get("spec", {}).get("volumeName", ""))
            if name in bound and (volume is None or _host(volume) != bound[name]):
                found.append(f"{name} is bound to {bound[name]}, its volume is {volume and _host(volume)}")
        return found


def _host(volume: dict[str, Any]) -> str:
    """Return the node that can reach a volume."""
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(term["matchExpressions"][0]["values"][0])
