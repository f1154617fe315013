"""From one line in a pod to a process with its card: nothing on the way is played but driver and plugin."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from berth_agent import simulated
from berth_crds import names
from berth_crds.client import errors, resources
from e2e import by_hand
from e2e.conditions import condition
from e2e.stage import Stage, Thing, cards_of
from support.deviceplugin import DevicePlugin
from testbed import images, workers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leader")]


@pytest.fixture
async def plugin(worker: workers.Worker) -> AsyncIterator[DevicePlugin]:
    """Yield its device plugin, which offers the one card that the node has."""
    async with DevicePlugin(worker.plugins, names.NVIDIA_GPU) as plugin:
        plugin.offers(card(worker))
        yield plugin


def card(worker: workers.Worker) -> str:
    """Name the card of the node."""
    (only,) = simulated.machine(worker.name, "1xT4").answering_cards()
    return only.uuid


def asking() -> dict[str, Any]:
    """Describe a pod that asks for a card and wants to know which one it was given."""
    key = names.container_key("main", "uuids")
    told = {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}
    main = {
        "name": "main",
        "image": images.NAME,
        "imagePullPolicy": "Never",
        "env": [{"name": "CARDS", "valueFrom": told}],
        "resources": {"limits": {names.NVIDIA_GPU: "1"}},
    }
    spec = {
        "schedulerName": names.SCHEDULER_NAME,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 2,
        # Nobody gives this Node addresses or a network, and its taints say so.
        "tolerations": [{"operator": "Exists"}],
        "containers": [main],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


async def test_a_pod_that_says_nothing_but_its_scheduler_sees_its_cards(
    stage: Stage, worker: workers.Worker
) -> None:
    """The README's first pod where no device plugin is, with a sidecar and a container that gets no card."""
    await stage.agent(**{worker.name: "4xT4"})
    await stage.until_ready(worker.name)
    pod = yaml.safe_load(by_hand.first_pod())
    image = {"image": images.NAME, "imagePullPolicy": "Never"}
    main = pod["spec"]["containers"][0] | image
    one_card = {"resources": {"limits": {names.NVIDIA_GPU: "1"}}}
    side = {"name": "side", "restartPolicy": "Always"} | image | one_card
    idle = {"name": "idle", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]} | image
    pod["spec"] |= asking()["spec"] | {"containers": [main, idle], "initContainers": [side]}

    await stage.create(pod)
    await stage.until_bound("train")
    said = (await stage.pods())["train"]["metadata"]

    async def environments() -> dict[str, str] | None:
        ours = [one for one in worker.environments_of(said["uid"]) if "BERTH_GPU_CORE" in one]
        seen = {one["BERTH_GPU_CORE"]: one["NVIDIA_VISIBLE_DEVICES"] for one in ours}
        return seen if len(seen) == len(ours) == 3 else None

    seen = await stage.until("three containers to run", environments, seconds=60)
    key = names.container_key
    cards = {name: said["annotations"][key(name, "uuids")] for name in ("main", "side")}
    assert seen == {"100,100": cards["main"], "100": cards["side"], "": "void"}
    given = ",".join(cards.values()).split(",")
    machine = {card.uuid for card in simulated.machine(worker.name, "4xT4").answering_cards()}
    assert len(given) == len(set(given)) == 3 and set(given) <= machine


@pytest.mark.thorough
@pytest.mark.usefixtures("plugin")
async def test_pod_runs_with_the_card_that_it_was_given(stage: Stage, worker: workers.Worker) -> None:
    """Bound with its card, started by the kubelet, told its card, verified by the agent; then freed."""
    await stage.agent("--pod-resources", str(worker.pod_resources), **{worker.name: "1xT4"})
    await stage.until_ready(worker.name)

    await stage.create(asking())
    await stage.until_bound("p")
    told = await stage.until("the container to run", lambda: cards_told(stage, worker))
    record = await until_verified(stage)

    assert cards_of((await stage.pods())["p"]) == [card(worker)]
    assert told == card(worker)
    assert record["status"]["granted"] == [
        {"container": "main", "uuids": [card(worker)], "source": "podresources"}
    ]
    await stage.delete("p")
    await stage.until_gone("p")
    stage.cluster.kubectl("wait", "--for=delete", "gpupod/p", "-n", stage.namespace, "--timeout=30s")
    await stage.create(asking())
    await stage.until_bound("p")
    await until_verified(stage)


async def test_a_node_that_rejects_its_pods_is_quarantined(
    stage: Stage, worker: workers.Worker, plugin: DevicePlugin
) -> None:
    """So that their owner does not make pods for it for ever; the Device and those that wait say why."""
    plugin.refusal = "the card has fallen off"
    await stage.agent(**{worker.name: "1xT4"})
    await stage.until_ready(worker.name)
    for at in range(3):
        pod = asking()
        pod["metadata"]["name"] = f"p{at}"
        await stage.create(pod)
        await stage.until_pod(f"p{at}", "be rejected", lambda one: one["status"]["phase"] == "Failed")

    why = "its kubelet rejected 3 pods in a row: UnexpectedAdmissionError"
    await stage.until_device(
        worker.name,
        "say so",
        lambda one: (
            f"quarantined for namespace {stage.namespace}: {why}" in one["status"]["summary"]["reason"]
        ),
    )
    await stage.waiting_pod(asking(), "1 is quarantined (its kubelet rejected 3 pods in a row")


async def until_verified(stage: Stage) -> Thing:
    """Wait until the record of the pod says that it has what it was given."""

    async def verified() -> Thing | None:
        with contextlib.suppress(errors.NotFound):
            found = await stage.admin.get(resources.GPU_PODS, "p", into=dict, namespace=stage.namespace)
            said = condition(found, "Verified")
            return found if (said.get("status"), said.get("reason")) == ("True", "Agreed") else None
        return None

    return await stage.until("the pod's card to be verified", verified, seconds=60)


async def cards_told(stage: Stage, worker: workers.Worker) -> str | None:
    """Read in the environment of the pod's process which cards it was told; None while there is none."""
    uid = (await stage.pods())["p"]["metadata"]["uid"]
    return next((each["CARDS"] for each in worker.environments_of(uid) if each.get("CARDS")), None)
