"""Who has taken much time has exceeded its share, for a while."""

from berth_operator.scheduling import round_limits
from berth_operator.scheduling.time_shares import (
    HALVED_SECONDS,
    LONG_TRY_SECONDS,
    MOST_NAMESPACES,
    SHARE_SECONDS,
    TimeShares,
)
from support import builders, clock


def test_a_share_is_exceeded_until_time_has_gone_by() -> None:
    """What was taken adds up, and counts half after a while."""
    shares = TimeShares()
    shares.record("a", SHARE_SECONDS, 10.0)
    once = shares.exceeded("a", 10.0)
    shares.record("a", SHARE_SECONDS / 2, 10.0)

    assert (once, shares.exceeded("a", 10.0), shares.exceeded("b", 10.0)) == (False, True, False)
    assert not shares.exceeded("a", 10.0 + HALVED_SECONDS)


def test_time_that_other_programs_take_is_no_part_of_a_try() -> None:
    """On a busy machine each namespace would have had more than its share, and the order would suffer."""
    now, cpu = clock.Clock(), clock.Clock()
    deadlines = round_limits.RoundDeadlines(now, ends=9.0, seconds_per_search=1.0, cpu_clock=cpu)
    budget = round_limits.RoundBudget(deadlines)

    effort = budget.effort_for(builders.pod_info(), out_of_order=False)
    now.advance(1.0)
    cpu.advance(0.25)

    assert effort is not None
    assert budget.settle(effort) == 0.25


def test_what_is_taken_all_the_time_is_bounded() -> None:
    """So nobody has to wait for long who takes less from now on."""
    shares = TimeShares()
    for at in range(1000):
        shares.record("a", 0.01, at * 0.01)

    assert not shares.exceeded("a", 10.0 + 4 * HALVED_SECONDS)


def test_namespaces_that_have_taken_nothing_lately_are_forgotten() -> None:
    """There may have been very many."""
    shares = TimeShares()
    for at in range(3 * MOST_NAMESPACES):
        shares.record(f"n{at}", SHARE_SECONDS * 3, float(at))

    assert len(shares) <= MOST_NAMESPACES
    assert shares.exceeded(f"n{3 * MOST_NAMESPACES - 1}", 3.0 * MOST_NAMESPACES)


def test_long_tries_alone_count_for_pods_that_were_never_tried() -> None:
    """A namespace that fills a cluster with usual pods goes on, and one whose new pods take long does not."""
    shares = TimeShares()
    for at in range(200):
        shares.record("usual", LONG_TRY_SECONDS / 2, 10.0)
        if at % 2:
            shares.record("hard", LONG_TRY_SECONDS, 10.0)

    assert [shares.exceeded(one, 10.0) for one in ("usual", "hard")] == [True, True]
    assert [shares.exceeded(one, 10.0, by_long_tries=True) for one in ("usual", "hard")] == [False, True]
