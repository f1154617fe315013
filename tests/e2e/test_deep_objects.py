"""Whoever may write one object may nest it deep; that keeps nobody from anything."""

import contextlib
import json
from typing import Final

import pytest

from berth_crds import names
from berth_crds.client import errors, resources
from e2e.stage import USUAL, Stage
from support import deep, manifests

LEVELS: Final = 1500  # More than Python reads by itself, and not so many that the server takes long.


async def deepen(stage: Stage, resource: resources.Resource, name: str, namespace: str = "") -> None:
    """Nest the managed fields of an object, whoever else writes it meanwhile."""
    path = resource.path(name, namespace=namespace)

    async def written() -> bool:
        thing = json.loads(await stage.admin.send("GET", path))
        with contextlib.suppress(errors.Conflict):
            answer = await stage.admin.send("PUT", path, body=deep.managed(thing, LEVELS))
            return answer.count(b'"f:a":') == LEVELS - 1
        return False

    await stage.until(f"a deep {resource.kind}", written)


@pytest.mark.slow
@pytest.mark.thorough
async def test_deep_objects_change_nothing(stage: Stage) -> None:
    """Pods are bound and nodes are ready as before, also by an operator and an agent that start anew."""
    agent = await stage.nodes(n1="2xT4", n2="2xT4")
    operator = await stage.deciding_operator(*USUAL)
    await stage.create(manifests.pod("first"))
    node = (await stage.until_bound("first"))["first"]
    (gpupod,) = await stage.until(
        "the record of the pod", lambda: stage._items(resources.GPU_PODS, stage.namespace)
    )

    await deepen(stage, resources.LEASES, node, names.NODES_NAMESPACE)
    await deepen(stage, resources.DEVICES, node)
    await deepen(stage, resources.NODES, node)
    await deepen(stage, resources.PODS, "first", stage.namespace)
    await deepen(stage, resources.GPU_PODS, gpupod["metadata"]["name"], stage.namespace)

    await stage.placed(manifests.pod("second"))
    operator.kill()
    agent.kill()
    again = await stage.agent(n1="2xT4", n2="2xT4")
    successor = await stage.deciding_operator(*USUAL)
    await stage.create(manifests.pod("third"), manifests.pod("fourth"))
    await stage.until_bound("first", "second", "third", "fourth")
    await stage.until_ready("n1", "n2")
    await stage.assert_sound("first", "second", "third", "fourth")
    for program in (again, successor):
        said = program.log.read_text()
        assert "recursion" not in said
        assert "Kopf ended" not in said
