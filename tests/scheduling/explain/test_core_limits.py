"""What is said of core that a policy oversells: the limit that applied, and what would help from there."""

from pathlib import Path
from typing import Final

import pytest

from berth_operator.scheduling import explain, queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from scheduling.oversold import BATCH, RULES, WHOLE, holder, one_card, part, pod


def told(inventory: Inventory, pod_info: queued_pods.PodInfo, policy: Policy = RULES) -> explain.Explanation:
    """Explain why a pod waits."""
    return explain.explain(
        Search(inventory), pod_info, policy=policy, effort=explain.effort_outside_rounds(all_nodes=True)
    )


LIMIT: Final = (
    "With this pod up to {} % of a card's core may be promised, by its PriorityClass and the policy "
    "(spec.oversale)"
)


@pytest.mark.parametrize(
    ("of", "limit", "clause"),
    [
        pytest.param(BATCH, 150, "30 % core were freed on GPU-n1-0 of n1", id="a named class"),
        pytest.param("", 100, "80 % core were freed on GPU-n1-0 of n1", id="another class"),
    ],
)
def test_the_limit_that_applied_is_named(of: str, limit: int, clause: str) -> None:
    """And what would have to be freed counts from there, also where more is promised than may be."""
    inventory, waiting = one_card(holder("a", 140, limit=150)), pod("p", part(40), of=of)

    found = told(inventory, waiting)

    sentence = explain.sentence(found, waiting)
    assert f"{LIMIT.format(limit)}. Would fit" in sentence
    assert LIMIT.format(limit)[1:] in explain.table(found)
    (advice,) = found.advice[:1]
    assert clause in {change.clause() for one in found.advice for change in one.changes}, advice


def test_the_page_has_the_words_of_the_limit() -> None:
    """Who looks for them finds what they mean."""
    page = (Path(__file__).parents[3] / "manifests" / "operating.md").read_text()

    assert f"`{LIMIT.format(150)}.`" in page


def test_a_refusal_of_a_card_names_the_limit() -> None:
    """Beside what is free of it."""
    waiting = pod("p", part(40))

    (refusal,) = explain.refusals(told(one_card(holder("a", 140)), waiting), waiting)

    assert refusal.detail == "not enough free: 10 % core free, 40 % wanted, 150 % may be promised"


def test_memory_is_what_a_card_without_any_lacks() -> None:
    """Once some is free, core is promised as far as on any card."""
    waiting = pod("p", part(30, 20))

    found = told(one_card(holder("a", 110, 80)), waiting)

    clauses = {change.clause() for one in found.advice for change in one.changes}
    assert "20 GiB were freed on GPU-n1-0 of n1" in clauses, clauses
    assert explain.refusals(found, waiting)[0].detail == "in use"


@pytest.mark.parametrize(
    ("policy", "ask"),
    [
        pytest.param(Policy(), part(70), id="no oversale"),
        pytest.param(RULES, WHOLE, id="a whole card"),
        pytest.param(RULES, part(1, 90), id="another reason"),
    ],
)
def test_no_limit_is_named_that_did_not_apply(policy: Policy, ask: requests.Ask) -> None:
    """Messages without an oversale are as they were."""
    waiting = pod("p", ask)

    found = told(one_card(holder("a", 140)), waiting, policy)

    assert "may be promised" not in explain.sentence(found, waiting) + explain.table(found)


def test_what_would_help_is_tried_with_the_limit() -> None:
    """A smaller part fits where the limit leaves room, and the advice says so."""
    waiting = pod("p", part(60))

    found = told(one_card(holder("a", 110)), waiting)

    assert "it asked for 40 % instead of 60 % of the core of each card" in " ".join(
        map(explain.would_fit, found.advice)
    )
