"""An agent can take the name of another node's pod for a GpuPod of its own; the operator gives it back."""

import contextlib
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import errors, resources
from e2e.stage import Stage
from support import kubelet, manifests


async def gpupod(stage: Stage, name: str) -> dict[str, Any]:
    """Read a GpuPod; nothing where there is none."""
    with contextlib.suppress(errors.NotFound):
        found: dict[str, Any] = await stage.admin.get(
            resources.GPU_PODS, name, into=dict, namespace=stage.namespace
        )
        return found
    return {}


@pytest.mark.slow
async def test_the_name_comes_back_to_the_pods_own_node(stage: Stage) -> None:
    """What the other wrote is removed, and the agent of the pod's node writes its own by itself."""
    await stage.nodes(n1="2xT4")
    await stage.machines(kubelet.FakeNode("n2"))
    await stage.create(manifests.pod("train"))
    uid = (await stage.pods())["train"]["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": uid}
    squat = manifests.gpupod("train", uid, "n2", ownerReferences=[owner])

    async with stage.session(names.AGENT_ACCOUNT, node="n2") as other:
        await other.create(resources.GPU_PODS, squat, namespace=stage.namespace)
    operator = stage.operator()
    await stage.until_bound("train")

    async def given_back() -> bool:
        return bool((await gpupod(stage, "train")).get("spec", {}).get("node") == "n1")

    await stage.until("the GpuPod of the pod's own node", given_back, seconds=60.0)
    line = f"GpuPod {stage.namespace}/train, which was written for node n2, is removed: "
    await stage.says(operator, f"{line}it is of node n2, and the pod is on n1")
    assert operator.log.read_text().count(line) == 1
