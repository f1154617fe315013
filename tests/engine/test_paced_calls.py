"""Calls for the same thing are made a few times in a row, and then now and then; none is lost."""

import functools
from unittest import mock

import pytest

from berth_operator.engine import paced_calls
from support import clock

ALL_AT_ONCE = paced_calls.CALLS_IN_A_ROW
PAUSE = paced_calls.SECONDS_BETWEEN_CALLS


def stage() -> tuple[paced_calls.PacedCalls, clock.Clock, list[str]]:
    """Return wakes without a past, their clock, and the calls that they make."""
    now = clock.Clock()
    return paced_calls.PacedCalls(now), now, []


def test_of_calls_that_come_too_soon_the_last_is_made() -> None:
    """It says what is true by then."""
    paced, now, made = stage()
    for at in range(ALL_AT_ONCE + 3):
        paced.call("a", lambda at=at: made.append(str(at)))  # type: ignore[misc]

    now.advance(PAUSE)
    paced.make_delayed()

    assert made == [*map(str, range(ALL_AT_ONCE)), str(ALL_AT_ONCE + 2)]
    assert paced.next_due() is None


def test_who_has_been_quiet_may_come_often_again() -> None:
    """For each second that nothing changed, one more call is made at once."""
    paced, now, made = stage()
    for _ in range(ALL_AT_ONCE):
        paced.call("a", lambda: made.append("before"))

    now.advance(3 * PAUSE)
    for _ in range(ALL_AT_ONCE):
        paced.call("a", lambda: made.append("after"))

    assert made.count("after") == 3


def test_a_call_that_is_late_may_be_another_one() -> None:
    """One that keeps less in memory; at once the call itself is made."""
    paced, now, made = stage()
    for _ in range(ALL_AT_ONCE + 1):
        paced.call("a", lambda: made.append("now"), later=lambda: made.append("later"))

    now.advance(PAUSE)
    paced.make_delayed()

    assert made == ["now"] * ALL_AT_ONCE + ["later"]


def test_what_is_late_is_not_kept_where_nobody_leads() -> None:
    """A replica that stands by makes no rounds: it makes the late calls when others come."""
    paced, now, made = stage()
    for thing in range(100):
        for _ in range(ALL_AT_ONCE + 1):
            paced.call(thing, lambda: made.append("a"))
        now.advance(PAUSE)

    assert len(paced._delayed) == 1
    assert len(made) == 100 * (ALL_AT_ONCE + 1) - 1


def test_however_many_calls_of_one_account_are_late_a_round_looks_at_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of an account are due at the same time, and one agent may have thousands of GpuPods."""
    paced, now, made = stage()
    paced.cpu_clock = clock.Ticking(1.0)
    for at in range(1000):
        paced.call(at, lambda at=at: made.append(str(at)), account="its agent", pause=0.0)  # type: ignore[misc]
    made.clear()
    looks = mock.Mock(side_effect=paced._free_at)
    monkeypatch.setattr(paced, "_free_at", looks)

    now.advance((paced.next_due() or 0.0) - now())
    paced.make_delayed()

    assert made == ["1"]
    assert looks.call_count == 3


def test_a_late_call_and_a_new_one_for_the_same_thing_are_one() -> None:
    """What wakes pods finds all that has changed so far, and nothing the second time."""
    paced, now, made = stage()
    for _ in range(ALL_AT_ONCE + 1):
        paced.call("a", lambda: made.append("before"))

    now.advance(3 * PAUSE)
    paced.call("a", lambda: made.append("after"))

    assert made == ["before"] * ALL_AT_ONCE + ["after"]
    assert paced.next_due() is None


def test_a_late_call_may_make_others() -> None:
    """Those that are due together are made once each, whichever of them comes first."""
    paced, now, made = stage()

    def wake_another(thing: str) -> None:
        made.append(thing)
        paced.call("another", lambda: None)

    for _ in range(ALL_AT_ONCE + 1):
        for thing in ("a", "b"):
            paced.call(thing, functools.partial(wake_another, thing))
    made.clear()

    now.advance(PAUSE)
    paced.make_delayed()

    assert sorted(made) == ["a", "b"]


def test_calls_that_take_long_are_made_for_a_part_of_the_time() -> None:
    """Whatever they are about, if they are of one account; others have accounts of their own."""
    paced, now, made = stage()
    paced.cpu_clock = clock.Ticking(0.1)
    for at in range(20):
        paced.call(at, lambda: made.append("slow"), account="agent", pause=0.0)
    paced.call("other", lambda: made.append("other"), pause=0.0)

    at_first = list(made)
    now.advance(0.1 * paced_calls.PAUSE_FOR_TIME)
    paced.make_delayed()

    assert at_first == ["slow"] * 4 + ["other"]
    assert made[len(at_first) :] == ["slow"]


def test_what_a_call_has_brought_about_is_paid_for_as_well() -> None:
    """A node that wakes very many kinds of pods does so seldom."""
    paced, now, made = stage()
    paced.call("a", lambda: made.append("first"))

    paced.charge("a", paced_calls.CREDIT)
    paced.call("a", lambda: made.append("second"))

    assert (made, paced.next_due()) == (["first"], now() + PAUSE)
