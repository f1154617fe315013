"""Values that are made quickly are the values of the dataclass in all else."""

import dataclasses

import pytest

from berth_operator.scheduling import values


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class Thing:
    """A value with each way of declaring a field."""

    name: str
    count: int = 1
    parts: list[str] = dataclasses.field(default_factory=list)
    note: str = dataclasses.field(default="", compare=False)
    last: str = dataclasses.field(default="z", kw_only=True)


def test_defaults_are_those_of_the_dataclass() -> None:
    """Each value has a list of its own."""
    one, other = Thing("a"), Thing("b", 2, ["x"], last="y")

    assert dataclasses.astuple(one) == ("a", 1, [], "", "z")
    assert dataclasses.astuple(other) == ("b", 2, ["x"], "", "y")
    assert one.parts is not Thing("a").parts


def test_values_are_compared_and_replaced_as_before() -> None:
    """What does not count in a comparison still does not."""
    assert Thing("a", note="x") == Thing("a")
    assert dataclasses.replace(Thing("a"), count=3) == Thing("a", 3)
    assert repr(Thing("a")) == "Thing(name='a', count=1, parts=[], note='', last='z')"


def test_equal_values_have_equal_hashes() -> None:
    """As of any frozen dataclass."""

    @values.quickly_made
    @dataclasses.dataclass(frozen=True)
    class Pair:
        first: int
        second: int = 0

    assert {Pair(1), Pair(1, 0)} == {Pair(1)}


def test_fields_that_are_missing_or_unknown_are_refused() -> None:
    """By the name that people see."""
    with pytest.raises(TypeError, match="name"):
        Thing()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="size"):
        Thing("a", size=1)  # type: ignore[call-arg]


def test_a_class_that_does_more_when_it_is_made_is_refused() -> None:
    """Nobody would call it."""

    @dataclasses.dataclass(frozen=True)
    class Counted:
        name: str

        def __post_init__(self) -> None:
            raise AssertionError

    with pytest.raises(TypeError, match="Counted has a __post_init__"):
        values.quickly_made(Counted)
