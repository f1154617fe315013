"""From the models to the source of `wire`, the structs by which objects are sent and received.

A struct has the fields of its model, in the same order but that what is required comes first. The
version and kind of an object are left out: its path says both. Words of a vocabulary are plain texts,
and nothing is checked. A text that may be absent is empty then, but for the few of `NULLABLE`. Only
defaults that mean nothing and rules of a policy have a default here: what means something when it is
zero or false (a minor, a count) is required, so that it is always sent.
"""

import enum
import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Final, Union, get_args, get_origin

import pydantic
from pydantic import alias_generators, fields

from berth_crds import model_rules, schema

Model = type[pydantic.BaseModel]

PREAMBLE: Final = '''\
"""The kinds as they travel: small structs that decode fast and cost the collector nothing.

Agent and operator read and write these on their hot paths. The pydantic models in `device`,
`gpupod` and `policy` are the source; `wire_source` makes this module from them. Every struct
here is acyclic, hence `gc=False`, and unknown fields are ignored on the way in. Values that
mean something when they are zero or false (minor 0, counts) have no default that would drop
them on the way out.
"""

import msgspec


class Struct(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, rename="camel"):
    """Base of all wire structs: immutable, camelCase outside, defaults not sent."""
'''
NULLABLE: Final = frozenset({"Meta.deletion_timestamp", "Topology.pcie_root", "Topology.bus_id"})
OBJECT: Final = model_rules.Object.model_fields.keys() - {"metadata"}  # The version and the kind.


def text() -> str:
    """Return the source of `wire`."""
    return "\n\n".join((schema.HEADER + PREAMBLE, *map(_struct, _models())))


def _models() -> list[Model]:
    """Return all models, each after those that it has fields of, and what all kinds share first."""
    ordered: dict[Model, None] = {}
    for kind in schema.KINDS:
        _collect(kind.model, ordered)
    return sorted(ordered, key=lambda model: model.__module__ != model_rules.__name__)


def _collect(model: Model, ordered: dict[Model, None]) -> None:
    for field in model.model_fields.values():
        for inner in _models_in(field.annotation):
            _collect(inner, ordered)
    ordered.setdefault(model)


def _models_in(annotation: Any) -> Iterator[Model]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _struct(model: Model) -> str:
    described = (model.__doc__ or "").splitlines()[0]
    found = (each for each in model.model_fields.items() if each[1].is_required() or each[0] not in OBJECT)
    ordered = sorted(found, key=lambda item: not item[1].is_required())
    lines = "".join(f"    {_field(model, name, field)}\n" for name, field in ordered)
    return f'class {model.__name__}(Struct, frozen=True):\n    """{described}"""\n\n{lines}'


def _field(model: Model, name: str, field: fields.FieldInfo) -> str:
    kind, default = _type(field.annotation), _default(field)
    if default == "None" and kind == "str" and f"{model.__name__}.{name}" not in NULLABLE:
        default = '""'
    declared = f"{name}: {kind} | None" if default == "None" else f"{name}: {kind}"
    if field.alias != alias_generators.to_camel(name):
        leading = f"default={default}, " if default else ""
        return f'{declared} = msgspec.field({leading}name="{field.alias}")'
    return f"{declared} = {default}" if default else declared


def _type(annotation: Any) -> str:
    """Return a type as a struct has it, whether or not it may be absent."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Annotated, Union, types.UnionType}:
        return _type(arguments[0])
    if origin is tuple:
        return f"tuple[{_type(arguments[0])}, ...]"
    if origin is dict:
        return f"dict[{', '.join(map(_type, arguments))}]"
    return "str" if issubclass(annotation, enum.Enum) else str(annotation.__name__)


def _default(field: fields.FieldInfo) -> str:
    """Return the expression for a field's default; empty where it is required."""
    if field.is_required():
        return ""
    default = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(default, pydantic.BaseModel):
        return f"{type(default).__name__}()"
    if isinstance(default, tuple) and default:
        return f"({', '.join(map(_literal, default))},)"
    return _literal(default)


def _literal(value: object) -> str:
    """Return a value as the formatter of the code has it, with double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)
