"""Brings about the calls of operators that do not come by themselves, for plans that wait for them."""

import contextlib
from collections.abc import Set as AbstractSet
from typing import Final

from berth_crds import names
from berth_crds.client import api, errors, resources
from e2e.stage import Stage
from e2e.workload import Workload
from support import manifests
from testbed import interceptor

NO_GPU: Final = b'{"status": {"capacity": {"berth.dev/gpu": "0"}, "allocatable": {"berth.dev/gpu": "0"}}}'
UNJUDGED: Final = b'{"status": {"conditions": null, "observedGeneration": null}}'


async def provoke(
    wanted: AbstractSet[str], stage: Stage, workload: Workload, wire: interceptor.Interceptor
) -> None:
    """Bring about the calls of these kinds."""
    if "create leases" in wanted:
        with contextlib.suppress(errors.NotFound):
            where = names.SYSTEM_NAMESPACE
            await stage.admin.delete(resources.LEASES, names.LEADER_LEASE, namespace=where)
            wire.note()
    if "patch placementpolicies/status" in wanted:
        path = resources.POLICIES.path(names.DEFAULT_POLICY, sub="status")
        await stage.admin.send("PATCH", path, body=UNJUDGED, content=api.MERGE_PATCH)
    await workload.provoke(wanted)
    if "delete gpupods" in wanted:
        await _squat(stage)
    if "patch nodes/status" in wanted:
        await _zero_a_node(stage)


async def _squat(stage: Stage) -> None:
    """Have a GpuPod stand that is of no pod, and that the leader therefore removes."""
    thing = manifests.gpupod("nobody", "nobody", f"{stage.namespace}-bare")
    with contextlib.suppress(errors.Conflict):
        await stage.admin.create(resources.GPU_PODS, thing, namespace=stage.namespace)


async def _zero_a_node(stage: Stage) -> None:
    """Remove from a Node what it lists of its devices, as a kubelet does that is started anew."""
    path = resources.NODES.path(min(await stage.devices()), sub="status")
    await stage.admin.send("PATCH", path, body=NO_GPU, content=api.MERGE_PATCH)
