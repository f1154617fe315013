"""What a policy says of models and of sharing counts from the next decision on, for waiting pods too."""

from collections.abc import Callable

import pytest

from berth_crds import names
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import policy
from berth_operator.scheduling.decisions import Bind, Decision, Reason, Reject, Wait
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.policy import Policy
from support import builders, ledgers, random_clusters

NAMED = Policy(models=(("big", builders.MODEL),))
WHOLE = Policy(fractions=False)
ALONE = Policy(replicas=False)
HALF = requests.Gpus(1, core=50, ratio=50)


def answers(ledger: Ledger, policy: Policy) -> list[Decision]:
    """Apply a policy; return what is decided for the pods that it wakes, and have them wait for news."""
    ledger.policy_seen(policy)
    found = ledgers.decide(ledger)
    for answer in found:
        ledger.backlog.requeue(answer.uid, now=0.0, awaited=getattr(answer, "awaited", None))
    return found


def decided(ledger: Ledger, *policies: Policy) -> list[list[type]]:
    """Return how is decided under one policy after another for the pods that it wakes."""
    return [[type(answer) for answer in answers(ledger, policy)] for policy in policies]


# ---------------------------------------------------------------- other names of models


def test_a_pod_may_use_a_name_that_the_policy_knows() -> None:
    """It waits without it, is placed with it, and the name is no better than the model it stands for."""
    ledger = ledgers.with_nodes()
    ledgers.add_waiting(ledger, models=["Big"])

    found = decided(ledger, Policy(), Policy(models=(("big", "Other"),)), NAMED, Policy())

    assert found == [[Wait], [Wait], [Bind], [Wait]]


def test_a_model_is_avoided_by_any_of_its_names() -> None:
    """As it is asked for by any of them."""
    ledger = ledgers.with_nodes()
    conditions = requests.Conditions(avoid_models=frozenset({"BIG"}))
    ledgers.add_waiting(ledger, request=builders.request(1, conditions=conditions))

    assert decided(ledger, Policy(), NAMED) == [[Bind], [Wait]]


def test_names_of_models_count_in_what_the_workload_teaches() -> None:
    """Pods that use another name ask for that model, as far as the ranking of nodes is concerned."""
    ledger, found = ledgers.with_nodes(), []
    for rules in (NAMED, Policy()):
        ledger.policy_seen(rules)
        found.append(ledger.inventory.workload.known_as(("big",)) == ("big",))

    assert found == [False, True]


# ---------------------------------------------------------------- shares of cards


def test_no_shares_are_given_where_the_policy_allows_none() -> None:
    """The pod is told so with the container's name, and is asked again when the policy changes."""
    ledger = ledgers.with_nodes()
    ledgers.add_waiting(ledger, "half", request=builders.request(HALF))
    ledgers.add_waiting(ledger, "whole")

    refused, placed = sorted(answers(ledger, WHOLE), key=lambda one: one.uid)

    assert isinstance(placed, Bind)
    assert isinstance(refused, Reject)
    (fault,) = refused.refusals
    assert fault.reason is Reason.UNSUPPORTED_REQUEST
    assert "container c0" in fault.detail
    assert "spec.sharing.fractions is false" in fault.detail
    assert "half" not in ledgers.ready_names(ledger)
    assert [type(answer) for answer in answers(ledger, Policy()) if answer.uid == "uid-half"] == [Bind]


def test_a_few_bytes_of_a_card_are_given_where_the_policy_allows_them() -> None:
    """Who has left out the unit is told so, and asked again when the policy changes; who has it keeps it."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, builders.pod(containers=[builders.asking("main", {names.GPU_MEMORY: 8})]))

    (refused,) = ledgers.decide(ledger)
    found = decided(ledger, Policy(min_memory=16 * policy.MIB), Policy(min_memory=0))
    ledgers.assume(ledger)

    assert isinstance(refused, Reject)
    assert "berth.dev/gpu-memory: 8 bytes; did you mean 8Gi?" in refused.refusals[0].detail
    assert found == [[Reject], [Bind]]
    assert decided(ledger, Policy()) == [[]]
    assert ledgers.holding(ledger)[0] == [0]


# ---------------------------------------------------------------- cards that their node shares


def shared(cards: int, policy: Policy, *names_: str) -> Ledger:
    """Return a ledger of one node with cards that it shares by four, and pods that ask for such a share."""
    ledger = ledgers.with_nodes()
    ledger.device_seen(builders.device("n1", [builders.card(at, replicas=4) for at in range(cards)]))
    ledger.policy_seen(policy)
    for name in names_:
        ledgers.add_waiting(ledger, name, request=builders.request(requests.Replicas(1)))
    return ledger


@pytest.mark.parametrize(
    ("before", "frees"),
    [
        pytest.param(ALONE, lambda ledger: ledger.policy_seen(Policy()), id="the policy changes"),
        pytest.param(Policy(), lambda ledger: ledger.pod_over("uid-first"), id="the first pod is gone"),
    ],
)
def test_a_shared_card_is_given_to_one_pod_at_a_time(
    before: Policy, frees: Callable[[Ledger], object]
) -> None:
    """Whether the policy came before its first pod or after; until that is gone, or the policy changes."""
    ledger = shared(1, before, "first")
    ledgers.assume(ledger, "first")
    ledgers.add_waiting(ledger, "second", request=builders.request(requests.Replicas(1)))

    alone = decided(ledger, ALONE)
    frees(ledger)

    assert alone == [[Wait]]
    assert ledgers.ready_names(ledger) == ["second"]
    assert [type(answer) for answer in ledgers.decide(ledger)] == [Bind]


def test_each_pod_has_a_shared_card_of_its_own() -> None:
    """As many pods as there are cards have one, whatever the strategy thinks of the rest of a card."""
    found = ledgers.decide(shared(2, ALONE, "a", "b", "c"))

    assert [type(answer) for answer in found] == [Bind, Bind, Wait]
    assert random_clusters.shares_of(found[:2]) == ["GPU-n1-0", "GPU-n1-1"]
