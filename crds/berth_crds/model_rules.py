"""What the models of all three kinds have in common.

The pydantic models in `device`, `gpupod` and `policy` are the source of the CRDs: a
docstring under a field becomes its description in `kubectl explain`, a constraint
becomes part of the schema, and what pydantic has no words for (lists that are maps,
rules across fields) is attached with the helpers below, in the words of the API server.

Three habits keep the schema acceptable to the server. Every string and list is bounded,
because the cost of a rule is reckoned from those bounds. An optional field is absent,
never null. And a list with an identity names its key, so that server-side apply merges
it entry by entry and refuses an identity listed twice.
"""

from typing import Annotated, Any, Final, NamedTuple

import pydantic
from pydantic import alias_generators

from berth_crds import schema_limits, vocabulary

VALIDATIONS: Final = "x-kubernetes-validations"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"


class Model(pydantic.BaseModel):
    """Base of all models: immutable, camelCase outside, docstrings as descriptions.

    Unknown fields are ignored, so that an older reader survives a newer writer.
    """

    model_config = pydantic.ConfigDict(
        alias_generator=alias_generators.to_camel,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class Rule(NamedTuple):
    """A rule that spans fields, in CEL, and the sentence that a person reads when it fails."""

    rule: str
    message: str


def validations(*rules: Rule) -> dict[str, Any]:
    """Attach rules to a model or a field, as its `json_schema_extra`."""
    return {VALIDATIONS: [rule._asdict() for rule in rules]}


def all_different(entries: str, field: str) -> str:
    """Return, in CEL, that the entries of a list all differ in a field, if there is such a list.

    A list of one list is a variable, and one list is asked about another as a whole: going through
    them entry by entry costs many times as much.
    """
    return (
        f"!has(self.{entries}) || [self.{entries}.map(entry, entry.{field})]"
        ".all(found, found.all(one, found.indexOf(one) == found.lastIndexOf(one)))"
    )


def map_list(*keys: str, at_most: int = schema_limits.MOST_ENTRIES) -> Any:
    """Describe a list whose entries have an identity: the server merges it as a map."""
    return pydantic.Field(max_length=at_most, json_schema_extra={LIST_TYPE: "map", LIST_KEYS: list(keys)})


def set_list(at_most: int = schema_limits.MOST_ENTRIES) -> Any:
    """Describe a list of plain values, each at most once."""
    return pydantic.Field(max_length=at_most, json_schema_extra={LIST_TYPE: "set"})


def atomic_list(at_most: int = schema_limits.MOST_ENTRIES, at_least: int = 0) -> Any:
    """Describe a list that has one writer and is replaced as a whole."""
    return pydantic.Field(
        min_length=at_least or None, max_length=at_most, json_schema_extra={LIST_TYPE: "atomic"}
    )


def text(most: int, pattern: str | None = None, *, least: int = 1) -> Any:
    """Describe a bounded string; an optional one is absent rather than empty."""
    return pydantic.StringConstraints(min_length=least or None, max_length=most, pattern=pattern)


def formatted(text_format: schema_limits.TextFormat) -> Any:
    """Describe a string of a format."""
    return text(text_format.longest, text_format.schema_pattern)


def integer(least: int, most: int) -> Any:
    """Describe a whole number within bounds; true and 1.0 are not numbers here."""
    return pydantic.Field(ge=least, le=most, strict=True)


Uuid = Annotated[str, formatted(schema_limits.UUID)]
NodeName = Annotated[str, formatted(schema_limits.DNS_SUBDOMAIN)]
DeviceType = Annotated[str, formatted(schema_limits.DNS_LABEL)]
MigProfile = Annotated[str, formatted(schema_limits.MIG_PROFILE)]
BusId = Annotated[str, formatted(schema_limits.BUS_ID)]
Reason = Annotated[str, formatted(schema_limits.REASON)]
Sentence = Annotated[str, text(schema_limits.LONGEST_MESSAGE, least=0)]
Flag = Annotated[bool, pydantic.Field(strict=True)]
Minor = Annotated[int, integer(0, schema_limits.LARGEST_MINOR)]
Bytes = Annotated[int, integer(0, schema_limits.LARGEST_MEMORY)]
Xid = Annotated[int, integer(1, schema_limits.LARGEST_XID)]
Labels = Annotated[
    dict[str, Annotated[str, text(schema_limits.LONGEST_LABEL, least=0)]], pydantic.Field(max_length=64)
]
Moment = Annotated[
    str,
    pydantic.StringConstraints(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
    ),
    pydantic.WithJsonSchema({"type": "string", "format": "date-time"}),
]


class OwnerReference(Model):
    """Who owns an object, so that it goes when the owner goes."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: Flag = False


class Meta(Model):
    """The part of the standard object metadata that Berth reads or writes."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Annotated[int, pydantic.Field(strict=True)] = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = pydantic.Field(default_factory=dict)
    annotations: dict[str, str] = pydantic.Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()


class Object(Model):
    """What every kind of object has beside its own fields."""

    api_version: str = ""
    """API group and version of this object: berth.dev/v1alpha1."""

    kind: str = ""
    """Kind of this object."""

    metadata: Meta
    """Standard object metadata."""


class Condition(Model):
    """One aspect of the object, as its writer last found it."""

    type: Annotated[str, formatted(schema_limits.CONDITION_TYPE)]
    """Name of the aspect, in CamelCase; there is one entry for each."""

    status: vocabulary.Truth
    """Whether it is so: "True", "False", or "Unknown" where the writer could not find out."""

    reason: Reason | None = None
    """One CamelCase word, for programs, on why the status is what it is."""

    message: Sentence = ""
    """A sentence, for people, on why the status is what it is."""

    last_transition_time: Moment | None = None
    """When the status last changed from one value to another; not when it was last checked."""

    observed_generation: Annotated[int, integer(0, 2**63 - 1)] = 0
    """The metadata.generation that the writer looked at; absent where spec plays no part."""


Conditions = Annotated[tuple[Condition, ...], map_list("type", at_most=16)]
