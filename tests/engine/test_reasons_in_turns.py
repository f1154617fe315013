"""Pods that share a reason may be very many: they learn its change in turns, and none is forgotten."""

import pytest

from berth_operator.engine import waiting_reasons
from engine.pods_that_wait import WANTED, alike, use, wait


def test_very_many_pods_learn_what_they_share_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon one after another, each once, and nobody else waits for them."""
    monkeypatch.setattr(waiting_reasons, "MOST_TOLD", 3)
    reasons = alike(8)
    reasons.fill()

    first, too_soon = reasons.renewed(10.0), reasons.renewed(10.05)
    due = reasons.found.next_due(10.05)
    others = [reasons.renewed(now) for now in (10.1, 10.2, 10.3)]

    assert due == 10.0 + waiting_reasons.TURN_SECONDS
    assert [len(some) for some in (first, too_soon, *others)] == [3, 0, 3, 2, 0]
    assert first | others[0] | others[1] == reasons.true()
    assert reasons.found.next_due(10.3) == 11.0


def test_the_last_of_very_many_pods_learn_it_where_nodes_change_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They go on where they were, and no pod that left is told anything."""
    monkeypatch.setattr(waiting_reasons, "MOST_TOLD", 3)
    reasons = alike(8)
    told = list[str]()

    for at in range(8):
        reasons.ledger.pod_over(f"uid-use{at - 1}" if at else "uid-a")
        reasons.ledger.pod_bound(use("n1", 71 + at, f"use{at}"))
        told += reasons.renewed(10.0 + at / 10)
        if at == 1:
            reasons.ledger.pod_over("uid-p7")

    assert sorted(told) == [f"p{at}" for at in range(7)]


def test_a_turn_is_shared_by_those_that_have_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many pods of one kind do not go before a few of another."""
    monkeypatch.setattr(waiting_reasons, "MOST_TOLD", 6)
    reasons = alike(20)
    reasons.pods += [wait(reasons.ledger, f"q{at}", WANTED + 1) for at in range(3)]
    reasons.decided()
    reasons.fill()

    assert sorted(name[0] for name in reasons.renewed(10.0)) == ["p"] * 3 + ["q"] * 3
