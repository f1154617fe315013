"""Where a pod says that it may run, for `make fuzz`: by labels and taints of nodes, and by other pods.

The pods of `bound_pods` are there for the rules about others: the labels of each are its own, so what is
worked out for one says nothing of the next.
"""

import random
from typing import Any, Final

Body = dict[str, Any]
Dice = random.Random

ZONES: Final = ("a", "b", "c")
TOPOLOGY_KEYS: Final = ("zone", "rack", "kubernetes.io/hostname", "nowhere")
MANY: Final = (1, 1, 2, 5, 60, 130, 300)
POD_KEYS: Final = ("app", "name", "tier", "rev", "shard")
VALUES: Final = 40  # Different ones of a label of pods, but for their names.
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def add(dice: Dice, spec: Body) -> None:
    """Say something of where a pod may run."""
    many = dice.choice(MANY)
    match dice.randrange(6):
        case 0:
            spec["nodeSelector"] = {_node_label(dice): dice.choice(ZONES) for _ in range(many)}
        case 1:
            keys = (dice.choice(("", "gpu", f"k{at}")) for at in range(many))
            spec["tolerations"] = [{"key": key, "operator": "Exists"} for key in keys]
        case 2:
            spec["tolerations"] = [{"key": f"team-{at}", "value": "x"} for at in range(many)]
        case 3:
            _affinity(spec)["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": _node_terms(dice, many)}}
        case 4:
            spec["topologySpreadConstraints"] = [_spread(dice) for _ in range(dice.choice((1, 2, 8, 64)))]
        case _:
            kind = dice.choice(("podAffinity", "podAntiAffinity"))
            _affinity(spec)[kind] = _pod_rules(dice, dice.choice((1, 2, 8, 64)))


def _affinity(spec: Body) -> Body:
    found: Body = spec.setdefault("affinity", {})
    return found


# ---------------------------------------------------------------- nodes


def _node_label(dice: Dice) -> str:
    return dice.choice(("zone", "rack", "kubernetes.io/hostname", f"l{dice.randrange(400)}"))


def _node_terms(dice: Dice, many: int) -> list[Body]:
    across = dice.choice((1, many))
    return [
        {"matchExpressions": [_node_expression(dice) for _ in range(max(1, many // across))]}
        for _ in range(across)
    ]


def _node_expression(dice: Dice) -> Body:
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    count = {"In": 4, "NotIn": 4, "Gt": 1, "Lt": 1}.get(operator, 0) * dice.choice((1, 1, 10))
    values = [dice.choice((*ZONES, "7", f"node-{dice.randrange(1000):05}")) for _ in range(count)]
    return {
        "key": _node_label(dice),
        "operator": operator,
        "values": values[: 1 if operator in "GtLt" else None],
    }


# ---------------------------------------------------------------- other pods


def labels(dice: Dice) -> dict[str, str]:
    """Return labels of a pod, some of which others have too."""
    return {key: _value(dice) for key in dice.sample(POD_KEYS, dice.randint(1, len(POD_KEYS)))}


def _value(dice: Dice) -> str:
    return f"v{dice.randrange(VALUES)}"


def _pod_rules(dice: Dice, count: int) -> Body:
    terms = [_term(dice) for _ in range(count)]
    weighted = [{"weight": dice.randint(1, 100), "podAffinityTerm": one} for one in terms]
    return {REQUIRED: terms} if dice.random() < 0.5 else {PREFERRED: weighted}


def _term(dice: Dice) -> Body:
    about: Body = dice.choice(({}, {}, {"namespaceSelector": {}}, {"namespaces": ["fuzz", "other"]}))
    return {"topologyKey": dice.choice(TOPOLOGY_KEYS), "labelSelector": _selector(dice)} | about


def _spread(dice: Dice) -> Body:
    return {
        "maxSkew": dice.choice((1, 2, 50)),
        "topologyKey": dice.choice(TOPOLOGY_KEYS),
        "whenUnsatisfiable": dice.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": _selector(dice),
    }


def _selector(dice: Dice) -> Body:
    return {"matchExpressions": [_pod_expression(dice) for _ in range(dice.choice((0, 1, 2, 4)))]}


def _pod_expression(dice: Dice) -> Body:
    operator = dice.choice(("In", "NotIn", "NotIn", "Exists", "DoesNotExist"))
    key = dice.choice((*POD_KEYS, f"none-{dice.randrange(400)}"))
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": [_value(dice) for _ in range(dice.choice((1, 3)))]}


def away_from_pods(*, terms: int, expressions: int) -> Body:
    """Return an anti-affinity of so many terms, none of which means any of `bound_pods`."""
    selectors = (
        [{"key": f"none-{term}-{at}", "operator": "DoesNotExist"} for at in range(expressions - 1)]
        + [{"key": "tier", "operator": "In", "values": [f"none-{term}", "none"]}]
        for term in range(terms)
    )
    found = [
        {"topologyKey": "zone", "labelSelector": {"matchExpressions": selector}} for selector in selectors
    ]
    return {"podAntiAffinity": {REQUIRED: found}}


def bound_pods(count: int, nodes: int) -> list[Body]:
    """Return running pods without cards, spread over the nodes of `in_memory_operator.furnish`."""
    dice = random.Random(0)
    return [_bound_pod(dice, at, at % nodes) for at in range(count)]


def _bound_pod(dice: Dice, at: int, node: int) -> Body:
    return {
        "metadata": {
            "name": f"there-{at}",
            "namespace": "fuzz",
            "uid": f"there-{at}",
            "labels": labels(dice) | {"name": f"there-{at}"},
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "nodeName": f"node-{node:05}",
            "containers": [{"name": "main", "image": "example.com/x"}],
        },
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }
