"""Containers that run at the same time never share a whole card; those that do not, may."""

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling.devices import requests
from support import builders


def of(*containers: tuple[str, int, str]) -> requests.Request:
    """Give a request of containers: name, cards, and `runs` or `ends`."""
    made = (requests.ContainerRequest(name, cards, life == "runs") for name, cards, life in containers)
    return requests.Request(tuple(made))


def dealt(request: requests.Request) -> dict[str, list[int]]:
    """Deal as many cards as the pod needs; list the minors of each container."""
    cards = tuple(builders.share(minor) for minor in range(request.cards))
    return {
        grant.container: [share.minor for share in grant.shares] for grant in requests.deal(request, cards)
    }


@pytest.mark.parametrize(
    ("request_", "minors"),
    [
        pytest.param(of(("a", 2, "runs")), {"a": [0, 1]}, id="one container"),
        pytest.param(of(("a", 1, "runs"), ("b", 2, "runs")), {"a": [0], "b": [1, 2]}, id="two side by side"),
        pytest.param(
            of(("i", 1, "ends"), ("a", 2, "runs")), {"i": [0], "a": [0, 1]}, id="an init container borrows"
        ),
        pytest.param(
            of(("i", 3, "ends"), ("a", 1, "runs")),
            {"i": [0, 1, 2], "a": [0]},
            id="an init container needs more",
        ),
        pytest.param(
            of(("i", 2, "ends"), ("j", 1, "ends"), ("a", 1, "runs")),
            {"i": [0, 1], "j": [0], "a": [0]},
            id="init containers one after the other",
        ),
        pytest.param(
            of(("s", 1, "runs"), ("i", 1, "ends"), ("a", 1, "runs")),
            {"s": [0], "i": [1], "a": [1]},
            id="an init container beside a sidecar",
        ),
        pytest.param(
            of(("s", 1, "runs"), ("i", 1, "ends")),
            {"s": [0], "i": [1]},
            id="a sidecar makes an init container dear",
        ),
        pytest.param(
            of(("i", 1, "ends"), ("s", 1, "runs"), ("a", 1, "runs")),
            {"i": [0], "s": [0], "a": [1]},
            id="an init container before the sidecar",
        ),
    ],
)
def test_deal(request_: requests.Request, minors: dict[str, list[int]]) -> None:
    """Cards are dealt in the order in which containers start."""
    found = dealt(request_)

    assert found == minors


def test_no_cards() -> None:
    """A pod that asks for nothing is dealt nothing."""
    assert requests.NO_CARDS.cards == 0
    assert requests.deal(requests.NO_CARDS, ()) == ()


@hypothesis.given(
    early=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["runs", "ends"])), max_size=4),
    late=st.lists(st.integers(0, 3), max_size=3),
)
def test_nobody_shares_with_who_runs(early: list[tuple[int, str]], late: list[int]) -> None:
    """At every moment of the pod's life no card is in two containers, and none too many is held."""
    containers = [(f"e{at}", cards, life) for at, (cards, life) in enumerate(early)]
    containers += [(f"l{at}", cards, "runs") for at, cards in enumerate(late)]

    hands = dealt(of(*containers))

    running: list[int] = []
    busiest = 0
    for name, cards, life in containers:
        together = running + hands[name]
        assert len(hands[name]) == cards
        assert len(set(together)) == len(together)
        busiest = max(busiest, len(together))
        running = together if life == "runs" else running
    assert of(*containers).cards == busiest
