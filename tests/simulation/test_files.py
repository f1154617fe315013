"""Where manifests come from: files, folders, standard input; YAML, JSON, lists of all sorts."""

import json
from pathlib import Path

import pytest
import yaml

from simulation import simulator
from support import deep

OBJECTS = *simulator.both("n1"), simulator.pod("a"), simulator.pod("b")
LIST = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": OBJECTS}
EXPECTED = {"ml/a": "n1", "ml/b": "n1"}


def went(*words: object, stdin: str = "") -> dict[str, str | None]:
    """Return where each pod went."""
    answer = simulator.run("place", *words, "-o", "json", stdin=stdin)
    assert answer.code == 0, answer.notes
    return simulator.nodes(answer.objects)


TEXTS = {
    "documents of YAML": yaml.safe_dump_all(OBJECTS),
    "a list in YAML": yaml.safe_dump(LIST),
    "a list in JSON": json.dumps(LIST),
    "JSON with a byte order mark": "\ufeff" + json.dumps(LIST),
    "documents of JSON": "\n".join(json.dumps(one, indent=1) for one in OBJECTS),
    "YAML in braces": "{apiVersion: v1, kind: List, items: [" + ", ".join(map(json.dumps, OBJECTS)) + "]}",
    "a list of lists": json.dumps({"apiVersion": "v1", "kind": "List", "items": [LIST]}),
    "windows lines": yaml.safe_dump_all(OBJECTS).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_texts(tmp_path: Path, text: str) -> None:
    """The same objects are found however they are written, in a file and on standard input."""
    file = tmp_path / "objects"
    file.write_text(text, newline="")

    assert went(file) == EXPECTED
    assert went("-", stdin=text) == EXPECTED


def test_deep_objects() -> None:
    """An object of a cluster may have managed fields of any depth; where it is no JSON, that is a mistake."""
    bodies = [deep.managed(one).decode() for one in OBJECTS]

    assert went("-", stdin="\n".join(bodies)) == EXPECTED
    assert went("-", stdin="\n".join([json.dumps(OBJECTS[0]), *bodies[1:]])) == EXPECTED
    assert went("-", stdin=json.dumps(LIST).replace(json.dumps(OBJECTS[0]), bodies[0])) == EXPECTED
    broken = simulator.run("place", "-", stdin=bodies[0][:-2])
    assert (broken.code, "not JSON" in "".join(broken.notes)) == (2, True)


def test_typed_list() -> None:
    """In a list of one kind, as the API itself gives it, the items need not say what they are."""
    pods = [{key: value for key, value in one.items() if key in {"metadata", "spec"}} for one in OBJECTS[2:]]
    listed = {"apiVersion": "v1", "kind": "PodList", "items": pods}

    assert went("-", stdin=simulator.written(*OBJECTS[:2], listed)) == EXPECTED


def test_folder(tmp_path: Path) -> None:
    """A folder stands for the manifests in it and in its folders, by name; the rest is left alone."""
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    names = "z.yaml", "deep/2.json", "deep/deeper/3.yml", "deep/deeper/1.yaml"
    for name, one in zip(names, OBJECTS, strict=True):
        (tmp_path / name).write_text(json.dumps(one))
    for name in ("README.md", "deep/trace.jsonl"):
        (tmp_path / name).write_text("no manifest: [")

    found = went(tmp_path)

    assert found == EXPECTED
    assert list(found) == ["ml/b", "ml/a"]
