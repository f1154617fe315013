"""The wire structs and the pydantic models say the same, field by field and value by value."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st
from msgspec import inspect

from berth_crds import device, device_status, gpupod, model_rules, policy, schema, wire

PAIRS = [
    pytest.param(device.Device, wire.Device, id="Device"),
    pytest.param(gpupod.GpuPod, wire.GpuPod, id="GpuPod"),
    pytest.param(policy.PlacementPolicy, wire.PlacementPolicy, id="PlacementPolicy"),
]
Shape = Any  # a word, or a pair of list or map with what is inside, or a mapping of fields


def shape_of_schema(node: schema.Schema) -> Shape:
    """Reduce a schema to its fields, their types, and whether they must be there."""
    if node["type"] == "array":
        return ("list", shape_of_schema(node["items"]))
    if "additionalProperties" in node:
        return ("map", shape_of_schema(node["additionalProperties"]))
    if node["type"] == "object":
        required = node.get("required", [])
        return {
            name: (name in required, shape_of_schema(below)) for name, below in node["properties"].items()
        }
    return node["type"]


def shape_of_wire(kind: inspect.Type) -> Shape:
    """Reduce a wire struct in the same way."""
    match kind:
        case inspect.UnionType(types=types):
            (only,) = (choice for choice in types if not isinstance(choice, inspect.NoneType))
            return shape_of_wire(only)
        case inspect.VarTupleType(item_type=item):
            return ("list", shape_of_wire(item))
        case inspect.DictType(value_type=value):
            return ("map", shape_of_wire(value))
        case inspect.StructType(fields=fields):
            return {field.encode_name: (field.required, shape_of_wire(field.type)) for field in fields}
        case inspect.StrType():
            return "string"
        case inspect.BoolType():
            return "boolean"
        case inspect.IntType():
            return "integer"
    raise AssertionError(f"the wire has a type that the schema cannot have: {kind}")


def values(node: schema.Schema) -> st.SearchStrategy[Any]:
    """Generate what a schema allows, as plain JSON values."""
    if "enum" in node:
        return st.sampled_from(node["enum"])
    match node["type"]:
        case "array":
            most = min(node.get("maxItems", 3), 3)
            return st.lists(values(node["items"]), min_size=node.get("minItems", 0), max_size=most)
        case "object":
            return objects(node)
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(node.get("minimum", -(2**63)), node.get("maximum", 2**63 - 1))
        case _:
            return texts(node)


def objects(node: schema.Schema) -> st.SearchStrategy[Any]:
    """Generate maps and objects; what is optional is sometimes absent."""
    if "additionalProperties" in node:
        return st.dictionaries(st.text(max_size=5), values(node["additionalProperties"]), max_size=3)
    required = set(node.get("required", []))
    below = {name: values(field) for name, field in node["properties"].items()}
    return st.fixed_dictionaries(
        {name: value for name, value in below.items() if name in required},
        optional={name: value for name, value in below.items() if name not in required},
    )


def texts(node: schema.Schema) -> st.SearchStrategy[str]:
    """Generate strings within their pattern and length."""
    if node.get("format") == "date-time":
        return st.datetimes().map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%SZ}".zfill(20))
    most = node.get("maxLength", 20)
    if "pattern" in node:
        return st.from_regex(node["pattern"].rstrip("$"), fullmatch=True).filter(
            lambda text: text.isascii() and node.get("minLength", 0) <= len(text) <= most
        )
    return st.text(min_size=node.get("minLength", 0), max_size=min(most, 20))


@pytest.mark.parametrize(("model", "struct"), PAIRS)
def test_both_have_the_same_fields(model: type[model_rules.Model], struct: type[wire.Struct]) -> None:
    """No name, type or requirement differs between what is validated and what is sent."""
    of_schema = shape_of_schema(schema.structural(model))

    of_wire = shape_of_wire(inspect.type_info(struct))

    assert of_wire == of_schema


@pytest.mark.parametrize(
    ("model", "struct"),
    [
        pytest.param(policy.PolicySpec, wire.PolicySpec, id="rules of a policy"),
        pytest.param(device_status.DeviceStatus, wire.DeviceStatus, id="status of a Device"),
        pytest.param(gpupod.GpuPodStatus, wire.GpuPodStatus, id="status of a GpuPod"),
        pytest.param(policy.PolicyStatus, wire.PolicyStatus, id="status of a policy"),
    ],
)
def test_both_mean_the_same_by_absence(model: type[model_rules.Model], struct: type[wire.Struct]) -> None:
    """A reader on the hot path and one on the cold path fill in the same defaults."""
    validated = model.model_validate({}).model_dump(mode="json", by_alias=True)

    decoded = struct()

    assert without_nothing(everything(decoded)) == without_nothing(validated)


def everything(value: Any) -> Any:
    """Turn a struct into plain values without leaving defaults out."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return {field.encode_name: everything(getattr(value, field.name)) for field in fields}
    return [everything(entry) for entry in value] if isinstance(value, tuple) else value


def without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what says nothing: the wire says it by an empty string, the models by None."""
    return {
        name: without_nothing(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value not in (None, "", [], {})
    }


@pytest.mark.parametrize(("model", "struct"), PAIRS)
@hypothesis.settings(max_examples=60, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(data=st.data())
def test_a_valid_object_survives_the_wire(
    model: type[model_rules.Model], struct: type[wire.Struct], data: st.DataObject
) -> None:
    """Whatever is valid comes out of decoding and encoding as the same object."""
    sent = json.dumps(data.draw(values(schema.structural(model))))

    received = msgspec.json.encode(msgspec.json.decode(sent, type=struct))

    assert model.model_validate_json(received) == model.model_validate_json(sent)


@pytest.mark.parametrize(("model", "struct"), PAIRS)
def test_zeros_and_falses_are_always_sent(
    model: type[model_rules.Model], struct: type[wire.Struct], example: Callable[[str], dict[str, Any]]
) -> None:
    """A value that means something when it is zero or false is never left out on the way."""
    sent = example(model.__name__.lower())

    received = json.loads(msgspec.json.encode(msgspec.json.decode(json.dumps(sent), type=struct)))

    assert list(falsy(sent))
    assert set(falsy(sent)) == set(falsy(received))
    assert model.model_validate(received) == model.model_validate(sent)


def falsy(value: Any, path: str = "") -> Iterator[str]:
    """Name every zero and every false in an object."""
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for name, below in inside:
            yield from falsy(below, f"{path}.{name}")
    elif value is False or value == 0:
        yield path


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        pytest.param("minor", True, id="true is not a number"),
        pytest.param("minor", 1.0, id="a float is not a number"),
        pytest.param("minor", "1", id="a string is not a number"),
        pytest.param("minor", None, id="null is not a number"),
        pytest.param("uuid", "GPU-1,GPU-2", id="a comma would split a list of uuids"),
        pytest.param("uuid", "", id="an empty string is no identity"),
        pytest.param("memory", 0, id="a card without memory"),
    ],
)
def test_models_refuse_what_is_nearly_right(
    field: str, wrong: object, example: Callable[[str], dict[str, Any]]
) -> None:
    """Python coerces nothing: what the server would refuse, the models refuse."""
    card = example("device")["spec"]["devices"][0] | {field: wrong}

    with pytest.raises(ValueError, match=field):
        device.Card.model_validate(card)


def test_models_ignore_fields_of_a_newer_writer(example: Callable[[str], dict[str, Any]]) -> None:
    """An older operator can read what a newer agent wrote."""
    known = example("device")
    newer = json.loads(json.dumps(known))
    newer["spec"]["devices"][0]["colour"] = "green"

    read = device.Device.model_validate(newer)

    assert read == device.Device.model_validate(known)
