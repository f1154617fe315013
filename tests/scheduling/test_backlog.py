"""The backlog: who comes first, who waits for what, and how patience grows and is kept."""

import dataclasses
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import backlog, queued_pods, queues, wakeups
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent, Reason, Refusal
from berth_operator.scheduling.devices import requests
from support import builders


def of(*candidates: queued_pods.Candidate) -> Backlog:
    """Return a backlog of these."""
    made = Backlog()
    for candidate in candidates:
        made.push(candidate)
    return made


def ready(queue: Backlog, now: float = 0.0) -> list[str]:
    """Name the pods whose turn it is."""
    return [candidate.name for candidate in queue.ready(now)]


def test_order() -> None:
    """Priority goes first, then age, then the name with its namespace."""
    early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    queue = of(
        builders.candidate("z", created=early),
        builders.candidate("b", created=late),
        builders.candidate("a", created=late),
        dataclasses.replace(builders.candidate("c", created=late), namespace="aa"),
        builders.candidate("vip", created=late, priority=10),
        builders.candidate("last", created=early, priority=-1),
    )

    found = ready(queue)

    assert found == ["vip", "z", "c", "a", "b", "last"]


@hypothesis.given(
    st.permutations([builders.candidate(name, priority=at % 2) for at, name in enumerate("abcd")])
)
def test_order_of_arrival_does_not_matter(pods: list[queued_pods.Candidate]) -> None:
    """Whoever was heard of first, the order is the same (I11)."""
    queue = of(*pods)

    found = ready(queue)

    assert found == ["b", "d", "a", "c"]


@pytest.mark.parametrize(
    ("wants", "change", "woken"),
    [
        pytest.param({ClusterEvent.CAPACITY_FREED}, ClusterEvent.CAPACITY_FREED, True, id="the very change"),
        pytest.param({ClusterEvent.CAPACITY_FREED}, ClusterEvent.DEVICE_CHANGED, False, id="another change"),
        pytest.param(
            {ClusterEvent.NODE_CHANGED, ClusterEvent.DEVICE_CHANGED},
            ClusterEvent.DEVICE_CHANGED,
            True,
            id="one of several",
        ),
        pytest.param(set[ClusterEvent](), ClusterEvent.POLICY_CHANGED, False, id="nothing helps but an edit"),
    ],
)
def test_waits_for_the_right_change(wants: set[ClusterEvent], change: ClusterEvent, woken: bool) -> None:  # noqa: FBT001  a column of the table
    """A pod that did not fit sleeps until something that could help it happens."""
    queue = of(builders.candidate())
    queue.put_off("uid-p", now=0.0, wants=frozenset(wants))

    queue.cluster_event([change])

    assert ready(queue, now=1000.0) == (["p"] if woken else [])


def test_help_comes_at_once() -> None:
    """A pod that a change could help is tried at once, however long its pause has become."""
    queue = of(builders.candidate())
    for _ in range(9):
        queue.put_off("uid-p", now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))

    queue.cluster_event([ClusterEvent.CAPACITY_FREED])

    assert ready(queue, now=0.01) == ["p"]


def crowd(*sizes: int) -> Backlog:
    """Have crowds wait for room, each of another kind: the first asks for one card, the second for two."""
    pods = [
        builders.candidate(f"{cards}-{at:04}", cards=cards)
        for cards, size in enumerate(sizes, 1)
        for at in range(size)
    ]
    queue = of(*pods)
    for pod in pods:
        queue.put_off(pod.uid, now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))
    return queue


def test_of_a_crowd_the_first_of_each_kind_are_helped_at_once() -> None:
    """A large crowd of one kind does not keep another from what became free; the rest waits its own pause."""
    queue = crowd(300, 40)

    queue.cluster_event([ClusterEvent.CAPACITY_FREED])

    first = range(wakeups.TRIED_OF_A_KIND)
    assert ready(queue, now=0.05) == [f"{kind}-{at:04}" for kind in (1, 2) for at in first]
    assert len(ready(queue, now=0.1)) == 340


def test_for_each_that_is_placed_the_next_of_its_kind_is_tried() -> None:
    """However much became free, and however long a crowd waits, each success is followed by another try."""
    queue = crowd(100, 100)
    queue.cluster_event([ClusterEvent.CAPACITY_FREED])

    placed = []
    while mine := [name for name in ready(queue, now=0.01) if name.startswith("2")]:
        queue.place(f"uid-{mine[0]}")
        placed.append(mine[0])

    assert placed == [f"2-{at:04}" for at in range(100)]
    assert len(ready(queue, now=0.01)) == wakeups.TRIED_OF_A_KIND


def other(queue: Backlog, count: int = 1) -> list[str]:
    """Have pods of another namespace wait for room, which come last and ask for one card."""
    names = [f"other{at:02}" for at in range(count)]
    for name in names:
        queue.push(dataclasses.replace(builders.candidate(name), namespace="z-other"))
        queue.put_off(f"uid-{name}", now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))
    return names


def tried(queue: Backlog, held_up: str) -> list[str]:
    """Name the pods whose turn it is in a round that finds a namespace held up."""
    found = []
    for candidate in queue.ready(0.01):
        if candidate.namespace == held_up:
            queue.hold_up(held_up)
        else:
            found.append(candidate.name)
    return found


@pytest.mark.parametrize("known", [False, True], ids=["in the round", "before"])
def test_where_a_namespace_is_held_up_others_of_the_kind_are_tried(known: bool) -> None:  # noqa: FBT001  a column of the table
    """A crowd that must wait does not keep what became free from others that ask the same."""
    queue = crowd(100)
    others = other(queue, wakeups.TRIED_OF_A_KIND)
    if known:
        queue.hold_up(builders.candidate().namespace)

    queue.cluster_event([ClusterEvent.CAPACITY_FREED])

    assert tried(queue, builders.candidate().namespace) == others


def test_who_is_held_up_keeps_his_place() -> None:
    """Nobody waits for those that are held up, and when they go on they come first again."""
    queue = crowd(5)
    queue.cluster_event([ClusterEvent.CAPACITY_FREED])
    queue.hold_up(builders.candidate().namespace)
    assert (ready(queue), queue.next_due()) == ([], 100.0 / 1000)
    queue.push(dataclasses.replace(builders.candidate("other"), namespace="z-other"))
    assert ready(queue) == ["other"]

    queue.go_on(builders.candidate().namespace)

    assert ready(queue) == [*(f"1-{at:04}" for at in range(5)), "other"]
    assert [one.name for one in queue.first_in_line_of("z-other", 9)] == ["other"]


def test_a_crowd_of_many_kinds_is_tried_in_part() -> None:
    """One change never has more than a bounded number tried at once."""
    queue = of(*(builders.candidate(f"p{at:04}", cards=at + 1) for at in range(wakeups.TRIED_AT_ONCE + 50)))
    for at in range(wakeups.TRIED_AT_ONCE + 50):
        queue.put_off(f"uid-p{at:04}", now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))

    queue.cluster_event([ClusterEvent.CAPACITY_FREED])

    assert len(ready(queue, now=0.05)) == wakeups.TRIED_AT_ONCE


def test_who_was_helped_on_and_fails_again_waits_for_a_change() -> None:
    """A try that another's success brought is over when it fails; the one behind has its pause."""
    queue = crowd(wakeups.TRIED_OF_A_KIND + 2)
    queue.cluster_event([ClusterEvent.CAPACITY_FREED])
    ready(queue, now=0.01)
    queue.place("uid-1-0000")
    next_ = f"1-{wakeups.TRIED_OF_A_KIND:04}"
    assert next_ in ready(queue, now=0.01)

    queue.put_off(f"uid-{next_}", now=0.01, wants=frozenset({ClusterEvent.CAPACITY_FREED}))

    assert next_ not in ready(queue, now=0.02)
    assert f"1-{wakeups.TRIED_OF_A_KIND + 1:04}" not in ready(queue, now=0.02)


def test_a_change_helps_only_who_waited_then() -> None:
    """A pod that is put off after a change waits for the next one."""
    queue = of(builders.candidate())
    queue.cluster_event([ClusterEvent.CAPACITY_FREED])
    assert ready(queue, now=0.0) == ["p"]

    queue.put_off("uid-p", now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))

    assert ready(queue, now=1000.0) == []


def test_time_alone_wakes_nobody_who_waits_for_a_change() -> None:
    """A pod that waits for a change is not due by time."""
    queue = of(builders.candidate())

    queue.put_off("uid-p", now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))

    assert queue.next_due() is None
    assert ready(queue, now=1e9) == []


def test_pause_alone() -> None:
    """A pod that was put off for the pause alone comes back when it is over."""
    queue = of(builders.candidate())

    queue.put_off("uid-p", now=5.0, wants=None)

    assert ready(queue, now=5.05) == []
    assert ready(queue, now=5.1) == ["p"]


def test_pause_grows() -> None:
    """Each attempt doubles the pause, up to ten seconds and never beyond."""
    found = [queued_pods.pause(attempts) for attempts in (0, 1, 2, 6, 7, 50, 10**6)]

    assert found == [0.1, 0.2, 0.4, 6.4, 10.0, 10.0, 10.0]


def test_attempts_lengthen_the_pause() -> None:
    """The pause of a pod grows with its own attempts."""
    queue = of(builders.candidate())

    dues = []
    for _ in range(3):
        queue.put_off("uid-p", now=0.0, wants=None)
        dues.append(queue.next_due())

    assert dues == [0.1, 0.2, 0.4]
    assert queue.attempts("uid-p") == 3


def test_unchanged_pod_keeps_its_patience() -> None:
    """Hearing of the same request again, as after a label changed, is no reason to try again."""
    queue = of(builders.candidate())
    queue.put_off("uid-p", now=0.0, wants=frozenset({ClusterEvent.CAPACITY_FREED}))

    queue.push(builders.candidate())

    assert ready(queue, now=1000.0) == []
    assert queue.attempts("uid-p") == 1


def test_edited_pod_starts_anew() -> None:
    """A request that was edited is tried at once, as if it were new."""
    queue = of(builders.candidate())
    queue.put_off("uid-p", now=0.0, wants=frozenset())

    queue.push(builders.candidate(models=["T4"]))

    assert ready(queue) == ["p"]
    assert queue.attempts("uid-p") == 0


def test_restored_pod_remembers_its_attempts() -> None:
    """A pod whose bind failed waits as long as its attempts deserve, and counts this one."""
    queue = Backlog()

    queue.restore(builders.candidate(), attempts=2, now=1.0)

    assert queue.next_due() == 1.4
    assert queue.attempts("uid-p") == 3


def test_pod_that_is_given_back_is_tried_at_once() -> None:
    """What was decided for it was not carried out, and that is no failure of its own."""
    backlog = Backlog()
    backlog.give_back(builders.candidate("p"), attempts=3)

    assert [one.name for one in backlog.ready(0.0)] == ["p"]
    assert backlog.attempts("uid-p") == 3


def test_who_only_watches_does_not_grow() -> None:
    """Pods that come and go while nobody decides leave nothing behind, and who stays keeps its place."""
    backlog = Backlog()
    backlog.push(builders.candidate("stays"))
    for at in range(3 * queues.SPARE_PLACES):
        backlog.push(builders.candidate(f"p{at}"))
        backlog.remove(f"uid-p{at}")

    assert backlog._active.places <= queues.SPARE_PLACES + 4
    assert [one.name for one in backlog.ready(0.0)] == ["stays"]


def test_removed_pod_is_gone() -> None:
    """A pod that was placed or deleted waits no more, and nothing of it is left."""
    pod = builders.candidate()
    queue = of(pod)

    found, again = queue.remove("uid-p"), queue.remove("uid-p")

    assert (found, again) == (pod, None)
    assert "uid-p" not in queue
    assert len(queue) == 0
    assert queue.get("uid-p") is None
    assert queue.attempts("uid-p") == 0


def test_putting_off_a_stranger_changes_nothing() -> None:
    """A pod that left meanwhile is not brought back by being put off."""
    queue = Backlog()

    queue.put_off("uid-p", now=0.0, wants=None)

    assert len(queue) == 0
    assert queue.next_due() is None


def test_next_due_is_the_earliest() -> None:
    """The loop sleeps until the first pod is due."""
    queue = of(builders.candidate("a"), builders.candidate("b"))
    queue.put_off("uid-a", now=3.0, wants=None)
    queue.put_off("uid-b", now=1.0, wants=None)

    found = queue.next_due()

    assert found == 1.1


def test_backlog_tells_its_state() -> None:
    """A person at a debugger reads how many wait, and how many of them for a change."""
    queue = of(builders.candidate("a"), builders.candidate("b"))
    queue.put_off("uid-a", now=0.0, wants=frozenset({ClusterEvent.NODE_CHANGED}))

    assert repr(queue) == "<Backlog: 2 pods, 1 of them waiting for a change>"


# ---------------------------------------------------------------- who needs a search


def hard(name: str, **fields: Any) -> queued_pods.Candidate:
    """Make a pod of which only a search tells where it fits."""
    part = requests.Gpus(1, core=40, memory=builders.GIB)
    return builders.candidate(name, request=builders.request(part, part), **fields)


def test_pods_that_need_a_search_do_not_crowd_out_the_others() -> None:
    """However many of them come first, a turn has places for what needs none."""
    queue = of(*(hard(f"h{at:04}", priority=1) for at in range(1000)), builders.candidate("easy"))

    found = [candidate.name for candidate in queue.ready(0.0, 256)]

    assert found == [*(f"h{at:04}" for at in range(backlog.SEARCHED_AT_ONCE)), "easy"]
    assert queue.next_due() == 0.0


def test_pods_that_need_a_search_keep_their_order_among_the_others() -> None:
    """The two lines are one for whoever asks whose turn it is."""
    names = "abcdef"
    queue = of(*((hard if name in "bde" else builders.candidate)(name) for name in names))

    found = [ready(queue), [candidate.name for candidate in queue.ready(0.0, 3)]]

    assert found == [list(names), list("abc")]


def test_pod_at_fault_needs_no_search() -> None:
    """It is told so at once, whatever it asks for."""
    fault = Refusal(Reason.INVALID_REQUEST, detail="no")

    found = [hard("a").searched, dataclasses.replace(hard("b"), faults=(fault,)).searched]

    assert found == [True, False]
