"""The kinds on a real API server: what it takes, who may write what, and what people see."""

import json
from pathlib import Path

import pytest
import yaml

from berth_crds import names, schema
from crds import example_objects
from testbed import cluster as clusters

VERSIONS = sorted((Path(__file__).parents[1] / "golden" / "versions").glob("*/snapshot.yaml"))
# Whether it is there already or not: there is one policy in a cluster.
TAKE = [
    "apply",
    "--server-side",
    "--force-conflicts",
    "--dry-run=server",
    "--validate=strict",
    "--filename",
    "-",
]
FIRST = "GPU-6cf3bbc0-7726-46d2-816f-525511292b61"


# ---------------------------------------------------------------- the kinds


@pytest.mark.parametrize("kind", schema.KINDS, ids=lambda kind: kind.resource.kind)
def test_the_server_takes_the_kind_as_it_was_sent(kind: schema.Kind, kinds: clusters.Cluster) -> None:
    """A CRD is established and structural; nothing is rewritten, so that comparing the files finds drift."""
    crd = json.loads(kinds.kubectl("get", "crd", f"{kind.resource.plural}.{names.GROUP}", "-o", "json"))

    conditions = {entry["type"]: entry["status"] for entry in crd["status"]["conditions"]}
    assert conditions.items() >= {"Established": "True", "NamesAccepted": "True"}.items()
    assert "NonStructuralSchema" not in conditions
    assert crd["spec"]["versions"] == schema.manifest(kind)["spec"]["versions"]


# ---------------------------------------------------------------- what is taken


@pytest.mark.parametrize("snapshot", VERSIONS, ids=lambda path: path.parent.name)
def test_what_each_version_stored_is_still_taken(snapshot: Path, kinds: clusters.Cluster) -> None:
    """By the kinds of today, to the letter."""
    stored = yaml.safe_load(snapshot.read_text())["items"]
    ours = [each for each in stored if each["apiVersion"].startswith(f"{names.GROUP}/")]
    namespace = kinds.namespace()
    for thing in ours:
        thing["metadata"] = {"name": thing["metadata"]["name"]}

    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": ours})
    taken = kinds.kubectl(*TAKE, "--namespace", namespace, "--output=name", stdin=body).split()
    assert {name.split(".")[0] for name in taken} == {"device", "gpupod", "placementpolicy"}
    assert len(taken) == len(ours)


@pytest.mark.parametrize("page", ["operating.md", "migrating.md"])
def test_policies_on_the_pages_are_taken(page: str, kinds: clusters.Cluster) -> None:
    """To the letter, with no field that is misspelt."""
    text = (Path(__file__).parents[2] / "manifests" / page).read_text()
    blocks = [block.split("```")[0] for block in text.split("```yaml\n")[1:]]
    written = [block for block in blocks if "kind: PlacementPolicy" in block]

    assert written
    for block in written:
        kinds.kubectl(*TAKE, stdin=block)


def test_a_policy_shows_every_rule_that_holds(objects: example_objects.ExampleObjects) -> None:
    """People who write one rule see the others with their defaults."""
    made = objects.make("placementpolicy") | {"spec": {"weights": {"core": 2}}}

    objects.put(made)

    assert objects.read(made)["spec"] == {
        "strategy": "fragmentation",
        "weights": {"core": 2, "memory": 1},
        "preferences": {
            "strategy": 100,
            "strategyWithoutDevices": 1,
            "nodeAffinity": 2,
            "taints": 3,
            "podAffinity": 2,
            "spread": 2,
            "images": 1,
            "balance": 1,
        },
        "agents": {"graceSeconds": 40, "unknownSeconds": 20, "loadSeconds": 30, "taint": False},
        "load": {"source": "agents"},
        "priorities": {},
        "health": {"coolDownSeconds": 300, "cleanProbes": 3, "onSick": "leave"},
        "sharing": {"fractions": True, "replicas": True, "minMemoryMiB": 64},
        "delivery": "reported",
        "nodeNames": "berth",
        "podRecords": "berth",
        "podRecordsFrom": ["koord-scheduler"],
        "onCordon": "stop",
    }


def test_a_device_gets_no_defaults(objects: example_objects.ExampleObjects) -> None:
    """What nobody wrote is absent: an unknown place is never zero; a cordon may name a card that is gone."""
    made = objects.make("device")
    made["spec"] = {
        "node": made["metadata"]["name"],
        "devices": [{"uuid": FIRST, "type": "fpga", "minor": 0}],
        "cordon": ["GPU-taken-out-for-repair"],
    }

    objects.put(made)

    assert objects.read(made)["spec"] == made["spec"]


# ---------------------------------------------------------------- who writes what


@pytest.mark.parametrize("kind", sorted(example_objects.PLURAL))
def test_status_and_spec_are_written_apart(kind: str, objects: example_objects.ExampleObjects) -> None:
    """Neither is written on the way of the other; every zero and empty list of an example is kept."""
    made = objects.create(kind)
    before = objects.read(made)
    changed = before | {"status": made["status"], "spec": objects.make(kind)["spec"]}
    changed["spec"].pop("summary" if kind == "device" else "containers" if kind == "gpupod" else "weights")

    objects.send("replace", "--subresource=status", body=changed)

    assert "status" not in before
    assert objects.read(made) | {"metadata": {}} == made | {"metadata": {}}


def test_the_agent_leaves_the_cordon_of_people_alone(objects: example_objects.ExampleObjects) -> None:
    """An agent that applies its inventory again does not undo what people wrote."""
    made = objects.make("device")
    del made["spec"]["cordon"], made["status"]
    as_agent = ["apply", "--server-side", f"--field-manager={names.AGENT_MANAGER}"]
    objects.send(*as_agent, body=made)
    cordon = json.dumps({"spec": {"cordon": [FIRST]}})
    objects.cluster.kubectl("patch", "device", made["metadata"]["name"], "--type=merge", "-p", cordon)

    made["spec"]["driver"]["version"] = "560.35.03"
    objects.send(*as_agent, body=made)

    found = objects.read(made)["spec"]
    assert found["cordon"] == [FIRST]
    assert found["driver"]["version"] == "560.35.03"


def test_agent_and_operator_share_the_conditions(objects: example_objects.ExampleObjects) -> None:
    """Each writer applies its own entries; neither needs force, neither removes the other's."""
    made = objects.make("device")
    objects.put(made | {"status": {}})
    when = "2026-09-20T10:00:00Z"
    bare = {name: made[name] for name in ("apiVersion", "kind", "metadata")}

    for manager, condition in ((names.AGENT_MANAGER, "NVMLReady"), (names.OPERATOR_MANAGER, "Ready")):
        entry = {"type": condition, "status": "True", "reason": "Tried", "lastTransitionTime": when}
        words = ["apply", "--server-side", "--subresource=status", f"--field-manager={manager}"]
        objects.send(*words, body=bare | {"status": {"conditions": [entry]}})

    found = objects.read(made)["status"]["conditions"]
    assert {entry["type"] for entry in found} == {"NVMLReady", "Ready"}


# ---------------------------------------------------------------- what people see


@pytest.mark.parametrize(
    ("kind", "options", "headings", "cells"),
    [
        pytest.param(
            "device",
            [],
            ["NAME", "MODELS", "GPUS", "FREE", "IN-USE", "HEALTHY", "READY", "AGE"],
            ["A100-SXM4-80GB x2", "2", "0", "0.5", "1", "True"],
            id="devices",
        ),
        pytest.param(
            "device",
            ["-o", "wide"],
            [
                "NAME",
                "MODELS",
                "GPUS",
                "FREE",
                "IN-USE",
                "HEALTHY",
                "READY",
                "AGE",
                "DRIVER",
                "CUDA",
                "SHARING",
                "REASON",
            ],
            ["550.107.02", "12.4", "time-slicing x4, mig 1g.10gb x1", "1 card unhealthy"],
            id="devices, wide",
        ),
        pytest.param(
            "gpupod",
            [],
            ["NAME", "PHASE", "NODE", "MINORS", "SHARE", "VERIFIED", "AGE"],
            ["Running", "gpu-node-1", "0,1", "40 %,100 %", "False"],
            id="gpupods",
        ),
        pytest.param(
            "placementpolicy",
            [],
            ["NAME", "STRATEGY", "ACCEPTED", "AGE"],
            ["spread", "True"],
            id="policies",
        ),
    ],
)
def test_the_columns_of_a_list(
    kind: str,
    options: list[str],
    headings: list[str],
    cells: list[str],
    objects: example_objects.ExampleObjects,
) -> None:
    """`kubectl get` shows the columns that people look for, in words and numbers."""
    made = objects.create(kind)
    objects.replace_status(made)

    heading, row = objects.get(kind, made["metadata"]["name"], *options).splitlines()

    assert heading.split() == headings
    assert [cell for cell in cells if cell not in row] == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(
            "device.spec.devices.minor", "Number of the device file: N in /dev/nvidiaN.", id="a card's minor"
        ),
        pytest.param("device.spec.cordon", "Written by people, never by the agent", id="the cordon"),
        pytest.param(
            "device.status.devices.health", "A card that is not Healthy gets no new pod.", id="health"
        ),
        pytest.param("gpupod.status.granted.source", "Who says so", id="who saw a grant"),
        pytest.param(
            "placementpolicy.spec.agents.graceSeconds", "without a sign of life", id="the grace period"
        ),
    ],
)
def test_explain_is_the_manual(path: str, words: str, kinds: clusters.Cluster) -> None:
    """`kubectl explain` answers for every field, in sentences."""
    explained = " ".join(kinds.kubectl("explain", path).split())

    assert words in explained


def test_the_category_lists_all_that_is_ours(objects: example_objects.ExampleObjects) -> None:
    """`kubectl get berth` shows Devices, GpuPods and policies together."""
    made = [objects.create(kind) for kind in example_objects.PLURAL]

    listed = objects.get(names.CATEGORY, "-o", "name").split()

    assert {f"{body['kind'].lower()}.{names.GROUP}/{body['metadata']['name']}" for body in made} <= set(
        listed
    )


@pytest.mark.parametrize(
    ("short", "kind"),
    [(short, kind.resource.kind.lower()) for kind in schema.KINDS for short in kind.short_names],
)
def test_short_names_work(short: str, kind: str, objects: example_objects.ExampleObjects) -> None:
    """People who type little reach the same objects."""
    name = objects.create(kind)["metadata"]["name"]

    assert objects.get(short, name, "-o", "name").strip() == f"{kind}.{names.GROUP}/{name}"
