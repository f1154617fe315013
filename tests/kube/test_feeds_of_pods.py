"""Pods that cannot be read, admitted or kept whole, on their way to the ledger: no card is lost by them."""

from typing import Any

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.client import watch
from berth_operator.engine import pod_memory
from berth_operator.engine.hold_states import State
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pods, raw
from kube.sinks import NODE, Sinks, allocated, feed, named, pod, read, with_node
from support import builders, ledgers, manifests

# ---------------------------------------------------------------- pods that cannot be read

UNDECODABLE = pod(spec={"priority": "high"})
GONE = wire.Meta("p", "ml", "u-1")
NULLS = {"type": "Ready", "status": "True", "reason": None, "message": None, "lastTransitionTime": None}


@pytest.mark.parametrize(
    ("things", "free"),
    [
        pytest.param([UNDECODABLE, GONE], [0, 4], id="all cards are withheld until it is gone"),
        pytest.param([UNDECODABLE, pod(metadata=allocated(2))], [0, 3], id="it can be read again"),
        pytest.param([pod(metadata=allocated(2)), UNDECODABLE], [3, 3], id="what is known of it stays"),
        pytest.param([pod(spec={"priority": "high", "nodeName": ""})], [4], id="it has no node"),
        pytest.param(
            [pod(spec={"priority": "high"}, status={"phase": "Succeeded"})], [4], id="it has finished"
        ),
        pytest.param(
            [read({"metadata": {"name": "p", "uid": "u-1"}, "spec": 7}, raw.Pod)], [4], id="beyond reading"
        ),
        pytest.param(
            [pod(metadata=allocated(2), status={"phase": "Running", "conditions": [NULLS]})],
            [3],
            id="words that a program left null spoil nothing",
        ),
    ],
)
def test_a_pod_that_cannot_be_read(things: list[Any], free: list[int]) -> None:
    """Nobody can tell which cards it has, so its node gives none until it is gone or can be read."""
    sinks, found = with_node(), []

    for thing in things:
        feed(sinks.pods, thing)
        found.append(sinks.free)

    assert found == free


def test_an_assumed_place_of_an_odd_pod_withholds_everything() -> None:
    """Somebody may have bound it elsewhere on the node than we meant to."""
    sinks = with_node()
    feed(sinks.pods, pod(spec={"nodeName": ""}, status={"phase": "Pending"}))
    sinks.ledger.assume(builders.bind("u-1", NODE, 0))

    feed(sinks.pods, UNDECODABLE)

    assert sinks.free == 0
    assert sinks.ledger.state("u-1") is State.CONFIRMED


def test_each_fault_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A pod that withholds cards is warned of when that begins or changes, not at each event."""
    sinks = with_node()
    damaged: dict[str, str] = {names.ALLOCATION: "{"}

    for version, annotations in enumerate((damaged, damaged, {}, {})):
        feed(sinks.pods, pod(metadata={"annotations": annotations, "resourceVersion": str(version)}))

    assert len(caplog.messages) == 2
    assert all("ml/p withholds devices of its node" in message for message in caplog.messages)
    assert sinks.free == 0


# ---------------------------------------------------------------- pods that their kubelet cannot admit

UNADMITTED = builders.pod("p", gpus=2, nodeName=NODE, schedulerName="other", nodeSelector={"zone": "b"})


@pytest.fixture
def sinks() -> Sinks:
    """Lend the sinks of a ledger that knows a node whose device plugin serves four cards."""
    lent = Sinks(ledgers.with_nodes())
    lent.ledger.node_seen(builders.node(NODE, extra={names.NVIDIA_GPU: 4}, labels={"zone": "a"}))
    return lent


def test_a_pod_that_was_not_admitted_withholds_nothing(
    sinks: Sinks, caplog: pytest.LogCaptureFixture
) -> None:
    """Once it was admitted all the same it withholds what it asks for, and the log says so."""
    feed(sinks.pods, UNADMITTED)
    before, text = sinks.free, caplog.text

    feed(sinks.pods, builders.admitted(UNADMITTED))

    assert (before, text, sinks.free) == (4, "", 2)
    assert "ml/p withholds devices of its node" in caplog.text


def test_if_it_cannot_be_read_any_more_it_withholds_everything(sinks: Sinks) -> None:
    """It may have been admitted meanwhile."""
    meta = wire.Meta("p", "ml", "uid-p")
    body = msgspec.json.encode({"metadata": meta, "spec": {"nodeName": NODE}})

    feed(sinks.pods, UNADMITTED, watch.Undecodable(meta, "it is odd", body))

    assert sinks.free == 0


def test_of_a_node_that_offers_no_card_nothing_is_logged(
    sinks: Sinks, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod there cannot have been given one, and the log does not say that it keeps any from others."""
    sinks.ledger.node_seen(builders.node(NODE))

    feed(sinks.pods, builders.admitted(UNADMITTED))

    assert (sinks.free, caplog.text) == (4, "")


# ---------------------------------------------------------------- bound pods that say much together

VALUES = 900
CONTAINERS = 400


def long_pod(name: str, namespace: str = "ml") -> raw.Pod:
    """Return a foreign pod that its kubelet could admit, that asks for a card and says much."""
    values = ("a", *(f"{name}-{number}" for number in range(VALUES)))
    term = raw.SelectorTerm((raw.Expression("zone", "In", values),))
    affinity = raw.Affinity(raw.NodeAffinity(raw.NodeSelector((term,))))
    made = builders.pod(name, gpus=1, meta={"namespace": namespace}, nodeName=NODE, schedulerName="other")
    more = tuple(raw.Container(f"{name}-{number}") for number in range(CONTAINERS))
    spec = msgspec.structs.replace(made.spec, affinity=affinity, containers=(*made.spec.containers, *more))
    return msgspec.structs.replace(made, spec=spec)


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make room for what two such pods of a namespace say, and three of all."""
    weight = pods.read_bound(long_pod("any")).byte_size
    monkeypatch.setattr(pod_memory, "NAMESPACE_BYTES", 2 * weight + weight // 2)
    monkeypatch.setattr(pod_memory, "TOTAL_BYTES", 3 * weight + weight // 2)


@pytest.mark.usefixtures("little_memory")
def test_pods_beyond_it_are_not_charged_before_they_are_admitted(sinks: Sinks) -> None:
    """Nothing that they say is kept until then; and once they are there, they have what they ask for."""
    feed(sinks.pods, *map(long_pod, "abc"))
    before = sinks.free
    hold = sinks.ledger.unadmitted_pods.full_hold(pods.read_bound(long_pod("c")).hold)

    feed(sinks.pods, builders.admitted(long_pod("c")))

    assert (hold.amounts, hold.withheld) == ((), 0)
    assert (before, sinks.free) == (2, 1)


@pytest.mark.usefixtures("little_memory")
def test_another_namespace_has_room_of_its_own(sinks: Sinks) -> None:
    """As long as there is room for all together."""
    for name, namespace in {"a": "ml", "b": "ml", "c": "ml", "d": "other", "e": "third"}.items():
        feed(sinks.pods, long_pod(name, namespace))

    assert [name for name in "abcde" if sinks.ledger.unadmitted_pods.is_bare(f"uid-{name}")] == ["c", "e"]


@pytest.mark.usefixtures("little_memory")
def test_a_pod_that_is_gone_makes_room(sinks: Sinks) -> None:
    """The next one that comes is charged."""
    feed(sinks.pods, *map(long_pod, "ab"), wire.Meta("a", "ml", "uid-a"), long_pod("c"))

    assert not sinks.ledger.unadmitted_pods.is_bare("uid-c")
    assert sinks.free == 2


@pytest.mark.usefixtures("little_memory")
def test_a_pod_that_was_there_stays_charged(sinks: Sinks) -> None:
    """Whatever its status says later, what a kubelet has admitted is there."""
    feed(sinks.pods, builders.admitted(long_pod("c")), *map(long_pod, "ab"))
    before = sinks.free

    feed(sinks.pods, long_pod("c"))

    assert sinks.ledger.inventory.hold("uid-c") is not None
    assert (before, sinks.free) == (1, 1)


@pytest.mark.usefixtures("little_memory")
def test_which_pods_there_is_room_for_is_no_drift(sinks: Sinks) -> None:
    """A ledger that was fed with them in another order knows the same."""
    fresh = Sinks(ledgers.with_nodes())
    fresh.ledger.node_seen(builders.node(NODE, extra={names.NVIDIA_GPU: 4}, labels={"zone": "a"}))
    feed(sinks.pods, *map(long_pod, "abc"))
    feed(fresh.pods, *map(long_pod, "cba"))

    assert sinks.ledger.unadmitted_pods.is_bare("uid-c")
    assert fresh.ledger.unadmitted_pods.is_bare("uid-a")
    assert ledgers.differences(sinks.ledger, fresh.ledger) == ()


def test_of_very_many_containers_those_that_ask_for_devices_are_known() -> None:
    """The names of all others can never matter."""
    found = pods.read_bound(long_pod("a"))

    assert found.nameless is not None
    assert found.nameless.starts == (("main", True),)
    assert found.unadmitted_selection != facts.NOWHERE


# ---------------------------------------------------------------- after a restore


def test_since_a_restore_the_record_counts_as_it_is() -> None:
    """Another leader may have bound the pod anew; what is edited later counts no more than ever."""
    sinks = with_node()
    feed(sinks.pods, pod(metadata=allocated(2)))

    sinks.pods.restored()
    feed(sinks.pods, pod(metadata=allocated(1)))
    restored = sinks.held
    sinks.pods.listed("9")
    feed(sinks.pods, pod(metadata=allocated(3)))

    assert restored == sinks.held == named(1)
    assert sinks.free == 3


def test_a_pod_on_another_node_was_bound_anew() -> None:
    """Even if nobody noticed the restore: no pod changes its node."""
    sinks = with_node()
    feed(sinks.pods, pod(metadata=allocated(2)))

    elsewhere = {"annotations": manifests.allocated("n2", 0)}
    feed(sinks.pods, pod(spec={"nodeName": "n2"}, metadata=elsewhere))

    hold = sinks.ledger.inventory.hold("u-1")
    assert hold is not None
    assert (hold.node, [share.minor for share in hold.shares]) == ("n2", [0])
    assert sinks.free == 4
