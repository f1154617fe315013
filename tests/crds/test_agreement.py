"""What the models allow survives the wire, and they refuse what the server would."""

import json
from collections.abc import Iterator
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from berth_crds import device, gpupod, model_rules, policy, schema, wire
from crds import example_objects
from support import thorough

PAIRS = [
    pytest.param(device.Device, wire.Device, id="Device"),
    pytest.param(gpupod.GpuPod, wire.GpuPod, id="GpuPod"),
    pytest.param(policy.PlacementPolicy, wire.PlacementPolicy, id="PlacementPolicy"),
]


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


def without_kind(thing: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its version and kind, which its path says."""
    return {key: value for key, value in thing.items() if key not in {"apiVersion", "kind"}}


@pytest.mark.parametrize(("model", "struct"), PAIRS)
@hypothesis.settings(max_examples=thorough.examples(60), suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(data=st.data())
def test_a_valid_object_survives_the_wire(
    model: type[model_rules.Model], struct: type[wire.Struct], data: st.DataObject
) -> None:
    """Whatever is valid comes out of decoding and encoding as the same object."""
    sent = without_kind(data.draw(values(schema.structural(model))))

    received = msgspec.json.encode(msgspec.json.decode(json.dumps(sent), type=struct))

    assert model.model_validate_json(received) == model.model_validate_json(json.dumps(sent))


@pytest.mark.parametrize(("model", "struct"), PAIRS)
def test_zeros_and_falses_are_always_sent(model: type[model_rules.Model], struct: type[wire.Struct]) -> None:
    """A value that means something when it is zero or false is never left out on the way."""
    sent = without_kind(example_objects.example(model.__name__.lower()))

    received = json.loads(msgspec.json.encode(msgspec.json.decode(json.dumps(sent), type=struct)))

    assert set(falsy(sent)) == set(falsy(received)) != set()
    assert model.model_validate(received) == model.model_validate(sent)


def falsy(value: Any, path: str = "") -> Iterator[str]:
    """Yield every zero and every false in an object."""
    if isinstance(value, dict | list):
        for name, below in value.items() if isinstance(value, dict) else enumerate(value):
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
def test_models_refuse_what_is_nearly_right(field: str, wrong: object) -> None:
    """Python coerces nothing: what the server would refuse, the models refuse."""
    card = example_objects.example("device")["spec"]["devices"][0] | {field: wrong}

    with pytest.raises(ValueError, match=field):
        device.Card.model_validate(card)


def test_models_ignore_fields_of_a_newer_writer() -> None:
    """An older operator can read what a newer agent wrote."""
    known, newer = (example_objects.example("device") for _ in range(2))
    newer["spec"]["devices"][0]["colour"] = "green"

    assert device.Device.model_validate(newer) == device.Device.model_validate(known)
