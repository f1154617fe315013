"""Which of many selectors select a pod is found by its own labels, however many selectors there are."""

import functools
import random
from unittest import mock

import pytest

from berth_operator.scheduling import pod_index, selector_index
from berth_operator.scheduling.nodes import affinity, facts, labels
from support import builders

KEYS = ("app", "tier", "odd", "none")
VALUES = ("a", "b", "1", "30")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Unknown")
NAMESPACES = ("red", "blue", "green")
Selector = tuple[int, str, facts.Expressions | None]  # Told apart by number, and about one namespace.


def expression(dice: random.Random) -> facts.LabelExpression:
    """Return any expression."""
    values = tuple(dice.choice(VALUES) for _ in range(dice.randrange(4)))
    operator = dice.choice((*OPERATORS, *OPERATORS[:4] * 4))
    return facts.LabelExpression(dice.choice(KEYS), operator, values)


def selector(dice: random.Random, at: int) -> Selector:
    """Return a selector, of several expressions or none; few select no pod at all."""
    expressions = tuple(expression(dice) for _ in range(dice.randrange(4)))
    return at, dice.choice(NAMESPACES), None if dice.random() < 0.1 else expressions


def is_about(namespace: str, one: Selector) -> bool:
    """Whether a selector is about the pods of a namespace."""
    return one[1] == namespace


def selects(one: Selector, namespace: str, labels: dict[str, str]) -> bool:
    """Whether a selector selects a pod, asked expression by expression."""
    expressions = one[2]
    there = expressions is not None and all(affinity.holds(each, labels) for each in expressions)
    return there and is_about(namespace, one)


@pytest.mark.parametrize("most", [4096, 3])
@pytest.mark.parametrize("seed", range(20))
def test_all_selectors_at_once_are_found_as_one_by_one(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While they come and go, however little is remembered."""
    monkeypatch.setattr(selector_index, "MOST_CHANGES", most)
    monkeypatch.setattr(selector_index, "MOST_NAMESPACES", min(most, len(NAMESPACES) - 1))
    dice, there = random.Random(seed), dict[int, Selector]()
    index = selector_index.SelectorIndex[Selector]()
    for at in range(150):
        if there and dice.random() < 0.4:
            gone = there.pop(dice.choice(sorted(there)))
            index.remove(gone, gone[2])
        else:
            there[at] = selector(dice, at)
            index.add(there[at], there[at][2])
        labels = {key: dice.choice(VALUES) for key in KEYS[:3] if dice.random() < 0.7}
        namespace = dice.choice(NAMESPACES)

        found = index.selecting(namespace, labels, functools.partial(is_about, namespace))
        assert sorted(one[0] for one in found) == [
            number for number, one in sorted(there.items()) if selects(one, namespace, labels)
        ]
        assert len(index) == len(there)
    for one in there.values():
        index.remove(one, one[2])
    left = index._selectors
    assert not (left._all or left._ruled_out or left._met or any(left._to_be_met) or left._comparing)


def test_only_a_new_selector_is_asked_for_its_namespaces() -> None:
    """And not those that are known to be about a namespace, or not."""
    index = selector_index.SelectorIndex[int]()
    asked = mock.Mock(return_value=True)
    for at in range(100):
        index.add(at, ())
    index.selecting("red", {}, asked)
    index.add(100, ())
    index.remove(7, ())
    asked.reset_mock()

    assert len(index.selecting("red", {}, asked)) == 100
    asked.assert_called_once_with(100)


@pytest.mark.parametrize("operator", ["DoesNotExist", "NotIn", "In", "Exists"])
def test_labels_that_change_are_little_work(operator: str) -> None:
    """No selector is compared with them expression by expression, be it met or not."""
    hosted = {"n1": 0}
    pods = pod_index.PodIndex(hosted, lambda: (), lambda: labels.Labels(()))
    for at in range(64):
        expressions = tuple(
            facts.LabelExpression(f"key{at}-{each}", operator, ("x",) if "In" in operator else ())
            for each in range(16)
        )
        pods.counts(pod_index.CounterKey((facts.PodSelector((builders.NAMESPACE,), expressions),)), 1)
    with (
        mock.patch.object(affinity, "holds", wraps=affinity.holds) as holds,
        mock.patch.object(pods, "includes", wraps=pods.includes) as includes,
    ):
        for at in range(10):
            before = builders.hold("p", "n1", labels=(("key0-0", f"{at}"),))
            pods.add(before)
            pods.remove(before)

    assert (holds.call_count, includes.call_count <= 64) == (0, True)
