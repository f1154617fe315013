"""The environment that the API server gives to pods of Berth's, so that each container sees its own cards."""

import contextlib
from typing import Any, Final

import pytest

from berth_crds import names
from berth_crds.client import errors, resources
from e2e.stage import Stage, Thing
from support import kubelet, manifests

OURS: Final = {"NVIDIA_VISIBLE_DEVICES": "uuids", "BERTH_GPU_MEMORY": "memory", "BERTH_GPU_CORE": "core"}
USER: Final = [
    {"name": "FIRST", "value": "1"},
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "BERTH_GPU_CORE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "CARDS", "value": "$(NVIDIA_VISIBLE_DEVICES)"},
]


def container(name: str, **fields: Any) -> dict[str, Any]:
    """Return a container without devices."""
    return {"name": name, "image": "example.com/work"} | fields


def fed(name: str) -> list[tuple[str, str]]:
    """Return the variables that a container is to have, and the annotations that feed them."""
    return [
        (variable, f"metadata.annotations['{names.container_key(name, key)}']")
        for variable, key in OURS.items()
    ]


def sources(container: Thing) -> list[tuple[str, str]]:
    """Return the variables of a container with what feeds them."""
    found = []
    for one in container.get("env", ()):
        source = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        found.append((one["name"], source or one.get("value", "")))
    return found


async def created(stage: Stage, pod: Thing) -> Thing:
    """Create a pod and read what the server has made of it."""
    await stage.create(pod)
    spec: Thing = (await stage.pods())[pod["metadata"]["name"]]["spec"]
    return spec


async def test_each_container_of_ours_is_fed_from_its_own_annotation(stage: Stage) -> None:
    """Init containers and sidecars too, with an environment of their own or without, and none for others."""
    spec = await created(
        stage,
        manifests.pod(
            initContainers=[container("once"), container("side", restartPolicy="Always", env=USER[:1])],
            containers=[container("main"), container("idle", env=[])],
        ),
    )
    other = await created(stage, manifests.pod("other", schedulerName="somebody-else"))

    initial = {one["name"]: sources(one) for one in spec["initContainers"]}
    assert initial == {"once": fed("once"), "side": [*fed("side"), ("FIRST", "1")]}
    assert {one["name"]: sources(one) for one in spec["containers"]} == {
        name: fed(name) for name in ("main", "idle")
    }
    assert sources(other["containers"][0]) == []


async def test_what_the_pod_says_of_our_variables_never_counts(stage: Stage) -> None:
    """Its own values go, wherever they stand, and its other variables come after ours, to refer to them."""
    spec = await created(stage, manifests.pod(containers=[container("main", env=USER)]))
    copied = container("main", env=spec["containers"][0]["env"])
    again = await created(stage, manifests.pod("copied", containers=[copied | {"env": copied["env"] + USER}]))

    others = [("FIRST", "1"), ("CARDS", "$(NVIDIA_VISIBLE_DEVICES)")]
    assert sources(spec["containers"][0]) == [*fed("main"), *others]
    assert sources(again["containers"][0]) == [*fed("main"), *others, *others]


@pytest.mark.usefixtures("leader")
async def test_a_bind_says_for_each_container_what_it_was_given(stage: Stage) -> None:
    """Also for one without cards, and in a pod without any; what is read back holds nothing more (I5)."""
    await stage.nodes(here="2xT4")
    main = manifests.pod()["spec"]["containers"][0]
    await stage.placed(
        manifests.pod("some", containers=[main, container("log")], initContainers=[container("once")]),
        manifests.pod("none", 0),
    )

    found = {name: pod["metadata"]["annotations"] for name, pod in (await stage.pods()).items()}
    key = names.container_key
    assert found["some"][key("log", "uuids")] == found["some"][key("once", "uuids")] == "void"
    assert found["some"][key("main", "uuids")].startswith("GPU-")
    assert found["none"][key("main", "uuids")] == "void"
    await stage.placed(manifests.pod("rest"))


async def test_a_container_that_is_added_later_gets_no_card(stage: Stage) -> None:
    """Whatever it says itself; what was added before stays as it is."""
    await stage.machines(kubelet.FakeNode("n"))
    await stage.create(manifests.pod("p", 0), manifests.pod("other", 0, schedulerName="somebody-else"))

    async def add(pod: str, *added: Thing) -> list[Thing]:
        body = {"spec": {"ephemeralContainers": list(added)}}
        await stage.patch(resources.PODS, pod, body, sub="ephemeralcontainers")
        found: list[Thing] = (await stage.pods())[pod]["spec"]["ephemeralContainers"]
        return found

    first = container("look", env=USER[:2])
    (looked,) = await add("p", first)
    both = await add("p", looked, container("again"))
    (stranger,) = await add("other", first)

    assert sources(looked) == [("NVIDIA_VISIBLE_DEVICES", "void"), ("FIRST", "1")]
    assert both[0] == looked
    assert sources(both[1]) == [("NVIDIA_VISIBLE_DEVICES", "void")]
    assert sources(stranger) == [("FIRST", "1"), ("NVIDIA_VISIBLE_DEVICES", "all")]


async def test_a_namespace_may_make_its_pods_ours(stage: Stage) -> None:
    """Pods that name no scheduler, once it has the label; those that name one or a node stay as they are."""
    await stage.machines(kubelet.FakeNode("n"))
    stage.cluster.kubectl("label", "namespace", stage.namespace, "berth.dev/schedule=true")

    def bare(name: str, **spec: Any) -> Thing:
        pod = manifests.pod(name, 0, **spec)
        return pod | {"spec": {key: value for key, value in pod["spec"].items() if key != "schedulerName"}}

    async def relabelled() -> Thing | None:
        with contextlib.suppress(errors.NotFound):
            await stage.admin.delete(resources.PODS, "probe", namespace=stage.namespace)
        spec = await created(stage, bare("probe"))
        return spec if spec["schedulerName"] == names.SCHEDULER_NAME else None

    spec = await stage.until("the policy to see the label", relabelled)
    named = await created(stage, manifests.pod("named", 0, schedulerName="somebody-else"))
    placed = await created(stage, bare("placed", nodeName="n"))

    assert sources(spec["containers"][0]) == fed("main")
    assert named["schedulerName"] == "somebody-else"
    assert placed["schedulerName"] == "default-scheduler"
