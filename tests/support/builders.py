"""Builders of nodes, cards, pods and their kinds, as values of the core and as objects of the API.

All tests build with these. Everything has a fitting default, so that a test names only what it is
about: a node has eight cpus and room for 110 pods, a card is a healthy A100, a pod requests one
card. Card 2 of node n1 is `GPU-n1-2`, pod p of namespace ml has the uid `uid-p`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from berth_crds import allocation, names, wire
from berth_operator.scheduling import decisions, holds, queued_pods
from berth_operator.scheduling.devices import device_facts, device_view, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import raw

GIB: Final = 2**30
MODEL: Final = "A100-SXM4-80GB"
MEMORY: Final = 80 * GIB
PROFILE: Final = "1g.10gb"
NAMESPACE: Final = "ml"

# ---------------------------------------------------------------- values of the core


def node(
    name: str = "n1", *, cpu: int = 8000, pods: int = 110, extra: Mapping[str, int] = {}, **fields: Any
) -> facts.Node:
    """Return a node; cpu in thousandths, `extra` are further resources."""
    amounts = {facts.CPU: cpu, facts.MEMORY: 64 * GIB, facts.PODS: pods, **extra}
    return facts.Node(name, allocatable=tuple(sorted(amounts.items())), **fields)


def uuid(at: str, minor: int) -> str:
    """Return the uuid of a card of a node."""
    return f"GPU-{at}-{minor}"


def card(
    minor: int = 0,
    *,
    at: str = "n1",
    model: str = MODEL,
    trouble: decisions.Reason | None = None,
    **fields: Any,
) -> PhysicalDevice:
    """Return a card of a node."""
    usual: dict[str, Any] = {"uuid": uuid(at, minor), "memory": MEMORY, "trouble": trouble}
    return PhysicalDevice(minor=minor, model=model, **usual | fields)


def instances(at: str, minor: int, count: int, profile: str = PROFILE) -> tuple[device_facts.Instance, ...]:
    """Return the MIG instances of a card."""
    return tuple(
        device_facts.Instance(f"MIG-{at}-{minor}-{number}", profile, 10 * GIB, number)
        for number in range(count)
    )


def nic(
    minor: int = 0, *, at: str = "n1", functions: int | tuple[device_facts.Function, ...] = 0, **fields: Any
) -> PhysicalDevice:
    """Return an RDMA device of a node, with so many virtual functions or these."""
    if isinstance(functions, int):
        functions = tuple(function(minor, number) for number in range(functions))
    usual = {"uuid": f"rdma-{at}-{minor}", "type": "rdma", "functions": functions}
    return PhysicalDevice(minor=minor, **usual | fields)


def function(minor: int, number: int, **labels: str) -> device_facts.Function:
    """Return a virtual function of a device."""
    return device_facts.Function(f"0000:{minor:02x}:00.{number}", number, tuple(labels.items()))


def is_among(key: str, *values: str) -> facts.LabelExpression:
    """Return an expression that a label has one of these values."""
    return facts.LabelExpression(key, "In", values)


def selecting(kind: str = "", **labels: str) -> tuple[requests.LabelSelector, ...]:
    """Select devices of one type, or all that are no cards, by labels."""
    return (requests.LabelSelector(kind, tuple(is_among(*label) for label in labels.items())),)


def device(
    at: str = "n1",
    cards: int | Iterable[PhysicalDevice] = 4,
    *,
    others: Iterable[PhysicalDevice] = (),
    **fields: Any,
) -> device_facts.Device:
    """Return the devices of a node: so many plain cards, or these."""
    found = [card(minor, at=at) for minor in range(cards)] if isinstance(cards, int) else cards
    return device_facts.Device(at, tuple(found), tuple(others), **fields)


def view(
    known: device_facts.Device | Iterable[PhysicalDevice],
    used: Mapping[Any, device_view.Usage | None] = {},
    **fields: Any,
) -> device_view.View:
    """Return devices in use, by the minor of a GPU or by uuid; None is a device that a pod holds whole."""
    if not isinstance(known, device_facts.Device):
        cards = tuple(known)
        gpus, others = (
            [one for one in cards if (one.type == device_facts.GPU) is gpu] for gpu in (True, False)
        )
        known = device(cards=gpus, others=others)
    whole = {one.uuid: device_view.Usage(100, one.memory, 1) for one in (*known.cards, *known.others)}
    uuids = {one.minor: one.uuid for one in known.cards}
    named = {uuids[key] if isinstance(key, int) else key: usage for key, usage in used.items()}
    return device_view.View(known, {key: usage or whole[key] for key, usage in named.items()}, **fields)


def share(minor: int = 0, *, at: str = "n1", core: int = 100, memory: int = MEMORY) -> decisions.Share:
    """Return a share of a card, by default all of it."""
    return decisions.Share(uuid(at, minor), minor, core, memory)


def hold(
    name: str,
    at: str = "n1",
    shares: Iterable[int | decisions.Share] = (),
    *,
    withheld: int = 0,
    amounts: facts.Amounts = (),
    **fields: Any,
) -> holds.Hold:
    """Return what a pod holds on a node; a number means a whole card."""
    held = tuple(share(one, at=at) if isinstance(one, int) else one for one in shares)
    return holds.Hold(f"uid-{name}", f"{NAMESPACE}/{name}", at, amounts, held, withheld, **fields)


Asks = int | requests.Ask | Sequence[requests.Ask]


def request(
    *containers: Asks | requests.ContainerRequest, models: Iterable[str] = (), **fields: Any
) -> requests.DeviceRequest:
    """Return a request of running containers c0, c1, …; a number means whole cards."""
    made = (
        one if isinstance(one, requests.ContainerRequest) else container_request(f"c{at}", one)
        for at, one in enumerate(containers)
    )
    conditions = requests.Conditions(models=frozenset(models))
    return requests.DeviceRequest(tuple(made), **{"conditions": conditions} | fields)


def container_request(name: str, asks: Asks, *, runs: bool = True) -> requests.ContainerRequest:
    """Return what a container asks for."""
    listed = asks if isinstance(asks, Sequence) else (asks,)
    found = (requests.cards(ask) if isinstance(ask, int) else ask for ask in listed)
    return requests.ContainerRequest(name, tuple(found), runs)


def init(asks: Asks) -> requests.ContainerRequest:
    """Return what an init container asks for that ends before the others start."""
    return container_request("init", asks, runs=False)


def amounts(cpu: int) -> facts.Amounts:
    """Return the amounts of a pod that holds so much cpu, in thousandths."""
    return ((facts.CPU, cpu), (facts.PODS, 1))


def bind(uid: str, at: str, minor: int) -> decisions.Bind:
    """Return the decision to bind a pod to a card of a node."""
    return decisions.Bind(uid, decisions.Placement(at, (decisions.Grant("main", (share(minor, at=at),)),)))


def demand(cpu: int = 1000, *, extra: Mapping[str, int] = {}, **fields: Any) -> facts.NodeDemand:
    """Return what a pod demands of its node."""
    amounts = {facts.CPU: cpu, facts.PODS: 1, **extra}
    return facts.NodeDemand(
        tuple(sorted((name, amount) for name, amount in amounts.items() if amount)), **fields
    )


def pod_info(
    name: str = "p",
    cards: int | requests.Ask = 1,
    *,
    models: Iterable[str] = (),
    namespace: str = NAMESPACE,
    **fields: Any,
) -> queued_pods.PodInfo:
    """Return a pod that waits for so many cards."""
    asked = request(cards, models=models) if cards else requests.NO_DEVICES
    whole: dict[str, Any] = {"request": asked, "demand": demand()} | fields
    return queued_pods.PodInfo(f"uid-{name}", namespace, name, **whole)


def inventory(*known: facts.Node | device_facts.Device | holds.Hold, silent: Iterable[str] = ()) -> Inventory:
    """Return an inventory of these; all agents report except the silent ones."""
    built = Inventory()
    for one in known:
        match one:
            case facts.Node():
                built.put_node(one)
            case device_facts.Device():
                built.put_device(one)
                built.set_agent_not_ready(one.node, one.node in set(silent))
            case holds.Hold():
                built.charge(one)
    return built


def nodes(count: int, cards: int = 4) -> tuple[facts.Node | device_facts.Device, ...]:
    """Return nodes n1, n2, … with so many cards each."""
    found = [f"n{at}" for at in range(1, count + 1)]
    return tuple(node(name) for name in found) + tuple(device(name, cards) for name in found)


# ---------------------------------------------------------------- objects of the API


def container(name: str = "main", gpus: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a container of a pod's spec; `gpus` are limits, as people write them."""
    limits = {"resources": {"limits": {names.NVIDIA_GPU: gpus}}} if gpus else {}
    return {"name": name, **limits, **fields}


def asking(name: str = "main", requests: Mapping[str, object] = {}, **fields: Any) -> dict[str, Any]:
    """Return a container with these requests."""
    return container(name, resources={"requests": dict(requests)}, **fields)


def pod(
    name: str = "p",
    *,
    gpus: int = 0,
    annotations: Mapping[str, str] = {},
    labels: Mapping[str, str] = {},
    meta: Mapping[str, Any] = {},
    phase: str = "Pending",
    **spec: Any,
) -> raw.Pod:
    """Return a pod of Berth; further fields are those of its spec, as in a manifest."""
    about = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "annotations": dict(annotations),
        "labels": dict(labels),
    }
    plain = {"schedulerName": names.SCHEDULER_NAME, "containers": [container(gpus=gpus)]}
    body = {"metadata": about | dict(meta), "spec": plain | spec, "status": {"phase": phase}}
    return msgspec.json.decode(msgspec.json.encode(body), type=raw.Pod)


def admitted(pod: raw.Pod) -> raw.Pod:
    """Return the same pod once its kubelet has admitted it."""
    status = {
        "start_time": "2026-01-01T00:00:00Z",
        "container_statuses": tuple(raw.ContainerStatus(one.name) for one in pod.spec.containers),
    }
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, **status))


def renamed(pod: raw.Pod, name: str) -> raw.Pod:
    """Return the same pod under another name."""
    meta = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
    return msgspec.structs.replace(pod, metadata=meta)


def record(at: str = "n1", **minors: Sequence[int]) -> dict[str, str]:
    """Return the annotation that hands cards of a node to containers, named by keyword."""
    found = {name: {"gpu": [recorded(minor, at=at) for minor in those]} for name, those in minors.items()}
    return written(at, found)


def recorded(minor: int, *, at: str = "n1") -> allocation.Share:
    """Return a whole card of a node as an allocation has it."""
    return allocation.Share(uuid(at, minor), minor, 100, MEMORY)


def written(at: str, found: Mapping[str, Mapping[str, Sequence[allocation.Share]]]) -> dict[str, str]:
    """Return the annotation that hands these devices to containers."""
    return {names.ALLOCATION: allocation.encode(allocation.of(at, found))}


def gpupod(name: str = "p", at: str = "n1", *, uid: str = "", **minors: Sequence[int]) -> wire.GpuPod:
    """Return a GpuPod that names cards of a node, whole, for containers named by keyword."""
    containers = tuple(
        wire.HoldingContainer(
            one, tuple(wire.HeldCard(uuid(at, minor), minor, "gpu", 100, MEMORY, MODEL) for minor in those)
        )
        for one, those in minors.items()
    )
    return wire.GpuPod(
        wire.Meta(name, NAMESPACE, f"uid-of-gpupod-{name}"),
        wire.GpuPodSpec(at, uid or f"uid-{name}", containers),
    )


def answered(placement: decisions.Placement) -> dict[str, str]:
    """Return the annotation that a Binding of this placement writes."""
    if not placement.grants:
        return {}
    found: dict[str, dict[str, list[allocation.Share]]] = {}
    for grant in placement.grants:
        for one in grant.shares:
            share = allocation.Share(one.uuid, one.minor, one.core, one.memory, one.profile, one.function)
            found.setdefault(grant.container, {}).setdefault(one.type, []).append(share)
    return written(placement.node, found)


def published(
    at: str = "n1",
    cards: Sequence[Mapping[str, Any]] = ({},),
    *,
    cordon: Sequence[str] = (),
    conditions: Mapping[str, str] = {},
    verdicts: Sequence[Mapping[str, Any]] = (),
) -> wire.Device:
    """Return a Device; of each card, of its verdicts and conditions only what matters need be said."""
    plain = [
        {"uuid": uuid(at, minor), "type": "gpu", "minor": minor, "model": MODEL, "memory": MEMORY}
        for minor in range(len(cards))
    ]
    return msgspec.convert(
        {
            "metadata": {"name": at},
            "spec": {
                "node": at,
                "devices": [usual | dict(own) for usual, own in zip(plain, cards, strict=True)],
                "cordon": list(cordon),
            },
            "status": {
                "devices": [dict(one) for one in verdicts],
                "conditions": [{"type": kind, "status": truth} for kind, truth in conditions.items()],
            },
        },
        wire.Device,
    )
