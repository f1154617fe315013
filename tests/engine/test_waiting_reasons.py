"""The reasons of waiting pods stay true, are given again only when they change, and take little time."""

from unittest import mock

import pytest

from berth_operator.engine import waiting_reasons
from berth_operator.scheduling import decisions, explain
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from engine.harness import Engine
from engine.pods_that_wait import CORE, WANTED, Reasons, closely, crowded, use, wait
from support import builders, clock, ledgers, timeless
from support.writers import Reply

MOST = waiting_reasons.EXPLANATIONS_PER_ROUND
BRIEF = "0/2 nodes are available: 2 have no card with enough free"


# ---------------------------------------------------------------- what becomes old


def test_what_has_become_false_is_not_given_again() -> None:
    """Though the counts are the same, the figures and the nearest node are others."""
    reasons = Reasons()
    before = reasons.decided()
    reasons.fill()

    after = reasons.decided()

    assert "GPU 0 of n1 has 50 GiB free, 60 GiB wanted" in before["p0"]
    assert after == reasons.true()
    assert "GPU 0 of n2 has 40 GiB free, 60 GiB wanted" in after["p0"]


def test_what_has_become_false_is_put_right_in_a_quiet_round() -> None:
    """Nobody decides for the pod again, and it learns all the same; once, and then all is quiet."""
    reasons = Reasons()
    reasons.decided()
    assert reasons.renewed(10.0) == {}
    reasons.fill()

    assert reasons.found.next_due(10.5) == 11.0
    assert [reasons.renewed(now) for now in (10.5, 11.0, 12.0)] == [{}, reasons.true(), {}]
    assert reasons.found.next_due(13.0) == 14.0


def test_everybody_gets_an_explanation_in_the_end() -> None:
    """More pods than explanations, each asking for something else: no round makes more, none is forgotten."""
    reasons = Reasons(pods=7)

    given = reasons.decided()
    rounds = [reasons.renewed(10.0 * at) for at in range(1, 4)]

    assert sum("nearest" in message for message in given.values()) == MOST
    assert max(map(len, rounds)) <= MOST
    assert given | rounds[0] | rounds[1] | rounds[2] == reasons.true()


def test_who_has_very_many_kinds_of_pods_keeps_no_other_namespace_waiting() -> None:
    """They wait first, and new ones come all the time: the next explanation is another's all the same."""
    reasons = Reasons(pods=40)
    asks = builders.request(requests.Gpus(1, core=CORE + 1, memory=WANTED * builders.GIB))
    reasons.pods.append(ledgers.add_waiting(reasons.ledger, "other", namespace="ops", request=asks))
    given = reasons.decided()
    reasons.pods += [wait(reasons.ledger, f"q{at}", WANTED + 100 + at) for at in range(40)]
    reasons.decided()

    assert "nearest" not in given["other"]
    assert reasons.renewed(10.0)["other"] == reasons.true()["other"]


def test_of_namespaces_with_as_many_kinds_each_has_its_turn() -> None:
    """One explanation of each, and only then the second."""
    reasons = Reasons(pods=0)
    for at, namespace in enumerate(("a", "a", "a", "b", "b", "c")):
        asks = builders.request(requests.Gpus(1, core=CORE, memory=(WANTED + at) * builders.GIB))
        ledgers.add_waiting(reasons.ledger, f"{namespace}{at}", namespace=namespace, request=asks)
    reasons.decided()
    reasons.fill()

    told = [sorted(reasons.renewed(10.0 * at)) for at in range(1, 4)]

    assert [[name[0] for name in some] for some in told] == [["b", "c"], ["a", "b"], ["a", "a"]]


def test_pods_that_ask_the_same_share_an_explanation() -> None:
    """A hundred pods of one kind have their whole sentence at once."""
    reasons = Reasons(pods=0)
    reasons.pods = [wait(reasons.ledger, f"p{at}") for at in range(100)]

    assert reasons.decided() == reasons.true()


def test_what_pods_of_several_namespaces_share_names_no_pod_of_another() -> None:
    """One explanation serves all that ask the same; each is told of the pods of its own namespace alone."""
    ledger = ledgers.with_nodes(1, 1)
    ledger.node_seen(builders.node(cpu=1000))
    ledger.pod_bound(builders.hold("first", shares=[0], amounts=(("cpu", 1000),)))
    reasons = Reasons(ledger, 0)
    reasons.pods = [ledgers.add_waiting(ledger, "own")]
    ledgers.add_waiting(ledger, "stranger", namespace="zoo")

    at_once = reasons.decided()
    ledger.pod_over("uid-first")
    ledger.pod_bound(builders.hold("second", shares=[0], amounts=(("cpu", 1000),)))
    news = reasons.renewed(10.0)

    assert "if ml/first on n1 terminated" in at_once["own"]
    assert "if 1 pod of another namespace on n1 terminated" in at_once["stranger"]
    assert news == reasons.true()
    assert "if ml/second on n1 terminated" in news["own"]


def test_nothing_is_given_later_of_a_pod_that_would_fit_now() -> None:
    """Room was made: its turn comes, and no sentence about full nodes is written before that."""
    reasons = Reasons()
    reasons.decided()
    reasons.ledger.pod_over("uid-a")

    assert reasons.renewed(10.0) == {}
    assert reasons.found.next_due(20.0) == 21.0


@pytest.mark.parametrize("new_pods", [0, MOST + 3], ids=["alone", "each round has new pods"])
@timeless.scenario
async def test_the_loop_tells_what_has_changed_meanwhile(new_pods: int) -> None:
    """A pod that waits is told when the nearest node fills up, though others come than there is time for."""
    engine = Engine(nodes=2, cards=1)
    pod = wait(crowded(engine.ledger))

    for second in range(4):
        await engine.advance(float(second))
        for at in range(new_pods):
            wait(engine.ledger, f"q-{second}-{at}", WANTED + 1 + 10 * second + at)
        if second == 1:
            engine.ledger.pod_bound(use("n1", 45, "c"))
    await engine.advance(4.0)

    assert engine.status_writer.of("p")[-1] == closely(engine.ledger, pod)
    assert "GPU 0 of n2" in engine.status_writer.of("p")[-1]


# ---------------------------------------------------------------- what a pod shows already


@timeless.scenario
async def test_no_reason_is_left_of_a_pod_that_has_a_place() -> None:
    """Why it had to wait is over with the decision to bind it, however long the bind takes."""
    engine = Engine(cards=1)
    engine.ledger.pod_bound(builders.hold("held", "n1", [0]))
    engine.wait("p", Reply(takes=5.0))
    await engine.advance(1.0)
    before = engine.loop.reporter.reasons.last_message(builders.pod_info())

    engine.ledger.pod_over("uid-held")
    await engine.advance(lambda: engine.writer.binds)

    assert before.startswith("0/1 nodes are available: ")
    assert engine.loop.reporter.reasons.last_message(builders.pod_info()) == ""


def test_a_new_leader_keeps_what_is_right() -> None:
    """It has time for few explanations, and gives of all pods what they show; explaining changes nothing."""
    shown: dict[str, str] = {}
    reasons = Reasons(crowded(ledgers.with_nodes(3, 1)), 7, shown=shown)
    shown |= {pod.uid: reasons.true()[pod.name] for pod in reasons.pods}

    assert reasons.decided() == reasons.true()
    assert [reasons.renewed(10.0 * at) for at in range(1, 6)] == [{}] * 5


def test_what_an_earlier_leader_gave_is_put_right_by_the_first_explanation() -> None:
    """It cannot be compared with the counts of then; once these change, the new ones are given at once."""
    old = "0/3 nodes are available: 3 have no card with enough free. Would fit if …"
    reasons = Reasons(pods=4, shown={f"uid-p{at}": old for at in range(4)})

    at_first = reasons.decided()
    reasons.ledger.agent_silent("n2", silent=True)
    then = reasons.decided()

    assert [at_first[f"p{at}"] for at in (2, 3)] == [old, old]
    assert {message.partition(": ")[0] for message in then.values()} == {"0/2 nodes are available"}
    assert reasons.renewed(10.0) == {name: reasons.true()[name] for name in ("p2", "p3")}


# ---------------------------------------------------------------- how long it takes


@pytest.mark.parametrize(
    ("count", "step"),
    [pytest.param(400, 0.0, id="so many steps"), pytest.param(40, 0.001, id="so long by the clock")],
)
def test_an_explanation_has_an_end(count: int, step: float) -> None:
    """Sums let the pod in on many nodes and it fits on none: what was not evaluated is named."""
    ledger = ledgers.with_nodes(count, 4)
    for at in range(1, count + 1):  # No two nodes are alike.
        shares = [builders.share(minor, at=f"n{at}", core=40, memory=builders.GIB + at) for minor in range(4)]
        ledger.pod_bound(builders.hold(f"h{at}", f"n{at}", shares))
    ask = requests.Gpus(1, core=40, memory=builders.GIB)
    pod = ledgers.add_waiting(ledger, request=builders.request(*(ask,) * 5))
    cpu_clock = clock.Ticking(step)
    found = waiting_reasons.WaitingReasons(ledger, lambda _: "", clock=float, cpu_clock=cpu_clock)
    found.new_round(until=0.03)

    undecided = decisions.Wait(pod.uid, (decisions.Count(Reason.UNDECIDED, "", count),), None)
    message = found.message(pod, undecided)

    assert message.startswith(f"0/{count} nodes are available: ")
    assert "not fully evaluated (time limit)" in message


def test_no_explanation_is_cut_short_because_other_programs_have_their_turn() -> None:
    """Then every one would be, for as long as the machine is busy. Only time at work counts."""
    busy = Reasons(now=clock.Ticking(0.01), cpu_clock=clock.Ticking(1e-6))

    assert busy.decided(until=1.0) == busy.true()


def test_no_explanation_is_begun_that_has_no_time() -> None:
    """What is left of a round is all that explanations have, in a quiet one too; else counts are given."""
    now = clock.Clock()
    reasons = Reasons(now=now)
    too_late, in_time = (now() + share * waiting_reasons.LEAST_SECONDS for share in (0.5, 2.0))

    assert reasons.decided(until=too_late) == {"p0": BRIEF}
    assert reasons.renewed(10.0, until=too_late) == {}
    assert reasons.renewed(20.0, until=in_time) == reasons.true()
    reasons.fill()
    assert reasons.decided(until=in_time) == reasons.true()


def test_an_explanation_that_was_cut_short_is_repeated_with_more_time() -> None:
    """It says that it was cut short, and after a pause the pod learns what would help."""
    reasons = Reasons(now=clock.Clock())
    with mock.patch.object(waiting_reasons, "EXPLANATION_STEPS", 1):
        in_haste = reasons.decided()

    assert in_haste["p0"].endswith("Berth ran out of time to find what would help.")
    assert [reasons.renewed(now) for now in (1.0, 10.0)] == [{}, reasons.true()]
    assert reasons.found.next_due(20.0) == 21.0


def test_one_explanation_in_haste_takes_no_advice_away() -> None:
    """Another one does: what was found before may be outdated by then."""
    reasons = Reasons(now=clock.Clock())
    whole = reasons.decided()
    reasons.ledger.pod_bound(use("n1", 1, "little"))

    with mock.patch.object(waiting_reasons, "EXPLANATION_STEPS", 1):
        assert whole["p0"] != reasons.true()["p0"]
        assert reasons.renewed(1.0) == {}
        in_haste = reasons.renewed(10.0)

    assert in_haste["p0"].endswith("Berth ran out of time to find what would help.")
    assert reasons.renewed(20.0) == reasons.true()


def test_explanations_that_stay_short_are_repeated_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pods there are of whom not all can be found out, a quiet round makes one of these."""
    monkeypatch.setattr(waiting_reasons, "EXPLANATION_STEPS", 1)
    pods, rounds = 7, 600
    reasons = Reasons(pods=pods)
    reasons.decided()
    for at in range(1, 5):
        reasons.renewed(float(at))

    with mock.patch.object(explain, "explain", wraps=explain.explain) as explanations:
        for at in range(5, 5 + rounds):
            reasons.renewed(float(at))

    least = pods * rounds / waiting_reasons.LONGEST_PAUSE_SECONDS
    assert least <= explanations.call_count <= least + 6 * pods


def test_an_init_container_does_not_keep_a_pod_from_learning_what_would_help() -> None:
    """One node of eight cards is examined to the end, though each container is a puzzle of its own."""
    ledger = ledgers.with_nodes(1, 8)
    for minor in range(8):
        ledger.pod_bound(builders.hold(f"h{minor}", "n1", shares=[minor]))
    reasons = Reasons(ledger, 0)
    reasons.pods = [ledgers.add_waiting(ledger, request=builders.request(builders.init(2), 1))]

    given = reasons.decided()

    assert "Would fit if" in given["p"]
    assert given == reasons.true()


def test_where_a_reason_changes_all_the_time_it_is_given_ever_more_seldom() -> None:
    """Each change is a write for each pod: a node that changes each second is not worth that."""
    reasons = Reasons()
    reasons.decided()
    given = list[str]()

    for at in range(1, 121):
        reasons.ledger.pod_over(f"uid-use{at - 1}")
        reasons.ledger.pod_bound(use("n1", 1 + at % 9, f"use{at}"))
        given += reasons.renewed(float(at)).values()

    assert len(given) <= waiting_reasons.MOST_CHANGES + 120 / waiting_reasons.CHANGE_SECONDS
    assert given[-1] != given[-2]


def test_a_reason_that_was_quiet_for_long_is_put_right_at_once() -> None:
    """However often it changed long ago; in the end it is true."""
    reasons = Reasons()
    reasons.decided()

    for start in (0.0, 1000.0):
        for at in range(1, 20):
            reasons.ledger.pod_over(f"uid-use{at - 1}")
            reasons.ledger.pod_bound(use("n1", 1 + at % 9, f"use{at}"))
            reasons.renewed(start + at)
        reasons.renewed(start + 19 + waiting_reasons.CHANGE_SECONDS)
        assert reasons.found.last_message(reasons.pods[0]) == reasons.true()["p0"]
        reasons.ledger.pod_over("uid-use19")
    given = reasons.renewed(2000.0)

    assert given == reasons.true()
