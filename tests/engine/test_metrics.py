"""The metrics: counted by the loop, bounded in number, and read from a registry of their own."""

import pytest
from prometheus_client import parser

from berth_operator import metrics
from berth_operator.engine import decision_records, inventory_metrics
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.scheduling.devices import requests
from engine import harness
from engine.harness import Engine
from support import builders, ledgers, timeless
from support.writers import Reply


@timeless.scenario
async def test_each_attempt_counts_by_its_result() -> None:
    """And a refusal by its reason: what only an edit can help is no lack of room."""
    engine = Engine(cards=1)
    engine.wait("fits")
    engine.wait("large", cards=2)
    engine.wait("faulty", faults=(Refusal(Reason.INVALID_REQUEST),))

    await engine.advance(0.1)

    refusals = (Reason.TOO_FEW_CARDS, Reason.INVALID_REQUEST, Reason.FULL)
    assert engine.results() == {"bound": 1, "unschedulable": 1, "rejected": 1}
    assert [engine.value("refusals_total", reason=reason) for reason in refusals] == [1, 1, 0]
    assert engine.value("decision_duration_seconds_count") == 3
    assert engine.value("decision_round_duration_seconds_count") == 1


@timeless.scenario
async def test_times_are_measured_from_first_sight() -> None:
    """A pod's whole way counts from when its gates were gone, its bind from when it was sent."""
    engine = Engine(cards=1)
    engine.ledger.pod_waiting(builders.pod_info(), gated=True)
    await timeless.at(100.0)
    engine.wait("p", Reply(takes=0.5))
    await timeless.at(102.0)

    await engine.advance(103.0)

    assert engine.value("queue_wait_seconds_sum") == pytest.approx(2.0, abs=0.02)
    assert engine.value("bind_duration_seconds_sum") == pytest.approx(0.5)
    assert engine.value("placement_duration_seconds_sum") == pytest.approx(2.5, abs=0.02)


PATHS = {
    "/api/v1/namespaces/ml/pods/p/binding": "pods/binding",
    "/api/v1/namespaces/ml/pods/p/status": "pods/status",
    "/api/v1/namespaces/ml/events": "events",
    "/api/v1/namespaces/ml": "namespaces",
    "/apis/berth.dev/v1alpha1/devices/n1/status": "devices/status",
    "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/berth-operator": "leases",
    "/apis/authentication.k8s.io/v1/tokenreviews": "tokenreviews",
}


@pytest.mark.parametrize(("path", "resource"), PATHS.items(), ids=PATHS.values())
def test_writes_are_told_apart_by_resource(path: str, resource: str) -> None:
    """A path is counted as its resource, without the name that would make a series for each pod."""
    measured = metrics.Metrics()

    for method, status in (("PATCH", 409), ("POST", 0), ("GET", 200)):
        measured.writes(method, path, status)

    text = measured.text().decode()
    assert f'berth_api_writes_total{{code="4xx",resource="{resource}",verb="patch"}} 1.0' in text
    assert f'berth_api_writes_total{{code="none",resource="{resource}",verb="create"}} 1.0' in text
    assert text.count("berth_api_writes_total{") == 2


def test_the_inventory_is_counted_when_it_is_read() -> None:
    """Nodes, cards that can be given out and the backlog are those of this moment, also in words."""
    measured, ledger = metrics.Metrics(), ledgers.with_nodes(3, 4)
    measured.registry.register(inventory_metrics.InventoryCollector(ledger, lambda: 1000.0))
    ledger.node_seen(builders.node("n3", unschedulable=True))
    ledger.pod_bound(builders.hold("held", "n1", [0]))
    ledgers.add_waiting(ledger, "binding")
    ledgers.assume(ledger, "binding")
    ledgers.add_waiting(ledger, "ready")
    ledgers.add_sleeping(ledger, "asleep")
    ledger.pod_waiting(builders.pod_info("gated"), gated=True)

    read = measured.registry.get_sample_value
    states = ("active", "backoff", "unschedulable", "gated", "binding")

    assert [read("berth_backlog_pods", {"state": state}) for state in states] == [1, 0, 1, 1, 1]
    assert (read("berth_nodes"), read("berth_cards"), read("berth_cards_free")) == (3, 12, 6)
    words = "3 nodes, 1 pod placed, 1 bind under way, 3 pods waiting"
    assert inventory_metrics.description(ledger) == words


def test_all_is_named_and_explained() -> None:
    """Every metric of ours has our prefix and a help text, and two operators share nothing."""
    measured, other = metrics.Metrics(), metrics.Metrics()
    measured.registry.register(inventory_metrics.InventoryCollector(ledgers.with_nodes(), float))
    measured.leader_transitions.set(7)
    measured.leader.set(1)
    measured.audited(2)

    families = {one.name: one for one in parser.text_string_to_metric_families(measured.text().decode())}

    assert all(one.documentation for one in families.values())
    assert all(name.startswith(("berth_", "process_", "python_")) for name in families)
    counted = ("leader_transitions", "ledger_drift", "ledger_audits")
    assert [families[f"berth_{name}"].samples[0].value for name in counted] == [7, 2, 1]
    assert other.registry.get_sample_value("berth_ledger_drift") == 0


# ---------------------------------------------------------------- the last decisions


@timeless.scenario
async def test_decisions_are_kept_with_what_they_were_made_on() -> None:
    """Equal requests on an equal picture have equal digests; another request has another."""
    engine = Engine(cards=0)
    engine.crowd(["one", "other"])
    engine.wait("large", cards=2)

    await engine.advance(0.05)

    kept = {one.pod_info.name: one for one in engine.records.decisions}
    assert kept["one"].inputs == kept["other"].inputs
    assert kept["one"].inputs["request"] != kept["large"].inputs["request"]
    assert {one.moment for one in kept.values()} == {harness.NOON}


LONG = requests.Conditions(uuids=frozenset(f"GPU-{at}" for at in range(500)))
# Pods, what they ask for, and how many of the decisions for them are kept.
MANY = {
    "many": (decision_records.MOST_KEPT + 50, requests.ANY_CARD, decision_records.MOST_KEPT),
    "fewer, with long requests": (300, LONG, decision_records.MOST_TERMS // 500),
}


@pytest.mark.parametrize(("count", "conditions", "most"), MANY.values(), ids=MANY.keys())
@timeless.scenario
async def test_only_the_last_decisions_are_kept(
    count: int, conditions: requests.Conditions, most: int
) -> None:
    """However many are made and whatever the pods name, memory is bounded."""
    engine = Engine(cards=0)
    names = [f"p{number:04}" for number in range(count)]
    engine.crowd(names, request=builders.request(1, conditions=conditions))

    await engine.advance(0.05)

    kept = [one.pod_info for one in engine.records.decisions]
    assert most * 0.9 < len(kept) <= most
    assert sum(pod.request.size for pod in kept) <= decision_records.MOST_TERMS
    assert [pod.name for pod in kept] == names[-len(kept) :]
