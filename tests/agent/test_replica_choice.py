"""Replicas of shared cards for pods that the scheduler chose none for: spread over the cards, or packed."""

import hypothesis
import pytest
from hypothesis import strategies as st

from agent.plugin_node import SHARED, Node, listed, pod
from berth_agent.delivery import replica_choice
from berth_agent.kubelet.device_ids import uuid_of
from berth_agent.plugin_choices import PluginChoices
from berth_crds import wire


def ids(**cards: int) -> list[str]:
    """Return so many replicas of each card."""
    return [f"{card}::{number}" for card, count in cards.items() for number in range(count)]


def cards(chosen: tuple[str, ...]) -> list[str]:
    """Return the cards of some replicas."""
    return [uuid_of(one) for one in chosen]


@pytest.mark.parametrize(
    ("size", "room", "packed", "expected"),
    [
        pytest.param(1, {"a": 1, "b": 3}, False, ["b"], id="the card with most room"),
        pytest.param(1, {"a": 1, "b": 3}, True, ["a"], id="the card with least room"),
        pytest.param(4, {"a": 3, "b": 3}, False, ["a", "b", "a", "b"], id="in turns"),
        pytest.param(4, {"a": 3, "b": 3}, True, ["a", "a", "a", "b"], id="one after the other"),
        pytest.param(2, {"a": 0, "b": 2}, True, ["b", "b"], id="what is promised is left alone"),
        pytest.param(3, {"a": 1, "b": 1}, False, [], id="too few"),
    ],
)
def test_where_replicas_come_from(size: int, room: dict[str, int], packed: bool, expected: list[str]) -> None:  # noqa: FBT001  a column of the table
    """The first card of equals comes first."""
    found = replica_choice.best_replicas(ids(a=3, b=3), [], size, room, card_of=uuid_of, packed=packed)

    assert cards(found) == expected


@hypothesis.given(
    counts=st.lists(st.integers(0, 4), min_size=1, max_size=4), size=st.integers(1, 8), packed=st.booleans()
)
def test_as_many_as_are_asked_for_or_none(counts: list[int], size: int, packed: bool) -> None:  # noqa: FBT001  drawn
    """All of them available, none twice, and what must be is among them."""
    available = ids(**{f"c{at}": count for at, count in enumerate(counts)})
    must, room = available[:1], {f"c{at}": count for at, count in enumerate(counts)}

    found = replica_choice.best_replicas(available, must, size, room, card_of=uuid_of, packed=packed)

    assert bool(found) == (len(available) >= size)
    if found:
        assert len(set(found)) == size and set(must) <= set(found) <= set(available)


@pytest.mark.parametrize(("policy", "expected"), [("distributed", "GPU-t::0"), ("packed", "GPU-s::1")])
async def test_a_pod_of_another_scheduler_gets_them_by_the_policy(policy: str, expected: str) -> None:
    """Of two cards one has a replica in use."""
    split = [
        wire.Card(f"GPU-{name}", "gpu", at, sharing=wire.Sharing("time-slicing", 3))
        for at, name in enumerate("st")
    ]
    node = Node(*split, choices=PluginChoices(allocation_policy=policy))
    node.pods = [pod("stock", {SHARED: 1})]
    node.admits(listed("stock", []))

    found = await node.preferred("GPU-s::1", "GPU-s::2", *ids(**{"GPU-t": 3}), size=1, resource=SHARED)

    assert found == [expected]


@pytest.mark.parametrize(("count", "given"), [(1, 1), (2, 0)])
async def test_a_replica_that_is_promised_is_left_to_its_pod(count: int, given: int) -> None:
    """It is not given yet, so the kubelet would give it to anybody."""
    split = [wire.Card("GPU-s", "gpu", 5, sharing=wire.Sharing("time-slicing", 2))]
    node = Node(*split)
    node.pods = [pod("stock", {SHARED: count}), pod("ours", {SHARED: 1}, promised=[["GPU-s"]])]
    node.admits(listed("stock", []))

    found = await node.preferred("GPU-s::0", "GPU-s::1", size=count, resource=SHARED)

    assert len(found) == given
