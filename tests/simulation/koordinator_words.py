"""One pod in two vocabularies, Berth's own and Koordinator's, and nodes for it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from berth_crds import aliases
from simulation import simulator
from support import manifests, wired_nodes

KOORDINATOR: Final = "scheduling.koordinator.sh/"

Amounts = Mapping[str, object]
Body = wired_nodes.Body


class Wish(NamedTuple):
    """What a pod asks for: amounts of each container, and annotations."""

    limits: Sequence[Amounts]
    annotations: Mapping[str, str] = {}


class Case(NamedTuple):
    """The cluster, the same pod in Berth's words and in Koordinator's, and what becomes of it.

    What begins with a node is what it gets; anything else is the beginning of the refusal, or a part of it.
    """

    cluster: Sequence[Body]
    ours: Wish
    theirs: Wish
    becomes: str


def own(*limits: Amounts, **annotations: str) -> Wish:
    """Return a wish in Berth's words: `gpu=100` means `berth.dev/gpu: 100`, `gpu_core` is `gpu-core`."""
    return Wish(
        [{_key(name): amount for name, amount in one.items()} for one in limits],
        {_key(name): text for name, text in annotations.items()},
    )


def _key(name: str) -> str:
    return name if "/" in name else f"berth.dev/{name.replace('_', '-')}"


def koordinator(*limits: Amounts, **annotations: object) -> Wish:
    """Return a wish in Koordinator's words, whose annotations are JSON."""
    return Wish(
        [
            {name if "/" in name else f"koordinator.sh/{name}": amount for name, amount in one.items()}
            for one in limits
        ],
        {f"{KOORDINATOR}{name.replace('_', '-')}": json.dumps(hint) for name, hint in annotations.items()},
    )


def same(*limits: Amounts) -> tuple[Wish, Wish]:
    """Return the same amounts in both vocabularies."""
    return own(*limits), koordinator(*limits)


def node(*pods: Body, labels: Mapping[str, str] = {}, **of_device: Any) -> tuple[Body, ...]:
    """Return a node, its Device, and pods that hold cards of it."""
    return manifests.node("n1", labels=labels), wired_nodes.device("n1", **of_device), *pods


def nics(count: int, functions: int = 0, sick: Sequence[int] = ()) -> tuple[Body, ...]:
    """Return a node with network cards, of which those with `sick` minors are unhealthy."""
    others = [wired_nodes.nic("n1", minor, functions) for minor in range(count)]
    device = wired_nodes.device("n1", others=others)
    device["status"]["devices"] += [{"uuid": others[at]["uuid"], "health": "Unhealthy"} for at in sick]
    return manifests.node("n1"), device


def pairs_of_nics(count: int, *pods: Body) -> tuple[Body, ...]:
    """Return a node with network cards, two below each PCIe root, and pods that hold some."""
    others = [wired_nodes.nic("n1", minor) for minor in range(count)]
    placed = [one | {"topology": wired_nodes.nic("n1", at // 2)["topology"]} for at, one in enumerate(others)]
    return manifests.node("n1"), wired_nodes.device("n1", others=placed), *pods


def alone(kind: str, limits: Amounts, scope: str, strategy: str = "") -> tuple[Wish, Wish]:
    """Return amounts of devices of a type that the pod wants to itself, perhaps with a strategy."""
    policy = {"pcie": "PCIeLevel", "device": "DeviceLevel"}[scope]
    applied = {"ApplyForAll": "every", "RequestsAsCount": "count"}.get(strategy)
    ours = {"exclusive": f"{kind}={scope}"} | ({"apply": f"{kind}={applied}"} if applied else {})
    theirs = {"exclusivePolicy": policy} | ({"allocateStrategy": strategy} if strategy else {})
    return with_hint(limits, *hinted(kind, ours, **theirs))


def held(*minors: int, core: int = 100) -> Body:
    """Return a running pod that holds these cards."""
    return wired_nodes.holding(f"holds-{'-'.join(map(str, minors))}", minors, core=core)


def gpus(count: int) -> tuple[Wish, Wish]:
    """Return a wish for whole cards."""
    return same({"gpu": 100 * count})


def hinted(kind: str, ours: Mapping[str, str], **hint: object) -> tuple[Mapping[str, str], Body]:
    """Return the same hint for a type in both vocabularies."""
    return ours, {"device_allocate_hint": {kind: hint}}


def with_hint(limits: Amounts, ours: Mapping[str, str], theirs: Mapping[str, object]) -> tuple[Wish, Wish]:
    """Return the same amounts with these annotations."""
    return own(limits, **ours), koordinator(limits, **theirs)


def scoped(limits: Amounts, scope: str, theirs: str) -> tuple[Wish, Wish]:
    """Return amounts within a scope."""
    return with_hint(limits, *hinted("gpu", {"scope": scope}, requiredTopologyScope=theirs))


def joint(limits: Amounts, *, required: bool) -> tuple[Wish, Wish]:
    """Return GPUs and NICs that are joint."""
    together: dict[str, object] = {"deviceTypes": ["gpu", "rdma"]}
    return with_hint(
        limits,
        {"joint": "gpu,rdma"} | ({} if required else {"joint_policy": "preferred"}),
        {"device_joint_allocate": together | ({"requiredScope": "SamePCIe"} if required else {})},
    )


def in_partition(count: int, policy: str = "", bandwidth: str = "") -> tuple[Wish, Wish]:
    """Return whole cards that must be a partition."""
    ours = {"partition": {"": "best-effort"}.get(policy, policy.lower())}
    theirs = {"allocatePolicy": policy} if policy else {}
    if bandwidth:
        ours["ring_bandwidth"] = bandwidth
        theirs["ringBusBandwidth"] = bandwidth
    return with_hint({"gpu": 100 * count}, ours, {"gpu_partition_spec": theirs})


def tabled(*partitions: tuple[int, str, list[int]], **of_device: object) -> Body:
    """Return what gives a Device a table of partitions: score, bandwidth, minors."""
    table: dict[str, list[Body]] = {}
    for score, bandwidth, minors in partitions:
        one = {"minors": minors, "gpuLinkType": "NVLink", "allocationScore": score}
        table.setdefault(str(len(minors)), []).append(
            one | ({"ringBusBandwidth": bandwidth} if bandwidth else {})
        )
    return {"annotations": {aliases.PARTITION_TABLE: json.dumps(table)}} | of_device


def becomes(case: Case, words: str) -> str:
    """Return what becomes of the pod of a case, in words that are `ours` or `theirs`."""
    wish: Wish = getattr(case, words)
    pod = wired_nodes.asking(*wish.limits, annotations=wish.annotations)
    (answer,) = simulator.place(*case.cluster, pod)
    return wired_nodes.outcome(answer)
