"""The generated schema is one that the server takes and that people can read."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from berth_crds import schema

UNSTRUCTURED = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "title", "const", "nullable"}


class Field(NamedTuple):
    """One node of a schema, and the way to it."""

    path: str
    node: dict[str, Any]


def walk(node: dict[str, Any], path: str) -> Iterator[Field]:
    """Yield a node and all below it; items and values of maps have a path of their own."""
    yield Field(path, node)
    inner = [(f"{path}[]", node[name]) for name in ("items", "additionalProperties") if name in node]
    named = [(f"{path}.{name}", below) for name, below in node.get("properties", {}).items()]
    for way, below in (*named, *inner):
        yield from walk(below, way)


def fields(kind: schema.Kind) -> list[Field]:
    """Return every node of a kind's schema but metadata, which is the server's."""
    (version,) = schema.manifest(kind)["spec"]["versions"]
    root = version["schema"]["openAPIV3Schema"]
    return [
        field for field in walk(root, kind.resource.kind) if field.path != f"{kind.resource.kind}.metadata"
    ]


every_kind = pytest.mark.parametrize("kind", schema.KINDS, ids=lambda kind: kind.resource.kind)


@every_kind
def test_every_node_has_one_type_and_no_alternatives(kind: schema.Kind) -> None:
    """The schema is structural: everything in place, one type each, and no quantity is ever a float."""
    for path, node in fields(kind):
        assert not UNSTRUCTURED & set(node), path
        assert node["type"] != "number", path
        assert node["type"] != "integer" or node["format"] == "int64", path


@every_kind
def test_every_field_explains_itself(kind: schema.Kind) -> None:
    """`kubectl explain` has a full sentence for every field at every level."""
    named = [field for field in fields(kind) if not field.path.endswith("[]")]

    assert len(named) > 20
    for path, node in named:
        assert node.get("description", "").endswith((".", "berth.dev/v1alpha1")), path


@every_kind
def test_every_list_and_string_is_bounded(kind: schema.Kind) -> None:
    """The server can reckon what a rule costs, because nothing under it grows without bound."""
    below = [field for field in fields(kind) if field.path.split(".")[1:2] in (["spec"], ["status"])]

    assert len(below) > 15
    for path, node in below:
        assert node["type"] != "array" or "maxItems" in node, path
        assert "additionalProperties" not in node or "maxProperties" in node, path
        assert node["type"] != "string" or {"maxLength", "enum", "format"} & set(node), path


@every_kind
def test_conditions_are_short(kind: schema.Kind) -> None:
    """A condition is a sentence, and an object has few of them."""
    found = {field.path: field.node for field in fields(kind)}

    assert found[f"{kind.resource.kind}.status.conditions"]["maxItems"] == 16
    assert found[f"{kind.resource.kind}.status.conditions[].message"]["maxLength"] == 1024


@every_kind
def test_every_list_has_a_way_to_merge(kind: schema.Kind) -> None:
    """Server-side apply knows of each list whether it is a map, a set or one piece."""
    lists = [field for field in fields(kind) if field.node["type"] == "array"]

    assert lists
    for path, node in lists:
        keys, merged = node.get("x-kubernetes-list-map-keys", []), node["x-kubernetes-list-type"]
        assert merged == "map" if keys else merged in {"set", "atomic"}, path
        assert set(keys) <= set(node["items"].get("required", [])), path


@every_kind
def test_required_fields_exist_and_have_no_default(kind: schema.Kind) -> None:
    """What is required is a field of the object, and nothing fills it in silently."""
    for path, node in fields(kind):
        required = node.get("required", [])

        assert set(required) <= set(node.get("properties", {})), path
        assert not [name for name in required if "default" in node["properties"][name]], path


def test_only_policies_have_defaults() -> None:
    """What an agent did not write is absent, never made up by the server."""
    defaulted = {kind.resource.kind for kind in schema.KINDS for _, node in fields(kind) if "default" in node}

    assert defaulted == {"PlacementPolicy"}


@every_kind
def test_every_rule_has_one_sentence_for_people(kind: schema.Kind) -> None:
    """Whoever breaks a rule reads words, not CEL."""
    rules = [rule for _, node in fields(kind) for rule in node.get("x-kubernetes-validations", [])]

    for rule in rules:
        assert set(rule) == {"rule", "message"}
        assert len(rule["message"].split()) >= 6
        assert "self" not in rule["message"].replace("itself", "")
        assert "\n" not in rule["message"]
    assert rules


def test_names_do_not_collide() -> None:
    """No short name, plural or singular of ours is used twice, or by Kubernetes itself."""
    taken = [
        "po",
        "pods",
        "no",
        "nodes",
        "ds",
        "deploy",
        "dev",
        "pc",
        "pdb",
        "pv",
        "pvc",
        "ns",
        "sa",
        "sts",
        "rs",
        "rc",
    ]

    ours = [
        name
        for kind in schema.KINDS
        for name in {*kind.short_names, kind.resource.plural, kind.resource.kind.lower()}
    ]

    assert len(set(ours)) == len(ours)
    assert not set(ours) & set(taken)
