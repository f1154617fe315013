"""What each kind of event tells the ledger, odd ones included: nothing is skipped in a pod's favour."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.client import api, connection, lease, watch
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import auditor, feeds, policy_sink
from berth_operator.scheduling import holds
from berth_operator.scheduling.policy import Policy
from berth_operator.translate import raw
from support import builders, clock, inventories, manifests

NODE = "n1"
KNOWN = {"namespace": "ml", "uid": "u-1", "resourceVersion": "5"}


class Scene:
    """A ledger and its sinks, without a cluster."""

    def __init__(self) -> None:
        self.time = clock.Clock()
        self.ledger = Ledger(self.time)
        self.watchdog = Watchdog(self.ledger, clock=self.time)
        self.pods = feeds.PodSink(self.ledger, auditor.NullObserver())
        self.gpupods = feeds.GpuPodSink(self.ledger)
        self.nodes = feeds.NodeSink(self.ledger)
        self.devices = feeds.DeviceSink(self.ledger, self.watchdog)
        self.leases = feeds.LeaseSink(self.watchdog)
        self.policies = policy_sink.PolicySink(self.ledger)

    def with_node(self) -> "Scene":
        """Add a node with cards and an agent that speaks."""
        self.nodes.upserted(raw.Node(wire.Meta(NODE)))
        self.devices.upserted(read(manifests.device(NODE), wire.Device))
        self.leases.upserted(lease.Lease(wire.Meta(NODE), lease.LeaseSpec(renew_time="now")))
        return self

    @property
    def free(self) -> int:
        """Count the free cards of the node."""
        return inventories.free_cards(self.ledger.inventory, NODE)


def read(body: Any, kind: Any) -> Any:
    """Read an object as the informer does."""
    return watch.Codec(kind).decode_object(msgspec.Raw(json.dumps(body).encode()))


def pod(**changes: Any) -> dict[str, Any]:
    """Make a pod as the server shows it, bound to the node unless told otherwise."""
    spec: dict[str, Any] = {"nodeName": NODE} | changes.pop("spec", {})
    made = manifests.pod("p", **spec)
    made["metadata"] |= KNOWN | changes.pop("metadata", {})
    return made | {"status": {"phase": "Running"}} | changes


@pytest.fixture
def scene() -> Scene:
    """Lend a ledger that knows a node of four cards."""
    return Scene().with_node()


# ---------------------------------------------------------------- pods that cannot be read

ODD_CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": None,
    "message": None,
    "lastTransitionTime": None,
}


def test_a_condition_without_words_spoils_nothing(scene: Scene) -> None:
    """Times and words that a program left null are no reason not to read a pod."""
    annotated = pod(metadata={"annotations": manifests.allocated(NODE, 2)})
    annotated["status"]["conditions"] = [ODD_CONDITION]

    thing = read(annotated, raw.Pod)

    assert isinstance(thing, raw.Pod)
    scene.pods.upserted(thing)
    assert scene.free == 3


def odd(body: dict[str, Any]) -> watch.Undecodable:
    """Read a pod that cannot be read."""
    thing = read(body, raw.Pod)
    assert isinstance(thing, watch.Undecodable)
    return thing


def test_a_bound_pod_that_cannot_be_read_withholds_everything(scene: Scene) -> None:
    """Nobody can tell which cards it has, so its node gives none until it is gone."""
    thing = odd(pod(spec={"priority": "high"}))

    scene.pods.undecodable(thing)
    withheld = scene.free
    scene.pods.undecodable_deleted(thing.metadata)

    assert withheld == 0
    assert scene.free == 4


def test_it_gives_back_what_it_does_not_hold_once_it_can_be_read(scene: Scene) -> None:
    """Readable again, the pod holds what its allocation says."""
    scene.pods.undecodable(odd(pod(spec={"priority": "high"})))

    scene.pods.upserted(read(pod(metadata={"annotations": manifests.allocated(NODE, 2)}), raw.Pod))

    assert scene.free == 3


def test_what_is_known_of_it_stays(scene: Scene) -> None:
    """A pod whose cards are known goes on holding just these when it becomes unreadable."""
    annotations = manifests.allocated(NODE, 2)
    scene.pods.upserted(read(pod(metadata={"annotations": annotations}), raw.Pod))

    scene.pods.undecodable(odd(pod(spec={"priority": "high"}, metadata={"annotations": annotations})))

    assert scene.free == 3


def test_an_assumed_place_of_an_odd_pod_withholds_everything(scene: Scene) -> None:
    """Somebody may have bound it elsewhere on the node than we meant to."""
    waiting = pod(spec={"nodeName": ""}, status={"phase": "Pending"})
    scene.pods.upserted(read(waiting, raw.Pod))
    scene.ledger.assume(builders.bind("u-1", NODE, 0))

    scene.pods.undecodable(odd(pod(spec={"priority": "high"})))

    assert scene.free == 0
    assert scene.ledger.state("u-1") is State.CONFIRMED


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod(spec={"priority": "high", "nodeName": ""}), id="without a node"),
        pytest.param(pod(spec={"priority": "high"}, status={"phase": "Succeeded"}), id="finished"),
        pytest.param({"metadata": {"name": "p", "uid": "u-1"}, "spec": 7}, id="beyond reading"),
    ],
)
def test_an_odd_pod_without_a_place_withholds_nothing(scene: Scene, body: dict[str, Any]) -> None:
    """Who is on no node holds nothing there."""
    scene.pods.undecodable(odd(body))

    assert scene.free == 4


def test_each_fault_is_said_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A pod that withholds cards is warned of when that begins or changes, not at each event."""
    first = pod(metadata={"annotations": {names.ALLOCATION: "{"}})
    again = pod(metadata={"annotations": {names.ALLOCATION: "{"}, "resourceVersion": "6"})
    other = pod(metadata={"annotations": {}, "resourceVersion": "7"})

    for body in (first, again, other, other):
        scene.pods.upserted(read(body, raw.Pod))

    sentences = [one.message for one in caplog.records]
    assert len(sentences) == 2
    assert all("ml/p withholds cards of its node" in one for one in sentences)
    assert scene.free == 3
    assert holds.ALL_CARDS > 3


# ---------------------------------------------------------------- GpuPods


def gpupod(*minors: int, node: str = NODE, uid: str = "u-1", **changes: Any) -> wire.GpuPod:
    """Read a GpuPod of the pod, as the server shows it."""
    thing = read(
        manifests.gpupod("p", uid, node, *minors, namespace="ml", uid="gpupod-p", resourceVersion="1")
        | changes,
        wire.GpuPod,
    )
    assert isinstance(thing, wire.GpuPod)
    return thing


LOST = read(pod(metadata={"annotations": {names.ALLOCATION: "{"}}), raw.Pod)
BLIND = watch.Undecodable(wire.Meta("p", "ml"), "it is damaged")


def test_a_gpupod_names_the_cards_of_a_pod_whose_record_is_lost(scene: Scene) -> None:
    """Withheld until its GpuPod names them, and again when it is gone."""
    scene.pods.upserted(LOST)
    withheld = scene.ledger.inventory.hold("u-1")
    scene.gpupods.upserted(gpupod(2))
    named = scene.ledger.inventory.hold("u-1")
    scene.gpupods.deleted(gpupod(2).metadata)

    assert withheld is not None
    assert named is not None
    assert (withheld.withheld, withheld.shares) == (holds.ALL_CARDS, ())
    assert (named.withheld, [one.uuid for one in named.shares]) == (0, [builders.uuid(NODE, 2)])
    assert scene.ledger.inventory.hold("u-1") == withheld


def test_a_gpupod_names_the_cards_of_a_pod_that_cannot_be_read(scene: Scene) -> None:
    """A pod of which not even the request is readable gives back the cards that its GpuPod does not name."""
    scene.pods.undecodable(odd(pod(spec={"priority": "high"})))
    before = scene.free

    scene.gpupods.upserted(gpupod(2))

    assert (before, scene.free) == (0, 3)


@pytest.mark.parametrize(
    "blind",
    [
        pytest.param(lambda sink: sink.undecodable(BLIND), id="it cannot be read any more"),
        pytest.param(lambda sink: sink.undecodable_deleted(BLIND.metadata), id="it is gone"),
        pytest.param(lambda sink: sink.upserted(gpupod(2, 2)), id="it contradicts itself"),
        pytest.param(lambda sink: sink.upserted(gpupod()), id="it says nothing any more"),
    ],
)
def test_a_gpupod_that_says_nothing_readable_names_nothing(
    scene: Scene, blind: Callable[[feeds.GpuPodSink], None]
) -> None:
    """Fail closed: its pod withholds every card again, until the GpuPod can be read once more."""
    scene.pods.upserted(LOST)
    scene.gpupods.upserted(gpupod(2))

    blind(scene.gpupods)
    hold = scene.ledger.inventory.hold("u-1")
    scene.gpupods.upserted(gpupod(2))

    assert hold is not None
    assert (hold.withheld, hold.shares) == (holds.ALL_CARDS, ())
    assert scene.ledger.inventory.hold("u-1") != hold


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return what was said about GpuPods, and how loudly."""
    return [(one.levelname, one.message) for one in caplog.records if "GpuPod" in one.message]


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


@pytest.mark.parametrize(("things", "expected"), NEWS.values(), ids=list(NEWS))
def test_each_word_of_a_gpupod_is_told_once(
    scene: Scene, caplog: pytest.LogCaptureFixture, things: list[wire.GpuPod], expected: list[tuple[str, str]]
) -> None:
    """People learn in one sentence what a GpuPod does for its pod, and not at each event."""
    caplog.set_level("INFO")
    scene.pods.upserted(LOST)

    for thing in things:
        scene.gpupods.upserted(thing)
        scene.pods.upserted(LOST)

    assert said(caplog) == expected


def test_a_gpupod_that_is_not_needed_is_not_talked_about(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a pod with a readable record the GpuPod counts for nothing, whatever it says."""
    caplog.set_level("INFO")
    scene.gpupods.upserted(gpupod(3, uid="u-0"))
    scene.pods.upserted(read(pod(metadata={"annotations": manifests.allocated(NODE, 2)}), raw.Pod))
    scene.gpupods.upserted(gpupod(1, node="n2"))

    assert said(caplog) == []
    assert scene.ledger.inventory.hold("u-1") is not None
    assert scene.free == 3


def test_gpupods_are_known_before_pods() -> None:
    """They are read before pods: no decision is made on a pod without what names its cards."""
    nothing: Any = None
    session = api.Api(connection.Connection(server="http://nowhere"), agent="test")
    all_ = feeds.Feeds(session, nothing, nothing, nothing)._informers
    order = [str(one).split(":")[0].removeprefix("<Informer of ") for one in all_]

    assert order.index("gpupods.berth.dev") < order.index("pods")
    assert order[-1] == "pods"


# ---------------------------------------------------------------- nodes and cards that cannot be read


def test_a_device_that_cannot_be_read_gives_no_card(scene: Scene) -> None:
    """The agent's last word may be that a card is broken: what cannot be read is not trusted."""
    body = manifests.device(NODE)
    body["spec"]["devices"][0]["minor"] = "zero"

    scene.devices.undecodable(read(body, wire.Device))
    unknown = scene.free
    scene.devices.upserted(read(manifests.device(NODE), wire.Device))

    assert unknown == 0
    assert scene.free == 4


def test_a_node_that_cannot_be_read_takes_no_pod(scene: Scene) -> None:
    """Taints and room of such a node are unknown."""
    scene.nodes.undecodable(read({"metadata": {"name": NODE}, "spec": {"taints": "all"}}, raw.Node))

    info = scene.ledger.inventory.node(NODE)
    assert info is not None
    assert info.node is None


# ---------------------------------------------------------------- policies


def rule(name: str, **spec: Any) -> wire.PlacementPolicy:
    """Make a policy."""
    return wire.PlacementPolicy(wire.Meta(name), wire.PolicySpec(**spec))


def test_the_default_policy_counts_and_its_last_good_state_stays(scene: Scene) -> None:
    """Other policies change nothing, a bad one changes nothing, and without any the built-in one holds."""
    scene.policies.upserted(rule("default", strategy="spread"))
    good = scene.ledger.policy
    scene.policies.upserted(rule("other", strategy="binpack"))
    scene.policies.upserted(rule("default", strategy="roulette"))
    kept = scene.ledger.policy
    scene.policies.deleted(wire.Meta("other"))
    still = scene.ledger.policy
    scene.policies.deleted(wire.Meta("default"))

    assert good.strategy == "spread"
    assert kept == still == good
    assert scene.ledger.policy == Policy()


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
    device = wire.Device(wire.Meta(NODE), wire.DeviceSpec(NODE), status)

    assert feeds.was_silent(device) is found


def test_an_agent_that_died_before_is_not_believed() -> None:
    """Its old Lease is no sign of life for an operator that has just started; the next renewal is."""
    scene = Scene()
    scene.nodes.upserted(raw.Node(wire.Meta(NODE)))
    body = manifests.device(NODE) | {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    scene.leases.upserted(lease.Lease(wire.Meta(NODE), lease.LeaseSpec(renew_time="long ago")))
    scene.devices.upserted(read(body, wire.Device))
    before = scene.free

    scene.leases.upserted(lease.Lease(wire.Meta(NODE), lease.LeaseSpec(renew_time="now")))

    assert before == 0
    assert scene.free == 4


def test_a_lease_that_goes_takes_the_cards_along(scene: Scene) -> None:
    """Without a Lease nobody vouches for what the Device says."""
    scene.leases.deleted(wire.Meta(NODE))

    assert scene.free == 0
