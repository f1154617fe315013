"""What a policy says of models and of sharing counts from the next decision on, for waiting pods too."""

import pytest

from berth_crds import names
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import policy
from berth_operator.scheduling.decisions import Bind, Reason, Reject, Wait
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.policy import Policy
from engine import books
from support import builders, clock, worlds

NAMED = Policy(models=(("big", builders.MODEL),))
WHOLE = Policy(fractions=False)
ALONE = Policy(replicas=False)
HALF = requests.Gpus(1, core=50, ratio=50)


def decided(book: Ledger, rules: Policy) -> list[type]:
    """Apply a policy; return how was decided for the pods that it wakes, and have them wait for news."""
    book.policy_seen(rules)
    found = books.decide(book)
    for answer in found:
        book.waiting.put_off(answer.uid, now=0.0, wants=getattr(answer, "wants", None))
    return [type(answer) for answer in found]


# ---------------------------------------------------------------- other names of models


def test_a_pod_may_use_a_name_that_the_policy_knows() -> None:
    """It waits without it, is placed with it, and the name is no better than the model it stands for."""
    book = books.of()
    books.wait(book, models=["Big"])

    assert decided(book, Policy()) == [Wait]
    assert decided(book, Policy(models=(("big", "Other"),))) == [Wait]
    assert decided(book, NAMED) == [Bind]
    assert decided(book, Policy()) == [Wait]


def test_a_model_is_avoided_by_any_of_its_names() -> None:
    """As it is asked for by any of them."""
    book = books.of()
    conditions = requests.Conditions(avoid_models=frozenset({"BIG"}))
    books.wait(book, request=builders.request(1, conditions=conditions))

    assert decided(book, Policy()) == [Bind]
    assert decided(book, NAMED) == [Wait]


def test_names_of_models_count_in_what_the_workload_teaches() -> None:
    """Pods that use another name ask for that model, as far as the ranking of nodes is concerned."""
    book = books.of()
    book.policy_seen(NAMED)
    key = book.picture.workload.known_as(("big",))

    assert key != ("big",)
    book.policy_seen(Policy())
    assert book.picture.workload.known_as(("big",)) == ("big",)


# ---------------------------------------------------------------- shares of cards


def test_no_shares_are_given_where_the_policy_allows_none() -> None:
    """The pod is told so with the container's name; whole cards are given as ever, and shares again later."""
    book = books.of()
    books.wait(book, "half", request=builders.request(HALF))
    books.wait(book, "whole")
    book.policy_seen(WHOLE)

    refused, placed = sorted(books.decide(book), key=lambda one: one.uid)

    assert isinstance(placed, Bind)
    assert isinstance(refused, Reject)
    (fault,) = refused.refusals
    assert fault.reason is Reason.UNSUPPORTED_REQUEST
    assert "container c0" in fault.detail
    assert "spec.sharing.fractions is false" in fault.detail


def test_who_was_refused_by_a_policy_is_asked_again_when_it_changes() -> None:
    """Nobody has to edit the pod."""
    book = books.of()
    books.wait(book, "half", request=builders.request(HALF))

    assert decided(book, WHOLE) == [Reject]
    assert not books.awake(book)
    assert decided(book, Policy()) == [Bind]


def test_a_few_bytes_of_a_card_are_given_where_the_policy_allows_them() -> None:
    """Who has left out the unit is told so, and asked again when the policy changes; who has it keeps it."""
    book = books.of()
    pod = builders.pod(containers=[builders.asking("main", {names.GPU_MEMORY: 8})])
    books.saw(book, pod)

    (refused,) = books.decide(book)
    assert isinstance(refused, Reject)
    assert "berth.dev/gpu-memory: 8 bytes; did you mean 8Gi?" in refused.refusals[0].detail
    assert decided(book, Policy(min_memory=16 * policy.MIB)) == [Reject]
    assert decided(book, Policy(min_memory=0)) == [Bind]
    books.assume(book)
    assert decided(book, Policy()) == []
    assert books.held(book)[0] == [0]


# ---------------------------------------------------------------- cards that their node shares


def shared(cards: int = 1) -> Ledger:
    """Return a ledger of one node with cards that it shares by four."""
    book = Ledger(clock.Clock())
    book.node_seen(builders.node("n1"))
    book.device_seen(builders.device("n1", [builders.card(at, replicas=4) for at in range(cards)]))
    book.agent_silent("n1", silent=False)
    return book


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_shared_card_is_given_to_one_pod_at_a_time(late: bool) -> None:  # noqa: FBT001  pytest passes it
    """Whether the policy came before its first pod or after; until that is gone, or the policy changes."""
    book = shared()
    if not late:
        book.policy_seen(ALONE)
    books.wait(book, "first", request=builders.request(requests.Replicas(1)))
    books.assume(book, "first")
    book.policy_seen(ALONE)
    books.wait(book, "second", request=builders.request(requests.Replicas(1)))

    (answer,) = books.decide(book)
    assert isinstance(answer, Wait)
    book.waiting.put_off(answer.uid, now=0.0, wants=answer.wants)
    if late:
        book.pod_over("uid-first")
    else:
        book.policy_seen(Policy())
    assert books.awake(book) == ["second"]
    assert [type(one) for one in books.decide(book)] == [Bind]


def test_each_pod_has_a_shared_card_of_its_own() -> None:
    """As many pods as there are cards have one, whatever the strategy thinks of the rest of a card."""
    book = shared(2)
    book.policy_seen(ALONE)
    for name in ("a", "b", "c"):
        books.wait(book, name, request=builders.request(requests.Replicas(1)))

    answers = books.decide(book)

    assert [type(one) for one in answers] == [Bind, Bind, Wait]
    assert worlds.shares_of(answers[:2]) == ["GPU-n1-0", "GPU-n1-1"]
