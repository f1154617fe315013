"""Which pods need a dry run after binds were refused, when they are asked about again, and in which order."""

from collections.abc import Sequence
from typing import Final

from berth_operator.engine import bind_refusals, dry_runs
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.backlog import Backlog
from support import builders

SOMEWHERE: Final = decisions.Placement("n1")
OTHERS: Final = [f"other{number}" for number in range(bind_refusals.MOST_WITHOUT_TURNS)]
A, B, NEW = (builders.pod_info(name) for name in ("a", "b", "new"))
STRANGER: Final = builders.pod_info("new", namespace="else")


def refused(*names: str) -> bind_refusals.BindRefusals:
    """Return what is known after the binds of some pods were refused, at 100 s."""
    return refused_pods([builders.pod_info(name) for name in names])[0]


def refused_pods(pods: Sequence[queued_pods.PodInfo]) -> tuple[bind_refusals.BindRefusals, Backlog]:
    """Return the same of these pods, and a backlog in which they wait."""
    found, backlog = bind_refusals.BindRefusals(), Backlog()
    for pod_info in pods:
        backlog.push(pod_info)
        found.dry_run_refused(pod_info, SOMEWHERE, 100.0)
    return found, backlog


def test_a_refused_pod_needs_a_dry_run_until_one_is_accepted() -> None:
    """That counts for some seconds, and for that pod alone."""
    found = refused("a")

    before = found.needs_dry_run(A, 101.0), found.needs_dry_run(B, 101.0)
    hurried = found.dry_run_accepted(A, 101.0)

    assert (before, hurried) == ((True, False), ["uid-a"])
    assert [found.needs_dry_run(A, 101.0 + later) for later in (0.0, 4.9, 5.0)] == [False, False, True]


def test_after_several_refusals_all_of_the_namespace_need_a_dry_run_for_a_while() -> None:
    """Fewer of them, or those of long ago, tell nothing of the next pod."""
    few, many = refused("a", "b"), refused("a", "b", "c")

    assert not few.needs_dry_run(NEW, 101.0)
    assert many.needs_dry_run(NEW, 101.0)
    assert not many.needs_dry_run(STRANGER, 101.0)
    assert not many.needs_dry_run(NEW, 100.0 + bind_refusals.RECENT_SECONDS)


def test_a_second_edit_within_half_a_minute_is_a_habit() -> None:
    """Of one namespace; others are not concerned, and it is forgotten."""
    known = bind_refusals.BindRefusals()

    edits = [(NEW, 0.0), (NEW, 1.0), (NEW, 2.0), (STRANGER, 5.0), (NEW, 100.0)]

    assert [known.pod_edited(pod, at) for pod, at in edits] == [False, True, True, False, False]


def test_who_is_bound_or_gone_is_forgotten() -> None:
    """Nothing is kept of pods that do not wait any more."""
    found = refused("a", "b")

    found.forget("uid-a")
    looked = found.due_retries(Backlog(), 200.0)

    assert (looked, found.next_retry(), repr(found)) == ([], None, "<BindRefusals: 0 pods>")


# ---------------------------------------------------------------- on trial


def test_trials_of_long_ago_are_forgotten() -> None:
    """Nothing is kept of pods that are gone without a word."""
    found = bind_refusals.BindRefusals()
    for number in range(50):
        pod_info, now = builders.pod_info(f"p{number}"), 1000.0 * number
        found.dry_run_accepted(pod_info, now)
        found.bind_refused(pod_info, SOMEWHERE, now)

    assert len(found._on_trial) <= 2


def test_an_accepted_dry_run_that_was_not_true_brings_nobody_forward() -> None:
    """From then on the pod is bound when its trial is due, and nothing is asked about it."""
    found = refused("a", "b")

    first = found.dry_run_accepted(A, 101.0)
    found.bind_refused(A, SOMEWHERE, 101.1)
    second = found.dry_run_accepted(A, 102.0)

    assert (first, second) == (["uid-a", "uid-b"], [])
    assert (found.needs_dry_run(A, 102.0), found.is_postponed(A, SOMEWHERE)) == (True, True)
    assert not found.needs_dry_run(A, 103.2)


# ---------------------------------------------------------------- who is asked about next


def test_one_of_each_namespace_is_asked_about_each_second() -> None:
    """The one that was tried longest ago comes first."""
    names = [("a", "x"), ("b", "x"), ("c", "y")]
    found, backlog = refused_pods([builders.pod_info(name, namespace=space) for name, space in names])

    retries = [found.due_retries(backlog, moment) for moment in (100.5, 101.0, 101.5, 102.0, 103.0)]

    named = [[refused.pod_info.name for refused in due] for due in retries]
    assert named == [[], ["a", "c"], [], ["b", "c"], ["a", "c"]]


def test_every_pod_of_a_crowd_has_its_turn_within_half_a_minute() -> None:
    """Of a large namespace more are asked about each second, and never too many of all together."""
    crowd = [builders.pod_info(f"p{number}") for number in range(300)]
    found, backlog = refused_pods(crowd)

    turns = [found.due_retries(backlog, 100.0 + second) for second in range(1, 31)]

    assert {refused.pod_info.uid for turn in turns for refused in turn} == {one.uid for one in crowd}
    assert {len(turn) for turn in turns} == {10}


def test_only_a_pod_of_a_crowd_is_postponed() -> None:
    """A few cost the server little, and an edited pod is another; until one of the crowd is accepted."""
    other, edited = builders.pod_info(OTHERS[0]), builders.pod_info("a", priority=7)
    crowd, few = refused("a", *OTHERS), refused("a", *OTHERS[1:])

    before = [found.is_postponed(pod, SOMEWHERE) for found, pod in ((crowd, A), (few, A), (crowd, edited))]
    crowd.dry_run_accepted(A, 101.0)
    after = crowd.is_postponed(other, SOMEWHERE)
    crowd.dry_run_refused(other, SOMEWHERE, 102.0)

    assert (before, after) == ([True, False, False], False)
    assert crowd.is_postponed(other, SOMEWHERE), "the server refuses them again"


def test_a_postponed_pod_is_retried_where_it_would_go_now() -> None:
    """What is refused may be the node."""
    elsewhere = decisions.Placement("n2")
    found, backlog = refused_pods([A, *map(builders.pod_info, OTHERS)])

    found.is_postponed(A, elsewhere)

    assert [refused.placement for refused in found.due_retries(backlog, 101.0)] == [elsewhere]


def asked(*pods: queued_pods.PodInfo) -> list[str]:
    """Return the order in which pods of a namespace are asked about."""
    queue = dry_runs.DryRunQueue()
    for pod_info in pods:
        queue.push(dry_runs.DryRun(pod_info, SOMEWHERE))
    found = [queue.pop().pod_info.name for _ in pods]
    assert not queue
    return found


def test_the_first_and_the_last_of_a_kind_come_in_turns_and_so_do_the_kinds() -> None:
    """So neither the old nor the new wait for all others, nor do those that may get another answer."""
    crowd = [builders.pod_info(f"p{number}") for number in range(4)]
    large, huge = builders.pod_info("large", 2), builders.pod_info("huge", 4)
    important = builders.pod_info("important", priority=5)

    assert asked(*crowd) == ["p0", "p3", "p1", "p2"]
    assert asked(*crowd, large, important)[:3] == ["p0", "large", "important"]
    assert asked(*crowd, large, huge)[3:] == ["p3", "p1", "p2"]
