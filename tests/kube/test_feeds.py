"""What each kind of object tells the ledger, odd ones included: nothing is skipped in a pod's favour."""

import collections
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from berth_crds import logs, names, wire
from berth_crds.client import store, watch
from berth_operator.engine import node_summaries
from berth_operator.kube import gpupod_store
from berth_operator.scheduling import holds
from berth_operator.scheduling.policy import Policy
from berth_operator.translate import devices, raw
from kube.sinks import NODE, Sinks, allocated, feed, named, pod, read, renewed, with_node
from support import builders, clock, ledgers, manifests


@pytest.fixture
def sinks() -> Sinks:
    """Lend the sinks of a ledger that knows a node of four cards."""
    return with_node()


# ---------------------------------------------------------------- GpuPods


def gpupod(*minors: int, node: str = NODE, uid: str = "u-1", **changes: Any) -> wire.GpuPod:
    """Return a GpuPod of the pod, as the server shows it."""
    body = manifests.gpupod("p", uid, node, *minors, namespace="ml", uid="gpupod-p", resourceVersion="1")
    thing = read(body | changes, wire.GpuPod)
    assert isinstance(thing, wire.GpuPod)
    return thing


LOST = pod(metadata={"annotations": {names.ALLOCATION: "{"}})
WITHHELD: tuple[int, list[str]] = (holds.ALL_CARDS, [])


@pytest.mark.parametrize(
    "blind",
    [
        pytest.param(
            watch.Undecodable(wire.Meta("p", "ml"), "it is damaged"), id="it cannot be read any more"
        ),
        pytest.param(wire.Meta("p", "ml"), id="it is gone"),
        pytest.param(gpupod(2, 2), id="it contradicts itself"),
        pytest.param(gpupod(), id="it says nothing any more"),
    ],
)
def test_a_gpupod_names_the_cards_of_a_pod_whose_record_is_lost(
    sinks: Sinks, blind: wire.GpuPod | wire.Meta | watch.Undecodable
) -> None:
    """Fail closed: every card is withheld until its GpuPod names them, and whenever that cannot be read."""
    feed(sinks.pods, LOST)
    held = [sinks.held]

    for thing in (gpupod(2), blind, gpupod(2)):
        feed(sinks.gpupods, thing)
        held.append(sinks.held)

    assert held == [WITHHELD, named(2), WITHHELD, named(2)]


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        pytest.param("gpupod-p", set(), id="the one that is gone"),
        pytest.param("another", {"ml/p"}, id="one made again"),
    ],
)
def test_a_gpupod_that_is_gone_leaves_the_store_of_kopf(sinks: Sinks, kept: str, left: set[str]) -> None:
    """Kopf may miss a delete, and the informer none; what Kopf has of a later one of that name stays."""
    sinks.gpupods.store.put("ml/p", gpupod_store.Record(kept, "u-1", NODE))
    sinks.gpupods.upserted(gpupod(2))
    assert sinks.gpupods.newest.copy() == {"ml/p": "gpupod-p"}

    sinks.gpupods.deleted(gpupod(2).metadata)

    assert sinks.gpupods.newest.copy() == {}
    assert set(sinks.gpupods.store.records) == left


def test_a_gpupod_names_the_cards_of_a_pod_that_cannot_be_read(sinks: Sinks) -> None:
    """A pod of which not even the request is readable gives back the cards that its GpuPod does not name."""
    feed(sinks.pods, pod(spec={"priority": "high"}))
    before = sinks.free

    feed(sinks.gpupods, gpupod(2))

    assert (before, sinks.free) == (0, 3)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return what was logged of GpuPods, with its level."""
    return [(record.levelname, record.message) for record in caplog.records if "GpuPod" in record.message]


IGNORED = "GpuPod ml/p is ignored: "
NAMES = ("INFO", "the GpuPod of ml/p names its devices on n1")
NEWS: dict[str, tuple[list[wire.GpuPod], list[tuple[str, str]]]] = {
    "it names the cards": ([gpupod(2), gpupod(2, status={"phase": "Running"})], [NAMES]),
    "it names others": ([gpupod(2), gpupod(3)], [NAMES]),
    "it names a card that is not there": ([gpupod(9)], []),
    "it is of an earlier pod": (
        [gpupod(2, uid="u-0"), gpupod(2, uid="u-0", status={"phase": "Running"}), gpupod(3, uid="u-0")],
        [("WARNING", f"{IGNORED}it is of a pod with the uid u-0, and that of the pod is u-1")],
    ),
    "it is of another node": (
        [gpupod(2, node="n2"), gpupod(3, node="n2")],
        [("WARNING", f"{IGNORED}it is of node n2, and the pod is on n1")],
    ),
    "it contradicts itself": (
        [gpupod(2, 2), gpupod(2, 2, status={"phase": "Running"})],
        [("WARNING", "GpuPod ml/p names nothing: containers.main.gpu: a device is named twice")],
    ),
    "it says nothing any more": (
        [gpupod(2), gpupod()],
        [NAMES, ("WARNING", "no GpuPod names the devices of ml/p now")],
    ),
}


@pytest.mark.parametrize(("things", "expected"), NEWS.values(), ids=NEWS.keys())
def test_each_word_of_a_gpupod_is_logged_once(
    sinks: Sinks, caplog: pytest.LogCaptureFixture, things: list[wire.GpuPod], expected: list[tuple[str, str]]
) -> None:
    """People learn in one sentence what a GpuPod does for its pod, and not at each event."""
    caplog.set_level("INFO")
    feed(sinks.pods, LOST)

    for thing in things:
        feed(sinks.gpupods, thing)
        feed(sinks.pods, LOST)

    assert logged(caplog) == expected


def test_a_gpupod_that_is_not_needed_is_not_logged(sinks: Sinks, caplog: pytest.LogCaptureFixture) -> None:
    """Of a pod with a readable record the GpuPod counts for nothing, whatever it says."""
    caplog.set_level("INFO")
    feed(sinks.gpupods, gpupod(3, uid="u-0"))
    feed(sinks.pods, pod(metadata=allocated(2)))
    feed(sinks.gpupods, gpupod(1, node="n2"))

    assert logged(caplog) == []
    assert sinks.held == named(2)


# ---------------------------------------------------------------- nodes and Devices


def test_a_device_that_cannot_be_read_gives_no_card(sinks: Sinks) -> None:
    """The agent's last word may be that a card is broken: what cannot be read is not trusted."""
    body = manifests.device(NODE)
    body["spec"]["devices"][0]["minor"] = "zero"

    feed(sinks.devices, read(body, wire.Device))
    unknown = sinks.free
    feed(sinks.devices, read(manifests.device(NODE), wire.Device))

    assert (unknown, sinks.free) == (0, 4)


def labelled(count: int) -> dict[str, str]:
    """Return so many labels."""
    return dict.fromkeys(map(str, range(count)), "")


def node(labels: int) -> raw.Node:
    """Return the node with so many labels."""
    return raw.Node(wire.Meta(NODE, labels=labelled(labels)))


def test_a_node_that_cannot_be_read_or_says_too_much_takes_no_pod(
    sinks: Sinks, caplog: pytest.LogCaptureFixture
) -> None:
    """Its taints and room are unknown; that it says too much is logged once, until it says less."""
    undecodable = read({"metadata": {"name": NODE}, "spec": {"taints": "all"}}, raw.Node)
    known = []

    for thing in (node(5), undecodable, node(5), node(5000), node(5000), node(5)):
        feed(sinks.nodes, thing)
        info = sinks.ledger.inventory.node(NODE)
        known.append(info is not None and info.node is not None)

    assert known == [True, False, True, False, False, True]
    (message,) = caplog.messages
    assert "node n1 takes no pod: it has 5000 labels" in message


def device_with_labels(count: int) -> wire.Device:
    """Return a Device of one card with so many labels."""
    return builders.published(cards=[{"labels": labelled(count)}])


def device_of_size(length: int) -> wire.Device:
    """Return a Device of one card that has more bytes than this as an object."""
    thing = read({**msgspec.to_builtins(builders.published()), "more": "x" * length}, raw.Device)
    assert isinstance(thing, raw.Device)
    return thing


@pytest.mark.parametrize(
    ("make", "sizes", "reason", "claims"),
    [
        pytest.param(device_with_labels, (5, 5000, 6000, 5), "more than 1024 labels", 1, id="labels"),
        pytest.param(
            device_of_size, (5, 1 << 20, 1 << 21, 5), "more than 1048576 bytes as an object", 0, id="bytes"
        ),
    ],
)
def test_a_device_that_says_too_much_gets_no_pod(
    make: Callable[[int], wire.Device],
    sizes: tuple[int, ...],
    reason: str,
    claims: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told once in the log, in the summary while it lasts, and read again as soon as it says less."""
    sinks, known = Sinks(), []

    for size in sizes:
        feed(sinks.devices, make(size))
        sinks.ledger.agent_silent(NODE, silent=False)
        (found,) = node_summaries.summarize(sinks.ledger.inventory, {NODE})
        known.append((found.free, found.reason, len(found.claims)))

    assert known == [(1, "", 1), (0, reason, claims), (0, reason, claims), (1, "", 1)]
    assert caplog.messages == [f"Device n1 gets no pod: it has {reason}"]


def test_a_device_of_very_many_uuids_claims_its_cards_alone() -> None:
    """What is to be recorded of it is no more than its status takes, or the server would refuse all of it."""
    sinks = Sinks()
    instances = [
        [{"uuid": f"M{minor}-{at}", "profile": "1g.5gb", "memory": 1} for at in range(64)]
        for minor in range(64)
    ]

    cards = [{"mig": {"enabled": True, "instances": listed}} for listed in instances]
    feed(sinks.devices, builders.published(cards=cards))
    feed(sinks.leases, renewed("now"))

    (found,) = node_summaries.summarize(sinks.ledger.inventory, {NODE})
    assert len(found.claims) == 64


def test_objects_that_change_their_faults_have_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Written a hundred times, each time wrong in another way, each of them has a few lines a minute."""
    sinks, limiter = Sinks(), logs.Limiter(clock.Clock())

    for turn in range(100):
        twice = (wire.HoldingContainer(f"c{turn}"),) * 2
        feed(sinks.nodes, node(5000 + turn))
        feed(sinks.gpupods, wire.GpuPod(wire.Meta("p", "ml"), wire.GpuPodSpec(NODE, "u", twice)))

    admitted = [line for record in caplog.records for line in limiter.admitted(record)]
    assert (len(caplog.records), len(admitted)) == (200, 2 * logs.MOST_ABOUT_ONE)


# ---------------------------------------------------------------- policies


def rule(name: str, strategy: str) -> wire.PlacementPolicy:
    """Return a policy."""
    return wire.PlacementPolicy(wire.Meta(name), wire.PolicySpec(strategy=strategy))


def test_the_default_policy_counts_and_its_last_good_state_stays(sinks: Sinks) -> None:
    """Other policies change nothing, a bad one changes nothing, and without any the built-in one holds."""
    feed(sinks.policies, rule("default", "spread"))
    good = sinks.ledger.policy
    kept = []
    for thing in (rule("other", "binpack"), rule("default", "roulette"), wire.Meta("other")):
        feed(sinks.policies, thing)
        kept.append(sinks.ledger.policy)
    feed(sinks.policies, wire.Meta("default"))

    assert good.strategy == "spread"
    assert kept == [good] * 3
    assert sinks.ledger.policy == Policy()


# ---------------------------------------------------------------- signs of life


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        pytest.param(("Ready", "False"), True, id="found silent"),
        pytest.param(("Ready", "True"), False, id="found alive"),
        pytest.param(("NVMLReady", "False"), False, id="another condition"),
    ],
)
def test_a_device_remembers_that_its_agent_was_silent(condition: tuple[str, str], *, found: bool) -> None:
    """A new operator starts from what the old one found out."""
    status = wire.DeviceStatus(conditions=(wire.Condition(*condition),))

    assert devices.found_silent(wire.Device(wire.Meta(NODE), wire.DeviceSpec(NODE), status)) is found


def test_an_agent_that_died_before_is_not_believed() -> None:
    """Its old Lease is no sign of life for an operator that has just started; the next renewal is."""
    sinks = Sinks()
    body = manifests.device(NODE) | {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    feed(sinks.nodes, raw.Node(wire.Meta(NODE)))
    feed(sinks.leases, renewed("long ago"))
    feed(sinks.devices, read(body, wire.Device))
    before = sinks.free

    feed(sinks.leases, renewed("now"))

    assert (before, sinks.free) == (0, 4)


def test_a_lease_that_goes_takes_the_cards_along(sinks: Sinks) -> None:
    """Without a Lease nobody vouches for what the Device says."""
    feed(sinks.leases, wire.Meta(NODE))

    assert sinks.free == 0


# ---------------------------------------------------------------- a list tells nothing of who was first


def published(node: str, *, uuids_of: str = "", version: str) -> wire.Device:
    """Return the Device of a node, as the server shows it, with its own uuids or those of another node."""
    body = manifests.device(uuids_of or node)
    body["metadata"] = {"name": node, "uid": f"uid-{node}", "resourceVersion": version}
    thing = read(body, wire.Device)
    assert isinstance(thing, wire.Device)
    return thing


def test_a_known_device_that_publishes_further_uuids_comes_after_a_new_one() -> None:
    """A list is in the order of the names, so an agent that copies a new node's uuids would seem first."""
    sinks = Sinks(ledgers.with_nodes())
    kept, listing = store.Store("Devices", sinks.devices), store.Listing[wire.Device]()
    kept.upsert(published("a", version="5"))
    sinks.ledger.all_devices_read()

    page = [published("a", uuids_of="b", version="6"), published("b", version="7")]
    collections.deque(kept.upsert_page(page, listing))
    collections.deque(kept.end_list(listing))

    owners = sinks.ledger.inventory.uuid_ownership
    assert [owners.keeper(builders.uuid("b", minor)) for minor in range(4)] == ["b"] * 4
