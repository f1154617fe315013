"""Draws what pods ask of the resources of a node, and what their status says while they are resized."""

from typing import Any, Final

from parity.dice import Dice, Fields
from parity.node_drawing import DONGLE, HUGE, STORAGE

AMOUNTS: Final[dict[str, tuple[str, ...]]] = {
    "cpu": ("0", "100m", "0.25", "500m", "1", "1500m", "0.3337", "1m"),
    "memory": ("0", "100M", "256Mi", "1Gi", "1.5G", "100000k", "1e8"),
    STORAGE: ("1Gi", "2G", "500Mi"),
    HUGE: ("32Mi", "64Mi"),
    DONGLE: ("0", "1", "2"),
}
NOT_OVERCOMMITTED: Final = frozenset({HUGE, DONGLE})  # Requests of these equal their limits.
IMAGE: Final = "registry.invalid/nothing"
RESIZABLE: Final = ("cpu", "memory")


def container(name: str, **fields: Any) -> Fields:
    """Return a container."""
    return {"name": name, "image": IMAGE, **fields}


def spec(dice: Dice) -> Fields:
    """Return containers with requests, and perhaps requests of the whole pod and an overhead."""
    found: Fields = {"containers": [_asking(dice, f"c{at}") for at in range(dice.choice((1, 1, 2, 3)))]}
    found |= dice.maybe(0.4, initContainers=lambda: _starting(dice))
    found |= dice.maybe(0.15, overhead=lambda: dict(dice.sample(_pairs(dice, ("cpu", "memory")), 1)))
    return found | dice.maybe(0.25, resources=lambda: _of_whole_pod(dice))


def _starting(dice: Dice) -> list[Fields]:
    found = [_asking(dice, f"i{at}") for at in range(dice.randint(1, 3))]
    return [{**one, **dice.maybe(0.5, restartPolicy=lambda: "Always")} for one in found]


def _asking(dice: Dice, name: str) -> Fields:
    return container(name, **dice.maybe(0.85, resources=lambda: _resources(dice)))


def _pairs(dice: Dice, names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name, dice.choice(AMOUNTS[name])) for name in names]


def _resources(dice: Dice) -> Fields:
    """Return requests and limits; of what cannot be overcommitted both are the same."""
    weights = {"cpu": 0.5, "memory": 0.5, STORAGE: 0.2, HUGE: 0.12, DONGLE: 0.15}
    asked = dict(_pairs(dice, tuple(name for name in AMOUNTS if dice.whether(weights[name]))))
    if HUGE in asked:
        asked.setdefault("cpu", "100m")  # The API server wants cpu or memory beside huge pages.
    fixed = {name: amount for name, amount in asked.items() if name in NOT_OVERCOMMITTED}
    if dice.whether(0.2):
        return {"limits": asked}
    return {"requests": asked, **({"limits": fixed} if fixed else {})}


def _of_whole_pod(dice: Dice) -> Fields:
    """Return what a pod asks for as a whole; the API server wants it to be no less than its containers'."""
    amounts = {"cpu": ("1", "2", "3500m"), "memory": ("1Gi", "2Gi", "3G")}
    some = {name: dice.choice(amounts[name]) for name in dice.some((*amounts,), 2, 1)}
    if dice.whether(0.15):
        huge = {HUGE: dice.choice(("64Mi", "128Mi", "256Mi"))}
        return {"requests": some | huge, "limits": huge}
    return {"limits" if dice.whether(0.3) else "requests": some}


# ---------------------------------------------------------------- resizing


def resized(dice: Dice, spec: Fields) -> Fields:
    """Return the part of a status that says what kubelets have given, which may not be what is asked."""
    names = ("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")
    statuses = {status: [_given(dice, one) for one in spec.get(listed, [])] for status, listed in names}
    pending = {
        "type": "PodResizePending",
        "status": "True",
        "reason": dice.choice(("Infeasible", "Deferred")),
    }
    return {
        **{name: found for name, found in statuses.items() if found},
        **dice.maybe(0.6, conditions=lambda: [pending]),
        **(_given_to_pod(dice) if "resources" in spec else {}),
    }


def _given(dice: Dice, one: Fields) -> Fields:
    status = {"name": one["name"], "image": IMAGE, "imageID": "", "ready": True, "restartCount": 0}
    return {
        **status,
        **dice.maybe(0.8, resources=lambda: {"requests": _resizable(dice)}),
        **dice.maybe(0.7, allocatedResources=lambda: _resizable(dice)),
    }


def _given_to_pod(dice: Dice) -> Fields:
    return {
        **dice.maybe(0.7, resources=lambda: {"requests": _resizable(dice)}),
        **dice.maybe(0.7, allocatedResources=lambda: _resizable(dice)),
    }


def _resizable(dice: Dice) -> dict[str, str]:
    return dict(_pairs(dice, tuple(dice.some(RESIZABLE, 2, 1))))
