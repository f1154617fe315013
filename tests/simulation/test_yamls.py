"""YAML is read as kubectl reads it, and what the simulation writes is read back the same."""

from typing import Any, Final

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from berth_operator.simulation import reports, yamls
from berth_operator.simulation.input_errors import InputError

GOOD: Final[dict[str, tuple[str, Any]]] = {
    "nothing": ("", []),
    "empty documents": ("---\n---\n", [None, None]),
    "several documents": ("a: 1\n---\nb: 2\n...\n", [{"a": 1}, {"b": 2}]),
    "plain scalars": (
        "[1, -2, +3, 1.5, .5, 1e3, true, No, on, null, ~, text, 1Gi, 500m]",
        [[1, -2, 3, 1.5, 0.5, 1000.0, True, False, True, None, None, "text", "1Gi", "500m"]],
    ),
    "numbers in other bases": ("[0x1F, 0644, 0o17, 0b101, -0x10]", [[31, 420, 15, 5, -16]]),
    "quoted scalars": ("['1', \"true\", '']", [["1", "true", ""]]),
    "tagged scalars": ("[!!str 1, !!int '2', !!str true]", [["1", 2, "true"]]),
    "bus ids are text": ("busID: 0000:10:00.0", [{"busID": "0000:10:00.0"}]),
    "moments are text": ("at: 2026-03-02T08:00:00Z", [{"at": "2026-03-02T08:00:00Z"}]),
    "keys are text": ("{1: a, true: b}", [{"1": "a", "true": "b"}]),
    "anchors": ("a: &x [1]\nb: *x", [{"a": [1], "b": [1]}]),
    "merge keys": (
        "a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}\ne:\n  <<: [{b: 1}, {b: 2, c: 3}]",
        [{"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}, "e": {"b": 1, "c": 3}}],
    ),
    "block text": ("a: |\n  x\n  y\n", [{"a": "x\ny\n"}]),
}


@pytest.mark.parametrize(("text", "values"), GOOD.values(), ids=GOOD.keys())
def test_values(text: str, values: list[Any]) -> None:
    """Each text has its values, and numbers and words have the types that Kubernetes gives them."""
    found = [value for _, value in yamls.documents(text)]

    assert found == values
    assert repr(found) == repr(values)


def test_lines() -> None:
    """Each document knows where it starts."""
    assert [line for line, _ in yamls.documents("a: 1\n---\n\nb: 2\n---\nc: 3\n")] == [1, 2, 5]


LAUGHS: Final = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
BAD: Final = {
    "syntax": ("a: 1\n b: 2\n", "line 2: not YAML: "),
    "unfinished": ("a: [1", "line 1: not YAML: "),
    "a key twice": ("a: 1\nb: 2\na: 3\n", "line 3: not YAML: the key 'a' is given twice"),
    "an unknown anchor": ("a: *x", "line 1: not YAML: the anchor 'x' is not known (yet)"),
    "an anchor inside itself": ("a: &x [*x]", "line 1: not YAML: the anchor 'x' is not known (yet)"),
    "an unknown tag": ("a: !thing 1", "line 1: not YAML: the tag '!thing' is not known"),
    "an unknown tag of a list": ("a: !thing [1]", "line 1: not YAML: the tag '!thing' is not known"),
    "a list as key": ("? [1]\n: 2", "line 1: not YAML: a key must be text"),
    "a merge of no mapping": ("<<: 1", "line 1: not YAML: << must name a mapping"),
    "control characters": ("a: 1\nb: \x00", "line 2: not YAML: "),
    "too deep": ("[" * 200 + "]" * 200, "line 1: not YAML: it is nested deeper than 100 levels"),
    "a billion laughs": (LAUGHS, "line 8: not YAML: it stands for more than 20000000 values"),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD.keys())
def test_mistakes(text: str, said: str) -> None:
    """What is no YAML, or not what Kubernetes takes for it, is told with its line."""
    with pytest.raises(InputError) as caught:
        list(yamls.documents(text))

    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


ODD: Final = (
    "",
    "1",
    "1e3",
    "0x1f",
    "010",
    "y",
    "No",
    "on",
    "null",
    "~",
    "1_000",
    "12:30",
    "a: b",
    "- x",
    "#",
    "=",
)
TEXTS: Final = st.sampled_from(ODD) | st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufeff\ufffe\uffff")
)
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@hypothesis.given(st.dictionaries(TEXTS, VALUES, max_size=5))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.too_slow])
def test_written_is_read(body: dict[str, Any]) -> None:
    """What the simulation writes as a manifest it reads back the same."""
    hypothesis.assume("<<" not in str(body))

    assert [value for _, value in yamls.documents(reports.document(body))] == [body]


@hypothesis.given(st.dictionaries(TEXTS, VALUES, max_size=5))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.too_slow])
def test_second_opinion(body: dict[str, Any]) -> None:
    """What PyYAML writes with care is read as PyYAML itself reads it."""
    hypothesis.assume("<<" not in str(body))
    text = yaml.safe_dump(body, default_style='"')

    assert [value for _, value in yamls.documents(text)] == [yaml.safe_load(text)]
