"""A pod that asks for Berth's cards, and that another scheduler bound, has an Event that says so."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from berth_crds import aliases, names
from berth_operator.engine import node_summaries
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import events, unchosen_events
from berth_operator.scheduling.policy import Policy
from berth_operator.translate import pods, raw
from support import builders, ledgers


def bound(name: str, resource: str, **spec: Any) -> raw.Pod:
    """Return a pod that runs on n1."""
    containers = [builders.asking("main", {resource: 100})]
    return builders.admitted(
        builders.pod(name, containers=containers, nodeName="n1", phase="Running", **spec)
    )


def test_each_pod_without_chosen_cards_is_told_once() -> None:
    """Berth's own pods are not meant, nor those that ask a device plugin."""
    recorded: list[events.Event] = []
    unchosen, ledger = unchosen_events.UnchosenEvents(recorded.append), ledgers.with_nodes()
    stock = {"schedulerName": "default-scheduler"}
    ledgers.pod_seen(ledger, bound("blind", names.GPU, **stock))
    ledgers.pod_seen(ledger, bound("plugged", names.NVIDIA_GPU_SHARED, **stock))
    ledgers.pod_seen(ledger, bound("ours", names.GPU))

    for now in range(2):
        unchosen.report(ledger, now)

    (event,) = recorded
    assert (event.reason, event.warning, event.involved.name) == ("NoCardsChosen", True, "blind")
    assert event.message == (
        "It asks for berth.dev/gpu and was bound to n1 by another scheduler, which chose no cards for it: its"
        " containers may see any card. Create it again with schedulerName: berth-scheduler."
    )


def test_an_agent_that_is_a_plugin_may_take_its_time() -> None:
    """What it gave it says within some seconds; a pod that it gave nothing is told then."""
    recorded: list[events.Event] = []
    unchosen, ledger = unchosen_events.UnchosenEvents(recorded.append), ledgers.with_nodes()
    ledger.device_seen(builders.device("n1", kubelet_served=True))
    for name in ("blind", "given"):
        ledgers.pod_seen(ledger, bound(name, names.GPU, schedulerName="default-scheduler"))
    named = builders.gpupod(name="given", uid="uid-given", main=[1])

    unchosen.report(ledger, 0)
    ledgers.gpupod_seen(ledger, named)
    unchosen.report(ledger, unchosen_events.PLUGIN_SECONDS - 1)
    assert not recorded
    unchosen.report(ledger, unchosen_events.PLUGIN_SECONDS)

    assert [event.involved.name for event in recorded] == ["blind"]


def test_of_very_many_pods_each_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though no more than a portion of them is looked at in one go; those that are gone are forgotten."""
    monkeypatch.setattr(unchosen_events, "MOST_AT_ONCE", 3)
    recorded: list[events.Event] = []
    unchosen, ledger = unchosen_events.UnchosenEvents(recorded.append), ledgers.with_nodes()
    stock = {"schedulerName": "default-scheduler"}
    for at in range(7):
        ledgers.pod_seen(ledger, bound(f"p{at}", names.GPU, **stock))
    looks, told = [], []
    for now in range(4):
        with mock.patch.object(unchosen_events, "_is_blind", wraps=unchosen_events._is_blind) as looked_at:
            unchosen.report(ledger, now)
        looks.append(looked_at.call_count)
        told.append(len(recorded))
    ledger.pod_over("uid-p0")
    ledgers.pod_seen(ledger, bound("p7", names.GPU, **stock))
    for now in range(4, 8):
        unchosen.report(ledger, now)

    assert (looks, told) == ([3] * 4, [3, 6, 7, 7])
    assert sorted(event.involved.name for event in recorded) == [f"p{at}" for at in range(8)]
    assert unchosen._told == unchosen._first_seen.keys() == {f"uid-p{at}" for at in range(1, 8)}


def test_such_a_pod_keeps_no_card_from_others() -> None:
    """Though its node lists the resource, no plugin has given it a card."""
    ledger = ledgers.with_nodes()
    pod = bound("blind", names.GPU, schedulerName="default-scheduler")
    ledgers.pod_seen(ledger, pod)

    hold = ledger.inventory.hold(pod.metadata.uid)
    assert hold is None or not hold.withheld


RECORD = {"scheduling.koordinator.sh/device-allocated": '{"gpu": [{"minor": 0}]}'}


def koordinators(name: str, resource: str, amount: int = 100, **fields: Any) -> raw.Pod:
    """Return a pod that another scheduler has bound and that asks by a name of Koordinator's."""
    containers = [builders.asking("main", {resource: amount})]
    pod = builders.pod(
        name,
        containers=containers,
        nodeName="n1",
        phase="Running",
        **{"schedulerName": "default-scheduler"} | fields,
    )
    return builders.admitted(pod)


def listing(*resources: str) -> Ledger:
    """Return a ledger with a node of cards that lists these resources."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(builders.node("n1", extra=dict.fromkeys(resources, 800)))
    return ledger


@pytest.mark.parametrize(
    ("amount", "kept"),
    [(100, "1 card of the node is"), (300, "3 cards of the node are")],
    ids=["one", "three"],
)
def test_who_asks_in_koordinators_words_and_was_given_nothing_is_told(amount: int, kept: str) -> None:
    """Once, and how many cards are kept back for it; its node's Device counts it, too."""
    recorded: list[events.Event] = []
    unchosen, ledger = unchosen_events.UnchosenEvents(recorded.append), listing("koordinator.sh/gpu")
    ledgers.pod_seen(ledger, koordinators("blind", "koordinator.sh/gpu", amount))

    for now in range(2):
        unchosen.report(ledger, now)

    (event,) = recorded
    assert event.message == (
        "It asks for koordinator.sh/gpu and was bound to n1 by another scheduler, which chose no cards for"
        f" it: its containers may see any card. Until it ends, {kept} kept back. Create it again with"
        " schedulerName: berth-scheduler."
    )
    (summary,) = node_summaries.summarize(ledger.inventory, {"n1"})
    assert "1 pod whose allocation annotation is missing" in summary.reason


def test_who_asks_for_a_network_card_and_was_given_none_is_told() -> None:
    """All of the node are kept back for it, for nothing tells which it may have."""
    recorded: list[events.Event] = []
    unchosen, ledger = unchosen_events.UnchosenEvents(recorded.append), listing("koordinator.sh/rdma")
    ledgers.pod_seen(ledger, koordinators("blind", "koordinator.sh/rdma", 1))

    unchosen.report(ledger, 0)

    (event,) = recorded
    assert event.message == (
        "It asks for koordinator.sh/rdma and was bound to n1 by another scheduler, which chose no devices for"
        " it: its containers may see any device. Until it ends, all rdma devices of the node are kept back."
        " Create it again with schedulerName: berth-scheduler."
    )


def test_who_was_given_cards_by_koordinator_is_not_told() -> None:
    """Nor a pod on a node whose devices are not Berth's."""
    recorded: list[events.Event] = []
    unchosen = unchosen_events.UnchosenEvents(recorded.append)
    ledger = listing("koordinator.sh/gpu", "koordinator.sh/rdma")
    ledger.node_seen(builders.node("n9"))
    given = koordinators(
        "given", "koordinator.sh/gpu", annotations=RECORD, schedulerName=names.KOORDINATOR_SCHEDULER
    )
    ledgers.pod_seen(ledger, given)
    ledger.device_seen(builders.device("n1", others=[builders.nic()]))
    nic = {
        aliases.KOORDINATOR_RECORD: '{"rdma": [{"minor": 0, "resources": {"koordinator.sh/rdma": "100"}}]}'
    }
    with_nic = koordinators(
        "nic", "koordinator.sh/rdma", annotations=nic, schedulerName=names.KOORDINATOR_SCHEDULER
    )
    ledgers.pod_seen(ledger, with_nic)
    elsewhere = builders.pod(
        "elsewhere",
        containers=[builders.asking("main", {"koordinator.sh/gpu": 100})],
        nodeName="n9",
        phase="Running",
        schedulerName="default-scheduler",
    )
    ledgers.pod_seen(ledger, builders.admitted(elsewhere))

    unchosen.report(ledger, 0)

    assert recorded == []


@pytest.mark.parametrize("read", [lambda pod: pod, pods.as_berth_pod], ids=["another's", "taken over"])
def test_a_record_that_does_not_count_is_told(read: Callable[[raw.Pod], raw.Pod]) -> None:
    """With what the policy lacks, until the policy has it."""
    recorded: list[events.Event] = []
    unchosen, ledger = unchosen_events.UnchosenEvents(recorded.append), listing("koordinator.sh/gpu")
    named = Policy(pod_records_from=frozenset({"my-scheduler"}))
    pod = koordinators("p", "koordinator.sh/gpu", annotations=RECORD, schedulerName="my-scheduler")
    ledgers.pod_seen(ledger, read(pod))

    for policy in (Policy(), named, Policy()):
        ledger.policy_seen(policy)
        unchosen.report(ledger, 0)

    event, again = recorded
    assert event == again
    assert (event.reason, event.warning) == ("RecordNotBelieved", True)
    assert event.message == (
        "It asks for koordinator.sh/gpu, and which devices it was given only"
        " scheduling.koordinator.sh/device-allocated says, which does not count: spec.podRecordsFrom of the"
        " policy does not name its scheduler, 'my-scheduler'. Until it ends, 1 card of the node is kept back."
        " Name that scheduler there if it writes such records."
    )
