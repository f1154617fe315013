"""Masses of GpuPods, and those who make misplaced ones again and again: it costs others nothing.

No step goes through all, few are kept of one node, and each is removed as it comes.
"""

import logging

import pytest

from berth_crds import logs
from berth_crds.client import api, resources
from berth_operator.kube import gpupod_store, misplaced_gpupods, suspect_gpupods
from berth_operator.scheduling import holds
from kube.cleaning import LISTED, NONE, Cleaner, gpupod
from support import counted, stub, timeless


@pytest.fixture
def cleaner(server: stub.Stub, stub_session: api.Api, monkeypatch: pytest.MonkeyPatch) -> Cleaner:
    """Lend a cleaner to which a node has at most three GpuPods."""
    monkeypatch.setattr(gpupod_store, "MOST_OF_A_NODE", 3)
    server.on("GET", resources.GPU_PODS.path(namespace="many"), stub.page(version="9"))
    return Cleaner(server, stub_session)


# ---------------------------------------------------------------- masses


async def test_no_step_goes_through_all(cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many seem misplaced, others have their turn after a few of them."""
    monkeypatch.setattr(misplaced_gpupods, "YIELD_EVERY", 10)
    monkeypatch.setattr(suspect_gpupods, "MOST_CARRIED", 10)
    monkeypatch.setattr(suspect_gpupods, "MOST_READ", 10)
    monkeypatch.setattr(gpupod_store, "MOST_OF_A_NODE", 10**6)
    for number in range(3000):
        record = gpupod_store.Record(f"g{number}", f"u{number}", f"n{number % 9}")
        cleaner.store.put(counted.Word(f"many/p{number}"), record)

    async def judged(_: str) -> bool:
        return True

    monkeypatch.setattr(cleaner, "_try_check", judged)
    counted.taken()
    touched = []
    for _ in range(3):
        touched += [counted.taken() for _ in cleaner.scan().__await__()] + [counted.taken()]

    assert len(touched) >= 900
    assert max(touched) < 500


async def test_whoever_finds_no_place_has_one_later(
    cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that can never be judged do not keep the others from being read."""
    monkeypatch.setattr(suspect_gpupods, "MOST_CARRIED", 2)
    monkeypatch.setattr(suspect_gpupods, "MOST_READ", 1)
    cleaner.server.on("GET", resources.GPU_PODS.path(namespace="many"), stub.status(500, "always"))
    nodes = [f"n{number}" for number in range(6)]
    for node in nodes:
        cleaner.knows_many(1, node)

    await cleaner.scans(20)

    assert {f"{node}-0000" for node in nodes} <= set(cleaner.reads)


async def test_few_are_kept_of_a_node(cleaner: Cleaner, caplog: pytest.LogCaptureFixture) -> None:
    """The others stand by their names alone, one line tells of it, and other nodes lose nothing."""
    cleaner.knows_many(50)
    cleaner.knows_many(2, "n3")

    assert (len(cleaner.store.records), len(cleaner.store.crowded)) == (3 + 2, 47)
    assert caplog.messages == [
        "node n2 has more than 3 GpuPods: only the names of the others are kept for a check"
    ]


async def test_there_is_room_again_for_those_that_are_gone(cleaner: Cleaner) -> None:
    """What is gone is forgotten everywhere, and counts no more."""
    cleaner.knows_many(5)

    for title in [*cleaner.store.records, *cleaner.store.crowded]:
        cleaner.store.drop(title)
    left = {**cleaner.store.records, **cleaner.store.crowded}
    cleaner.knows_many(3)

    assert left == {}
    assert len(cleaner.store.records) == 3


async def test_those_of_a_crowd_go_at_once(cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch) -> None:
    """No second look is waited for, some are judged at a time, and each only once."""
    monkeypatch.setattr(misplaced_gpupods, "MOST_CROWDED_READ", 4)
    cleaner.knows_many(9)
    counts = []

    for _ in range(3):
        await cleaner.check_crowded()
        counts.append(len(cleaner.reads))

    assert counts == [4, 6, 6]
    assert sorted(cleaner.reads) == [f"n2-{number:04d}" for number in range(3, 9)]


async def test_a_crowd_takes_no_turn_of_others(cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is written for its node is judged apart: the scans are left to the other nodes."""
    monkeypatch.setattr(suspect_gpupods, "MOST_READ", 1)
    cleaner.knows_many(9)
    cleaner.knows("n3")
    cleaner.serves(gpupod("n3"), NONE)

    await cleaner.scans()
    scanned = cleaner.reads
    await cleaner.check_crowded()

    assert scanned == ["train"]
    assert len(cleaner.reads) == 1 + 9


async def test_a_crowd_waits_for_no_scan(cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the cleaner has it judged by and by as it comes."""
    monkeypatch.setattr(misplaced_gpupods, "RECENT_SECONDS", 0.0)
    monkeypatch.setattr(misplaced_gpupods, "MOST_CROWDED_READ", 2)

    async with timeless.beside(cleaner.run()):
        await timeless.passing(0)
        cleaner.knows_many(8)
        await timeless.until(lambda: not cleaner.store.crowded)

    assert sorted(cleaner.reads) == [f"n2-{number:04d}" for number in range(3, 8)]


async def test_one_of_a_crowd_that_is_right_is_not_even_read(cleaner: Cleaner) -> None:
    """What the agent of a crowded node writes of a pod that is bound there stands without a question."""
    cleaner.knows_many(4)
    await cleaner.check_crowded()
    before = len(cleaner.server.requests)
    cleaner.bound("n2")

    cleaner.knows("n2")
    await cleaner.check_crowded()

    assert "ml/train" not in cleaner.store.records, "its node has too many"
    assert len(cleaner.server.requests) == before


@pytest.mark.parametrize("leading", [True, False], ids=["no answer", "a lead in doubt"])
async def test_one_that_cannot_be_judged_has_another_turn(cleaner: Cleaner, *, leading: bool) -> None:
    """A server that is busy, or a lead in doubt, is no reason to forget it, nor to delete it."""
    cleaner.knows_many(3)
    cleaner.knows("n2")
    cleaner.serves(gpupod("n2"), NONE)
    if leading:
        cleaner.server.on("GET", LISTED, stub.status(503, "busy"))
    cleaner.leading = leading

    await cleaner.check_crowded()
    early, waits = cleaner.deletes, "ml/train" in cleaner.store.crowded
    cleaner.serves(gpupod("n2"), NONE)
    cleaner.leading = True
    await cleaner.check_crowded()

    assert (early, waits) == ([], True)
    assert cleaner.deletes == [{"preconditions": {"uid": "g1"}}]
    assert not cleaner.store.crowded


async def test_a_crowd_is_forgotten(cleaner: Cleaner) -> None:
    """After an hour a node is one like the others."""
    cleaner.knows_many(4)
    await cleaner.check_crowded()
    for title in list(cleaner.store.records):
        cleaner.store.drop(title)

    cleaner.clock.advance(misplaced_gpupods.OFFENDER_SECONDS)
    await cleaner.scan()
    cleaner.knows("n2")

    assert not cleaner.store.crowded


# ---------------------------------------------------------------- nodes with a history


async def remove(cleaner: Cleaner) -> None:
    """Have one of n2 removed, whose pod is bound to n1, and let the news come."""
    cleaner.misplaced()
    await cleaner.scans()
    cleaner.store.drop("ml/train")


async def test_what_comes_for_a_node_with_a_history_is_looked_at_as_it_comes(cleaner: Cleaner) -> None:
    """No scan is waited for; what its agent writes rightly is not even read, nor what others write."""
    await remove(cleaner)
    before = len(cleaner.server.requests)

    cleaner.ledger.pod_bound(holds.Hold("u7", "ml/right", "n2"))
    cleaner.knows("n2", uid="g7", pod_uid="u7", title="ml/right")
    cleaner.knows("n3", uid="g8", pod_uid="u8", title="ml/other")
    await cleaner.check_recent()
    idle = len(cleaner.server.requests)
    cleaner.misplaced(uid="g2")
    await cleaner.check_recent()

    assert idle == before
    assert cleaner.deletes == [{"preconditions": {"uid": "g1"}}, {"preconditions": {"uid": "g2"}}]


async def test_a_history_ends(cleaner: Cleaner) -> None:
    """After an hour without a removal a node is looked at like all others."""
    await remove(cleaner)
    before = len(cleaner.server.requests)

    cleaner.clock.advance(misplaced_gpupods.OFFENDER_SECONDS)
    cleaner.misplaced(uid="g2")
    await cleaner.check_recent()

    assert len(cleaner.server.requests) == before


async def test_a_node_with_a_history_takes_no_more_than_its_share(
    cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are written, some are read at a time, and few wait: scans find the others."""
    monkeypatch.setattr(gpupod_store, "MOST_OF_A_NODE", 1000)
    monkeypatch.setattr(misplaced_gpupods, "MOST_RECENT", 3)
    monkeypatch.setattr(misplaced_gpupods, "MOST_RECENT_READ", 2)
    await remove(cleaner)
    cleaner.knows_many(50)
    counts = []

    for _ in range(3):
        await cleaner.check_recent()
        counts.append(len(cleaner.reads) - 1)

    assert counts == [2, 3, 3]


async def test_a_flood_of_removals_is_told_in_few_lines(
    cleaner: Cleaner, caplog: pytest.LogCaptureFixture
) -> None:
    """Under ever new names or not: what is done for one node is about that node; a metric counts all."""
    caplog.set_level(logging.INFO, misplaced_gpupods.__name__)
    await remove(cleaner)

    for _ in range(9):
        cleaner.knows("n2")
        await cleaner.check_recent()
        cleaner.store.drop("ml/train")

    limiter = logs.Limiter(cleaner.clock)
    admitted = [line for record in caplog.records for line in limiter.admitted(record)]
    assert (len(cleaner.removals), len(admitted)) == (10, logs.MOST_ABOUT_ONE)
