"""Draws pods: those that are bound, with what their kubelets say of them, and those that ask.

A pod that asks uses only a few of all fields, or no node would ever pass. The API server refuses some of what
is drawn here.
"""

from collections.abc import Callable, Mapping
from typing import Final

from parity import affinity_drawing, node_drawing, resource_drawing, scenes
from parity.dice import Dice, Fields
from parity.scenes import Object

LABELS: Final[dict[str, tuple[str, ...]]] = {
    "app": ("web", "db", "cache"),
    "tier": ("front", "back"),
    "version": ("1", "2"),
}
PORTS: Final = (8080, 9090)
ADDRESSES: Final = ("", "0.0.0.0", "0.0.0.0", "127.0.0.1", "127.0.0.1", "10.0.0.1", "::")
LIMITS: Final = ("0", "5", "6", "100")  # Of tolerations that compare.
START: Final = "2026-01-01T00:00:00Z"
# How often a pod that asks uses each group of fields, and how often a bound one does.
ASKING: Final[dict[str, float]] = {
    "resources": 0.5,
    "selector": 0.15,
    "affinity": 0.25,
    "tolerations": 0.35,
    "ports": 0.15,
    "disks": 0.06,
    "spread": 0.12,
    "pod affinity": 0.1,
    "pod anti-affinity": 0.1,
    "gates": 0.01,
    "os": 0.05,
    "node preference": 0.05,
    "features": 0.04,
}
BOUND: Final[dict[str, float]] = {
    "resources": 0.7,
    "ports": 0.15,
    "disks": 0.06,
    "pod affinity": 0.1,
    "pod anti-affinity": 0.12,
}
OFTEN: Final = 0.75  # Likewise, of the group that is the theme of a cluster;
SELDOM: Final = 0.4  # and of the others there, as a part of their weights.
# Fields that keep a pod away only where another pod has them, too.
THEMES: Final = (
    *("", "", "resources", "resources", "ports", "ports", "disks", "affinity", "tolerations"),
    *("spread", "pod affinity", "pod anti-affinity"),
)


def asking(dice: Dice, name: str, nodes: tuple[str, ...], theme: str) -> Object:
    """Return a pod that asks for a node."""
    return _pod(dice, name, _spec(dice, nodes, ASKING, theme))


def bound(dice: Dice, name: str, nodes: tuple[str, ...], theme: str) -> Object:
    """Return a pod on a node, with its status."""
    spec = {"nodeName": dice.choice(nodes), **_spec(dice, nodes, BOUND, theme)}
    pod = _pod(dice, name, spec)
    if dice.whether(0.08):
        pod["metadata"]["annotations"] = {scenes.TERMINATING: "true"}
    pod["status"] = _status(dice, pod, 0.6 if theme == "resources" else 0.2)
    return pod


def _spec(dice: Dice, nodes: tuple[str, ...], weights: Mapping[str, float], theme: str) -> Fields:
    """Return some groups of fields, each as often as its weight says, and the theme often."""
    spec: Fields = {}
    for part, weight in weights.items():
        if dice.whether(OFTEN if part == theme else weight * SELDOM if theme else weight):
            _merge(spec, _PARTS[part](dice, nodes))
    return spec


def _pod(dice: Dice, name: str, spec: Fields) -> Object:
    labels = {key: dice.choice(values) for key, values in LABELS.items() if dice.whether(0.85)}
    spec.setdefault("containers", [resource_drawing.container("c0")])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": dice.choice((*scenes.NAMESPACES,)), "labels": labels},
        "spec": {"schedulerName": scenes.SCHEDULER, **spec},
    }


def _status(dice: Dice, pod: Object, resized: float) -> Fields:
    phase = dice.choices(("Running", "Succeeded", "Failed"), (92, 4, 4))[0]
    status: Fields = {"phase": phase, "startTime": START}
    return status | (resource_drawing.resized(dice, pod["spec"]) if dice.whether(resized) else {})


def _merge(spec: Fields, more: Fields) -> None:
    """Add fields to a spec: objects are merged, and what is there stays."""
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(spec.get(name), dict):
            _merge(spec[name], value)
        else:
            spec.setdefault(name, value)


# ---------------------------------------------------------------- groups of fields


def _selector(dice: Dice, nodes: tuple[str, ...]) -> Fields:
    labels = {**node_drawing.LABELS, node_drawing.HOST: nodes, "absent": ("x",)}
    return {"nodeSelector": {key: dice.choice(labels[key]) for key in dice.some((*labels,), 2, 1)}}


def _tolerations(dice: Dice, _nodes: tuple[str, ...]) -> Fields:
    return {"tolerations": [_toleration(dice) for _ in range(dice.randint(1, 3))]}


def _toleration(dice: Dice) -> Fields:
    key = dice.choice((*node_drawing.TAINT_KEYS * 3, node_drawing.CORDON, ""))
    effect = dice.maybe(0.5, effect=lambda: dice.choice(node_drawing.EFFECTS))
    if not key or dice.whether(0.3):
        return {**({"key": key} if key else {}), "operator": "Exists", **effect}
    if dice.whether(0.4):
        return {"key": key, "operator": dice.choice(("Lt", "Gt")), "value": dice.choice(LIMITS), **effect}
    operator = dice.maybe(0.5, operator=lambda: "Equal")
    return {"key": key, "value": dice.choice(node_drawing.TAINT_VALUES), **operator, **effect}


def _ports(dice: Dice, _nodes: tuple[str, ...]) -> Fields:
    """Return containers with host ports; a pod in the network of its host has all its ports there."""
    containers = [{**resource_drawing.container("c0"), "ports": _port_list(dice)}]
    sidecar = {**resource_drawing.container("s0"), "ports": _port_list(dice)}
    if dice.whether(0.5):
        sidecar["restartPolicy"] = "Always"
    return {
        "containers": containers,
        **dice.maybe(0.25, initContainers=lambda: [sidecar]),
        **dice.maybe(0.1, hostNetwork=lambda: True),
    }


def _port_list(dice: Dice) -> list[Fields]:
    return [_port(dice, number) for number in dice.some(PORTS, 2, 1)]


def _port(dice: Dice, number: int) -> Fields:
    return {
        "containerPort": number,
        **dice.maybe(0.9, hostPort=lambda: number),
        **dice.maybe(0.5, protocol=lambda: dice.choice(("TCP", "UDP", "SCTP"))),
        **dice.maybe(0.6, hostIP=lambda: dice.choice(ADDRESSES)),
    }


def _disks(dice: Dice, _nodes: tuple[str, ...]) -> Fields:
    """Return disks that the pod names itself; there are few, so that pods have the same ones."""
    kinds = dice.some((*DISKS,), 2, 1)
    return {"volumes": [{"name": f"disk-{at}", **DISKS[kind](dice)} for at, kind in enumerate(kinds)]}


def _rbd(dice: Dice) -> Fields:
    monitors = dice.some(("mon-1", "mon-2", "mon-3"), 2, 1)
    pool = dice.maybe(0.3, pool=lambda: dice.choice(("rbd", "fast")))
    return {"rbd": {"monitors": monitors, "image": dice.choice(("a", "b")), **pool, **_read_only(dice)}}


def _iscsi(dice: Dice) -> Fields:
    iqn = f"iqn.2001-04.com.example:{dice.choice('ab')}"
    return {"iscsi": {"targetPortal": "10.0.0.1", "lun": dice.randint(0, 1), "iqn": iqn, **_read_only(dice)}}


def _read_only(dice: Dice) -> Fields:
    return dice.maybe(0.5, readOnly=lambda: dice.whether(0.8))


DISKS: Final[dict[str, Callable[[Dice], Fields]]] = {
    "rbd": _rbd,
    "iscsi": _iscsi,
    "google": lambda dice: {"gcePersistentDisk": {"pdName": dice.choice("ab"), **_read_only(dice)}},
    "aws": lambda dice: {"awsElasticBlockStore": {"volumeID": dice.choice("ab"), **_read_only(dice)}},
}


def _features(dice: Dice) -> Fields:
    """Return fields that not every kubelet serves."""
    if dice.whether(0.3):
        return {"hostNetwork": True, "hostUsers": False}
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    restarting = resource_drawing.container("c0", restartPolicy="Never", restartPolicyRules=[rule])
    return {"restartPolicy": "Never", "containers": [restarting]}


_PARTS: Final[dict[str, Callable[[Dice, tuple[str, ...]], Fields]]] = {
    "resources": lambda dice, _: resource_drawing.spec(dice),
    "selector": _selector,
    "affinity": affinity_drawing.node_affinity,
    "tolerations": _tolerations,
    "ports": _ports,
    "disks": _disks,
    "spread": lambda dice, _: affinity_drawing.spread(dice),
    "pod affinity": lambda dice, _: affinity_drawing.pod_affinity(dice, "podAffinity"),
    "pod anti-affinity": lambda dice, _: affinity_drawing.pod_affinity(dice, "podAntiAffinity"),
    "gates": lambda _dice, _nodes: {"schedulingGates": [{"name": "example.com/wait"}]},
    "os": lambda dice, _: {"os": {"name": dice.choice(("linux", "windows"))}},
    "node preference": affinity_drawing.node_preference,
    "features": lambda dice, _: _features(dice),
}
