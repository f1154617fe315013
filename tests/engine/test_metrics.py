"""The metrics: counted by the loop, bounded in number, and read from a registry of their own."""

import pytest
from prometheus_client import parser

from berth_operator import metrics
from berth_operator.engine import (
    assumed_pods,
    decision_records,
    drift,
    inventory_metrics,
)
from berth_operator.scheduling import decisions
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.scheduling.devices import requests
from engine import harness
from engine.harness import Engine
from support import builders, clock, ledgers, timeless
from support.writers import Reply


async def decide(engine: Engine, seconds: float = 0.1) -> None:
    """Decide for a while."""
    async with timeless.beside(engine.loop.run()):
        await timeless.at(engine.now() + seconds)
        await engine.loop.binder.drain()


@timeless.scenario
async def test_a_bound_and_a_refused_pod_are_counted() -> None:
    """Each attempt counts by its result, and a refusal by its reason."""
    engine = Engine(cards=1)
    ledgers.add_waiting(engine.ledger, "fits")
    ledgers.add_waiting(engine.ledger, "large", 2)

    await decide(engine)

    assert engine.value("scheduling_attempts_total", result="bound") == 1
    assert engine.value("scheduling_attempts_total", result="unschedulable") == 1
    assert engine.value("refusals_total", reason=Reason.TOO_FEW_CARDS) == 1
    assert engine.value("refusals_total", reason=Reason.FULL) == 0
    assert engine.value("decision_duration_seconds_count") == 2
    assert engine.value("decision_round_duration_seconds_count") == 1


@timeless.scenario
async def test_times_are_measured_from_first_sight() -> None:
    """A pod's whole way counts from when it was first seen, its bind from when it was sent."""
    engine = Engine(cards=1)
    engine.writer.when_bound("p", Reply(takes=0.5))
    ledgers.add_waiting(engine.ledger)
    await timeless.at(2.0)

    await decide(engine, 1.0)

    assert engine.value("queue_wait_seconds_sum") == pytest.approx(2.0, abs=0.02)
    assert engine.value("bind_duration_seconds_sum") == pytest.approx(0.5)
    assert engine.value("placement_duration_seconds_sum") == pytest.approx(2.5, abs=0.02)


@timeless.scenario
async def test_a_wait_behind_a_gate_is_not_ours() -> None:
    """The clock of a gated pod starts when its gates are gone."""
    engine = Engine(cards=1)
    candidate = builders.candidate()
    engine.ledger.pod_waiting(candidate, gated=True)
    await timeless.at(100.0)
    engine.ledger.pod_waiting(candidate, gated=False)

    await decide(engine)

    wait = engine.value("queue_wait_seconds_sum")
    assert wait is not None and wait < 1.0


def test_a_request_at_fault_counts_as_rejected() -> None:
    """What only an edit can help is no lack of room."""
    measured = metrics.Metrics()

    measured.scheduling.put_off(decisions.Reject("u", (Refusal(Reason.INVALID_REQUEST),)))

    read = measured.registry.get_sample_value
    assert read("berth_scheduling_attempts_total", {"result": "rejected"}) == 1
    assert read("berth_refusals_total", {"reason": "InvalidRequest"}) == 1


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

    measured.writes("PATCH", path, 409)
    measured.writes("POST", path, 0)
    measured.writes("GET", path, 200)

    text = measured.text().decode()
    assert f'berth_api_writes_total{{code="4xx",resource="{resource}",verb="patch"}} 1.0' in text
    assert f'berth_api_writes_total{{code="none",resource="{resource}",verb="create"}} 1.0' in text
    assert text.count("berth_api_writes_total{") == 2


def test_the_stock_is_read_when_asked() -> None:
    """Nodes, cards and the backlog are those of this moment, whoever changed them last."""
    measured, ledger = metrics.Metrics(), ledgers.with_nodes(2, 4)
    measured.collect_inventory(lambda: inventory_metrics.count_stock(ledger, 1000.0))
    ledger.pod_bound(builders.hold("held", "n1", [0]))
    ledgers.add_waiting(ledger, "ready")
    ledgers.add_waiting(ledger, "asleep")
    ledgers.put_off(ledger, "asleep")
    ledger.pod_waiting(builders.candidate("gated"), gated=True)

    read = measured.registry.get_sample_value
    backlog = {
        state: read("berth_backlog_pods", {"state": state})
        for state in ("active", "backoff", "unschedulable", "gated")
    }

    assert backlog == {"active": 1, "backoff": 0, "unschedulable": 1, "gated": 1}
    assert (read("berth_nodes"), read("berth_cards"), read("berth_cards_free")) == (2, 8, 7)


def test_cards_of_a_cordoned_node_are_not_free() -> None:
    """No pod could get one of them now."""
    ledger = ledgers.with_nodes(2, 4)
    ledger.node_seen(builders.node("n2", unschedulable=True))

    stock = inventory_metrics.count_stock(ledger, 1000.0)

    assert (stock.cards, stock.free) == (8, 4)


def test_the_stock_is_told_in_words() -> None:
    """What the probes and the log say of it is plain English."""
    ledger = ledgers.with_nodes(2)
    for name in ("a", "waits"):
        ledgers.add_waiting(ledger, name)
    ledgers.assume(ledger, "a")
    ledger.pod_bound(builders.hold("b"))
    ledger.pod_waiting(builders.candidate("gated"), gated=True)

    assert inventory_metrics.description(ledger) == "2 nodes, 1 pod placed, 1 bind under way, 2 pods waiting"


def test_all_is_named_and_explained() -> None:
    """Every metric of ours has our prefix and a help text, and two operators share nothing."""
    measured, other = metrics.Metrics(), metrics.Metrics()
    measured.collect_inventory(lambda: inventory_metrics.count_stock(ledgers.with_nodes(), 0.0))
    measured.leadership.won(7)
    measured.leadership.leads(now=True)
    measured.audited(2)

    families = {one.name: one for one in parser.text_string_to_metric_families(measured.text().decode())}

    assert all(one.documentation for one in families.values())
    foreign = {name for name in families if not name.startswith(("berth_", "process_", "python_"))}
    assert foreign == set()
    assert families["berth_leader_transitions"].samples[0].value == 7
    assert measured.registry.get_sample_value("berth_ledger_drift") == 2
    assert measured.registry.get_sample_value("berth_ledger_audits_total") == 1
    assert other.registry.get_sample_value("berth_ledger_drift") == 0


# ---------------------------------------------------------------- drift


def test_equal_ledgers_have_no_drift() -> None:
    """Two ledgers that were told the same differ in nothing, in whatever order they were told."""
    one, two = ledgers.with_nodes(2), ledgers.with_nodes(2)
    for ledger, names in ((one, "ab"), (two, "ba")):
        for name in names:
            ledger.pod_bound(builders.hold(name, "n1", [0 if name == "a" else 1]))

    assert drift.differences(one, two) == ()


def test_a_bind_under_way_is_no_drift() -> None:
    """What is assumed is not in the API yet, and must not raise an alarm."""
    ledger, fresh = ledgers.with_nodes(), ledgers.with_nodes()
    ledgers.add_waiting(ledger)
    ledgers.assume(ledger)

    assert drift.differences(ledger, fresh) == ()


def test_a_bind_that_nobody_concludes_is_drift() -> None:
    """Cards are withheld for it, and no event will ever free them: after a minute that is told."""
    now = clock.Clock()
    ledger, fresh = ledgers.with_nodes(now=now), ledgers.with_nodes()
    ledgers.add_waiting(ledger)
    ledgers.assume(ledger)

    now.advance(assumed_pods.OVERDUE_SECONDS)
    assert drift.differences(ledger, fresh) == ()
    now.advance(0.1)
    assert drift.differences(ledger, fresh) == (drift.Difference("open bind", "uid-p"),)
    ledger.forget("uid-p")
    assert [one.kind for one in drift.differences(ledger, fresh)] == ["sample", "waiting"]


# ---------------------------------------------------------------- the last decisions


@timeless.scenario
async def test_decisions_are_kept_with_what_they_were_made_on() -> None:
    """Equal requests on an equal picture have equal digests; another request has another."""
    engine = Engine(cards=0)
    for name, cards in (("one", 1), ("other", 1), ("large", 2)):
        ledgers.add_waiting(engine.ledger, name, cards)

    await decide(engine, 0.05)

    kept = {one.candidate.name: one for one in engine.records.decisions}
    assert kept["one"].inputs == kept["other"].inputs
    assert kept["one"].inputs["request"] != kept["large"].inputs["request"]
    assert {one.moment for one in kept.values()} == {harness.NOON}


@timeless.scenario
async def test_only_the_last_decisions_are_kept() -> None:
    """However many are made, memory is bounded."""
    engine = Engine(cards=0)
    for number in range(decision_records.MOST_KEPT + 50):
        ledgers.add_waiting(engine.ledger, f"p{number:04}")

    await decide(engine, 0.05)

    assert len(engine.records.decisions) == decision_records.MOST_KEPT
    assert engine.records.decisions[-1].candidate.name == f"p{decision_records.MOST_KEPT + 49}"


@timeless.scenario
async def test_of_long_requests_fewer_decisions_are_kept() -> None:
    """What pods name is kept alive by the decisions about them, so it is counted."""
    engine = Engine(cards=0)
    long = requests.Conditions(uuids=frozenset(f"GPU-{at}" for at in range(500)))
    for number in range(300):
        ledgers.add_waiting(engine.ledger, f"p{number:04}", request=builders.request(1, conditions=long))

    await decide(engine, 0.05)

    kept = engine.records.decisions
    assert len(kept) < 150
    assert sum(one.candidate.request.size for one in kept) <= decision_records.MOST_TERMS
    assert kept[-1].candidate.name == "p0299"
