"""What pods that are on nodes already would rather have of one that comes: it counts where that one goes."""

from typing import Any, Final

import pytest

from berth_operator.scheduling import cycle, existing_terms
from berth_operator.scheduling.decisions import Bind
from berth_operator.scheduling.search import Search
from scheduling import plain_pod_preferences
from scheduling.placements import RULES
from scheduling.pod_clusters import (
    AWAY,
    Body,
    Both,
    hold,
    near,
    node,
    parts,
    pod,
    pod_info,
    selecting,
    term,
    wish,
    wishes,
)
from support import backlogs

WEB: Final = {"app": "web"}
THREE_ZONES: Final = (node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4", "c"), node("n5"))
ALL: Final = ("n1", "n2", "n3", "n4", "n5")


def there(affinity: Body, at: str = "n3", **fields: Any) -> Body:
    """Write a pod on a node that says something of others."""
    return pod(f"w-{at}", at, affinity=affinity, **fields)


OF_OTHERS: Final[dict[str, tuple[tuple[Body, ...], dict[str, float]]]] = {
    "it would rather have such pods near": ((there(wish()),), {"n3": 1}),
    "or away": ((there(wish(kind=AWAY)),), {"n1": 1, "n2": 1, "n4": 1, "n5": 1}),
    "it must be near such pods itself": ((there(near(term())),), {"n3": 1}),
    "that counts one": ((there(near(term())), there(wish(4), "n1")), {"n1": 1, "n2": 1, "n3": 0.25}),
    "each of several pods": (
        (there(wish(), "n1"), there(wish(), "n2"), there(wish())),
        {"n1": 1, "n2": 1, "n3": 0.5},
    ),
    "the same term twice": (
        (there(wishes(wish(), wish())), there(wish(), "n1")),
        {"n3": 1, "n1": 0.5, "n2": 0.5},
    ),
    "it means other pods": ((there(wish(selector=selecting(app="db"))),), {}),
    "it means pods of its own namespace": ((there(wish(), namespace="other"),), {}),
    "or of another by name": ((there(wish(namespaces=["ml"]), namespace="other"),), {"n3": 1}),
    "or of those with a label": (
        (there(wish(namespaceSelector=selecting(team="blue")), namespace="other"),),
        {"n3": 1},
    ),
    "it is on a node without the label": ((there(wish(), "n5"),), {}),
    "it is being deleted": ((there(wish(), leaving=True),), {"n3": 1}),
}


@pytest.mark.parametrize(("others", "expected"), OF_OTHERS.values(), ids=OF_OTHERS.keys())
def test_what_pods_on_nodes_prefer(others: tuple[Body, ...], expected: dict[str, float]) -> None:
    """It counts for a pod that prefers nothing itself, also by the second implementation."""
    both, asks = Both(*THREE_ZONES, *others), pod(labels=WEB)
    both.name_namespace("ml", {"team": "blue"})

    found = parts(both, "pod_affinity", asks, ALL)

    assert found == pytest.approx(dict.fromkeys(ALL, 0.0) | expected)
    assert found == pytest.approx(plain_pod_preferences.affinity_parts(both.plain, asks, ALL))


def test_a_pod_that_no_other_means_shares_its_signature() -> None:
    """However many pods prefer something of others."""
    both = Both(*THREE_ZONES, there(wish()))

    asked_of_others = existing_terms.with_terms_of_existing_pods(
        both.inventory.pods, pod_info(pod(labels=WEB))
    )

    assert existing_terms.with_terms_of_existing_pods(both.inventory.pods, pod_info(pod())) == pod_info(pod())
    assert asked_of_others.demand != pod_info(pod()).demand


@pytest.mark.parametrize(
    ("affinity", "nodes"),
    [
        pytest.param(wish(), ["n1", "n1", "n1"], id="together"),
        pytest.param(wish(kind=AWAY), ["n1", "n3", "n4"], id="apart"),
    ],
)
def test_a_placed_pod_prefers_from_the_decision_on(affinity: Body, nodes: list[str]) -> None:
    """What is assumed of it is what is read of it once it is bound, and the pods that follow see it."""
    both = Both(*THREE_ZONES[:4])
    bodies = [pod("p0", labels=WEB, affinity=affinity), *(pod(f"p{at}", labels=WEB) for at in (1, 2))]
    bodies[2] = pod("p2", labels=WEB, affinity=affinity)
    waiting = [pod_info(body) for body in bodies]

    answers = cycle.simulate(Search(both.inventory), backlogs.of(*waiting), 0.0, RULES)

    placements = [one.placement for one in answers if isinstance(one, Bind)]
    assert [one.node for one in placements] == nodes
    assumed = cycle.hold_for(waiting[0], placements[0])
    bound = hold(bodies[0] | {"spec": bodies[0]["spec"] | {"nodeName": "n1"}})
    assert assumed.weighted_terms == bound.weighted_terms != ()
