"""Draws nodes: labels, taints, cordons and what they can give."""

from typing import Final

from parity.dice import Dice, Fields
from parity.scenes import Object

ZONES: Final = ("a", "b", "c")
LABELS: Final[dict[str, tuple[str, ...]]] = {
    "topology.kubernetes.io/zone": ZONES,
    "rack": ("r1", "r2"),
    "disk": ("ssd", "hdd", ""),
    "generation": ("1", "2", "07", "300", "new"),
}
HOST: Final = "kubernetes.io/hostname"
TAINT_KEYS: Final = ("dedicated", "example.com/broken")
TAINT_VALUES: Final = ("", "x", "5", "12", "12", "07")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
CORDON: Final = "node.kubernetes.io/unschedulable"
HUGE: Final = "hugepages-2Mi"
DONGLE: Final = "example.com/dongle"
STORAGE: Final = "ephemeral-storage"
FEATURES: Final = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")
READY: Final = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


def node(dice: Dice, name: str, theme: str) -> Object:
    """Return a node; where tolerations are the theme it is likely to have taints."""
    allocatable = _allocatable(dice)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(dice, name)},
        "spec": _spec(dice, 0.8 if theme == "tolerations" else 0.25),
        "status": {
            "capacity": allocatable,
            "allocatable": allocatable,
            "conditions": [READY],
            **dice.maybe(0.6, declaredFeatures=lambda: sorted(dice.some(FEATURES, 2, 1))),
        },
    }


def _labels(dice: Dice, name: str) -> dict[str, str]:
    found = {key: dice.choice(values) for key, values in LABELS.items() if dice.whether(0.85)}
    system = {"kubernetes.io/os": "windows" if dice.whether(0.1) else "linux"} if dice.whether(0.95) else {}
    return {**({HOST: name} if dice.whether(0.97) else {}), **system, **found}


def _spec(dice: Dice, tainted: float) -> Fields:
    cordoned = dice.maybe(0.1, unschedulable=lambda: True)
    return {**cordoned, **dice.maybe(tainted, taints=lambda: taints(dice))}


def taints(dice: Dice) -> list[Fields]:
    """Return some taints; the API server takes each pair of key and effect once."""
    pairs = [(key, effect) for key in TAINT_KEYS for effect in EFFECTS] + [(CORDON, "NoSchedule")]
    return [
        {"key": key, "effect": effect, **({"value": value} if (value := dice.choice(TAINT_VALUES)) else {})}
        for key, effect in dice.some(pairs, 2, 1)
    ]


def _allocatable(dice: Dice) -> dict[str, str]:
    always = {
        "cpu": dice.choice(("1", "1500m", "2", "4", "8", "64")),
        "memory": dice.choice(("1Gi", "2Gi", "3G", "512Gi")),
        "pods": dice.choice(("2", "5", "110", "110", "110")),
    }
    if dice.whether(0.03):
        del always[dice.choice((*always,))]
    sometimes = {
        STORAGE: ("1Gi", "5G", "100Gi"),
        HUGE: ("0", "64Mi", "1Gi"),
        DONGLE: ("0", "1", "3"),
    }
    return always | {name: dice.choice(values) for name, values in sometimes.items() if dice.whether(0.7)}
