"""Selectors of devices by labels: the text of Kubernetes' selectors, and their objects, mean the same."""

from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling.devices import conditions, requests
from berth_operator.scheduling.nodes.facts import LabelExpression
from berth_operator.translate import label_selectors
from berth_operator.translate.refusals import RefusalError
from support import builders

EXPRESSIONS: Final = {
    "a value": ("a=1", builders.is_among("a", "1")),
    "a value, twice the sign": ("a == 1", builders.is_among("a", "1")),
    "another value": ("a!=1", LabelExpression("a", "NotIn", ("1",))),
    "an empty value": ("a=", builders.is_among("a", "")),
    "one of several": ("a in (2, 1,2)", builders.is_among("a", "1", "2")),
    "none of several": ("a notin (1)", LabelExpression("a", "NotIn", ("1",))),
    "there": ("example.com/a", LabelExpression("example.com/a", "Exists")),
    "not there": ("! a", LabelExpression("a", "DoesNotExist")),
    "a key that reads like a word": ("in in (in)", builders.is_among("in", "in")),
}


@pytest.mark.parametrize(("text", "expression"), EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_an_expression(text: str, expression: LabelExpression) -> None:
    """Each form that kubectl takes for a selector is read."""
    assert label_selectors.parse("p", f" {text} ,") == (requests.LabelSelector("", (expression,)),)


@pytest.mark.parametrize("text", [*(text for text, _ in EXPRESSIONS.values()), "a > 1", "a=1,b in (2,3)"])
def test_what_the_api_server_takes_for_a_selector(text: str) -> None:
    """It takes comparisons of numbers as well."""
    assert label_selectors.is_selector(text)


@pytest.mark.parametrize("text", ["a in (", "a=1,b in (2", "===", ",", "a > b", "a=1 b=2"])
def test_what_the_api_server_does_not_take(text: str) -> None:
    """What is half a selector is none."""
    assert not label_selectors.is_selector(text)


WORDS: Final = st.sampled_from(("a", "b", "c-1", "d.e_f"))
VALUES: Final = st.lists(WORDS, min_size=1, max_size=3)
OBJECTS: Final = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(WORDS, WORDS | st.just("")),
        "matchExpressions": st.lists(
            st.fixed_dictionaries(
                {"key": WORDS, "operator": st.sampled_from(("In", "NotIn")), "values": VALUES}
            )
            | st.fixed_dictionaries({"key": WORDS, "operator": st.sampled_from(("Exists", "DoesNotExist"))}),
            max_size=3,
        ),
    },
)


@hypothesis.given(selector=OBJECTS, labels=st.dictionaries(WORDS, WORDS | st.just("")))
def test_an_object_selects_what_kubernetes_would(selector: dict[str, Any], labels: dict[str, str]) -> None:
    """The text of a LabelSelector selects the devices that the object selects; an empty one selects all."""
    text = label_selectors.text_of("p", selector)
    try:
        selectors = label_selectors.parse("p", text) if text else ()
    except RefusalError:
        selectors = builders.selecting(no_label_has_this_name="")  # It gives one label two values.

    assert conditions.selected(tuple(labels.items()), selectors) == _selects(selector, labels)


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    answers = [labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()]
    for one in selector.get("matchExpressions", []):
        found = labels.get(one["key"])
        answers.append(
            {
                "In": found in one.get("values", []),
                "NotIn": found not in one.get("values", []),
                "Exists": found is not None,
                "DoesNotExist": found is None,
            }[one["operator"]]
        )
    return all(answers)
