"""Which waiting pods a change of other pods wakes, and what that costs those that look at none."""

import dataclasses
import functools
from typing import Final
from unittest import mock

import pytest

from berth_operator.engine import paced_calls
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import comparisons, decisions, pod_index
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.nodes import facts
from support import builders, clock, ledgers

WEB: Final = (("app", "web"),)
SELECTOR: Final = facts.PodSelector((builders.NAMESPACE,), (builders.is_among("app", "web"),))
TERM: Final = facts.PodTerm(SELECTOR, "zone")
APART: Final = facts.InterPodRules(anti_affinity=(TERM,))


def with_sleeping_pods(now: clock.Clock | None = None) -> Ledger:
    """Return a ledger in which one pod waits that keeps apart from others, and one that asks for a card."""
    ledger = ledgers.with_nodes(1, now=now or clock.Clock())
    ledger.pod_bound(builders.hold("w", labels=WEB))
    ledgers.add_waiting(ledger, "apart", 0, demand=builders.demand(inter_pod_rules=APART), labels=WEB)
    ledgers.decide(ledger)
    ledgers.requeue(ledger, "apart", *decisions.POD_EVENTS)
    ledgers.add_sleeping(ledger, "plain", *decisions.ANY_RARE_EVENT, cards=9)
    ledger.wake.clear()
    return ledger


def test_only_pods_that_look_at_it_are_woken() -> None:
    """The end of a pod wakes the one that keeps apart from it."""
    ledger = with_sleeping_pods()

    ledger.pod_over("uid-w")

    assert ledgers.ready_names(ledger) == ["apart"]
    assert ledger.wake.is_set()


def test_a_pod_that_nobody_asks_about_wakes_none() -> None:
    """Pods come and go all the time."""
    ledger = with_sleeping_pods()

    ledger.pod_bound(builders.hold("db", labels=(("app", "db"),)))
    ledger.pod_over("uid-db")

    assert ledgers.ready_names(ledger) == []
    assert not ledger.wake.is_set()


def test_a_placed_pod_with_anti_affinity_wakes_none_that_it_cannot_help() -> None:
    """Only its end can let in whom it repels."""
    ledger = with_sleeping_pods()

    ledger.pod_bound(builders.hold("other", labels=(("app", "db"),), anti_affinity=(TERM,)))
    assert ledgers.ready_names(ledger) == []

    ledger.pod_over("uid-other")
    assert ledgers.ready_names(ledger) == ["apart"]


def test_a_node_that_wakes_many_kinds_by_its_labels_does_so_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An agent can have its Node read as gone and back all the time, and each kind that it wakes is tried."""
    monkeypatch.setattr(paced_calls, "PAUSE_FOR_KIND", 4.0)
    now = clock.Clock()
    ledger, woken = with_sleeping_pods(now), 0

    for _ in range(2 * paced_calls.CALLS_IN_A_ROW):
        ledger.node_gone("n1")
        ledger.node_seen(builders.node("n1"))
        ledger.paced_calls.make_delayed()
        if "apart" in ledgers.ready_names(ledger):
            woken += 1
            ledgers.requeue(ledger, "apart", *decisions.POD_EVENTS)
        now.advance(paced_calls.SECONDS_BETWEEN_CALLS)

    assert 2 <= woken <= paced_calls.CALLS_IN_A_ROW


NEAR: Final = facts.InterPodRules(affinity=(TERM,))
SPREAD: Final = facts.InterPodRules(spread=(facts.SpreadConstraint("zone", 1, SELECTOR),))


@pytest.mark.parametrize(
    ("rules", "wakes"),
    [
        pytest.param(NEAR, ["comes"], id="affinity"),
        pytest.param(
            dataclasses.replace(NEAR, self_match=True), ["comes", "leaves"], id="it may be the first"
        ),
        pytest.param(APART, ["leaves"], id="anti-affinity"),
        pytest.param(SPREAD, ["comes", "leaves"], id="spread"),
    ],
)
def test_a_pod_that_comes_lifts_an_affinity_and_one_that_leaves_an_anti_affinity(
    rules: facts.InterPodRules, wakes: list[str]
) -> None:
    """Else a crowd that waits for a pod that never comes would be tried at each bind of others."""
    ledger = ledgers.with_nodes(1)
    ledgers.add_waiting(ledger, "asks", 0, demand=builders.demand(inter_pod_rules=rules))
    ledgers.decide(ledger)

    woken = []
    for what in ("comes", "leaves"):
        ledgers.requeue(ledger, "asks", *decisions.POD_EVENTS)
        if what == "comes":
            ledger.pod_bound(builders.hold("w", labels=WEB))
        else:
            ledger.pod_over("uid-w")
        woken += [what] * len(ledgers.ready_names(ledger))

    assert woken == wakes


def test_who_waits_for_a_pod_to_come_is_not_woken_by_one_that_leaves() -> None:
    """Though that lifts an anti-affinity of it: where its affinity is not met, it would be tried in vain."""
    ledger = ledgers.with_nodes(2)
    ledger.pod_bound(builders.hold("w", labels=WEB))
    other = facts.PodTerm(facts.PodSelector((builders.NAMESPACE,), (builders.is_among("app", "db"),)), "zone")
    both = facts.InterPodRules(affinity=(other,), anti_affinity=(TERM,))
    ledgers.add_waiting(ledger, "asks", 0, demand=builders.demand(inter_pod_rules=both))
    (wait,) = ledgers.decide(ledger)
    assert isinstance(wait, decisions.Wait)
    ledgers.requeue(ledger, "asks", *(wait.awaited or ()))

    ledger.pod_over("uid-w")
    assert ledgers.ready_names(ledger) == []

    ledger.pod_bound(builders.hold("db", labels=(("app", "db"),)))
    assert ledgers.ready_names(ledger) == ["asks"]


def test_who_may_be_the_first_waits_for_the_last_to_leave() -> None:
    """As long as there is a pod that its affinity means, it has to be near that."""
    ledger = ledgers.with_nodes(1)
    ledger.pod_bound(builders.hold("w", labels=WEB))
    rules = dataclasses.replace(NEAR, self_match=True, namespace=builders.NAMESPACE)
    ledgers.add_waiting(ledger, "asks", 0, demand=builders.demand(inter_pod_rules=rules), labels=WEB)

    (wait,) = ledgers.decide(ledger)

    assert isinstance(wait, decisions.Wait)
    assert (wait.awaited or frozenset()) >= decisions.POD_EVENTS


def test_counts_whose_selectors_name_too_much_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod with new labels is compared with all that is counted, long after who asked for it is gone."""
    monkeypatch.setattr(pod_index, "MOST_NAMED", 100)
    ledger = ledgers.with_nodes(1)
    ledger.pod_bound(builders.hold("w", labels=WEB))

    for at in range(50):
        many = facts.PodSelector((builders.NAMESPACE,), (builders.is_among("app", *map(str, range(at))),))
        ledger.inventory.pods.counts(pod_index.CounterKey((many,)), 1)

    assert repr(ledger.inventory.pods) == "<PodIndex: 1 counted selectors, 0 terms>"
    assert ledger.inventory.pods.counts(pod_index.CounterKey((SELECTOR,)), 1).tolist() == [1]


def test_what_was_forgotten_wakes_all_the_same() -> None:
    """If there was no room for the counts of a selector, nobody knows whom a pod matters to."""
    with mock.patch.object(pod_index, "MOST_COUNTERS", 1):
        ledger = with_sleeping_pods()
        ledger.inventory.pods.counts(pod_index.CounterKey((facts.PodSelector(("x",), ()),)), 1)

        ledger.pod_over("uid-w")

    assert ledgers.ready_names(ledger) == ["apart"]


def relabelled(ledger: Ledger, **labels: str) -> list[str]:
    """Set these labels of the node of a ledger; return the pods that are woken."""
    ledger.node_seen(builders.node("n1", labels=labels))
    return ledgers.ready_names(ledger)


def test_a_label_that_no_pod_counts_by_wakes_none() -> None:
    """Agents label their nodes as often as they like."""
    ledger = with_sleeping_pods()
    ledger.node_seen(builders.node("n1", labels={"zone": "a", "berth.dev/gpu.x": "0"}))
    ledgers.decide(ledger)
    ledgers.requeue(ledger, "apart", *decisions.POD_EVENTS)
    ledgers.requeue(ledger, "plain", ClusterEvent.CAPACITY_FREED)

    assert relabelled(ledger, zone="a", **{"berth.dev/gpu.x": "1"}) == []
    assert relabelled(ledger, zone="a") == []
    assert relabelled(ledger, zone="b") == ["apart"]


def test_a_label_that_a_pod_selects_nodes_by_wakes_it() -> None:
    """Which nodes count for its spread depends on that, too."""
    ledger = with_sleeping_pods()
    selection = facts.NodeSelection(selector=(("pool", "gpu"),))
    demand = builders.demand(inter_pod_rules=APART, node_selection=selection)
    ledgers.add_waiting(ledger, "choosy", 0, demand=demand, labels=WEB)
    ledgers.decide(ledger)
    for name in ("apart", "choosy"):
        ledgers.requeue(ledger, name, *decisions.POD_EVENTS)

    assert relabelled(ledger, pool="other") == ["choosy"]


def test_a_label_by_which_a_pod_there_repels_wakes_whom_it_may_repel() -> None:
    """Though these say nothing of other pods themselves."""
    ledger = with_sleeping_pods()
    ledger.pod_bound(builders.hold("far", labels=WEB, anti_affinity=(facts.PodTerm(SELECTOR, "rack"),)))
    ledgers.decide(ledger)
    ledgers.requeue(ledger, "apart", *decisions.POD_EVENTS)
    ledgers.requeue(ledger, "plain", *decisions.POD_EVENTS)

    assert relabelled(ledger, other="r1") == []
    assert sorted(relabelled(ledger, other="r1", rack="r1")) == ["apart", "plain"]


def test_a_node_that_comes_and_goes_wakes_pods_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent may write labels for which the Node is not read, and take them back, as often as it likes."""
    monkeypatch.setattr(paced_calls, "PAUSE_FOR_KIND", 0.0)
    now = clock.Clock()
    ledger = with_sleeping_pods(now)
    woken = []
    for _ in range(paced_calls.CALLS_IN_A_ROW):
        for change in (
            functools.partial(ledger.node_seen, builders.node("n2")),
            functools.partial(ledger.node_gone, "n2"),
        ):
            change()
            woken += ledgers.ready_names(ledger)
            ledgers.requeue(ledger, "apart", *decisions.POD_EVENTS)

    assert woken == ["apart"] * paced_calls.CALLS_IN_A_ROW
    assert ledger.paced_calls.next_due() == now() + paced_calls.SECONDS_BETWEEN_CALLS


def test_labels_that_change_too_often_count_together_in_the_end() -> None:
    """Of many changes the last is late; it wakes whoever counts by a label that any of them changed."""
    now = clock.Clock()
    ledger = with_sleeping_pods(now)
    for at in range(paced_calls.CALLS_IN_A_ROW):
        relabelled(ledger, zone=str(at))
        ledgers.requeue(ledger, "apart", *decisions.POD_EVENTS)

    assert relabelled(ledger, zone="late") == []
    assert relabelled(ledger, zone="late", other="x") == []
    now.advance(paced_calls.SECONDS_BETWEEN_CALLS)
    ledger.paced_calls.make_delayed()

    assert ledgers.ready_names(ledger) == ["apart"]


def test_where_too_many_selectors_wait_changes_wake_all_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare each of them with each change of a pod would take longer than to try their pods at times."""
    monkeypatch.setattr(comparisons, "MOST", 3)
    now = clock.Clock()
    ledger = with_sleeping_pods(now)
    four = facts.InterPodRules(affinity=tuple(facts.PodTerm(SELECTOR, key) for key in "abcd"))
    demand = builders.demand(inter_pod_rules=four)
    ledgers.add_sleeping(ledger, "many", *decisions.POD_EVENTS, demand=demand)

    woken = 0
    for at in range(3 * paced_calls.CALLS_IN_A_ROW):
        ledger.pod_bound(builders.hold(f"w{at}", labels=WEB))
        woken += "many" in ledgers.ready_names(ledger)
        ledgers.requeue(ledger, "many", *decisions.POD_EVENTS)
    now.advance(paced_calls.SECONDS_BETWEEN_CALLS)
    ledger.paced_calls.make_delayed()

    assert woken == paced_calls.CALLS_IN_A_ROW
    assert "many" in ledgers.ready_names(ledger)


def test_a_pod_that_is_charged_otherwise_neither_goes_nor_comes() -> None:
    """Its agent may say all the time that it has other cards: who looks at pods is not concerned."""
    ledger = with_sleeping_pods()
    before = builders.hold("w", labels=WEB)
    after = dataclasses.replace(before, amounts=(("cpu", 1),))

    ledger.pod_changes.pod_charged_otherwise(before, after)
    assert ledgers.ready_names(ledger) == []
    ledger.pod_changes.pod_charged_otherwise(after, dataclasses.replace(after, labels=(("app", "db"),)))

    assert ledgers.ready_names(ledger) == ["apart"]


def test_a_node_whose_labels_flap_is_counted_where_nobody_leads() -> None:
    """A replica that stands by makes no rounds: what is late is counted with the next change."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(1, now=now)
    for at in range(3 * paced_calls.CALLS_IN_A_ROW):
        ledger.node_seen(builders.node("n1", labels={"zone": str(at)}))

    now.advance(10 * paced_calls.SECONDS_BETWEEN_CALLS)
    ledger.node_seen(builders.node("n1", labels={"zone": "last"}))

    assert ledger.paced_calls.next_due() is None
