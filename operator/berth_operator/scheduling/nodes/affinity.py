"""Node selectors and required node affinity, by Kubernetes' rules.

An expression that cannot be evaluated (a number expected, something else found) does
not match: what cannot be proven is not assumed.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from berth_operator.scheduling.nodes import facts

NUMBER: Final = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)
MOST: Final = 2**63  # Kubernetes compares in 64 bits; what does not fit is no number.


def number(text: str) -> int | None:
    """Return a number as Kubernetes reads it for comparing, or None where it would find none."""
    match = NUMBER.fullmatch(text)
    found = int(match[1] + match[2]) if match else MOST
    return found if -MOST <= found < MOST else None


def _compare(found: str | None, values: tuple[str, ...], test: Callable[[int, int], bool]) -> bool:
    if found is None or len(values) != 1:
        return False
    left, right = number(found), number(values[0])
    return left is not None and right is not None and test(left, right)


OPERATORS: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda found, values: found is not None and found in values,
    "NotIn": lambda found, values: bool(values) and found not in values,
    "Exists": lambda found, _: found is not None,
    "DoesNotExist": lambda found, _: found is None,
    "Gt": lambda found, values: _compare(found, values, int.__gt__),
    "Lt": lambda found, values: _compare(found, values, int.__lt__),
}


def holds(condition: facts.LabelExpression, values: Mapping[str, str]) -> bool:
    """Evaluate one expression; an operator we do not know never holds."""
    test = OPERATORS.get(condition.operator)
    return test is not None and test(values.get(condition.key), condition.values)


def term_holds(term: facts.Term, node: facts.Node) -> bool:
    """Evaluate one term; an empty term matches nothing."""
    if not term.labels and not term.fields:
        return False
    by_label = all(holds(one, node.labels) for one in term.labels)
    return by_label and all(holds(one, {"metadata.name": node.name}) for one in term.fields)


def matches(node_selection: facts.NodeSelection, node: facts.Node) -> bool:
    """Return whether the pod's selector and required affinity accept the node."""
    if any(node.labels.get(key) != value for key, value in node_selection.selector):
        return False
    return node_selection.affinity is None or any(term_holds(term, node) for term in node_selection.affinity)
