"""However many pods are woken again and again, all have their turns, and nobody loses a card by that."""

import dataclasses
from typing import Any

import pytest

from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import cycle, decisions, queued_pods, rotation, round_limits, time_shares
from berth_operator.scheduling.backlog import MOST_SEARCHED_IN_A_ROUND
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.devices import requests, search_effort
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.search import Search
from support import backlogs, builders, clock, ledgers
from support.backlogs import ready

TRY_SECONDS = 0.001
FREED = frozenset({ClusterEvent.CAPACITY_FREED})
CROWD = 60  # Of which a round tries some twenty.
A, B, C = map(builders.pod_info, "abc")
# Only n3 has such cards; that what becomes free elsewhere is none shows in a try.
LARGE_CARDS = requests.Conditions(memory_at_least=2 * builders.MEMORY)
LARGE = builders.request(1, conditions=LARGE_CARDS)


def stage(*, free: bool) -> tuple[Ledger, clock.Clock]:
    """Return three nodes of three cards each that are held by pods; perhaps one of n2 is free."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(2, 3, now=now)
    cards = [builders.card(minor, at="n3", memory=2 * builders.MEMORY) for minor in range(3)]
    ledgers.join(ledger, builders.node("n3"), builders.device("n3", cards))
    held = {"n1": (0, 1, 2), "n2": (0, 1) if free else (0, 1, 2), "n3": (0, 1, 2)}
    for at, minors in held.items():
        for minor in minors:
            ledger.pod_bound(builders.hold(f"{at}-{minor}", at, (minor,)))
    return ledger, now


def wait(ledger: Ledger, name: str, created: str, *, of: str = "other", **fields: Any) -> None:
    """Have a pod of some namespace wait."""
    ledgers.add_waiting(ledger, name, created=created, namespace=of, **fields)


def push_crowd(ledger: Ledger, created: str, **fields: Any) -> None:
    """Have a crowd wait for the cards of n3, where each asks for an amount that nobody else asks for."""
    for at in range(CROWD):
        demand = facts.NodeDemand(amounts=((facts.CPU, at + 1),))
        wait(ledger, f"c{at:02}", created, of="crowd", request=LARGE, demand=demand, **fields)


def crowd(ledger: Ledger, now: clock.Clock, **fields: Any) -> None:
    """Have a crowd wait for n3, and be refused once."""
    push_crowd(ledger, "2026-01-01", **fields)
    while ledger.backlog.next_due() is not None:
        play(ledger, now)
        now.advance(1.0)


def play(ledger: Ledger, now: clock.Clock) -> list[str]:
    """Make a round of 20 ms, in which each decision takes a while, and name the pods that were bound."""
    time = round_limits.RoundDeadlines(now, now() + 0.02, 0.01, out_of_order_from=now() + 0.01)
    answers = []
    for answer in cycle.schedule(
        ledger.search, ledger.backlog, now(), ledger.policy, round_limits.RoundLimits(deadlines=time)
    ):
        now.advance(TRY_SECONDS)
        answers.append(answer)
        if isinstance(answer, decisions.Bind):
            ledger.assume(answer)
    for answer in answers:
        if isinstance(answer, decisions.Wait):
            ledger.backlog.requeue(answer.uid, now=now(), awaited=answer.awaited)
    return [answer.uid.removeprefix("uid-") for answer in answers if isinstance(answer, decisions.Bind)]


def free(ledger: Ledger, minor: int) -> None:
    """Have a card of n1 become free."""
    ledger.pod_over(f"uid-n1-{minor}")


def free_and_take(ledger: Ledger, minor: int) -> None:
    """Have a card of n1 become free, and be taken by a pod of somebody else before anybody can use it."""
    free(ledger, minor)
    ledger.pod_bound(builders.hold(f"n1-{minor}", "n1", (minor,)))


def test_a_newcomer_has_its_turn_though_others_are_woken_all_the_time() -> None:
    """Each round begins with the older ones, and a part of it is for those that were not tried yet."""
    ledger, now = stage(free=True)
    crowd(ledger, now)
    wait(ledger, "new", "2026-01-02")

    found = []
    for _ in range(2):
        free_and_take(ledger, 0)
        found += play(ledger, now)

    assert found == ["new"]


def test_pods_that_are_edited_all_the_time_are_not_new_each_time() -> None:
    """No pod comes before more important ones that were never tried, but before those that were."""
    names = ("a", "b", "c")
    important = [builders.pod_info(name, namespace="important", priority=1) for name in names]
    backlog = backlogs.requeue(*important)
    backlog.push(builders.pod_info("new", namespace="other"))
    for pod in important:
        backlog.push(dataclasses.replace(pod, labels=(("edited", "yes"),)))

    assert ready(backlog) == ["a", "b", "c", "new"]
    assert [pod.name for pod, _ in backlog.out_of_order(0.0, ())].index("new") < len(names)


def test_each_of_a_crowd_has_its_turn() -> None:
    """Those at the end of the line are tried, too, though the first are woken again before that."""
    ledger, now = stage(free=False)
    crowd(ledger, now)
    before = {entry.pod_info.uid: entry.attempts for entry in ledger.backlog.entries()}

    for _ in range(8):
        free_and_take(ledger, 0)
        play(ledger, now)

    assert all(entry.attempts > before[entry.pod_info.uid] for entry in ledger.backlog.entries())


@pytest.mark.parametrize(
    "steps", [round_limits.STEPS_PER_POD, search_effort.SPENT], ids=["at first", "when they are spent"]
)
def test_a_freed_card_goes_to_the_first_that_can_use_it(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """A newcomer whose turn comes early leaves it to a pod before it that was woken for it.

    That takes no search, and no steps of one.
    """
    monkeypatch.setattr(round_limits, "STEPS_PER_ROUND", steps)
    monkeypatch.setattr(round_limits, "STEPS_PER_POD", steps)
    ledger, now = stage(free=False)
    wait(ledger, "first", "2026-01-01T12", of="crowd")
    crowd(ledger, now)
    wait(ledger, "new", "2026-01-02")
    play(ledger, now)

    free(ledger, 0)
    found = [play(ledger, now) for _ in range(6)]

    assert [name for names in found for name in names] == ["first"]
    assert found[0] == []


def test_who_was_kept_back_for_long_takes_what_it_finds() -> None:
    """Reservations that are renewed all the time do not keep a card from a pod for ever."""
    ledger, now = stage(free=False)
    crowd(ledger, now)
    free(ledger, 0)
    wait(ledger, "new", "2026-01-02")
    began, found = now(), list[str]()

    while not found and now() < began + 60:
        free_and_take(ledger, 1)
        found = play(ledger, now)
        now.advance(0.01)

    assert found == ["new"]
    assert rotation.HELD_BACK_SECONDS <= now() - began < rotation.HELD_BACK_SECONDS + 0.1


def test_nobody_comes_before_more_important_pods_that_were_never_tried() -> None:
    """A turn is for pods that matter as much: a burst of important ones is decided first."""
    ledger, now = stage(free=True)
    push_crowd(ledger, "2026-01-02", priority=1)
    wait(ledger, "last", "2026-01-02", of="crowd", priority=1)
    wait(ledger, "minor", "2026-01-01")

    found = [play(ledger, now) for _ in range(6)]

    assert [name for names in found for name in names] == ["last"]


def test_others_have_their_turn_once_more_important_pods_were_tried() -> None:
    """Whoever has such a pod come, or edits one, in each round keeps nobody else waiting by that."""
    ledger, now = stage(free=True)
    crowd(ledger, now, priority=100)
    wait(ledger, "new", "2026-01-01")

    free_and_take(ledger, 0)
    wait(ledger, "urgent", "2026-01-02", of="crowd", request=LARGE, priority=100)

    assert play(ledger, now) == ["new"]
    assert ledger.backlog.attempts("uid-urgent") == 1


def test_who_leaves_all_nodes_to_others_before_it_keeps_nobody_from_a_turn() -> None:
    """More important pods that come all the time are tried late, since others were woken before them."""
    ledger, now = stage(free=True)
    crowd(ledger, now, priority=100)
    wait(ledger, "new", "2026-01-01")

    found = []
    for at in range(20):
        ledger.backlog.cluster_event(FREED)  # Of any node, so all are reserved.
        wait(ledger, f"urgent{at}", "2026-01-02", of="crowd", request=LARGE, priority=100)
        found += play(ledger, now)

    assert found == ["new"]


def test_pods_that_take_long_again_and_again_let_others_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is theirs alone until they have had their share; after that others come before them."""
    ledger, now = stage(free=True)
    crowd(ledger, now)
    decide = cycle.place_or_count_reasons

    def slowly(search: Search, pod_info: queued_pods.PodInfo, *more: Any) -> decisions.Decision:
        now.advance(time_shares.SHARE_SECONDS if pod_info.namespace == "crowd" else 0.0)
        return decide(search, pod_info, *more)

    monkeypatch.setattr(cycle, "place_or_count_reasons", slowly)
    free_and_take(ledger, 0)
    play(ledger, now)
    for minor in range(2):
        free(ledger, minor)
    for at in range(3):
        wait(ledger, f"new-{at}", "2026-01-02")

    found = []
    for _ in range(3):  # What is free is reserved for those who were woken, for a while.
        found += play(ledger, now)
        now.advance(rotation.HELD_BACK_SECONDS)

    assert found == ["new-0", "new-1", "new-2"]


def test_pods_that_take_long_and_are_edited_let_others_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit makes a pod one that was never tried, which does not bring it before others all the same."""
    ledger, now = stage(free=True)
    push_crowd(ledger, "2026-01-01")
    decide = cycle.place_or_count_reasons

    def slowly(search: Search, pod_info: queued_pods.PodInfo, *more: Any) -> decisions.Decision:
        now.advance(0.025 if pod_info.namespace == "crowd" else 0.0)
        return decide(search, pod_info, *more)

    monkeypatch.setattr(cycle, "place_or_count_reasons", slowly)
    for _ in range(6):  # One of them takes all the time of a round.
        play(ledger, now)
    for minor in range(3):
        free(ledger, minor)
        wait(ledger, f"new-{minor}", "2026-01-02")
    push_crowd(ledger, "2026-01-01", labels=(("edited", ""),))

    assert play(ledger, now) == ["new-0", "new-1", "new-2"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.025, ["new-0", "new-1"]), (0.0, [])], ids=["long", "usual"]
)
def test_important_pods_of_whoever_takes_long_keep_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: list[str]
) -> None:
    """Where more of them come than can be tried, there is always one that was never tried."""
    ledger, now = stage(free=False)
    for minor in range(2):
        free(ledger, minor)
        wait(ledger, f"new-{minor}", "2026-01-01")
    decide = cycle.place_or_count_reasons

    def slowly(search: Search, pod_info: queued_pods.PodInfo, *more: Any) -> decisions.Decision:
        now.advance(seconds if pod_info.namespace == "crowd" else 0.0)
        return decide(search, pod_info, *more)

    monkeypatch.setattr(cycle, "place_or_count_reasons", slowly)
    found = []
    for at in range(8):
        for number in range(CROWD):
            demand = facts.NodeDemand(amounts=((facts.CPU, at * CROWD + number + 1),))
            name = f"c{at}-{number}"
            wait(ledger, name, "2026-01-02", of="crowd", request=LARGE, demand=demand, priority=100)
        found += play(ledger, now)

    assert found == expected


def test_a_label_counts_for_turns_within_its_namespace() -> None:
    """A burst that others of its namespace are to wait for is decided first, though it came later."""
    ledger, now = stage(free=True)
    push_crowd(ledger, "2026-01-02", label=1)
    wait(ledger, "last", "2026-01-02", of="crowd", label=1)
    wait(ledger, "minor", "2026-01-01", of="crowd")

    found = [play(ledger, now) for _ in range(6)]

    assert [name for names in found for name in names] == ["last"]


def test_namespaces_take_turns() -> None:
    """However many pods of one namespace are new, the first of another is tried in the first round."""
    ledger, now = stage(free=True)
    push_crowd(ledger, "2026-01-01")
    wait(ledger, "new", "2026-01-02")

    assert play(ledger, now) == ["new"]


def test_a_pod_that_takes_a_search_has_its_turn_among_others_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round has effort for one search in each part, and those that come first are woken all the time."""
    monkeypatch.setattr(round_limits, "STEPS_PER_ROUND", round_limits.STEPS_PER_POD - 1)
    ledger, now = stage(free=True)
    half = requests.Gpus(1, core=50, ratio=50)
    asked = builders.request(half, half, conditions=LARGE_CARDS)
    for at in range(MOST_SEARCHED_IN_A_ROUND):
        demand = facts.NodeDemand(amounts=((facts.CPU, at + 1),))
        wait(ledger, f"c{at:02}", "2026-01-01", of="crowd", request=asked, demand=demand)
    wait(ledger, "new", "2026-01-02", request=builders.request(half, half))

    found = []
    for _ in range(4):
        free_and_take(ledger, 0)
        found += play(ledger, now)

    assert found == ["new"]


def test_pods_that_take_a_whole_round_each_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the pod in order took, one is tried out of order."""
    monkeypatch.setitem(globals(), "TRY_SECONDS", 0.3)
    ledger, now = stage(free=True)
    push_crowd(ledger, "2026-01-01")
    wait(ledger, "new", "2026-01-02")

    assert [name for _ in range(2) for name in play(ledger, now)] == ["new"]


def test_turns_leave_everybody_in_line() -> None:
    """Whoever had a turn and was not tried in it is in line as before."""
    backlog = backlogs.of(A, B, C)

    rounds = [[pod.name for pod, _ in backlog.out_of_order(0.0, ("uid-b",))] for _ in range(2)]

    assert rounds == [["a", "c"], ["a", "c"]]
    assert ready(backlog) == ["a", "b", "c"]


def test_reservations_end_with_those_for_whom_they_are() -> None:
    """When the woken are gone, placed or tried, nothing is reserved any more."""
    ledger, now = stage(free=False)
    crowd(ledger, now)

    free_and_take(ledger, 0)
    reserved = len(ledger.backlog._rotation.reservations)
    for at in range(CROWD):
        ledger.pod_over(f"uid-c{at:02}")

    assert (reserved, len(ledger.backlog._rotation.reservations)) == (CROWD, 0)


def test_those_who_must_leave_all_nodes_take_little_time_of_a_round() -> None:
    """However long the line is, a round passes over some of them, and the next rounds over the others."""
    backlog = backlogs.requeue(builders.pod_info("first", priority=1), awaited=decisions.ANY_RARE_EVENT)
    backlog.cluster_event([ClusterEvent.POLICY_CHANGED])
    ready(backlog)
    for at in range(3 * rotation.MOST_SKIPPED):
        backlog.push(builders.pod_info(f"p{at:03}"))

    held_back_since = []
    for _ in range(4):
        assert not list(backlog.out_of_order(0.0, ("uid-first",)))
        held_back_since.append(sum(entry.held_back_since is not None for entry in backlog.entries()))
    after = {pod.name for pod, _ in backlog.out_of_order(rotation.HELD_BACK_SECONDS, ("uid-first",))}

    assert held_back_since == [rotation.MOST_SKIPPED * share for share in (1, 2, 3, 3)]
    assert len(after) == 3 * rotation.MOST_SKIPPED
