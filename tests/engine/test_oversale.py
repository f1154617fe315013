"""An oversale of core in the ledger, when a policy changes, when a pod ends, and after a new leader."""

from typing import Any, Final

import pytest

from berth_crds import names
from berth_operator.engine import device_audit, waiting_reasons
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling.decisions import Bind, Decision, Wait
from berth_operator.scheduling.policy import Oversale, Policy
from berth_operator.translate import bind_annotations, raw
from support import builders, ledgers

BATCH: Final = "batch"
OVERSOLD: Final = Policy(oversale=Oversale(150, frozenset({BATCH})))
LOWER: Final = Policy(oversale=Oversale(110, frozenset({BATCH})))


def asking(name: str, core: int, *, of: str = BATCH, **fields: Any) -> raw.Pod:
    """Return a pod of a PriorityClass that asks for so much core of a card, and little memory."""
    limits = {names.GPU_CORE: str(core), names.GPU_MEMORY: "1Gi"}
    container = {"name": "main", "resources": {"limits": limits}}
    return builders.pod(name, containers=[container], priorityClassName=of, **fields)


def answers(ledger: Ledger) -> dict[str, Decision]:
    """Return what is decided for the pods whose turn it is, and have those that do not fit wait for news."""
    found = {answer.uid.removeprefix("uid-"): answer for answer in ledgers.decide(ledger)}
    for answer in found.values():
        if not isinstance(answer, Bind):
            ledger.backlog.requeue(answer.uid, now=0.0, awaited=getattr(answer, "awaited", None))
    return found


def bound(ledger: Ledger, pod: raw.Pod) -> raw.Pod:
    """Have a pod come that fits; return it as the server shows it after its bind."""
    ledgers.pod_seen(ledger, pod)
    name = pod.metadata.name
    decision = answers(ledger)[name]
    assert isinstance(decision, Bind)
    ledger.assume(decision)
    words = bind_annotations.of(decision.placement, term="test/1")
    core = int(pod.spec.containers[0].resources.limits[names.GPU_CORE])  # type: ignore[union-attr,index]  # as made
    stored = asking(
        name,
        core,
        of=pod.spec.priority_class_name or "",
        annotations=words,
        nodeName=decision.placement.node,
    )
    ledgers.pod_seen(ledger, stored)
    return stored


def one_card(policy: Policy = OVERSOLD) -> Ledger:
    """Return a ledger of a node with one card."""
    ledger = ledgers.with_nodes(1, 1)
    ledger.policy_seen(policy)
    return ledger


def placed(ledger: Ledger) -> dict[str, bool]:
    """Return for which pods a place was found."""
    return {name: isinstance(answer, Bind) for name, answer in answers(ledger).items()}


def test_an_oversale_and_its_end_count_from_the_next_decision_on() -> None:
    """Pods that wait are woken by it; those that run keep what they have, and nothing more is given."""
    ledger = one_card(Policy())
    bound(ledger, asking("first", 90, of=""))
    ledgers.pod_seen(ledger, asking("more", 50))
    before = placed(ledger)
    ledger.policy_seen(OVERSOLD)
    (during,) = answers(ledger).values()
    assert isinstance(during, Bind)
    ledger.assume(during)
    ledgers.pod_seen(ledger, asking("late", 10))

    assert before == {"more": False}
    assert placed(ledger) == {"late": True}
    ledger.policy_seen(LOWER)
    assert placed(ledger) == {"late": False}
    assert ledgers.holding(ledger, "uid-more") == ([0], 0)
    assert device_audit.audit(ledger.inventory) == ()


def test_what_becomes_free_wakes_the_pods_that_it_serves() -> None:
    """Pods that ask the same are of two kinds where their PriorityClasses differ."""
    ledger = one_card()
    for name, core in (("first", 100), ("second", 50)):
        bound(ledger, asking(name, core))
    for name, of in (("a", ""), ("b", BATCH)):
        ledgers.pod_seen(ledger, asking(name, 50, of=of))
    assert placed(ledger) == {"a": False, "b": False}

    ledger.pod_over("uid-second")

    assert ledgers.ready_names(ledger) == ["b"]


def test_a_new_leader_finds_the_same_ledger() -> None:
    """Sums above 100 percent are read back from the pods alone, under whatever policy holds then."""
    ledger = one_card()
    stored = [bound(ledger, asking("first", 90, of=""))]
    stored += [bound(ledger, asking(f"batch-{at}", 30)) for at in range(2)]

    fresh = ledgers.with_nodes(1, 1)
    for pod in stored:
        ledgers.pod_seen(fresh, pod)

    assert ledgers.differences(ledger, fresh) == ()
    assert device_audit.audit(fresh.inventory) == ()
    fresh.policy_seen(OVERSOLD)
    for name, core, of in (("guaranteed", 1, ""), ("too-much", 1, BATCH)):
        ledgers.pod_seen(fresh, asking(name, core, of=of))
    assert placed(fresh) == {"guaranteed": False, "too-much": False}


@pytest.mark.parametrize("limit", ["no", -1, 1001, 150.5, None])
def test_a_limit_that_cannot_be_read_fails_closed(limit: object) -> None:
    """As any other damage of the record: the card is kept from others."""
    ledger = one_card()
    stored = bound(ledger, asking("first", 50))
    text = stored.metadata.annotations[names.ALLOCATION]
    words = stored.metadata.annotations | {
        names.ALLOCATION: text.replace('"limit":150', f'"limit":{"null" if limit is None else limit!r}')
    }
    fresh = one_card()

    ledgers.pod_seen(fresh, asking("first", 50, annotations=words, nodeName="n1"))
    ledgers.pod_seen(fresh, asking("more", 10))

    assert placed(fresh) == {"more": False}


def test_pods_that_ask_the_same_are_told_what_is_true_of_their_class() -> None:
    """One is told of its limit, the other of that of all."""
    ledger = one_card()
    bound(ledger, asking("first", 100))
    bound(ledger, asking("second", 40))
    reasons = waiting_reasons.WaitingReasons(ledger, lambda _: "")
    reasons.new_round()
    for name, of in (("a", ""), ("b", BATCH)):
        ledgers.pod_seen(ledger, asking(name, 20, of=of))

    told = {
        name: reasons.message(waiting, answer)
        for name, answer in answers(ledger).items()
        if isinstance(answer, Wait) and (waiting := ledger.backlog.get(answer.uid)) is not None
    }

    assert "up to 100 % of a card's core" in told["a"]
    assert "60 % core were freed" in told["a"]
    assert "up to 150 % of a card's core" in told["b"]
    assert "10 % core were freed" in told["b"]
