"""The simulation as people use it, in this process: words and files in, text out."""

import contextlib
import functools
import gc
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

import msgspec
import yaml

from berth_agent import device_spec, simulated
from berth_crds import names
from berth_operator.simulation import __main__ as program
from support import manifests

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "manifests" / "examples"
Body = dict[str, Any]


class Answer(NamedTuple):
    """Exit code, what was printed, and what was printed beside it."""

    code: int
    out: str
    notes: str

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
    return Answer(code, out.getvalue(), notes.getvalue())


def run_on(objects: Sequence[Body], *words: object) -> Answer:
    """Place pods; the program must end well."""
    answer = run("place", "-", *words, stdin=written(*objects))
    assert answer.code == 0, answer.notes
    return answer


def place(*objects: Body, words: Sequence[object] = ()) -> list[Body]:
    """Place pods and return what is printed of each."""
    return run_on(objects, "-o", "json", *words).objects


def written(*objects: Body) -> str:
    """Write objects as a list in JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def save(path: Path, *objects: Body) -> Path:
    """Write objects to a file of YAML, one document for each."""
    path.write_text(yaml.dump_all(objects, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)))
    return path


# ---------------------------------------------------------------- objects


node = manifests.node
lease = manifests.lease
priority = manifests.priority_class
pod = functools.partial(manifests.pod, namespace="ml", phase="Pending")


def device(name: str = "n1", shape: str = "4xT4", **status: object) -> Body:
    """Return a Device of simulated cards."""
    spec = device_spec.spec(name, simulated.machine(name, shape), None)
    return manifests.own("Device", name, spec=json.loads(msgspec.json.encode(spec))) | {"status": status}


def both(name: str = "n1", shape: str = "4xT4") -> tuple[Body, Body]:
    """Return a Node and its Device."""
    return node(name), device(name, shape)


def advertising(count: int) -> Body:
    """Return a Node that advertises so many cards of its own accord."""
    amounts: Body = {names.NVIDIA_GPU: count}
    return node(**amounts)


def cards(of: Body) -> list[str]:
    """Return the uuids of a Device's cards."""
    return [card["uuid"] for card in of["spec"]["devices"]]


def gpupod(name: str, uid: str, *minors: int, at: str = "n1", namespace: str = "ml") -> Body:
    """Return the GpuPod of a pod, which names cards of its node."""
    meta = {"namespace": namespace} if namespace else {}
    return manifests.gpupod(name, uid, at, *minors, of=device(at), **meta)


def nodes(answers: Sequence[Body]) -> dict[str, str | None]:
    """Return the node of each pod."""
    return {one["pod"]: one["node"] for one in answers}
