"""What a policy says of models and of sharing counts from the next decision on, for waiting pods too."""

import pytest

from berth_crds import names
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import policy
from berth_operator.scheduling.decisions import Bind, Reason, Reject, Wait
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.policy import Policy
from support import builders, clock, ledgers, worlds

NAMED = Policy(models=(("big", builders.MODEL),))
WHOLE = Policy(fractions=False)
ALONE = Policy(replicas=False)
HALF = requests.Gpus(1, core=50, ratio=50)


def decided(ledger: Ledger, policy: Policy) -> list[type]:
    """Apply a policy; return how was decided for the pods that it wakes, and have them wait for news."""
    ledger.policy_seen(policy)
    found = ledgers.decide(ledger)
    for answer in found:
        ledger.backlog.put_off(answer.uid, now=0.0, wants=getattr(answer, "wants", None))
    return [type(answer) for answer in found]


# ---------------------------------------------------------------- other names of models


def test_a_pod_may_use_a_name_that_the_policy_knows() -> None:
    """It waits without it, is placed with it, and the name is no better than the model it stands for."""
    ledger = ledgers.with_nodes()
    ledgers.add_waiting(ledger, models=["Big"])

    assert decided(ledger, Policy()) == [Wait]
    assert decided(ledger, Policy(models=(("big", "Other"),))) == [Wait]
    assert decided(ledger, NAMED) == [Bind]
    assert decided(ledger, Policy()) == [Wait]


def test_a_model_is_avoided_by_any_of_its_names() -> None:
    """As it is asked for by any of them."""
    ledger = ledgers.with_nodes()
    conditions = requests.Conditions(avoid_models=frozenset({"BIG"}))
    ledgers.add_waiting(ledger, request=builders.request(1, conditions=conditions))

    assert decided(ledger, Policy()) == [Bind]
    assert decided(ledger, NAMED) == [Wait]


def test_names_of_models_count_in_what_the_workload_teaches() -> None:
    """Pods that use another name ask for that model, as far as the ranking of nodes is concerned."""
    ledger = ledgers.with_nodes()
    ledger.policy_seen(NAMED)
    key = ledger.inventory.workload.known_as(("big",))

    assert key != ("big",)
    ledger.policy_seen(Policy())
    assert ledger.inventory.workload.known_as(("big",)) == ("big",)


# ---------------------------------------------------------------- shares of cards


def test_no_shares_are_given_where_the_policy_allows_none() -> None:
    """The pod is told so with the container's name; whole cards are given as ever, and shares again later."""
    ledger = ledgers.with_nodes()
    ledgers.add_waiting(ledger, "half", request=builders.request(HALF))
    ledgers.add_waiting(ledger, "whole")
    ledger.policy_seen(WHOLE)

    refused, placed = sorted(ledgers.decide(ledger), key=lambda one: one.uid)

    assert isinstance(placed, Bind)
    assert isinstance(refused, Reject)
    (fault,) = refused.refusals
    assert fault.reason is Reason.UNSUPPORTED_REQUEST
    assert "container c0" in fault.detail
    assert "spec.sharing.fractions is false" in fault.detail


def test_who_was_refused_by_a_policy_is_asked_again_when_it_changes() -> None:
    """Nobody has to edit the pod."""
    ledger = ledgers.with_nodes()
    ledgers.add_waiting(ledger, "half", request=builders.request(HALF))

    assert decided(ledger, WHOLE) == [Reject]
    assert not ledgers.ready_names(ledger)
    assert decided(ledger, Policy()) == [Bind]


def test_a_few_bytes_of_a_card_are_given_where_the_policy_allows_them() -> None:
    """Who has left out the unit is told so, and asked again when the policy changes; who has it keeps it."""
    ledger = ledgers.with_nodes()
    pod = builders.pod(containers=[builders.asking("main", {names.GPU_MEMORY: 8})])
    ledgers.pod_seen(ledger, pod)

    (refused,) = ledgers.decide(ledger)
    assert isinstance(refused, Reject)
    assert "berth.dev/gpu-memory: 8 bytes; did you mean 8Gi?" in refused.refusals[0].detail
    assert decided(ledger, Policy(min_memory=16 * policy.MIB)) == [Reject]
    assert decided(ledger, Policy(min_memory=0)) == [Bind]
    ledgers.assume(ledger)
    assert decided(ledger, Policy()) == []
    assert ledgers.holding(ledger)[0] == [0]


# ---------------------------------------------------------------- cards that their node shares


def shared(cards: int = 1) -> Ledger:
    """Return a ledger of one node with cards that it shares by four."""
    ledger = Ledger(clock.Clock())
    ledger.node_seen(builders.node("n1"))
    ledger.device_seen(builders.device("n1", [builders.card(at, replicas=4) for at in range(cards)]))
    ledger.agent_silent("n1", silent=False)
    return ledger


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_shared_card_is_given_to_one_pod_at_a_time(late: bool) -> None:  # noqa: FBT001  pytest passes it
    """Whether the policy came before its first pod or after; until that is gone, or the policy changes."""
    ledger = shared()
    if not late:
        ledger.policy_seen(ALONE)
    ledgers.add_waiting(ledger, "first", request=builders.request(requests.Replicas(1)))
    ledgers.assume(ledger, "first")
    ledger.policy_seen(ALONE)
    ledgers.add_waiting(ledger, "second", request=builders.request(requests.Replicas(1)))

    (answer,) = ledgers.decide(ledger)
    assert isinstance(answer, Wait)
    ledger.backlog.put_off(answer.uid, now=0.0, wants=answer.wants)
    if late:
        ledger.pod_over("uid-first")
    else:
        ledger.policy_seen(Policy())
    assert ledgers.ready_names(ledger) == ["second"]
    assert [type(one) for one in ledgers.decide(ledger)] == [Bind]


def test_each_pod_has_a_shared_card_of_its_own() -> None:
    """As many pods as there are cards have one, whatever the strategy thinks of the rest of a card."""
    ledger = shared(2)
    ledger.policy_seen(ALONE)
    for name in ("a", "b", "c"):
        ledgers.add_waiting(ledger, name, request=builders.request(requests.Replicas(1)))

    answers = ledgers.decide(ledger)

    assert [type(one) for one in answers] == [Bind, Bind, Wait]
    assert worlds.shares_of(answers[:2]) == ["GPU-n1-0", "GPU-n1-1"]
