"""Pods that hold everybody up, or whose binds are refused, come after all others."""

import dataclasses
from typing import Final

from berth_operator.scheduling import rotation, time_shares, wakeups
from support import backlogs, builders
from support.backlogs import FREED, ready

VIP: Final = builders.pod_info("vip", priority=10)
A, B, C = map(builders.pod_info, "abc")


def test_who_is_demoted_comes_after_all_others() -> None:
    """Neither its priority nor its age helps a pod that holds everybody up, in its turns and in lists."""
    queue = backlogs.of(VIP, A, B)

    queue.requeue("uid-vip", now=0.0, awaited=None, demoted=True)

    assert ready(queue, now=1000.0) == ["a", "b", "vip"]
    assert [entry.pod_info.name for entry in queue.in_order()] == ["a", "b", "vip"]


def test_who_is_demoted_stays_so_until_it_is_edited() -> None:
    """Being put off for another reason meanwhile changes nothing; an edit does."""
    queue = backlogs.of(VIP, A)
    queue.requeue("uid-vip", now=0.0, awaited=None, demoted=True)
    queue.requeue("uid-vip", now=0.0, awaited=FREED)
    queue.cluster_event(FREED)
    before = ready(queue, now=1000.0)

    queue.push(dataclasses.replace(VIP, priority=9))

    assert (before, ready(queue)) == (["a", "vip"], ["vip", "a"])


def test_of_the_woken_the_demoted_are_tried_last() -> None:
    """When a change wakes more pods than are tried at once, those that hold others up wait."""
    names = [f"p{at:02}" for at in range(wakeups.TRIED_OF_A_KIND + 1)]
    queue = backlogs.requeue(*map(builders.pod_info, names))
    queue.demote("uid-p00")

    queue.cluster_event(FREED)

    assert ready(queue) == names[1:]


def test_a_demoted_pod_has_its_turn_again_when_it_is_reinstated() -> None:
    """It comes after all others until then, whatever its priority, and does not wait for its pause to end."""
    queue = backlogs.of(VIP, A)
    queue.demote("uid-vip")
    queue.requeue("uid-vip", now=0.0, awaited=None)
    before = ready(queue, now=1.0)
    queue.requeue("uid-vip", now=1.0, awaited=None)

    queue.reinstate("uid-vip")

    assert (before, ready(queue, now=1.0)) == (["a", "vip"], ["vip", "a"])


def test_a_reinstated_pod_that_wants_a_change_waits_for_it() -> None:
    """Its turn comes by priority then."""
    queue = backlogs.requeue(VIP, A)
    queue.demote("uid-vip")

    queue.reinstate("uid-vip")
    before = ready(queue, now=1.0)
    queue.cluster_event(FREED)

    assert (before, ready(queue, now=1.0)) == ([], ["vip", "a"])


def test_who_steps_aside_lets_the_next_of_its_kind_try() -> None:
    """Of many that were woken some are tried; each that does not take its place makes room for one more."""
    most = wakeups.TRIED_OF_A_KIND
    names = [f"p{number:02}" for number in range(most + 2)]
    queue = backlogs.requeue(*map(builders.pod_info, names), times=9)
    queue.cluster_event(FREED)
    before = ready(queue, now=1.0)

    queue.back_off("uid-p00", now=1.0)

    assert (before, ready(queue, now=1.0)) == (names[:most], names[1 : most + 1])


def pauses(*left: int) -> list[float]:
    """Return how long a pod waits after each attempt, whose searches leave so many nodes."""
    queue, found = backlogs.of(A), []
    for nodes in left:
        queue.requeue("uid-a", now=0.0, awaited=None, demoted=True, unsearched=nodes)
        found.append(queue.next_due() or 0.0)
    return found


def test_search_that_gets_on_is_one_attempt() -> None:
    """As long as each part of it leaves fewer nodes, the pod does not wait longer each time."""
    assert pauses(900, 600, 300, 1, 0, 0) == [0.1, 0.1, 0.1, 0.1, 0.2, 0.4]


def test_search_that_does_not_get_on_is_repeated_ever_more_rarely() -> None:
    """Where nodes change as fast as they are searched, the pod is tried less and less until it gets on."""
    found = pauses(*[900] * 12, 600, 300)

    assert found == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 60.0, 0.1, 0.1]


def test_of_the_demoted_one_has_a_turn_now_and_then() -> None:
    """They come after all others, and others may be there all the time."""
    other = builders.pod_info("d", namespace="other")
    backlog = backlogs.of(A, B, C, other)
    for uid in ("uid-a", "uid-b", "uid-d"):
        backlog.demote(uid)

    def turns(now: float) -> list[str]:
        return [pod.name for pod, _ in backlog.out_of_order(now, ())]

    pause = rotation.DEMOTED_SECONDS
    assert [turns(now * pause) for now in (1, 1.5, 2, 3, 4, 5)] == [
        ["a", "c"], ["c"], ["d", "c"], ["b", "c"], ["d", "c"], ["a", "c"],
    ]  # fmt: skip


def test_who_is_demoted_and_takes_long_has_no_such_turn() -> None:
    """Nor has one that was tried in this round, or whose namespace is suspended."""
    backlog = backlogs.of(A, B)
    for uid in ("uid-a", "uid-b"):
        backlog.demote(uid)

    found = [[pod.name for pod, _ in backlog.out_of_order(10.0, ("uid-a",))]]
    backlog.suspend(A.namespace)
    found.append([pod.name for pod, _ in backlog.out_of_order(20.0, ())])
    backlog.resume(A.namespace)
    backlog.time_shares.record(A.namespace, time_shares.SHARE_SECONDS * 2, 30.0)
    found.append([pod.name for pod, _ in backlog.out_of_order(30.0, ())])

    assert found == [["b"], [], []]
