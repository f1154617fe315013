"""What is said of waiting pods stays true, is said again only when it changes, and takes little time."""

import dataclasses
from unittest import mock

from berth_operator.engine import ports, waiting_reasons
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, explain, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.holds import Hold
from engine.harness import Engine
from support import builders, clock, ledgers, timeless
from support.writers import Reply

CORE = 10
WANTED = 60  # GiB of a card.


def use(node: str, gib: int, name: str) -> Hold:
    """Make a pod that holds so much of the only card of a node."""
    share = builders.share(0, at=node, core=CORE, memory=gib * builders.GIB)
    return dataclasses.replace(builders.hold(name, node), shares=(share,))


def crowded(ledger: Ledger) -> Ledger:
    """Leave 50 GiB on n1 and 40 on n2."""
    ledger.pod_bound(use("n1", 30, "a"))
    ledger.pod_bound(use("n2", 40, "b"))
    return ledger


def waits(ledger: Ledger, name: str = "p", gib: int = WANTED) -> queued_pods.Candidate:
    """Have a pod wait for more than any card has left."""
    asks = builders.request(requests.Gpus(1, core=CORE, memory=gib * builders.GIB))
    return ledgers.add_waiting(ledger, name, request=asks)


def begun(
    now: ports.Clock | None = None,
) -> tuple[Ledger, queued_pods.Candidate, waiting_reasons.WaitingReasons]:
    """Return a crowded ledger, a pod that waits there, and what finds the reasons."""
    ledger = crowded(ledgers.with_nodes(2, 1))
    return ledger, waits(ledger), waiting_reasons.WaitingReasons(ledger, clock=now)


def fill(ledger: Ledger) -> None:
    """Leave 5 GiB on n1: the counts stay what they are."""
    ledger.pod_over("uid-a")
    ledger.pod_bound(use("n1", 75, "c"))


def waiting(ledger: Ledger) -> decisions.Wait:
    """Decide for the only pod, which does not fit."""
    (answer,) = ledgers.decide(ledger, 1e6)
    assert isinstance(answer, decisions.Wait)
    return answer


def puzzle(count: int) -> tuple[Ledger, queued_pods.Candidate]:
    """Return nodes of which no two are alike, and a pod that fits on none though sums let it in."""
    ledger = ledgers.with_nodes(count, 4)
    for at in range(1, count + 1):
        shares = (builders.share(minor, at=f"n{at}", core=40, memory=builders.GIB + at) for minor in range(4))
        ledger.pod_bound(dataclasses.replace(builders.hold(f"h{at}", f"n{at}"), shares=tuple(shares)))
    ask = requests.Gpus(1, core=40, memory=builders.GIB)
    return ledger, ledgers.add_waiting(ledger, request=builders.request(*(ask,) * 5))


def said(found: waiting_reasons.WaitingReasons, ledger: Ledger) -> dict[str, str]:
    """Make a round, and give what is said of each pod."""
    answers = ledgers.decide(ledger, 1e6)
    found.new_round()
    told: dict[str, str] = {}
    for answer in answers:
        assert isinstance(answer, decisions.Wait)
        candidate = ledger.backlog.get(answer.uid)
        assert candidate is not None
        told[candidate.name] = found.message(candidate, answer)
    return told


def later(found: waiting_reasons.WaitingReasons, now: float) -> dict[str, str]:
    """Return what is said in a quiet round."""
    found.new_round()
    return {candidate.name: message for candidate, message in found.renewed(now)}


def closely(ledger: Ledger, candidate: queued_pods.Candidate) -> str:
    """Return what is true now."""
    return explain.sentence(explain.explain(ledger.search, candidate, policy=ledger.policy), candidate)


# ---------------------------------------------------------------- what becomes old


def test_what_has_become_false_is_not_said_again() -> None:
    """Though the counts are the same, the figures and the nearest node are others."""
    ledger, pod, found = begun()
    before = said(found, ledger)["p"]
    fill(ledger)

    after = said(found, ledger)["p"]

    assert "GPU 0 of n1 has 50 GiB free, 60 GiB wanted" in before
    assert after == closely(ledger, pod)
    assert "GPU 0 of n2 has 40 GiB free, 60 GiB wanted" in after


def test_what_has_become_false_is_put_right_in_a_quiet_round() -> None:
    """Nobody decides for the pod again, and it learns all the same; once, and then all is quiet."""
    ledger, pod, found = begun()
    said(found, ledger)
    assert later(found, 10.0) == {}
    fill(ledger)

    assert found.next_due(10.5) == 11.0
    assert later(found, 10.5) == {}
    assert later(found, 11.0) == {"p": closely(ledger, pod)}
    assert later(found, 12.0) == {}
    assert found.next_due(13.0) == 14.0


def test_everybody_gets_a_look_in_the_end() -> None:
    """More pods than looks, each asking for something else: no round looks at more, none is forgotten."""
    ledger = crowded(ledgers.with_nodes(2, 1))
    pods = [waits(ledger, f"p{at}", WANTED + at) for at in range(7)]
    found = waiting_reasons.WaitingReasons(ledger)

    told = said(found, ledger)
    assert sum("nearest" in message for message in told.values()) == waiting_reasons.DIAGNOSES_PER_ROUND
    for at in range(1, 4):
        news = later(found, 10.0 * at)
        assert len(news) <= waiting_reasons.DIAGNOSES_PER_ROUND
        told |= news

    assert told == {pod.name: closely(ledger, pod) for pod in pods}


def test_pods_that_ask_the_same_share_a_look() -> None:
    """A hundred pods of one kind have their whole sentence at once."""
    ledger = crowded(ledgers.with_nodes(2, 1))
    pods = [waits(ledger, f"p{at}") for at in range(100)]

    told = said(waiting_reasons.WaitingReasons(ledger), ledger)

    assert told == {pod.name: closely(ledger, pod) for pod in pods}


def test_what_pods_of_several_namespaces_share_names_no_pod_of_another() -> None:
    """One look serves all that ask the same, and each is told of the pods of its own namespace alone."""
    ledger = ledgers.with_nodes(1, 1)
    ledger.node_seen(builders.node(cpu=1000))
    ledger.pod_bound(builders.hold("first", shares=[0], amounts=(("cpu", 1000),)))
    own = builders.candidate("own")
    stranger = dataclasses.replace(builders.candidate("stranger"), namespace="zoo")
    for pod in (own, stranger):
        ledger.pod_waiting(pod, gated=False)
    found = waiting_reasons.WaitingReasons(ledger)

    at_once = said(found, ledger)
    ledger.pod_over("uid-first")
    ledger.pod_bound(builders.hold("second", shares=[0], amounts=(("cpu", 1000),)))
    news = later(found, 10.0)

    assert "if ml/first ended on n1" in at_once["own"]
    assert "if 1 pod of another namespace ended on n1" in at_once["stranger"]
    assert news == {"own": closely(ledger, own)}
    assert "if ml/second ended on n1" in news["own"]


def test_nothing_is_said_later_of_a_pod_that_would_fit_now() -> None:
    """Room was made: its turn comes, and no sentence about full nodes is written before that."""
    ledger, _, found = begun()
    said(found, ledger)
    ledger.pod_over("uid-a")

    assert later(found, 10.0) == {}
    assert found.next_due(20.0) == 21.0


@timeless.scenario
async def test_the_loop_tells_what_has_changed_meanwhile() -> None:
    """A pod that waits for something to be freed is told when the nearest node fills up."""
    engine = Engine(nodes=2, cards=1)
    crowded(engine.ledger)
    pod = waits(engine.ledger)
    async with timeless.beside(engine.loop.run()):
        await timeless.until(lambda: engine.status_writer.told)
        ledger = engine.ledger
        ledger.pod_bound(use("n1", 45, "c"))
        await timeless.at(5.0)

        assert engine.status_writer.of("p")[-1] == closely(ledger, pod)
        assert "GPU 0 of n2" in engine.status_writer.of("p")[-1]


@timeless.scenario
async def test_new_pods_keep_no_old_one_from_what_has_changed() -> None:
    """Though each round has more new pods than looks, what an old one shows is put right in its turn."""
    engine = Engine(nodes=2, cards=1)
    crowded(engine.ledger)
    pod = waits(engine.ledger)

    for second in range(4):
        await timeless.at(float(second))
        for at in range(waiting_reasons.DIAGNOSES_PER_ROUND + 3):
            waits(engine.ledger, f"q-{second}-{at}", WANTED + 1 + 10 * second + at)
        engine.loop.round()
        if not second:
            engine.ledger.pod_bound(use("n1", 45, "c"))

    assert engine.status_writer.of("p")[-1] == closely(engine.ledger, pod)
    assert "GPU 0 of n2" in engine.status_writer.of("p")[-1]


# ---------------------------------------------------------------- what a pod shows already


def shown_before(ledger: Ledger) -> dict[str, str]:
    """Return what the pods show of an earlier leader, who had time for all, by uid."""
    return {entry.candidate.uid: closely(ledger, entry.candidate) for entry in ledger.backlog.each()}


@timeless.scenario
async def test_nothing_is_said_any_more_of_a_pod_that_has_a_place() -> None:
    """Why it had to wait is over with the decision to bind it, however long the bind takes."""
    engine = Engine(cards=1)
    engine.ledger.pod_bound(builders.hold("held", "n1", [0]))
    engine.writer.when_bound("p", Reply(takes=5.0))
    engine.wait()

    async with timeless.beside(engine.loop.run()):
        await timeless.at(1.0)
        candidate = engine.ledger.backlog.get("uid-p")
        assert candidate is not None
        assert engine.loop.reporter.reasons.last_message(candidate).startswith("0/1 nodes are available: ")
        engine.ledger.pod_over("uid-held")
        await timeless.until(lambda: engine.writer.binds)

        assert engine.loop.reporter.reasons.last_message(candidate) == ""
        await engine.loop.binder.drain()


def test_a_new_leader_keeps_what_is_right() -> None:
    """It has time for few looks, and says of all pods what they show; the looks come, and change nothing."""
    ledger = crowded(ledgers.with_nodes(3, 1))
    ledger.pod_bound(use("n3", 75, "c"))
    pods = [waits(ledger, f"p{at}", WANTED + at) for at in range(7)]
    shown = shown_before(ledger)
    found = waiting_reasons.WaitingReasons(ledger, lambda uid: shown.get(uid, ""))

    assert said(found, ledger) == {pod.name: shown[pod.uid] for pod in pods}
    assert [later(found, 10.0 * at) for at in range(1, 6)] == [{}] * 5


def test_what_an_earlier_leader_said_is_put_right_by_the_first_look() -> None:
    """It cannot be compared with the counts of then; once these change, the new ones are said at once."""
    ledger = crowded(ledgers.with_nodes(2, 1))
    pods = [waits(ledger, f"p{at}", WANTED + at) for at in range(4)]
    old = "0/3 nodes are available: 3 have no card with enough free. Would fit if …"
    shown = shown_before(ledger) | {pod.uid: old for pod in pods[2:]}
    found = waiting_reasons.WaitingReasons(ledger, shown.__getitem__)

    at_first = said(found, ledger)
    ledger.agent_silent("n2", silent=True)
    then = said(found, ledger)

    assert [at_first[pod.name] for pod in pods[2:]] == [old, old]
    assert [then[pod.name].partition(": ")[0] for pod in pods] == ["0/2 nodes are available"] * 4
    assert later(found, 10.0) == {pod.name: closely(ledger, pod) for pod in pods[2:]}


# ---------------------------------------------------------------- how long it takes


def test_a_diagnosis_has_an_end() -> None:
    """Sums let the pod in on many nodes and it fits on none: what was not tried does not fit."""
    ledger, pod = puzzle(400)

    message = waiting_reasons.WaitingReasons(ledger).message(pod, waiting(ledger))

    assert message.startswith("0/400 nodes are available: ")
    assert "were not fully evaluated: search budget" in message


def test_no_look_is_begun_that_has_no_time() -> None:
    """What is left of a round after deciding is all that looks have; the counts are said without one."""
    now = clock.Clock()
    ledger, pod, found = begun(now)
    answer = waiting(ledger)

    found.new_round(until=now() + waiting_reasons.LEAST_SECONDS / 2)
    in_haste = found.message(pod, answer)
    found.new_round(until=now() + 2 * waiting_reasons.LEAST_SECONDS)
    at_leisure = found.message(pod, answer)

    assert in_haste == "0/2 nodes are available: 2 have no card with enough free"
    assert at_leisure == closely(ledger, pod)


def test_looks_that_are_made_up_for_have_no_more_time() -> None:
    """In a quiet round, too, a look is begun only where it can be ended."""
    now = clock.Clock()
    ledger, pod, found = begun(now)
    answer = waiting(ledger)
    found.new_round(until=now())
    found.message(pod, answer)

    found.new_round(until=now())
    in_haste = found.renewed(10.0)
    found.new_round()
    at_leisure = found.renewed(20.0)

    assert in_haste == []
    assert [message for _, message in at_leisure] == [closely(ledger, pod)]


def test_a_diagnosis_ends_with_its_time() -> None:
    """The clock of the loop ends it, and the sentence names what was not evaluated."""
    ledger, pod = puzzle(40)
    found = waiting_reasons.WaitingReasons(ledger, clock=clock.Ticking(0.001))
    found.new_round(until=0.03)

    message = found.message(pod, decisions.Wait(pod.uid, (decisions.Count(Reason.UNDECIDED, "", 40),), None))

    assert message.startswith("0/40 nodes are available: ")
    assert "not fully evaluated: search budget" in message


def test_a_look_that_was_cut_short_is_repeated_with_more_time() -> None:
    """It says that it was cut short, and after a pause the pod learns what would help."""
    now = clock.Clock()
    ledger, pod, found = begun(now)
    answer = waiting(ledger)
    found.new_round()
    with mock.patch.object(waiting_reasons, "DIAGNOSIS_STEPS", 1):
        in_haste = found.message(pod, answer)

    found.new_round()
    assert found.renewed(1.0) == []
    found.new_round()
    told = {one.name: message for one, message in found.renewed(10.0)}

    assert in_haste.endswith("What would help was not fully evaluated: search budget.")
    assert told == {"p": closely(ledger, pod)}
    assert found.next_due(20.0) == 21.0


def test_looks_that_stay_short_are_repeated_ever_more_seldom() -> None:
    """However many pods there are of whom not all can be found out, a quiet round makes one such look."""
    ledger = crowded(ledgers.with_nodes(2, 1))
    for at in range(7):
        waits(ledger, f"p{at}", WANTED + at)
    found = waiting_reasons.WaitingReasons(ledger)
    with mock.patch.object(waiting_reasons, "DIAGNOSIS_STEPS", 1):
        said(found, ledger)
        for at in range(1, 5):
            later(found, float(at))
        with mock.patch.object(explain, "explain", wraps=explain.explain) as looks:
            for at in range(5, 605):
                later(found, float(at))

    assert (
        7 * 600 / waiting_reasons.LONGEST_PAUSE_SECONDS
        <= looks.call_count
        <= 7 * (6 + 600 / waiting_reasons.LONGEST_PAUSE_SECONDS)
    )


def test_an_init_container_does_not_keep_a_pod_from_learning_what_would_help() -> None:
    """One node of eight cards is looked at to the end, though each container is a puzzle of its own."""
    ledger = ledgers.with_nodes(1, 8)
    for minor in range(8):
        ledger.pod_bound(builders.hold(f"h{minor}", "n1", shares=[minor]))
    before = requests.ContainerRequest("before", (requests.cards(2),), runs=False)
    main = requests.ContainerRequest("main", (requests.cards(1),))
    pod = ledgers.add_waiting(ledger, request=requests.Request((before, main)))

    told = said(waiting_reasons.WaitingReasons(ledger), ledger)

    assert "Would fit if" in told["p"]
    assert told["p"] == closely(ledger, pod)
