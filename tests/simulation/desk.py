"""The simulation as people use it, in this process: words and files in, text out."""

import contextlib
import gc
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec
import yaml

from berth_agent import device_spec, simulated
from berth_operator.simulation import __main__ as program

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "manifests" / "examples"
Body = dict[str, Any]


class Answer(tuple[int, str, str]):
    """Exit code, output, and what was told beside it."""

    __slots__ = ()

    @property
    def code(self) -> int:
        """The exit code."""
        return self[0]

    @property
    def out(self) -> str:
        """What was printed."""
        return self[1]

    @property
    def notes(self) -> str:
        """What was printed beside it."""
        return self[2]

    @property
    def objects(self) -> list[Body]:
        """What was printed as JSON Lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def run(*words: object, stdin: str = "") -> Answer:
    """Run the program."""
    out, notes = io.StringIO(), io.StringIO()
    typed = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    with mock.patch("sys.stdin", typed), contextlib.redirect_stdout(out), contextlib.redirect_stderr(notes):
        code = program.main([str(word) for word in words])
    gc.enable()
    return Answer((code, out.getvalue(), notes.getvalue()))


def place(*objects: Body, words: Sequence[object] = ()) -> list[Body]:
    """Place pods and give what is said of each."""
    answer = run("place", "-", "-o", "json", *words, stdin=written(*objects))
    assert answer.code == 0, answer.notes
    return answer.objects


def written(*objects: Body) -> str:
    """Write objects as a list in JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def save(path: Path, *objects: Body) -> Path:
    """Write objects to a file of YAML, one document for each."""
    path.write_text(yaml.safe_dump_all(objects))
    return path


# ---------------------------------------------------------------- objects


def node(name: str = "n1", *, labels: Mapping[str, str] = {}, **amounts: object) -> Body:
    """Give a Node."""
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"} | amounts
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels)},
        "status": {"allocatable": allocatable},
    }


def device(name: str = "n1", shape: str = "4xT4", **status: object) -> Body:
    """Give a Device of simulated cards."""
    spec = device_spec.spec(name, simulated.machine(name, shape), None)
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": json.loads(msgspec.json.encode(spec)),
        "status": dict(status),
    }


def both(name: str = "n1", shape: str = "4xT4") -> tuple[Body, Body]:
    """Give a Node and its Device."""
    return node(name), device(name, shape)


def cards(of: Body) -> list[str]:
    """List the uuids of a Device's cards."""
    return [card["uuid"] for card in of["spec"]["devices"]]


def pod(
    name: str = "p",
    limits: Mapping[str, object] = {"nvidia.com/gpu": 1},
    *,
    annotations: Mapping[str, str] = {},
    meta: Mapping[str, object] = {},
    phase: str = "Pending",
    **spec: object,
) -> Body:
    """Give a pod of ours with one container; the rest is its spec."""
    container = {"name": "main", "image": "example.com/work", "resources": {"limits": dict(limits)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "annotations": dict(annotations)} | dict(meta),
        "spec": {"schedulerName": "berth-scheduler", "containers": [container]} | spec,
        "status": {"phase": phase},
    }


def gpupod(name: str, uid: str, *minors: int, at: str = "n1", namespace: str = "ml") -> Body:
    """Give the GpuPod of a pod, naming cards of its node."""
    listed = device(at)["spec"]["devices"]
    held = [
        {key: listed[minor][key] for key in ("uuid", "minor", "type", "memory")} | {"core": 100}
        for minor in minors
    ]
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "GpuPod",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "spec": {"node": at, "podUID": uid, "containers": [{"name": "main", "devices": held}]},
    }


def lease(name: str, renewed: str = "") -> Body:
    """Give the Lease of a node's agent."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "berth-nodes"},
        "spec": {"renewTime": renewed} if renewed else {},
    }


def priority(name: str, value: int, **fields: object) -> Body:
    """Give a PriorityClass."""
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return about | {"value": value} | fields


def went(told: Sequence[Body]) -> dict[str, str | None]:
    """Say where each pod went."""
    return {one["pod"]: one["node"] for one in told}
