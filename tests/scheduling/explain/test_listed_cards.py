"""Who lists cards that exist nowhere reads that, for waiting does not make them."""

import pytest

from berth_operator.scheduling import explain, known_models
from berth_operator.scheduling.decisions import Count, Reason
from scheduling.explain import scenes
from support import builders

FEW = "1 has too few of the listed cards"


@pytest.mark.parametrize(
    ("uuids", "extra"),
    [
        pytest.param({"GPU-1234"}, " (no node has any of them)", id="nowhere"),
        pytest.param({"GPU-1234", "GPU-n1-0"}, "", id="one of two"),
        pytest.param({"GPU-1234", "MIG-1234"}, "", id="an instance, which is not looked up"),
    ],
)
def test_cards_that_no_node_has_are_told(uuids: set[str], extra: str) -> None:
    """The short sentence says it as does the one after a close look."""
    made = builders.inventory(*builders.nodes(1, 2))
    pod = scenes.cards(2, uuids=frozenset(uuids))
    counts = [Count(Reason.NOT_INCLUDED, "", 1)]
    known = known_models.instead(counts, made, pod.request.conditions.uuids)

    assert f"{FEW}{extra}" in explain.brief(counts, pod, known)
    assert (" (no node has any of them" in scenes.said(made, pod)) is bool(extra)
