"""Labels of a Node on the real API server: written once, kept, taken away, and nobody else's touched."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from berth_agent import node_labels
from berth_agent.publish import label_writer
from berth_crds.client import api, resources
from support import nodes
from support.nvml import presets
from testbed import waiting

if TYPE_CHECKING:
    from agent.conftest import Scene


async def labelled(scene: Scene) -> dict[str, str]:
    """Read the labels of the Node."""
    node = await scene.admin.get(resources.NODES, scene.node, into=label_writer.LabelledNode)
    return node.metadata.labels


async def until(scene: Scene, wanted: dict[str, Any], *, what: str) -> dict[str, str]:
    """Wait until the Node bears these labels; None is one that it does not bear."""

    async def so() -> dict[str, str] | None:
        found = await labelled(scene)
        return found if all(found.get(key) == text for key, text in wanted.items()) else None

    return await waiting.eventually(so, what=what)


async def label(scene: Scene, **changes: str | None) -> None:
    """Change labels by hand."""
    body = msgspec.json.encode({"metadata": {"labels": changes}})
    await scene.admin.send("PATCH", resources.NODES.path(scene.node), body=body, content=api.MERGE_PATCH)


async def test_node_is_labelled_once(scene: Scene, place: nodes.Place) -> None:
    """Labels come with the cards and follow them; nothing is written while nothing changes."""
    rig = place(presets.DGX_A100)
    await scene.create_node()
    await label(scene, mine="kept")
    async with scene.agent(source=rig.start(), labels=True):
        await until(scene, {"berth.dev/gpu.product": "A100-SXM4-80GB", "mine": "kept"}, what="the labels")
        await asyncio.sleep(1.0)  # Several ticks.
        rig.machine.change({"card.0.mig.mode": "1 1"})
        mixed = await until(scene, {"berth.dev/gpu.mig": None}, what="a label that is no longer so to go")

    assert (mixed["berth.dev/gpu.count"], mixed["mine"]) == ("8", "kept")
    writes = [each for each in scene.writes() if each.resource == "nodes"]
    assert [each.verb for each in writes] == ["patch"] * 2


async def test_labels_taken_away_come_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may remove or change one by hand; it is looked at again now and then."""
    monkeypatch.setattr(label_writer, "CHECK_SECONDS", 0.2)
    async with scene.agent(labels=True):
        whole = await until(scene, {"berth.dev/gpu.count": "2"}, what="the labels")
        ours = {key: text for key, text in whole.items() if node_labels.ours(key)}
        await label(scene, **{"berth.dev/gpu.count": "99", "berth.dev/gpu.product": None})
        await until(scene, ours, what="the labels to be right again")


async def test_labels_of_others_under_our_names_go(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else wrote there is taken away once; it is not written against for ever."""
    monkeypatch.setattr(label_writer, "CHECK_SECONDS", 0.2)
    await scene.create_node()
    await label(scene, mine="kept", **{"berth.dev/gpu.foreign": "x"})
    async with scene.agent(labels=True):
        await until(scene, {"berth.dev/gpu.count": "2", "berth.dev/gpu.foreign": None}, what="it to go")
        await label(scene, **{"berth.dev/gpu.later": "y"})
        found = await until(scene, {"berth.dev/gpu.later": None}, what="the other to go")
        settled = await scene.settled()
        await scene.until_renewed(settled, 5)

    assert (found["mine"], {each.resource for each in scene.writes()[settled:]}) == ("kept", {"leases"})


async def test_agent_that_may_not_label_vouches_all_the_same(scene: Scene) -> None:
    """An account without the right to it publishes its Device and renews its Lease."""
    limited = scene.limited_account()
    role = json.loads(scene.cluster.kubectl("get", "clusterrole", "berth-agent", "-o", "json"))
    rules = [rule | {"verbs": ["get"]} if "nodes" in rule["resources"] else rule for rule in role["rules"]]
    kind = {"apiVersion": role["apiVersion"], "kind": role["kind"]}
    scene.cluster.apply(json.dumps(kind | {"metadata": {"name": f"{limited.name}-all"}, "rules": rules}))
    scene.cluster.kubectl(
        *("create", "clusterrolebinding", f"{limited.name}-all", f"--clusterrole={limited.name}-all"),
        f"--serviceaccount={limited.namespace}:{limited.name}",
    )
    async with scene.agent(kubeconfig=limited.kubeconfig, labels=True):
        first = await scene.until_lease(lambda one: one.spec.holder_identity, what="the Lease")
        await scene.until_lease(
            lambda one: one.spec.renew_time != first.spec.renew_time, what="the Lease to be renewed"
        )

    assert not [key for key in await labelled(scene) if node_labels.ours(key)]
