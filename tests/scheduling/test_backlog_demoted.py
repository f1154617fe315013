"""Pods that hold everybody up, or whose binds are refused, come after all others."""

import dataclasses

from berth_operator.scheduling import queued_pods, wakeups
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent
from scheduling.test_backlog import of, ready
from support import builders


def test_who_is_demoted_comes_after_all_others() -> None:
    """Neither its priority nor its age helps a pod that holds everybody up."""
    queue = of(builders.candidate("vip", priority=10), builders.candidate("a"), builders.candidate("b"))
    queue.put_off("uid-vip", now=0.0, wants=None, demoted=True)

    found = ready(queue, now=1000.0)

    assert found == ["a", "b", "vip"]


def test_who_is_demoted_stays_so_until_it_is_edited() -> None:
    """Being put off for another reason meanwhile changes nothing; an edit does."""
    vip = builders.candidate("vip", priority=10)
    queue = of(vip, builders.candidate("a"))
    queue.put_off("uid-vip", now=0.0, wants=None, demoted=True)
    queue.put_off("uid-vip", now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))
    queue.cluster_event([ClusterEvent.CAPACITY_FREED])
    before = ready(queue, now=1000.0)

    queue.push(dataclasses.replace(vip, priority=9))

    assert (before, ready(queue)) == (["a", "vip"], ["vip", "a"])


def test_the_demoted_are_listed_last() -> None:
    """In the order in which the pods would be taken."""
    backlog = of(builders.candidate("a", priority=5), builders.candidate("b"))

    backlog.demote("uid-a")

    assert [entry.candidate.name for entry in backlog.each()] == ["b", "a"]


def test_who_is_demoted_pauses_for_longer() -> None:
    """Each attempt costs the others their time, so the attempts become rare."""
    longest = [queued_pods.pause(30), queued_pods.pause(30, demoted=True)]

    assert longest == [queued_pods.LONGEST_PAUSE_SECONDS, queued_pods.LONGEST_DEMOTED_SECONDS]
    assert queued_pods.pause(1) == queued_pods.pause(1, demoted=True)


def test_of_the_woken_the_demoted_are_tried_last() -> None:
    """When a change wakes more pods than are tried at once, those that hold others up wait."""
    names = [f"p{at:02}" for at in range(wakeups.TRIED_OF_A_KIND + 1)]
    queue = of(*(builders.candidate(name) for name in names))
    for name in names:
        freed = frozenset({ClusterEvent.CAPACITY_FREED})
        queue.put_off(f"uid-{name}", now=0.0, wants=freed, demoted=name == names[0])

    queue.cluster_event([ClusterEvent.CAPACITY_FREED])

    assert ready(queue) == names[1:]


def test_a_demoted_pod_has_its_turn_again_when_it_is_reinstated() -> None:
    """It comes after all others until then, whatever its priority, and does not wait for its pause to end."""
    backlog = Backlog()
    for name, priority in [("vip", 9), ("other", 0)]:
        backlog.push(builders.candidate(name, priority=priority))
    backlog.demote("uid-vip")
    backlog.put_off("uid-vip", now=0.0, wants=None)

    before = [one.name for one in backlog.ready(1.0)]
    backlog.put_off("uid-vip", now=1.0, wants=None)
    backlog.reinstate("uid-vip")

    assert before == ["other", "vip"]
    assert [one.name for one in backlog.ready(1.0)] == ["vip", "other"]


def test_a_reinstated_pod_that_wants_a_change_waits_for_it() -> None:
    """Its turn comes by priority then."""
    backlog = Backlog()
    for name, priority in [("vip", 9), ("other", 0)]:
        backlog.push(builders.candidate(name, priority=priority))
        backlog.put_off(f"uid-{name}", now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))
    backlog.demote("uid-vip")

    backlog.reinstate("uid-vip")
    early = list(backlog.ready(1.0))
    backlog.cluster_event([ClusterEvent.CAPACITY_FREED])

    assert early == []
    assert [one.name for one in backlog.ready(1.0)] == ["vip", "other"]


def test_who_steps_aside_lets_the_next_of_its_kind_try() -> None:
    """Of many that were woken some are tried; each that does not take its place makes room for one more."""
    backlog = Backlog()
    names = [f"p{number:02}" for number in range(wakeups.TRIED_OF_A_KIND + 2)]
    for name in names:
        backlog.push(builders.candidate(name))
        for _ in range(9):
            backlog.put_off(f"uid-{name}", now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))
    backlog.cluster_event([ClusterEvent.CAPACITY_FREED])
    first = [one.name for one in backlog.ready(1.0)]

    backlog.skip("uid-p00", now=1.0)

    assert first == names[: wakeups.TRIED_OF_A_KIND]
    assert [one.name for one in backlog.ready(1.0)] == names[1 : wakeups.TRIED_OF_A_KIND + 1]
