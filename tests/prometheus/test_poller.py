"""Loads of cards from Prometheus: which pods they move, of which cards they are, and how long they count.

The server speaks HTTP and answers as Prometheus does.
"""

import asyncio
import logging
from typing import Any

import pytest

from berth_crds import card_load, names, wire
from berth_crds.client import lease
from berth_operator.engine.sampled_loads import Metric
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import sinks
from berth_operator.prometheus import poller, queries
from berth_operator.scheduling import decisions
from berth_operator.scheduling.card_loads import NO_LOADS
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.policy import Policy
from prometheus import polling
from prometheus.polling import INTERVAL_SECONDS, NODE, OLD_SECONDS, Polling
from support import builders, ledgers, stub


def chosen(known: Polling) -> list[int]:
    """Return the minors of the cards that a pod would get that asks for one."""
    ledgers.add_waiting(known.ledger, "p")
    (decision,) = ledgers.decide(known.ledger)
    assert isinstance(decision, decisions.Bind)
    return [share.minor for grant in decision.placement.grants for share in grant.shares]


# ---------------------------------------------------------------- what it is for


async def test_a_card_that_is_busy_by_prometheus_is_avoided(cards: Polling) -> None:
    """By a policy that weighs utilization; without a word from Prometheus the lowest minor is taken."""
    assert chosen(cards) == [0]

    cards.prometheus.scrape_node(NODE, 95, 5)
    await cards.step()

    assert cards.utilization() == [95, 5]
    assert chosen(cards) == [1]


@pytest.mark.parametrize("metrics", queries.NAMES, ids=str)
async def test_every_figure_is_read(cards: Polling, metrics: Any) -> None:
    """By the names of either exporter, in the units that agents report in."""
    cards.use(metrics=metrics)
    measured = {"GPU_UTIL": 42, "ENC_UTIL": 11, "DEC_UTIL": 12, "POWER_USAGE": 210.5, "FB_FREE": 1000.0}
    for metric, value in {**measured, "POWER_MGMT_LIMIT": 421}.items():
        cards.prometheus.scrape_node(NODE, value, name=queries.NAMES[metrics][Metric(metric)])

    await cards.step()

    assert cards.ledger.loads.of(NODE) == {0: card_load.CardLoad(40, 10, 10, 50, 960 << 20)}


async def test_one_query_for_each_metric_serves_all_cards() -> None:
    """However many nodes there are, and however often pods are decided."""
    async with polling.polling(nodes=120) as many:
        for number in range(1, 121):
            many.prometheus.scrape_node(f"n{number}", 95, 5)
        await many.step()
        chosen(many)
        await many.step(INTERVAL_SECONDS - 1)

        assert len(many.prometheus.queries) == len(set(many.prometheus.queries)) == len(Metric)
        assert len(many.ledger.loads) == 120
        assert many.utilization("n120") == [95, 5]


async def test_prometheus_is_asked_as_often_as_the_policy_says(cards: Polling) -> None:
    """And not at all where agents are the source."""
    asked = []
    for seconds in (0.0, 1.0, 13.0, 1.0, 15.0):
        await cards.step(seconds)
        asked.append(len(cards.prometheus.queries) // len(Metric))
    cards.ledger.policy_seen(Policy())
    await cards.step(60.0)

    assert asked == [1, 1, 1, 2, 3]
    assert len(cards.prometheus.queries) == 3 * len(Metric)


# ---------------------------------------------------------------- how old


@pytest.mark.parametrize(("age", "counts"), [(0, True), (59, True), (61, False), (299, False)])
async def test_a_sample_that_is_too_old_does_not_count(cards: Polling, age: float, *, counts: bool) -> None:
    """By when it was measured and not by when it was asked for; the clock of Prometheus is its own."""
    cards.prometheus.scrape_node(NODE, 95, age=age)

    await cards.step()

    assert cards.utilization(cards=1) == [95 if counts else -1]


async def test_what_was_measured_counts_on_while_prometheus_fails_until_it_is_too_old(cards: Polling) -> None:
    """To the second, each card by itself; then the promises decide."""
    cards.prometheus.scrape_node(NODE, 95, age=20)
    cards.prometheus.scrape(builders.uuid(NODE, 1), 80, age=5)
    await cards.step()
    cards.server.on("GET", queries.PATH, stub.reset())

    found = []
    for seconds in (0.0, 40.0, 1.0, 14.0, 1.0):
        await cards.step(seconds)
        found.append(cards.utilization())

    assert found == [[95, 80], [95, 80], [-1, 80], [-1, 80], [-1, -1]]
    assert chosen(cards) == [0]


async def test_a_card_that_prometheus_does_not_have_any_more_is_not_measured(cards: Polling) -> None:
    """Prometheus itself ends a series whose exporter is gone."""
    cards.prometheus.scrape_node(NODE, 95, 80)
    await cards.step()
    cards.prometheus.series.pop()
    await cards.step(INTERVAL_SECONDS)

    assert cards.utilization() == [95, -1]


async def test_loads_end_even_where_nobody_asks_any_more(cards: Polling) -> None:
    """A poller that hangs keeps nothing alive."""
    cards.prometheus.scrape_node(NODE, 95)
    await cards.step()
    cards.time.advance(OLD_SECONDS + 1)
    cards.loads.refresh()

    assert cards.utilization() == [-1, -1]


# ---------------------------------------------------------------- of which card


async def test_the_newest_of_two_exporters_counts(cards: Polling) -> None:
    """One that is gone and whose last word is still there says nothing."""
    cards.prometheus.scrape_node(NODE, 95, age=50, instance="old")
    cards.prometheus.scrape_node(NODE, 20, age=1, instance="new")
    cards.prometheus.scrape_node(NODE, 60, age=30, instance="other")

    await cards.step()

    assert cards.utilization(cards=1) == [20]


async def test_of_series_of_one_exporter_the_busiest_counts(cards: Polling) -> None:
    """As where a card is listed once for each pod that shares it; what is free is the least of it."""
    for pod, busy, free in (("a", 30, 6400), ("b", 70, 3200)):
        cards.prometheus.scrape_node(NODE, busy, pod=pod)
        cards.prometheus.scrape_node(NODE, free, name="DCGM_FI_DEV_FB_FREE", pod=pod)

    await cards.step()

    assert cards.ledger.loads.of(NODE)[0] == card_load.CardLoad(utilization=70, free_memory=3200 << 20)


async def test_a_part_of_a_card_is_not_the_card(cards: Polling) -> None:
    """Series of MIG instances do not count."""
    cards.prometheus.scrape_node(NODE, 95, GPU_I_ID="3", GPU_I_PROFILE="1g.10gb")

    await cards.step()

    assert cards.ledger.loads.of(NODE) == NO_LOADS


async def test_cards_that_no_device_has_are_named_once(
    cards: Polling, caplog: pytest.LogCaptureFixture
) -> None:
    """They change nothing, and the cards beside them count."""
    caplog.set_level(logging.INFO, polling.LOG.name)
    cards.prometheus.scrape_node(NODE, 95)
    for number in range(5):
        cards.prometheus.scrape(f"GPU-elsewhere-{number}", 5)

    for _ in range(3):
        await cards.step(INTERVAL_SECONDS)

    at = cards.server.link.server
    assert [record.getMessage() for record in caplog.records] == [
        f"the loads of cards come from Prometheus at {at}",
        (
            "Prometheus has 5 cards that are in no Device and do not count: "
            "GPU-elsewhere-0, GPU-elsewhere-1, GPU-elsewhere-2, …"
        ),
    ]
    assert cards.utilization() == [95, -1]


# ---------------------------------------------------------------- beside the agents


async def test_loads_of_agents_are_never_mixed_in(cards: Polling) -> None:
    """Not even where Prometheus knows nothing of a card; and the other way round."""
    watchdog = Watchdog(cards.ledger, clock=cards.time)
    leases = sinks.LeaseSink(watchdog)

    def renew(moment: str, second: int = 90) -> None:
        annotations = {names.LOAD: f"v1 0:5,0,0,0,0 1:{second},0,0,0,0"}
        leases.upserted(
            lease.Lease(wire.Meta(NODE, annotations=annotations), lease.LeaseSpec(renew_time=moment))
        )

    found = []
    cards.ledger.policy_seen(Policy())
    renew("1")
    found.append(cards.utilization())
    cards.use()
    found.append(cards.utilization())
    cards.prometheus.scrape_node(NODE, 95)
    await cards.step()
    renew("2")
    renew("3", second=80)
    found.append(cards.utilization())
    leases.deleted(wire.Meta(NODE))
    found.append(cards.utilization())
    cards.ledger.policy_seen(Policy())
    await cards.step()
    found.append(cards.utilization())
    renew("4")
    found.append(cards.utilization())

    assert found == [[5, 90], [-1, -1], [95, -1], [95, -1], [-1, -1], [5, 90]]


async def test_another_prometheus_begins_with_nothing(cards: Polling) -> None:
    """What the first one measured ends with the policy that named it, and the next is asked at once."""
    cards.prometheus.scrape_node(NODE, 95)
    await cards.step()
    cards.use(max_age_seconds=50.0)
    assert cards.utilization(cards=1) == [-1]

    await cards.step()

    assert cards.utilization(cards=1) == [95]


@pytest.mark.parametrize("before", [0, 3], ids=["the first answer", "a later one"])
async def test_what_comes_after_the_policy_changed_does_not_count(cards: Polling, before: int) -> None:
    """Nor what came before with it: the loads of the source that is in force then are not touched."""
    cards.prometheus.scrape_node(NODE, 95)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> Any:
        if len(cards.prometheus.queries) == before:
            asked.set()
            await go_on.wait()
        return await cards.prometheus.answer(request)

    cards.server.on("GET", queries.PATH, slow)
    step = asyncio.create_task(cards.step())
    await asked.wait()
    cards.ledger.policy_seen(Policy())
    go_on.set()
    await step

    assert len(cards.ledger.loads) == 0
    assert cards.poller.fault == ""


async def test_a_prometheus_that_is_slow_with_each_metric_is_given_up(
    cards: Polling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was measured before expires meanwhile as it should, and the fault is told."""
    monkeypatch.setattr(poller, "POLL_SECONDS", 0.05)

    async def slow(request: Any) -> Any:
        await asyncio.sleep(0.03)
        return await cards.prometheus.answer(request)

    cards.prometheus.scrape_node(NODE, 95)
    cards.server.on("GET", queries.PATH, slow)
    await cards.step()

    assert cards.poller.fault.endswith("it takes more than 0.05 s for all metrics")
    assert cards.failures() == 1


async def test_memory_that_prometheus_finds_free_wakes_the_pods_that_wait_for_it(cards: Polling) -> None:
    """As the figures of agents do."""
    free = [1000.0]
    cards.prometheus.scrape_node(NODE, *free, name="DCGM_FI_DEV_FB_FREE")
    await cards.step()
    cards.loads.refresh()
    ledgers.add_sleeping(cards.ledger, "p", ClusterEvent.LOAD_CHANGED)
    cards.ledger.wake.clear()
    cards.prometheus.series.clear()
    cards.prometheus.scrape_node(NODE, 9000.0, name="DCGM_FI_DEV_FB_FREE")

    await cards.step(INTERVAL_SECONDS)
    cards.loads.refresh()

    assert cards.ledger.wake.is_set()


@pytest.mark.parametrize(("free", "woken"), [(1000.0, True), (81920.0, False)], ids=["less", "all"])
async def test_memory_that_only_another_source_finds_taken_wakes_its_pods(
    cards: Polling, free: float, *, woken: bool
) -> None:
    """When the policy names another source, what the first one found in use is as good as free."""
    cards.prometheus.scrape_node(NODE, free, name="DCGM_FI_DEV_FB_FREE")
    await cards.step()
    ledgers.add_sleeping(cards.ledger, "p", ClusterEvent.LOAD_CHANGED)

    cards.ledger.policy_seen(Policy())

    assert ledgers.ready_names(cards.ledger) == (["p"] if woken else [])
