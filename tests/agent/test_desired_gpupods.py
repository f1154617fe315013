"""What a GpuPod says follows from its pod's allocation or the kubelet, its phase, and the sources."""

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from berth_agent import device_spec, simulated
from berth_agent.gpupods import desired, verification, watched_pod
from berth_agent.kubelet import device_ids
from berth_agent.kubelet.device_ids import ALL, Part
from berth_crds import allocation, names, vocabulary, wire
from support import nodes

LATER = nodes.NOON + dt.timedelta(minutes=5)
NOTHING = wire.GpuPodStatus()

# The memory of these cards is not known: what is held of them is shown by compute alone.
CARDS = tuple(
    msgspec.structs.replace(device_spec.card(card), memory=None)
    for card in simulated.machine("n1", "2xT4").answering_cards()
)
NODE_CARDS = desired.NodeCards("n1", desired.gpus_by_minor(CARDS), vocabulary.GrantSource.SIMULATED)

SHARE = allocation.Share(CARDS[1].uuid, minor=1, core=50, memory=1024, limit=150)
WHOLE = allocation.Share(CARDS[0].uuid, minor=0, core=100, memory=2048)
HALF = allocation.Share(CARDS[0].uuid, minor=0, core=50, memory=1024)
SLICE = allocation.Share("MIG-1", minor=0, core=14, memory=512, profile="1g.5gb")
NIC = allocation.Share("rdma-0000:1f:00.0", minor=0, core=100, memory=0, vf="0000:1f:00.2")

ALLOCATION = allocation.of("n1", {"a": {"gpu": [SHARE, WHOLE]}, "b": {"gpu": [SLICE], "rdma": [NIC]}})
ELSEWHERE = allocation.of("n2", {"a": {"gpu": [SHARE]}})
POD = watched_pod.Pod(wire.Meta(name="p", namespace="ns", uid="u-1"), watched_pod.PodSpec("n1"))


def status(
    phase: str,
    before: wire.GpuPodStatus = NOTHING,
    *,
    given: allocation.Allocation = ALLOCATION,
    node_cards: desired.NodeCards = NODE_CARDS,
    evidence: verification.Evidence | None = None,
    now: dt.datetime = nodes.NOON,
) -> wire.GpuPodStatus:
    """Return the status of the GpuPod of a pod that was given something and is in this phase."""
    pod = msgspec.structs.replace(POD, status=watched_pod.PodStatus(phase))
    spec = desired.spec(pod, given, node_cards)
    return desired.status(pod, spec, before, node_cards, evidence=evidence, now=now)


# ---------------------------------------------------------------- what was given


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, None, id="not placed by Berth"),
        pytest.param(allocation.encode(ALLOCATION), ALLOCATION, id="as the Binding wrote it"),
        pytest.param("{", "NotJson", id="not JSON"),
        pytest.param('{"v": 2}', "UnknownVersion", id="newer version"),
        pytest.param(allocation.encode(ELSEWHERE), "it names the node n2", id="another node"),
    ],
)
def test_allocation_is_what_the_binding_wrote(
    text: str | None, expected: allocation.Allocation | str | None
) -> None:
    """An allocation that is damaged or not of this node is told, never guessed."""
    annotations = {} if text is None else {names.ALLOCATION: text}
    pod = watched_pod.Pod(wire.Meta(name="p", namespace="ns", uid="u-1", annotations=annotations))

    found = desired.decode_allocation(pod, "n1")

    if isinstance(found, desired.UnusableAllocation):
        assert found.detail.startswith(str(expected))
    else:
        assert found == expected


def test_spec_copies_the_allocation() -> None:
    """Each container's devices stand in order, GPUs with the model of their card."""
    spec = desired.spec(POD, ALLOCATION, NODE_CARDS)

    assert (spec.node, spec.pod_uid) == ("n1", "u-1")
    assert spec.containers == (
        wire.HoldingContainer(
            "a",
            (
                wire.HeldCard(CARDS[1].uuid, 1, "gpu", core=50, memory=1024, model="Tesla T4", limit=150),
                wire.HeldCard(CARDS[0].uuid, 0, "gpu", core=100, memory=2048, model="Tesla T4"),
            ),
        ),
        wire.HoldingContainer(
            "b",
            (
                wire.HeldCard("MIG-1", 0, "gpu", core=14, memory=512, model="Tesla T4", profile="1g.5gb"),
                wire.HeldCard(NIC.uuid, 0, "rdma", core=100, memory=0, vf="0000:1f:00.2"),
            ),
        ),
    )


# ---------------------------------------------------------------- what is held


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 300])
def test_a_record_has_no_more_containers_than_the_server_takes(count: int) -> None:
    """And names the same devices: what it does not name would be kept back from everybody."""
    part = allocation.Share(CARDS[1].uuid, minor=1, core=1, memory=10)
    given = allocation.of("n1", {f"c{at:03}": {"gpu": [part], "rdma": [NIC]} for at in range(count)})
    whole = desired.spec(POD, given, NODE_CARDS)

    found = desired.within_limits(whole)

    assert len(found.containers) == min(count, 64)
    assert found.containers[:63] == whole.containers[:63]
    if count > 63:
        last = found.containers[63]
        held = {one.uuid: (one.core, one.memory) for one in last.devices}
        assert last.name == "c063"
        assert held == {CARDS[1].uuid: (min(100, count - 63), 10 * (count - 63)), NIC.uuid: (100, 0)}


def test_running_pod_is_granted_what_it_was_given() -> None:
    """Under the simulated probe a running pod holds what it was given, and the record says who says so."""
    found = status("Running")

    assert (found.phase, found.minors) == ("Running", "0,1")
    assert found.granted == (
        wire.Grant("a", (CARDS[1].uuid, CARDS[0].uuid), "simulated"),
        wire.Grant("b", ("MIG-1", NIC.uuid), "simulated"),
    )
    assert [(each.type, each.status, each.reason) for each in found.conditions] == [
        ("Verified", "True", "Simulated")
    ]


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        ("Pending", "NotRunning"),
        ("Succeeded", "Finished"),
        ("Failed", "Finished"),
        ("Unknown", "PhaseUnknown"),
    ],
)
def test_pod_that_does_not_run_is_granted_nothing(phase: str, reason: str) -> None:
    """Before it runs and after it ended a pod holds nothing, and whether that agrees is unknown."""
    found = status(phase, status("Running"))

    assert (found.phase, found.granted) == (phase, ())
    assert [(each.status, each.reason) for each in found.conditions] == [("Unknown", reason)]


def test_without_a_source_nothing_is_said_of_grants() -> None:
    """Where nobody tells of grants there are none, and no condition either."""
    found = status("Running", node_cards=dataclasses.replace(NODE_CARDS, source=None))

    assert found == wire.GpuPodStatus(phase="Running", minors="0,1", share="100 % + 1g.5gb,50 %")


def test_verified_is_dated_by_its_change() -> None:
    """The condition keeps its moment while the pod runs, and gets a new one when it ends."""
    first = status("Running")

    assert status("Running", first, now=LATER) == first
    assert status("Succeeded", first, now=LATER).conditions[0].last_transition_time == "2026-01-01T12:05:00Z"


# ---------------------------------------------------------------- who asks for devices


@pytest.mark.parametrize(
    ("container", "asks"),
    [
        pytest.param({"name": "c"}, False, id="nothing"),
        pytest.param({"name": "c", "resources": {"limits": {"cpu": "1"}}}, False, id="a processor"),
        pytest.param({"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}, True, id="a card"),
        pytest.param({"name": "c", "resources": {"requests": {"berth.dev/gpu": 50}}}, True, id="half a card"),
        pytest.param(
            {"name": "c", "resources": {"limits": {"volcano.sh/gpu-number": 1}}}, True, id="Volcano"
        ),
        pytest.param({"name": "c", "resources": {"limits": {"nvidia.com/gpu": "0"}}}, False, id="no card"),
        pytest.param({"name": "c", "resources": {"limits": None}}, False, id="no limits"),
    ],
)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_who_asks_for_devices_is_found(container: Mapping[str, Any], where: str, *, asks: bool) -> None:
    """By every resource for which Berth counts cards, whoever serves it."""
    body = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {where: [container]}}

    found = watched_pod.requesting_containers(msgspec.convert(body, watched_pod.Pod))

    assert [one.name for one in found] == (["c"] if asks else [])


# ---------------------------------------------------------------- how much of each card


@pytest.mark.parametrize(
    ("init", "given", "share"),
    [
        pytest.param(["a"], {"a": [WHOLE], "b": [WHOLE]}, "", id="one after the other"),
        pytest.param(["a"], {"a": [WHOLE], "b": [HALF, SHARE]}, "100 %,50 %", id="more at first"),
        pytest.param(["a"], {"a": [HALF], "b": [HALF], "c": [HALF]}, "50 % + 50 %", id="two that stay"),
        pytest.param(["a", "s"], {"a": [HALF], "s": [HALF]}, "50 %", id="gone before the sidecar"),
        pytest.param(["s", "a"], {"a": [HALF], "s": [HALF]}, "50 % + 50 %", id="beside the sidecar"),
        pytest.param([], {"a": [HALF], "x": [HALF]}, "50 % + 50 %", id="one that is not known"),
    ],
)
def test_share_is_what_a_pod_has_at_one_time(
    init: list[str], given: dict[str, list[allocation.Share]], share: str
) -> None:
    """Containers that run one after the other do not add up; `s` is one that prepares the pod and stays."""
    containers = watched_pod.PodSpec(
        containers=tuple(watched_pod.Container(name) for name in "abc" if name not in init),
        init_containers=tuple(
            watched_pod.Container(name, restart_policy="Always" if name == "s" else None) for name in init
        ),
    )
    allocated = allocation.of("n1", {name: {"gpu": parts} for name, parts in given.items()})
    pod = msgspec.structs.replace(POD, spec=containers)
    spec = desired.spec(pod, allocated, NODE_CARDS)

    assert desired.status(pod, spec, NOTHING, NODE_CARDS, evidence=None, now=nodes.NOON).share == share


@pytest.mark.parametrize(
    ("core", "memory", "share"),
    [
        pytest.param(10, 60 << 30, "10 % and 60 GiB", id="more memory"),
        pytest.param(30, 80 << 30, "30 % and 80 GiB", id="all memory"),
        pytest.param(100, 40 << 30, "100 % and 40 GiB", id="half the memory"),
        pytest.param(0, 1000 << 20, "1000 MiB", id="memory alone"),
        pytest.param(50, 40 << 30, "50 %", id="one part of both"),
        pytest.param(100, 80 << 30, "", id="the whole card"),
    ],
)
def test_share_tells_compute_and_memory_where_they_differ(core: int, memory: int, share: str) -> None:
    """In the words of the event of the bind; nothing is said of the whole card alone."""
    node_cards = dataclasses.replace(NODE_CARDS, gpus={0: msgspec.structs.replace(CARDS[0], memory=80 << 30)})
    part = allocation.Share(CARDS[0].uuid, minor=0, core=core, memory=memory)

    assert (
        status("Running", given=allocation.of("n1", {"a": {"gpu": [part]}}), node_cards=node_cards).share
        == share
    )


# ---------------------------------------------------------------- what the kubelet gave

OF_KUBELET = (
    wire.Card(uuid="GPU-a", type="gpu", minor=0, memory=16, model="Tesla T4"),
    wire.Card(
        uuid="GPU-b",
        type="gpu",
        minor=1,
        memory=16,
        model="Tesla T4",
        sharing=wire.Sharing("time-slicing", replicas=4),
    ),
    wire.Card(
        uuid="GPU-c",
        type="gpu",
        minor=2,
        memory=40,
        mig=wire.Mig(True, (wire.MigInstance("MIG-1", "1g.5gb", 5, gi=7, ci=0),)),
    ),
)
ALLOCATABLE = device_ids.allocatable_devices(OF_KUBELET)
WITH_KUBELET = desired.NodeCards("n1", desired.gpus_by_minor(OF_KUBELET), None, ALLOCATABLE)


def by_kubelet(**containers: Mapping[str, Part]) -> allocation.Allocation:
    """Return what the kubelet gave: to each container so much of each device."""
    holdings = {
        name: [device_ids.HeldDevice(uuid, ALLOCATABLE.get(uuid), part) for uuid, part in held.items()]
        for name, held in containers.items()
    }
    return desired.allocation_by_kubelet("n1", holdings)


@pytest.mark.parametrize(
    ("main", "side", "devices"),
    [
        pytest.param(
            {"GPU-a": ALL, "GPU-b": Part(3, 4)},
            {"MIG-1": ALL},
            {
                "main": (
                    wire.HeldCard("GPU-a", 0, "gpu", core=100, memory=16, model="Tesla T4"),
                    wire.HeldCard("GPU-b", 1, "gpu", core=75, memory=12, model="Tesla T4"),
                ),
                "side": (wire.HeldCard("MIG-1", 2, "gpu", core=100, memory=5, profile="1g.5gb"),),
            },
            id="whole cards, replicas and instances by what they are worth",
        ),
        pytest.param(
            {"GPU-a": Part(30, 100)},
            {},
            {"main": (wire.HeldCard("GPU-a", 0, "gpu", core=30, memory=4, model="Tesla T4"),)},
            id="a part in percent",
        ),
        pytest.param({"GPU-x": ALL}, {}, {}, id="no minor is made up for what is no card of the node"),
    ],
)
def test_gpupod_names_what_the_kubelet_gave(
    main: Mapping[str, Part],
    side: Mapping[str, Part],
    devices: Mapping[str, tuple[wire.HeldCard, ...]],
) -> None:
    """By container; the operator withholds what is left open."""
    spec = desired.spec(POD, by_kubelet(main=main, side=side), WITH_KUBELET)

    assert {one.name: one.devices for one in spec.containers} == devices


def test_published_containers_are_kept_and_added_to() -> None:
    """A container that is named keeps its cards; one that is not, or without cards, gets the kubelet's."""
    published = desired.spec(POD, by_kubelet(main={"GPU-a": ALL}), WITH_KUBELET)
    empty = msgspec.structs.replace(
        published, containers=(*published.containers, wire.HoldingContainer("side"))
    )
    found = desired.spec(POD, by_kubelet(main={"GPU-b": ALL}, side={"MIG-1": ALL}), WITH_KUBELET)

    assert desired.merged(empty, found) == desired.spec(
        POD, by_kubelet(main={"GPU-a": ALL}, side={"MIG-1": ALL}), WITH_KUBELET
    )


@pytest.mark.parametrize(
    ("phase", "evidence", "granted", "condition"),
    [
        pytest.param(
            "Running",
            verification.Evidence({"main": ("GPU-a",)}, {"main": ("GPU-b",), "": ("GPU-a",)}),
            (wire.Grant("main", ("GPU-a",), "podresources"), wire.Grant("main", ("GPU-b",), "nvml")),
            ("False", "Mismatch"),
            id="each source beside each container",
        ),
        pytest.param(
            "Running",
            verification.Evidence({"main": ("GPU-a", "no uuid at all", "x" * 65)}),
            (wire.Grant("main", ("GPU-a",), "podresources"),),
            ("False", "Mismatch"),
            id="an id that the schema refuses is in the condition alone",
        ),
        pytest.param(
            "Succeeded",
            verification.Evidence({"main": ("GPU-a",)}),
            (),
            ("Unknown", "Finished"),
            id="old kubelets list pods that have ended",
        ),
    ],
)
def test_status_quotes_each_source(
    phase: str,
    evidence: verification.Evidence,
    granted: tuple[wire.Grant, ...],
    condition: tuple[str, str],
) -> None:
    """Grants are what the sources say, and the condition judges."""
    found = status(phase, given=by_kubelet(main={"GPU-a": ALL}), node_cards=WITH_KUBELET, evidence=evidence)

    assert (found.minors, found.granted) == ("0", granted)
    assert [(one.status, one.reason) for one in found.conditions] == [condition]
    assert all(uuid in found.conditions[0].message for uuid in evidence.kubelet["main"][1:])
