"""What the API server refuses, and that it says why in words that help."""

import json
from collections.abc import Callable

import pytest

from crds import example_objects
from testbed import api
from testbed import cluster as clusters

Change = Callable[[example_objects.Object], object]

FIRST = "GPU-6cf3bbc0-7726-46d2-816f-525511292b61"


def twin_minor(made: example_objects.Object) -> None:
    """Change the second card's minor to that of the first."""
    made["spec"]["devices"][1]["minor"] = made["spec"]["devices"][0]["minor"]


def many_devices(made: example_objects.Object) -> None:
    """Add many containers with as many devices as one may have."""
    held = made["spec"]["containers"][0]["devices"][0]
    made["spec"]["containers"] = [{"name": f"c{at}", "devices": [held] * 64} for at in range(17)]


REFUSED: list[tuple[str, str, Change, str]] = [
    (
        "a Device of another node",
        "device",
        lambda made: made["spec"].update(node="other"),
        "spec.node must equal metadata.name",
    ),
    (
        "a Device of no node",
        "device",
        lambda made: made["spec"].pop("node"),
        "spec.node: Required value",
    ),
    (
        "a negative minor",
        "device",
        lambda made: made["spec"]["devices"][0].update(minor=-1),
        "spec.devices[0].minor in body should be greater than or equal to 0",
    ),
    (
        "a minor that is a fraction",
        "device",
        lambda made: made["spec"]["devices"][0].update(minor=0.5),
        "spec.devices[0].minor: Invalid",
    ),
    (
        "a card without minor",
        "device",
        lambda made: made["spec"]["devices"][0].pop("minor"),
        "spec.devices[0].minor: Required value",
    ),
    ("two cards of one minor", "device", twin_minor, "devices of one type must have different minors"),
    (
        "two cards of one uuid",
        "device",
        lambda made: made["spec"]["devices"].append(made["spec"]["devices"][0] | {"minor": 9}),
        "all devices must have different uuids",
    ),
    (
        "a uuid with a comma",
        "device",
        lambda made: made["spec"]["devices"][2].update(uuid="a,b"),
        "spec.devices[2].uuid in body should match",
    ),
    (
        "a GPU without memory",
        "device",
        lambda made: made["spec"]["devices"][0].pop("memory"),
        "memory must be given for every device of type gpu",
    ),
    (
        "a link to an unlisted card",
        "device",
        lambda made: made["spec"]["devices"][0]["links"][0].update(peer="GPU-gone"),
        "the peer of every link must be the uuid of another device in spec.devices",
    ),
    (
        "a link to itself",
        "device",
        lambda made: made["spec"]["devices"][0]["links"][0].update(peer=FIRST),
        "the peer of every link must be the uuid of another device in spec.devices",
    ),
    (
        "two links to one peer",
        "device",
        lambda made: made["spec"]["devices"][1]["links"].append(made["spec"]["devices"][1]["links"][0]),
        "spec.devices[1].links[1]: Duplicate value",
    ),
    (
        "an unknown kind of link",
        "device",
        lambda made: made["spec"]["devices"][0]["links"][0].update(kind="rope"),
        'spec.devices[0].links[0].kind: Unsupported value: "rope": supported values: "nvlink"',
    ),
    (
        "instances while MIG is off",
        "device",
        lambda made: made["spec"]["devices"][1]["mig"].update(enabled=False),
        "mig.instances may be listed only while mig.enabled is true",
    ),
    (
        "a MIG profile that is none",
        "device",
        lambda made: made["spec"]["devices"][1]["mig"]["instances"][0].update(profile="big"),
        "profile in body should match",
    ),
    (
        "an unknown way of sharing",
        "device",
        lambda made: made["spec"]["devices"][0]["sharing"].update(strategy="luck"),
        'sharing.strategy: Unsupported value: "luck": supported values: "time-slicing", "mps"',
    ),
    (
        "a bus address in capitals",
        "device",
        lambda made: made["spec"]["devices"][0]["topology"].update(busID="0000:3B:00.0"),
        "spec.devices[0].topology.busID in body should match",
    ),
    (
        "a partition of an unlisted card",
        "device",
        lambda made: made["spec"]["partitions"][0]["members"].append("GPU-gone"),
        "the members of every partition must be uuids of devices in spec.devices",
    ),
    (
        "a partition of nothing",
        "device",
        lambda made: made["spec"]["partitions"][0].update(members=[]),
        "spec.partitions[0].members in body should have at least 1 items",
    ),
    (
        "a summary that miscounts",
        "device",
        lambda made: made["spec"]["summary"].update(gpus=3),
        "summary.gpus must be the number of devices of type gpu",
    ),
    (
        "a card cordoned twice",
        "device",
        lambda made: made["spec"].update(cordon=[FIRST, FIRST]),
        "spec.cordon[1]: Duplicate value",
    ),
    (
        "more than 64 cards",
        "device",
        lambda made: made["spec"].update(
            devices=[{"uuid": f"G-{n}", "type": "fpga", "minor": n} for n in range(65)]
        ),
        "spec.devices: Too many: 65: must have at most 64 items",
    ),
    (
        "a misspelt field",
        "device",
        lambda made: made["spec"]["devices"][0].update(memroy=1),
        'unknown field "spec.devices[0].memroy"',
    ),
    ("a GpuPod of no node", "gpupod", lambda made: made["spec"].update(node=""), "spec.node"),
    (
        "a GpuPod of no pod",
        "gpupod",
        lambda made: made["spec"].pop("podUID"),
        "spec.podUID: Required value",
    ),
    (
        "a container named twice",
        "gpupod",
        lambda made: made["spec"]["containers"].append({"name": "main"}),
        "spec.containers[2]: Duplicate value",
    ),
    (
        "more devices than any pod has",
        "gpupod",
        many_devices,
        "all containers together have 1024 devices at most",
    ),
    (
        "more than a whole card",
        "gpupod",
        lambda made: made["spec"]["containers"][0]["devices"][0].update(core=101),
        "devices[0].core in body should be less than or equal to 100",
    ),
    (
        "negative memory",
        "gpupod",
        lambda made: made["spec"]["containers"][0]["devices"][0].update(memory=-1),
        "devices[0].memory in body should be greater than or equal to 0",
    ),
    (
        "a held card without memory",
        "gpupod",
        lambda made: made["spec"]["containers"][0]["devices"][0].pop("memory"),
        "devices[0].memory: Required value",
    ),
]


@pytest.mark.parametrize(
    ("kind", "change", "words"), [pytest.param(*case[1:], id=case[0]) for case in REFUSED]
)
def test_a_wrong_object_is_refused_in_words(
    kind: str, change: Change, words: str, objects: example_objects.ExampleObjects
) -> None:
    """Whoever writes nonsense is told which field is wrong and what it should be."""
    made = objects.make(kind)
    change(made)

    with pytest.raises(api.ApiError) as refused:
        objects.put(made, dry_run=True)

    assert words in str(refused.value)


WRONG_STATUS: list[tuple[str, str, Change, str]] = [
    (
        "an unknown health",
        "device",
        lambda status: status["devices"][0].update(health="Poorly"),
        'health: Unsupported value: "Poorly": supported values: "Healthy", "Unhealthy", "Unknown"',
    ),
    (
        "an unknown recovery",
        "device",
        lambda status: status["devices"][0].update(recovery="pray"),
        'status.devices[0].recovery: Unsupported value: "pray"',
    ),
    (
        "two verdicts on one card",
        "device",
        lambda status: status["devices"].append({"uuid": FIRST, "health": "Healthy"}),
        "all verdicts must be of different uuids",
    ),
    (
        "a count below zero",
        "device",
        lambda status: status["summary"].update(free=-1),
        "summary.free in body should be greater than or equal to 0",
    ),
    (
        "a condition that is maybe",
        "device",
        lambda status: status["conditions"][0].update(status="Maybe"),
        'status.conditions[0].status: Unsupported value: "Maybe"',
    ),
    (
        "minors that are not numbers",
        "gpupod",
        lambda status: status.update(minors="one"),
        "minors in body should match",
    ),
    (
        "a grant from nowhere",
        "gpupod",
        lambda status: status["granted"][0].update(source="rumour"),
        'status.granted[0].source: Unsupported value: "rumour"',
    ),
    (
        "occupants, though few of each card",
        "device",
        lambda status: status.update(
            devices=[
                {"uuid": f"G-{at}", "health": "Healthy", "occupants": [{"pid": pid} for pid in range(1, 17)]}
                for at in range(33)
            ]
        ),
        "all devices together have at most 512 occupants",
    ),
    (
        "grants, though few of each container",
        "gpupod",
        lambda status: status.update(
            granted=[
                {"container": f"c{at}", "uuids": [f"G-{number}" for number in range(64)], "source": "nvml"}
                for at in range(33)
            ]
        ),
        "all sources together name 2048 devices at most",
    ),
    (
        "an unknown phase",
        "gpupod",
        lambda status: status.update(phase="Asleep"),
        'status.phase: Unsupported value: "Asleep"',
    ),
]


@pytest.mark.parametrize(
    ("kind", "change", "words"), [pytest.param(*case[1:], id=case[0]) for case in WRONG_STATUS]
)
def test_a_wrong_status_is_refused_in_words(
    kind: str, change: Change, words: str, objects: example_objects.ExampleObjects
) -> None:
    """A verdict that nobody could understand never gets in."""
    made = objects.create(kind)
    change(made["status"])

    with pytest.raises(api.ApiError) as refused:
        objects.replace_status(made)

    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        pytest.param("podUID", "spec.podUID cannot change", id="another pod"),
        pytest.param("node", "spec.node cannot change", id="another node"),
    ],
)
def test_a_gpupod_stays_that_of_its_pod(
    field: str, words: str, objects: example_objects.ExampleObjects
) -> None:
    """The record of one pod is never turned into that of another."""
    made = objects.create("gpupod")
    change = json.dumps({"spec": {field: "another"}})

    with pytest.raises(clusters.KubectlFailed) as refused:
        objects.cluster.kubectl(
            "-n", objects.namespace, "patch", "gpupod", made["metadata"]["name"], "--type=merge", "-p", change
        )

    assert words in str(refused.value)
