"""The backlog: who comes first, who waits for what, and how patience grows and is kept."""

from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import backlog, queued_pods, queues, wakeups
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent, Reason, Refusal
from berth_operator.scheduling.devices import requests
from support import backlogs, builders
from support.backlogs import FREED, ready

POD: Final = builders.pod_info()
OF_A_KIND: Final = wakeups.TRIED_OF_A_KIND


# ---------------------------------------------------------------- order


def test_order() -> None:
    """Priority goes first, then age, then the name with its namespace."""
    early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    queue = backlogs.of(
        builders.pod_info("z", created=early),
        builders.pod_info("b", created=late),
        builders.pod_info("a", created=late),
        builders.pod_info("c", created=late, namespace="aa"),
        builders.pod_info("vip", created=late, priority=10),
        builders.pod_info("last", created=early, priority=-1),
    )

    assert ready(queue) == ["vip", "z", "c", "a", "b", "last"]


@hypothesis.given(
    st.permutations([builders.pod_info(name, priority=at % 2) for at, name in enumerate("abcd")])
)
def test_order_of_arrival_does_not_matter(pods: list[queued_pods.PodInfo]) -> None:
    """Whoever was heard of first, the order is the same (I11)."""
    assert ready(backlogs.of(*pods)) == ["b", "d", "a", "c"]


# ---------------------------------------------------------------- who waits for what


@pytest.mark.parametrize(
    ("awaited", "change", "woken"),
    [
        pytest.param(FREED, ClusterEvent.CAPACITY_FREED, True, id="the very change"),
        pytest.param(FREED, ClusterEvent.DEVICE_CHANGED, False, id="another change"),
        pytest.param(
            {ClusterEvent.NODE_CHANGED, ClusterEvent.DEVICE_CHANGED},
            ClusterEvent.DEVICE_CHANGED,
            True,
            id="one of several",
        ),
        pytest.param(set[ClusterEvent](), ClusterEvent.POLICY_CHANGED, False, id="nothing helps but an edit"),
    ],
)
def test_waits_for_the_right_change(awaited: set[ClusterEvent], change: ClusterEvent, woken: bool) -> None:  # noqa: FBT001  a column of the table
    """A pod that did not fit sleeps until something that could help it happens; time alone does not."""
    queue = backlogs.requeue(POD, awaited=awaited)
    assert (queue.next_due(), ready(queue, now=1e9)) == (None, [])

    queue.cluster_event([change])

    assert ready(queue, now=1000.0) == (["p"] if woken else [])


def test_help_comes_at_once() -> None:
    """A pod that a change could help is tried at once, however long its pause has become."""
    queue = backlogs.requeue(POD, times=9)

    queue.cluster_event(FREED)

    assert ready(queue, now=0.01) == ["p"]


def test_a_change_helps_only_who_waited_then() -> None:
    """A pod that is requeued after a change waits for the next one."""
    queue = backlogs.requeue(POD)
    queue.cluster_event(FREED)

    queue.requeue("uid-p", now=0.0, awaited=FREED)

    assert ready(queue, now=1000.0) == []


# ---------------------------------------------------------------- crowds


def crowd(*sizes: int) -> Backlog:
    """Have crowds wait for room, each of another kind: the first asks for one card, the second for two."""
    pods = [
        builders.pod_info(f"{cards}-{at:04}", cards=cards)
        for cards, size in enumerate(sizes, 1)
        for at in range(size)
    ]
    return backlogs.requeue(*pods)


def test_of_a_crowd_the_first_of_each_kind_are_helped_at_once() -> None:
    """A large crowd of one kind does not keep another from what became free; the rest waits its own pause."""
    queue = crowd(80, 40)

    queue.cluster_event(FREED)

    assert ready(queue, now=0.05) == [f"{kind}-{at:04}" for kind in (1, 2) for at in range(OF_A_KIND)]
    assert len(ready(queue, now=0.1)) == 120


def test_for_each_that_is_placed_the_next_of_its_kind_is_tried() -> None:
    """However much became free, and however long a crowd waits, each success is followed by another try."""
    queue = crowd(100, 100)
    queue.cluster_event(FREED)

    placed = []
    while mine := [name for name in ready(queue, now=0.01) if name.startswith("2")]:
        queue.pod_placed(f"uid-{mine[0]}")
        placed.append(mine[0])

    assert placed == [f"2-{at:04}" for at in range(100)]
    assert len(ready(queue, now=0.01)) == OF_A_KIND


def test_who_was_helped_on_and_fails_again_waits_for_a_change() -> None:
    """A try that another's success brought is over when it fails; the one behind has its pause."""
    queue = crowd(OF_A_KIND + 2)
    queue.cluster_event(FREED)
    ready(queue, now=0.01)
    queue.pod_placed("uid-1-0000")
    before = ready(queue, now=0.01)

    queue.requeue(f"uid-1-{OF_A_KIND:04}", now=0.01, awaited=FREED)

    assert before == [f"1-{at:04}" for at in range(1, OF_A_KIND + 1)]
    assert ready(queue, now=0.02) == before[:-1]


@pytest.mark.parametrize("known", [False, True], ids=["in the round", "before"])
def test_where_a_namespace_is_suspended_others_of_the_kind_are_tried(known: bool) -> None:  # noqa: FBT001  a column of the table
    """A crowd that must wait does not keep what became free from others that ask the same."""
    others = [builders.pod_info(f"other{at:02}", namespace="z-other") for at in range(OF_A_KIND)]
    queue = backlogs.requeue(*(builders.pod_info(f"p{at:02}") for at in range(100)), *others)
    if known:
        queue.suspend(builders.NAMESPACE)

    queue.cluster_event(FREED)
    tried = []
    for pod in queue.active(0.01):
        if pod.namespace == builders.NAMESPACE:
            queue.suspend(builders.NAMESPACE)
        else:
            tried.append(pod)

    assert tried == others


def test_a_suspended_pod_keeps_its_place() -> None:
    """Nobody waits for those that are suspended, and when they go on they come first again."""
    queue = crowd(5)
    queue.cluster_event(FREED)
    queue.suspend(builders.NAMESPACE)
    assert (ready(queue), queue.next_due()) == ([], 0.1)
    queue.push(builders.pod_info("other", namespace="z-other"))
    assert ready(queue) == ["other"]

    queue.resume(builders.NAMESPACE)

    assert ready(queue) == [*(f"1-{at:04}" for at in range(5)), "other"]
    assert [pod.name for pod in queue.first_in_line_of("z-other", 9)] == ["other"]


# ---------------------------------------------------------------- pauses and attempts


def test_pause_grows() -> None:
    """Each attempt doubles the pause, up to ten seconds, or longer for who costs the others their time."""
    found = [queued_pods.backoff(attempts) for attempts in (0, 1, 2, 6, 7, 50, 10**6)]
    demoted = [queued_pods.backoff(attempts, demoted=True) for attempts in (1, 30)]

    assert found == [0.1, 0.2, 0.4, 6.4, 10.0, 10.0, 10.0]
    assert demoted == [0.2, queued_pods.MAX_DEMOTED_BACKOFF_SECONDS]


def test_attempts_lengthen_the_pause() -> None:
    """The pause of a pod grows with its own attempts, and it comes back when it is over."""
    queue, dues = backlogs.of(POD), []

    for _ in range(3):
        queue.requeue("uid-p", now=5.0, awaited=None)
        dues.append(queue.next_due())

    assert dues == [5.1, 5.2, 5.4]
    assert queue.attempts("uid-p") == 3
    assert (ready(queue, now=5.39), ready(queue, now=5.4)) == ([], ["p"])


def test_next_due_is_the_earliest() -> None:
    """The loop sleeps until the first pod is due."""
    queue = backlogs.of(builders.pod_info("a"), builders.pod_info("b"))
    queue.requeue("uid-a", now=3.0, awaited=None)
    queue.requeue("uid-b", now=1.0, awaited=None)

    assert queue.next_due() == 1.1


@pytest.mark.parametrize(
    ("again", "names", "attempts"),
    [
        pytest.param(POD, [], 3, id="the same request, as after a label changed"),
        pytest.param(builders.pod_info(models=["T4"]), ["p"], 1, id="a request that was edited"),
    ],
)
def test_only_an_edit_starts_anew(again: queued_pods.PodInfo, names: list[str], attempts: int) -> None:
    """Hearing of the same request again is no reason to try again; after an edit, pauses are short again."""
    queue = backlogs.requeue(POD, times=3)

    queue.push(again)

    assert (ready(queue, now=1000.0), queue.attempts("uid-p")) == (names, attempts)


def test_restored_pod_remembers_its_attempts() -> None:
    """A pod whose bind failed waits as long as its attempts deserve, and counts this one."""
    queue = Backlog()

    queue.put_back_refused(POD, attempts=2, now=1.0)

    assert (queue.next_due(), queue.attempts("uid-p")) == (1.4, 3)


def test_pod_that_is_given_back_is_tried_at_once() -> None:
    """What was decided for it was not carried out, and that is no failure of its own."""
    queue = Backlog()

    queue.put_back_unjudged(POD, attempts=3)

    assert (ready(queue), queue.attempts("uid-p")) == (["p"], 3)


# ---------------------------------------------------------------- who leaves


def test_who_only_watches_does_not_grow() -> None:
    """Pods that come and go while nobody decides leave nothing behind, and who stays keeps its place."""
    queue = backlogs.of(builders.pod_info("stays"))
    for at in range(3 * queues.SPARE_TICKETS):
        queue.push(builders.pod_info(f"p{at}"))
        queue.remove(f"uid-p{at}")

    assert queue._active_by_filters.tickets <= queues.SPARE_TICKETS + 4
    assert ready(queue) == ["stays"]


def test_removed_pod_is_gone() -> None:
    """A pod that was placed or deleted waits no more, and nothing of it is left."""
    queue = backlogs.of(POD)

    assert [queue.remove("uid-p"), queue.remove("uid-p")] == [POD, None]
    assert "uid-p" not in queue
    assert (len(queue), queue.get("uid-p"), queue.attempts("uid-p")) == (0, None, 0)


def test_putting_off_a_stranger_changes_nothing() -> None:
    """A pod that left meanwhile is not brought back by being requeued."""
    queue = Backlog()

    queue.requeue("uid-p", now=0.0, awaited=None)

    assert (len(queue), queue.next_due()) == (0, None)


def test_backlog_tells_its_state() -> None:
    """A person at a debugger reads how many wait, and how many of them for a change."""
    queue = backlogs.requeue(builders.pod_info("a"))
    queue.push(builders.pod_info("b"))

    assert repr(queue) == "<Backlog: 2 pods, 1 of them waiting for a change>"


# ---------------------------------------------------------------- who needs a search


def hard(name: str, **fields: Any) -> queued_pods.PodInfo:
    """Return a pod of which only a search tells where it fits."""
    part = requests.Gpus(1, core=40, memory=builders.GIB)
    return builders.pod_info(name, request=builders.request(part, part), **fields)


def test_pods_that_need_a_search_do_not_crowd_out_the_others() -> None:
    """However many of them come first, a turn has places for what needs none."""
    pods = [hard(f"h{at:04}", priority=1) for at in range(1000)]
    queue = backlogs.of(*pods, builders.pod_info("easy"))

    assert ready(queue, limit=256) == [
        *(pod.name for pod in pods[: backlog.MOST_SEARCHED_IN_A_ROUND]),
        "easy",
    ]
    assert queue.next_due() == 0.0


def test_pods_that_need_a_search_keep_their_order_among_the_others() -> None:
    """The two lines are one for whoever asks whose turn it is."""
    names = "abcdef"
    queue = backlogs.of(*((hard if name in "bde" else builders.pod_info)(name) for name in names))

    assert [ready(queue), ready(queue, limit=3)] == [list(names), list("abc")]


def test_pod_at_fault_needs_no_search() -> None:
    """It is told so at once, whatever it asks for."""
    fault = Refusal(Reason.INVALID_REQUEST, detail="no")

    assert [hard("a").needs_device_search, hard("b", faults=(fault,)).needs_device_search] == [True, False]
