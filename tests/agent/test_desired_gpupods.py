"""What a GpuPod says follows from its pod's allocation, its phase, and who tells of grants."""

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from berth_agent import device_spec, simulated
from berth_agent.gpupods import desired, reconciler, watched_pod
from berth_crds import allocation, names, vocabulary, wire
from berth_crds.client import errors

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
LATER = NOON + dt.timedelta(minutes=5)
NOTHING = wire.GpuPodStatus()

# The memory of these cards is not known: what is held of them is shown by compute alone.
CARDS = tuple(
    msgspec.structs.replace(device_spec.card(card), memory=None)
    for card in simulated.machine("n1", "2xT4").answering_cards()
)
NODE_CARDS = desired.NodeCards("n1", desired.gpus_by_minor(CARDS), vocabulary.GrantSource.SIMULATED)

SHARE = allocation.Share(CARDS[1].uuid, minor=1, core=50, memory=1024)
WHOLE = allocation.Share(CARDS[0].uuid, minor=0, core=100, memory=2048)
SLICE = allocation.Share("MIG-1", minor=0, core=14, memory=512, profile="1g.5gb")
NIC = allocation.Share("rdma-0000:1f:00.0", minor=0, core=100, memory=0, vf="0000:1f:00.2")


def pod(text: str | None, *, phase: str = "Pending") -> watched_pod.Pod:
    """Make a bound pod with this allocation."""
    annotations = {} if text is None else {names.ALLOCATION: text}
    meta = wire.Meta(name="p", namespace="ns", uid="u-1", annotations=annotations)
    return watched_pod.Pod(meta, watched_pod.PodSpec("n1"), watched_pod.PodStatus(phase))


def told(*, node: str = "n1") -> allocation.Allocation:
    """Make an allocation of two containers."""
    return allocation.of(node, {"a": {"gpu": [SHARE, WHOLE]}, "b": {"gpu": [SLICE], "rdma": [NIC]}})


def status(
    phase: str,
    before: wire.GpuPodStatus = NOTHING,
    *,
    node_cards: desired.NodeCards = NODE_CARDS,
    now: dt.datetime = NOON,
) -> wire.GpuPodStatus:
    """Describe the status of a pod in this phase."""
    told_of = pod("", phase=phase)
    return desired.status(
        told_of, desired.spec(told_of, told(), node_cards), before, node_cards, evidence=None, now=now
    )


# ---------------------------------------------------------------- what was given


def test_pod_without_allocation_was_given_nothing() -> None:
    """A pod that Berth did not place has no record."""
    assert desired.decode_allocation(pod(None), "n1") is None


def test_allocation_is_read() -> None:
    """What the Binding wrote is what the pod was given."""
    assert desired.decode_allocation(pod(allocation.encode(told())), "n1") == told()


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        pytest.param("{", "NotJson", id="not JSON"),
        pytest.param('{"v": 2}', "UnknownVersion", id="newer version"),
        pytest.param(allocation.encode(told(node="n2")), "names the node n2", id="another node"),
    ],
)
def test_allocation_that_cannot_be_trusted_is_unclear(text: str, detail: str) -> None:
    """An allocation that is damaged or not of this node is told, never guessed."""
    found = desired.decode_allocation(pod(text), "n1")

    assert isinstance(found, desired.UnusableAllocation)
    assert detail in found.detail


def test_spec_copies_the_allocation() -> None:
    """Each container's devices stand in order, GPUs with the model of their card."""
    spec = desired.spec(pod(""), told(), NODE_CARDS)

    assert (spec.node, spec.pod_uid) == ("n1", "u-1")
    assert spec.containers == (
        wire.HoldingContainer(
            "a",
            (
                wire.HeldCard(CARDS[1].uuid, 1, "gpu", core=50, memory=1024, model="Tesla T4"),
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


def test_zeros_of_a_held_card_are_written() -> None:
    """Minor 0 and no memory reach the API as such."""
    written = msgspec.to_builtins(desired.spec(pod(""), told(), NODE_CARDS))["containers"][1]["devices"][1]

    assert (written["minor"], written["memory"]) == (0, 0)


# ---------------------------------------------------------------- what is held


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


# ---------------------------------------------------------------- what is dirty


async def test_dirty_names_come_once_and_in_order() -> None:
    """A name that becomes dirty twice is looked at once; a worker waits for the next one."""
    dirty = reconciler.WorkQueue()
    for name in ("a", "b", "a"):
        dirty.add(("ns", name))

    assert [await dirty.get(), await dirty.get()] == [("ns", "a"), ("ns", "b")]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(dirty.get(), 0.01)
    dirty.add(("ns", "a"))
    assert await dirty.get() == ("ns", "a")


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


@pytest.mark.parametrize(
    ("error", "most"),
    [
        pytest.param(errors.Forbidden(403, "not of this node"), 4.0, id="refused: the name may be free soon"),
        pytest.param(errors.Invalid(422, "spec.node cannot change"), 4.0, id="so is the node of a record"),
        pytest.param(errors.Unreachable("away", ambiguous=False), 20.0, id="no answer: spare the server"),
    ],
)
def test_a_name_that_another_node_has_taken_is_tried_every_few_seconds(
    error: errors.ClientError, most: float
) -> None:
    """Nobody tells the agent when the operator has given the name back."""
    assert reconciler.longest_pause(error) == most


# ---------------------------------------------------------------- how much of each card


def container(name: str, *, stays: bool = False) -> watched_pod.Container:
    """Name a container, which may prepare the pod and stay."""
    return watched_pod.Container(name, restart_policy="Always" if stays else None)


HALF = allocation.Share(CARDS[0].uuid, minor=0, core=50, memory=1024)


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
    main = tuple(container(name) for name in "abc" if name not in init)
    first = tuple(container(name, stays=name == "s") for name in init)
    spec = watched_pod.PodSpec("n1", containers=main, init_containers=first)
    told_of = watched_pod.Pod(pod("").metadata, spec, watched_pod.PodStatus("Running"))
    said = desired.spec(
        told_of, allocation.of("n1", {name: {"gpu": parts} for name, parts in given.items()}), NODE_CARDS
    )

    assert desired.status(told_of, said, NOTHING, NODE_CARDS, evidence=None, now=NOON).share == share


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
    told_of = watched_pod.Pod(
        pod("").metadata, watched_pod.PodSpec("n1", (container("a"),)), watched_pod.PodStatus("Running")
    )
    said = desired.spec(told_of, allocation.of("n1", {"a": {"gpu": [part]}}), node_cards)

    assert desired.status(told_of, said, NOTHING, node_cards, evidence=None, now=NOON).share == share
