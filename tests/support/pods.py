"""Pods as tests make them on a real API server, and as the operator then reads them."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from berth_crds.client import api, errors, resources
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.translate import raw

CARD = decisions.Share("GPU-0001", 0, 100, 85198045184)
OTHER_CARD = decisions.Share("GPU-0002", 1, 100, 85198045184)


def placement(node: str, *cards: decisions.Share) -> decisions.Placement:
    """Make a placement of cards for the container `main`."""
    return decisions.Placement(node, (decisions.Grant("main", cards),) if cards else ())


@dataclasses.dataclass(frozen=True, slots=True)
class PodClient:
    """The pods of a namespace, and an administrator's session to make and change them."""

    admin: api.Api
    namespace: str

    async def create(self, pod: Mapping[str, Any]) -> queued_pods.PodInfo:
        """Create a pod, and give what the backlog would know of it."""
        body = await self.admin.create(resources.PODS, pod, namespace=self.namespace)
        meta = msgspec.json.decode(body, type=raw.Pod).metadata
        return queued_pods.PodInfo(uid=meta.uid, namespace=meta.namespace, name=meta.name)

    async def read(self, name: str) -> raw.Pod:
        """Read a pod."""
        return await self.admin.get(resources.PODS, name, into=raw.Pod, namespace=self.namespace)

    async def bind(self, name: str, node: str, annotations: Mapping[str, str] | None = None) -> None:
        """Bind a pod, as somebody else would."""
        binding = {
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "target": {"kind": "Node", "name": node},
        }
        await self.admin.create(resources.PODS, binding, namespace=self.namespace, sub="binding")

    async def patch(self, name: str, change: Mapping[str, Any], *, sub: str = "") -> None:
        """Change a pod by hand."""
        path = resources.PODS.path(name, namespace=self.namespace, sub=sub)
        await self.admin.send("PATCH", path, body=msgspec.json.encode(change), content=api.MERGE_PATCH)

    async def delete(self, *names_: str) -> None:
        """Delete pods at once, those that are still there."""
        for name in names_:
            path = resources.PODS.path(name, namespace=self.namespace)
            with contextlib.suppress(errors.NotFound):
                await self.admin.send("DELETE", path, params={"gracePeriodSeconds": "0"})


def conditions(pod: raw.Pod) -> Sequence[tuple[str, str, str]]:
    """Give type, status and reason of a pod's conditions."""
    found = pod.status.conditions or ()
    return [(one.type or "", one.status or "", one.reason or "") for one in found]


def scheduled(pod: raw.Pod) -> raw.PodCondition:
    """Return the condition that tells whether the pod has a node."""
    return next(
        (one for one in pod.status.conditions or () if one.type == "PodScheduled"), raw.PodCondition()
    )
