"""Whatever is wrong with the input: one line that names file and object, and exit code 2."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from simulation import simulator

POD: Final = simulator.pod("p")


def changed(body: Any, *path: Any, to: Any) -> Any:
    """Return a copy of an object with one field changed, or with None taken out."""
    body = json.loads(json.dumps(body))
    inside = body
    for step in path[:-1]:
        inside = inside[step]
    if to is None:
        del inside[path[-1]]
    else:
        inside[path[-1]] = to
    return body


def pod(*path: Any, to: Any) -> str:
    """Return a pod with one field changed."""
    return json.dumps(changed(POD, *path, to=to))


def device(*path: Any, to: Any) -> str:
    """Return a Device with one field changed."""
    return json.dumps(changed(simulator.device("n1", "2xT4"), *path, to=to))


def node(field: str, **amounts: Any) -> str:
    """Return a Node with these amounts in its status."""
    return json.dumps(simulator.node() | {"status": {field: amounts}})


def asking(requests: Any, limits: Any) -> str:
    """Return a pod with these requests and limits."""
    return pod(*MAIN, "resources", to={"requests": requests, "limits": limits})


def listed(**fields: Any) -> str:
    """Return a list with other fields than it should have."""
    return json.dumps({"apiVersion": "v1", "kind": "List"} | fields)


MAIN: Final = ("spec", "containers", 0)
TIME: Final = "expected a time such as 2026-03-02T08:00:00Z, found"
CARD: Final = simulator.device("n1", "2xT4")["spec"]["devices"][0]
INSTANCE: Final = {"uuid": "MIG-1", "profile": "1g.5gb", "memory": 5 * 2**30}
POLICY: Final = {
    "apiVersion": "berth.dev/v1alpha1",
    "kind": "PlacementPolicy",
    "metadata": {"name": "default"},
}
DEPLOYMENT: Final = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "ml"},
    "spec": {"template": {"spec": {"containers": []}}},
}

CASES: Final = {
    "no YAML": ("a: [", "line 1: not YAML: did not find expected node content"),
    "no JSON": ('{"a": 1', "line 1: not JSON: Expecting ',' delimiter"),
    "neither": ("hello", "expected an object, found 'hello'"),
    "a bare list": ("- 1", "expected an object with apiVersion and kind, found a list"),
    "no kind": ('{"apiVersion": "v1"}', "kind is missing; it is no Kubernetes object"),
    "a document without a kind": (
        "apiVersion: v1\nkind: Secret\n---\na: 1",
        "line 3: apiVersion is missing; it is no Kubernetes object",
    ),
    "an item that is none": (
        '{"apiVersion": "v1", "kind": "List", "items": [3]}',
        "item 1: expected an object, found 3",
    ),
    "a list whose items are none": (
        listed(items={"a": "b"}),
        "List: items: expected a list, found an object",
    ),
    "a list whose items are null": (listed(items=None), "List: items: expected a list, found nothing"),
    "a list without items": (listed(), "List: items: expected a list, found nothing"),
    "a list of pods without items": (
        listed(kind="PodList"),
        "PodList: items: expected a list, found nothing",
    ),
    "another version": (
        device("apiVersion", to="berth.dev/v2"),
        "Device n1: apiVersion 'berth.dev/v2' is not known; write berth.dev/v1alpha1",
    ),
    "no name": (pod("metadata", "name", to=None), "Pod: metadata.name is missing"),
    "a name that is none": (
        pod("metadata", "name", to="A b"),
        "Pod ml/A b: metadata.name: 'A b' is not a name",
    ),
    "no metadata": (pod("metadata", to=None), "Pod: metadata: expected an object, found nothing"),
    "an annotation that is a number": (
        pod("metadata", "annotations", "example.com/size", to=4),
        "Pod ml/p: metadata.annotations.example.com/size: expected a string, in quotes, found 4",
    ),
    "a label that is true": (
        pod("metadata", "labels", to={"a": True}),
        "Pod ml/p: metadata.labels.a: expected a string, in quotes, found true",
    ),
    "containers that are no list": (
        pod("spec", "containers", to={"name": "a"}),
        "Pod ml/p: spec.containers: expected a list, found an object",
    ),
    "no containers": (pod("spec", "containers", to=[]), "Pod ml/p: spec.containers is missing or empty"),
    "a container without a name": (
        pod(*MAIN, "name", to=None),
        "Pod ml/p: spec.containers[0].name is missing",
    ),
    "two containers of one name": (
        pod("spec", "initContainers", to=[{"name": "main"}]),
        "Pod ml/p: spec: two containers are named 'main'",
    ),
    "no quantity": (
        pod(*MAIN, "resources", "limits", "cpu", to="many"),
        "Pod ml/p: spec.containers[0].resources.limits.cpu: 'many' is not a quantity",
    ),
    "a quantity that is a list": (
        pod(*MAIN, "resources", "requests", to={"cpu": [1]}),
        (
            "Pod ml/p: spec.containers[0].resources.requests.cpu: "
            "expected a whole number or a number or a string, found a list"
        ),
    ),
    "less overhead than none": (
        pod("spec", "overhead", to={"cpu": -1}),
        "Pod ml/p: spec.overhead.cpu: expected no less than 0, found -1",
    ),
    "a request of cards that is not their limit": (
        asking({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": "2"}),
        (
            "Pod ml/p: spec.containers[0].resources.requests.nvidia.com/gpu: 1 differs from the limit, '2'; "
            "the API server wants them to be equal"
        ),
    ),
    "a request of cards without a limit": (
        asking({"nvidia.com/gpu": 1}, {}),
        (
            "Pod ml/p: spec.containers[0].resources.requests.nvidia.com/gpu: 1 stands there without a limit; "
            "the API server wants an equal limit of nvidia.com/gpu"
        ),
    ),
    "a request above the limit": (
        asking({"cpu": 2}, {"cpu": "1500m"}),
        "Pod ml/p: spec.containers[0].resources.requests.cpu: 2 is more than the limit, '1500m'",
    ),
    "capacity in words": (
        node("capacity", cpu="lots"),
        "Node n1: status.capacity.cpu: 'lots' is not a quantity",
    ),
    "capacity that is a list": (
        node("capacity", cpu=[1]),
        ("Node n1: status.capacity.cpu: expected a whole number or a number or a string, found a list"),
    ),
    "less capacity than none": (
        node("capacity", cpu=-3),
        "Node n1: status.capacity.cpu: expected no less than 0, found -3",
    ),
    "less to give than nothing": (
        node("allocatable", cpu="-5"),
        "Node n1: status.allocatable.cpu: expected no less than 0, found '-5'",
    ),
    "a priority beyond all bounds": (
        pod("spec", "priority", to=2**31),
        "Pod ml/p: spec.priority: expected a whole number of 32 bits, found 2147483648",
    ),
    "a class beyond all bounds": (
        json.dumps(simulator.priority("low", -(2**31) - 1)),
        "PriorityClass low: value: expected a whole number of 32 bits, found -2147483649",
    ),
    "a renewal that is no time": (
        json.dumps(simulator.lease("n1", "yesterday")),
        f"Lease berth-nodes/n1: spec.renewTime: {TIME} 'yesterday'",
    ),
    "a renewal without a zone": (
        json.dumps(simulator.lease("n1", "2026-03-02T08:00:00")),
        f"Lease berth-nodes/n1: spec.renewTime: {TIME} '2026-03-02T08:00:00'",
    ),
    "a deletion that is no time": (
        pod("metadata", "deletionTimestamp", to="x"),
        f"Pod ml/p: metadata.deletionTimestamp: {TIME} 'x'",
    ),
    "a creation on no day": (
        pod("metadata", "creationTimestamp", to="2026-02-30T08:00:00Z"),
        f"Pod ml/p: metadata.creationTimestamp: {TIME} '2026-02-30T08:00:00Z'",
    ),
    "a priority that is text": (
        pod("spec", "priority", to="high"),
        "Pod ml/p: spec.priority: expected a whole number, found 'high'",
    ),
    "a card without a uuid": (
        device("spec", "devices", 1, "uuid", to=None),
        "Device n1: spec.devices[1].uuid is missing",
    ),
    "a card without memory": (
        device("spec", "devices", 0, "memory", to=None),
        f"Device n1: spec.devices: {CARD['uuid']}: memory must be given for a device of type gpu",
    ),
    "a card given twice": (
        device("spec", "devices", to=[CARD, CARD | {"minor": 1, "links": []}]),
        f"Device n1: spec.devices: the uuid {CARD['uuid']} is given twice",
    ),
    "a MIG instance given twice": (
        device("spec", "devices", 0, "mig", to={"enabled": True, "instances": [INSTANCE, INSTANCE]}),
        "Device n1: spec.devices: the uuid MIG-1 is given twice",
    ),
    "a MIG instance named like a card": (
        device(
            "spec",
            "devices",
            0,
            "mig",
            to={"enabled": True, "instances": [INSTANCE | {"uuid": CARD["uuid"]}]},
        ),
        f"Device n1: spec.devices: the uuid {CARD['uuid']} is given twice",
    ),
    "a minor given twice": (
        device("spec", "devices", 1, "minor", to=0),
        "Device n1: spec.devices: the minor 0 of type gpu is given twice",
    ),
    "a health that is none": (
        device("status", to={"devices": [{"uuid": CARD["uuid"], "health": "Fine"}]}),
        (
            "Device n1: status.devices[0].health: "
            "input should be 'Healthy', 'Unhealthy' or 'Unknown', found 'Fine'"
        ),
    ),
    "a Device of another node": (
        device("spec", "node", to="n2"),
        "Device n1: spec.node must be the name of the Device, found 'n2'",
    ),
    "a strategy that is none": (
        json.dumps(POLICY | {"spec": {"strategy": "best"}}),
        (
            "PlacementPolicy default: spec.strategy: input should be "
            "'fragmentation', 'binpack', 'spread' or 'weighted', found 'best'"
        ),
    ),
    "no value": (
        json.dumps(simulator.priority("p", 1) | {"value": None}),
        "PriorityClass p: value is missing",
    ),
    "a Deployment": (
        json.dumps(DEPLOYMENT),
        (
            "Deployment ml/web: no controller is at work here; "
            "give its pods (kubectl get pods -o yaml prints them)"
        ),
    ),
    "a Deployment without a template": (
        json.dumps(DEPLOYMENT | {"spec": {}}),
        (
            "Deployment ml/web: no controller is at work here; "
            "give its pods (kubectl get pods -o yaml prints them)"
        ),
    ),
    "a pod given twice": (simulator.written(POD, POD), "Pod ml/p: it is given twice"),
    "a uid given twice": (
        simulator.written(*(simulator.pod(name, meta={"uid": "u"}) for name in "ab")),
        "Pod ml/b: it has the uid of Pod ml/a",
    ),
    "a terminal's commands": (
        pod("metadata", "name", to="\x1b[2J"),
        "Pod ml/\\x1b[2J: metadata.name: '\\x1b[2J' is not a name",
    ),
}


@pytest.mark.parametrize(("text", "said"), CASES.values(), ids=CASES.keys())
def test_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    """A malformed file is told of in one line, with the object and the field, and nothing is printed."""
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(text)

    assert simulator.run("place", "bad.yaml") == (2, "", f"berth-simulation: bad.yaml: {said}\n")


def test_second_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an object stands in two files, both are named."""
    monkeypatch.chdir(tmp_path)
    simulator.save(Path("a.yaml"), POD)
    simulator.save(Path("b.yaml"), POD)

    answer = simulator.run("place", "a.yaml", "b.yaml")
    assert answer == (2, "", "berth-simulation: b.yaml: Pod ml/p: it is given twice (first in a.yaml)\n")


WORDS: Final = {
    "no file of that name": (["nothing.yaml"], "nothing.yaml: No such file or directory"),
    "an empty folder": (["empty"], "empty: there are no manifests in this folder"),
    "not text": (["binary.yaml"], "binary.yaml: it is not UTF-8 text (byte 0)"),
    "standard input twice": (["-", "--add", "-"], "standard input can be read only once"),
    "no file": ([], "the following arguments are required: FILE (--help tells more)"),
    "an unknown strategy": (
        ["x", "--strategy", "best"],
        (
            "argument --strategy: 'best' is not one of fragmentation, binpack, spread, weighted "
            "(--help tells more)"
        ),
    ),
    "an unknown pod": (["pod.yaml", "--without", "ml/q"], "--without ml/q: there is no such pod"),
}


@pytest.mark.parametrize(("words", "said"), WORDS.values(), ids=WORDS.keys())
def test_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    """A mistake on the command line is one line too."""
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("binary.yaml").write_bytes(b"\xff\xfe")
    simulator.save(Path("pod.yaml"), POD)

    assert simulator.run("place", *words) == (2, "", f"berth-simulation: {said}\n")


GOOD: Final = {
    "null fields": changed(POD, "metadata", "creationTimestamp", to=0)
    | {"metadata": {"name": "p", "labels": None}},
    "a label without a value": changed(POD, "metadata", "labels", to={"a": None} | {"b": ""}),
    "a Deployment from a cluster": changed(DEPLOYMENT, "metadata", "uid", to="u"),
    "a Device of another project": {
        "apiVersion": "example.com/v1",
        "kind": "Device",
        "metadata": {"name": "n1"},
    },
    "another kind without a name": {"apiVersion": "v1", "kind": "Secret"},
    "another kind that is named List": {"apiVersion": "example.com/v1", "kind": "AllowList"},
    "a request below its limit": simulator.pod(
        containers=[{"name": "a", "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2}}}]
    ),
    "a request in other digits": simulator.pod(
        containers=[
            {"name": "a", "resources": {"requests": {"berth.dev/gpu": "50"}, "limits": {"berth.dev/gpu": 50}}}
        ]
    ),
}


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD.keys())
def test_no_mistake(body: simulator.Body) -> None:
    """What the API server would take, or what is none of ours, is no mistake."""
    answer = simulator.run("place", "-", stdin=json.dumps(body))

    assert answer.code == 0, answer.notes
