"""Draws affinities and topology spread constraints with all their fields."""

from typing import Final

from parity import node_drawing
from parity.dice import Dice, Fields
from parity.scenes import NAMESPACES

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE: Final = "topology.kubernetes.io/zone"
DOMAINS: Final = (node_drawing.HOST, node_drawing.HOST, ZONE, ZONE, "rack", "rack", "absent")
NUMBERS: Final = ("0", "1", "5", "007", "many", "9999999999999999999", "")
POD_LABELS: Final = {"app": ("web", "db", "cache"), "tier": ("front", "back"), "version": ("1", "2")}


def node_affinity(dice: Dice, nodes: tuple[str, ...]) -> Fields:
    """Return a required node affinity of one to three terms."""
    terms = [node_term(dice, nodes) for _ in range(dice.randint(1, 3))]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def node_preference(dice: Dice, nodes: tuple[str, ...]) -> Fields:
    """Return a preferred node affinity, which keeps no pod away from a node."""
    preferred = [{"weight": 1, "preference": node_term(dice, nodes)}]
    return {"affinity": {"nodeAffinity": {PREFERRED: preferred}}}


def node_term(dice: Dice, nodes: tuple[str, ...]) -> Fields:
    """Return a term of a node affinity, which may be empty."""
    expressions = [_node_expression(dice) for _ in range(dice.randint(1, 2))]
    term = dice.maybe(0.8, matchExpressions=lambda: expressions)
    return {**term, **dice.maybe(0.3, matchFields=lambda: [_field(dice, nodes)])}


def _field(dice: Dice, nodes: tuple[str, ...]) -> Fields:
    name = dice.choice((*nodes, "no-such-node"))
    return {"key": "metadata.name", "operator": dice.choice(("In", "NotIn")), "values": [name]}


def _node_expression(dice: Dice) -> Fields:
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in {"Gt", "Lt"}:
        key = dice.choice(("generation", "generation", "generation", "disk", "absent"))
        return {"key": key, "operator": operator, "values": [dice.choice(NUMBERS)]}
    key = dice.choice((*node_drawing.LABELS, "absent"))
    return _expression(dice, key, operator, (*node_drawing.LABELS.get(key, ()), "other"))


def _expression(dice: Dice, key: str, operator: str, values: tuple[str, ...]) -> Fields:
    listed = {"values": dice.some(values, 2, 1)} if operator in {"In", "NotIn"} else {}
    return {"key": key, "operator": operator, **listed}


def label_selector(dice: Dice, labels: dict[str, tuple[str, ...]]) -> Fields:
    """Return a label selector; an empty one selects everything."""
    key = dice.choice((*labels,))
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    return {
        **dice.maybe(0.6, matchLabels=lambda: {key: dice.choice(labels[key])}),
        **dice.maybe(0.4, matchExpressions=lambda: [_expression(dice, key, operator, labels[key])]),
    }


def _not_selected(fields: Fields, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys that a label selector does not name: the API server takes each of them once."""
    selector = fields.get("labelSelector", {})
    named = {*selector.get("matchLabels", {}), *(one["key"] for one in selector.get("matchExpressions", ()))}
    return tuple(key for key in keys if key not in named)


def pod_affinity(dice: Dice, kind: str) -> Fields:
    """Return an affinity to pods, or an anti-affinity, of one or two terms."""
    terms = [pod_term(dice) for _ in range(dice.choice((1, 1, 1, 2)))]
    if dice.whether(0.15):
        return {"affinity": {kind: {PREFERRED: [{"weight": 1, "podAffinityTerm": one} for one in terms]}}}
    return {"affinity": {kind: {REQUIRED: terms}}}


def pod_term(dice: Dice) -> Fields:
    """Return a term about pods with all its fields."""
    namespaces = {"team": ("red", "blue"), "stage": ("live",)}
    selector = dice.maybe(0.9, labelSelector=lambda: label_selector(dice, POD_LABELS))
    keys = _not_selected(selector, (*POD_LABELS, "absent"))
    more: Fields = {}
    if selector:
        more |= dice.maybe(0.12, matchLabelKeys=lambda: dice.some(keys, 2, 1))
        more |= dice.maybe(0.12, mismatchLabelKeys=lambda: dice.some(keys, 2, 1))
    return {
        "topologyKey": dice.choice(DOMAINS),
        **selector,
        **more,
        **dice.maybe(0.3, namespaces=lambda: dice.some((*NAMESPACES, "elsewhere"), 3, 1)),
        **dice.maybe(0.4, namespaceSelector=lambda: label_selector(dice, namespaces)),
    }


def spread(dice: Dice) -> Fields:
    """Return topology spread constraints with all their fields."""
    domains = {dice.choice(DOMAINS): None for _ in range(dice.choice((1, 1, 2)))}
    return {"topologySpreadConstraints": [spread_constraint(dice, domain) for domain in domains]}


def spread_constraint(dice: Dice, domain: str) -> Fields:
    """Return one topology spread constraint."""
    hard = dice.whether(0.85)
    selector = dice.maybe(0.9, labelSelector=lambda: label_selector(dice, POD_LABELS))
    keys = _not_selected(selector, ("tier", "version", "absent"))
    return {
        "maxSkew": dice.choice((1, 1, 2, 3)),
        "topologyKey": domain,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        **selector,
        **(dice.maybe(0.3, minDomains=lambda: dice.choice((1, 2, 3, 5))) if hard else {}),
        **dice.maybe(0.3, nodeAffinityPolicy=lambda: dice.choice(("Honor", "Ignore"))),
        **dice.maybe(0.3, nodeTaintsPolicy=lambda: dice.choice(("Honor", "Ignore"))),
        **(dice.maybe(0.2, matchLabelKeys=lambda: dice.some(keys, 2, 1)) if selector else {}),
    }
