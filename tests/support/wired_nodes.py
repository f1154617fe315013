"""Nodes whose cards sit on sockets and PCIe roots, with network cards beside them, as manifests.

The cards of a node of eight are two to a root and four to a socket. A test names only what is otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from berth_crds import allocation, names
from support import builders, manifests

Body = manifests.Body
GIB: Final = 1024**3
MEMORY: Final = 80 * GIB


def device(
    name: str = "n1",
    cards: int = 8,
    *,
    model: str = "NVIDIA A40",
    sick: Sequence[int] = (),
    others: Sequence[Body] = (),
    wired: bool = True,
    **meta: object,
) -> Body:
    """Return a Device; the cards with `sick` minors are unhealthy, and `others` are listed beside them."""
    listed = [_gpu(name, minor, model, wired=wired) for minor in range(cards)]
    spec = {"node": name, "devices": [*listed, *others], "cordon": []}
    status = {"devices": [{"uuid": listed[minor]["uuid"], "health": "Unhealthy"} for minor in sick]}
    return manifests.own("Device", name, spec=spec, **meta) | {"status": status}


def _place(minor: int) -> Body:
    return {"numaNode": minor // 4, "pcieRoot": f"pci0000:{minor // 2:02x}"}


def _gpu(node: str, minor: int, model: str, *, wired: bool) -> Body:
    card = {"type": "gpu", "vendor": "nvidia", "model": model, "memory": MEMORY}
    place = {"topology": _place(minor)} if wired else {}
    return card | {"uuid": builders.uuid(node, minor), "minor": minor} | place


def nic(node: str, minor: int, functions: int = 0) -> Body:
    """Return a network card of a Device, with so many virtual functions."""
    uuid = f"rdma-{node}-{minor}"
    card: Body = {"type": "rdma", "vendor": "mellanox", "model": "ConnectX-7", "uuid": uuid}
    vfs = [{"minor": at, "busID": f"0000:{minor:02x}:00.{at + 1}"} for at in reversed(range(functions))]
    groups = {"vfGroups": [{"vfs": vfs}]} if vfs else {}
    return card | {"minor": minor, "topology": _place(2 * minor)} | groups


def holding(name: str, minors: Sequence[int], *, core: int = 100, node: str = "n1") -> Body:
    """Return a running pod that holds these cards, or so many percent of each."""
    shares = [
        allocation.Share(builders.uuid(node, minor), minor, core, MEMORY * core // 100) for minor in minors
    ]
    record = allocation.encode(allocation.of(node, {"main": {"gpu": shares}}))
    return manifests.pod(
        name,
        len(minors),
        namespace="ml",
        annotations={names.ALLOCATION: record},
        nodeName=node,
        phase="Running",
    )


def holding_nic(minor: int, annotations: Mapping[str, str] = {}, *, core: int = 10) -> Body:
    """Return a running pod that holds so many percent of a network card of `n1`."""
    share = allocation.Share(f"rdma-n1-{minor}", minor, core, 0)
    record = allocation.encode(allocation.of("n1", {"main": {"rdma": [share]}}))
    body = manifests.pod(
        f"holds-nic-{minor}",
        0,
        namespace="ml",
        annotations={names.ALLOCATION: record, **annotations},
        nodeName="n1",
        phase="Running",
    )
    body["spec"]["containers"][0]["resources"] = {"limits": {names.RDMA: core}}
    return body


def asking(*limits: Mapping[str, object], name: str = "p", annotations: Mapping[str, str] = {}) -> Body:
    """Return a pod that waits, with a container `c0`, `c1` ... for each of the amounts."""
    body = manifests.pod(name, 0, namespace="ml", annotations=annotations, phase="Pending")
    body["spec"]["containers"] = [
        {"name": f"c{at}", "image": "example.com/work", "resources": {"limits": dict(one)}}
        for at, one in enumerate(limits)
    ]
    return body


def outcome(answer: Mapping[str, Any]) -> str:
    """Return what `place` printed of a pod in short: the devices of each container, or the first refusal."""
    if answer["node"] is None:
        return "; ".join(one["message"] for one in answer["refusals"])
    containers = (answer["allocation"] or {"containers": {}})["containers"]
    given = (f"{name} {_given(of)}" for name, of in sorted(containers.items()))
    return f"{answer['node']}: {', '.join(given)}"


def _given(of: Mapping[str, Sequence[Body]]) -> str:
    return " ".join(f"{kind} {' '.join(map(_share, shares))}" for kind, shares in sorted(of.items()))


def _share(share: Body) -> str:
    if "vf" in share:
        return f"{share['minor']}@{share['vf']}"
    whole = share["core"] == 100 and share.get("memory", MEMORY) in {0, MEMORY}
    return str(share["minor"]) if whole else f"{share['minor']}@{share['core']}%/{_amount(share)}"


def _amount(share: Body) -> str:
    memory = share.get("memory", 0)
    return f"{memory // GIB}Gi" if memory % GIB == 0 else str(memory)
