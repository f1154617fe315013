"""However often pods come, go and move from one line to another, lines take no more memory than pods need."""

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling import queues, rotation, wakeups
from berth_operator.scheduling.backlog import Backlog
from support import backlogs, builders
from support.backlogs import FREED

MANY = 20 * queues.SPARE_TICKETS


def tickets(backlog: Backlog) -> int:
    """Return the number of tickets in all lines, void ones included."""
    lines = vars(backlog).values()
    valid = [line for line in lines if isinstance(line, queues.Line | queues.Lines)]
    void = [
        line.tickets
        for line in lines
        if isinstance(line, queues.Lines | queues.Queue | queues.Queues | rotation.Rotation)
    ]
    return sum(map(len, valid)) + sum(void)


@pytest.mark.parametrize("decides", [True, False], ids=["who leads", "who only watches"])
def test_a_label_that_is_raised_all_the_time_leaves_nothing_behind(decides: bool) -> None:  # noqa: FBT001  a column of the table
    """Each edit gives the pod a new ticket, and the void ones are dropped."""
    backlog = Backlog()

    for at in range(MANY):
        backlog.push(builders.pod_info(label=at + 1))
        for pod in backlog.active(float(at), 256) if decides else ():
            backlog.requeue(pod.uid, now=float(at), awaited=FREED)

    assert tickets(backlog) <= 8 * queues.SPARE_TICKETS


def test_a_crowd_that_is_woken_again_and_again_leaves_nothing_behind() -> None:
    """A pod that was woken but pauses behind its kind has one ticket there, not one for each wake."""
    crowd = [builders.pod_info(f"p{at:02}") for at in range(3 * wakeups.TRIED_OF_A_KIND)]
    backlog = backlogs.of(*crowd)

    for at in range(MANY):
        for pod in backlog.active(20.0 * at):
            backlog.requeue(pod.uid, now=20.0 * at, awaited=FREED)
        backlog.cluster_event(FREED)

    assert tickets(backlog) <= 8 * (len(crowd) + queues.SPARE_TICKETS)


def test_turns_that_nobody_uses_leave_nothing_behind() -> None:
    """A pod that has its turn in each round, and is kept back each time, has one ticket."""
    backlog = backlogs.of(builders.pod_info())

    turns = {len(list(backlog.out_of_order(0.0, ()))) for _ in range(MANY)}

    assert turns == {1}
    assert tickets(backlog) <= 8


def test_groups_whose_pods_are_gone_leave_nothing_behind() -> None:
    """A namespace in which nobody waits any more needs no line."""
    backlog = Backlog()

    for at in range(MANY):
        backlog.push(builders.pod_info(priority=at, label=1))

    assert tickets(backlog) <= 8 * queues.SPARE_TICKETS


def test_kinds_of_pods_that_are_gone_leave_nothing_behind() -> None:
    """Each pod asks for something that nobody else asks for; one that stays keeps its kind."""
    backlog = backlogs.requeue(builders.pod_info("stays"))

    for at in range(MANY):
        backlog.push(builders.pod_info(demand=builders.demand(at)))
        backlog.requeue("uid-p", now=0.0, awaited=FREED)
    backlog.push(builders.pod_info("again"))
    backlog.requeue("uid-again", now=0.0, awaited=FREED)

    assert len(backlog._kind_numbers) <= 2 * queues.SPARE_TICKETS
    stays, other, again = (entry.kind_number for entry in backlog.entries())
    assert stays == again != other


def test_what_is_valid_is_kept_in_order() -> None:
    """Void tickets are dropped, however many there are, and nobody else's."""
    live = set(range(0, 1000, 10))
    line = queues.Line[float](lambda uid, number: number in live and uid == str(number))

    for number in reversed(range(1000)):
        line.push(float(number), number, str(number))

    assert len(line) <= 2 * len(live) + queues.SPARE_TICKETS
    assert [number for _, number, _ in line.next_of()] == sorted(live)


NAMES = ("a", "b", "c")
STEPS = st.one_of(
    st.tuples(st.just("push"), st.sampled_from(NAMES), st.integers(0, 9)),
    st.tuples(st.sampled_from(["hold up", "admit"]), st.sampled_from(NAMES), st.just(0)),
    st.tuples(st.sampled_from(["leave", "pop", "walk"]), st.just(""), st.integers(0, 9)),
)


@hypothesis.given(st.lists(STEPS, max_size=60))
def test_a_queue_passes_over_suspended_namespaces(steps: list[tuple[str, str, int]]) -> None:
    """The first of all other namespaces come in order, whatever came, left, was suspended or admitted."""
    suspended = queues.SuspendedNamespaces()
    standing: dict[int, tuple[float, str]] = {}
    queue = queues.Queue[float](lambda _, number: number in standing, suspended)

    for at, (what, name, value) in enumerate(steps):
        match what:
            case "push":
                standing[at] = float(value), name
                queue.push(name, float(value), at, str(at))
            case "hold up":
                suspended.add(name)
            case "admit":
                suspended.resume(name)
            case "leave" if standing:
                standing.pop(list(standing)[value % len(standing)])
            case "pop" if (found := queue.pop()) is not None:
                standing.pop(found[0][1])
        expected = sorted(key for key, of in standing.values() if of not in suspended)
        others = sorted(key for key, of in standing.values() if of not in suspended and of != NAMES[0])
        skipping = queues.walk((queue, value + 1), skipped=NAMES[0].__eq__)
        assert [key for key, _, _ in skipping] == others[: value + 1]
        assert [key for key, _, _ in queues.walk((queue, value + 1))] == expected[: value + 1]
        assert queue.empty == (not expected) or suspended.names
