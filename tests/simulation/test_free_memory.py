"""Free memory of each card that pods require, through `place`."""

import re
from typing import Any, Final

import pytest

from berth_crds import names
from simulation import simulator

NOW: Final = "2026-03-02T08:00:00.000000Z"
# Half of a card of 15 GiB is 7680 MiB.
REQUIRED: Final[dict[str, dict[str, Any]]] = {
    "in our words": {"annotations": {names.FREE_MEMORY_AT_LEAST: "10000Mi"}},
    "by Genius' label": {"labels": {"genius/gpu-memory-each": "9999"}},
}


@pytest.mark.parametrize("meta", REQUIRED.values(), ids=REQUIRED.keys())
def test_parts_of_cards_come_from_those_with_enough_free(meta: dict[str, Any]) -> None:
    """A card of which half is promised is left alone, though it is large enough and has room."""
    half = simulator.pod("a", {names.GPU: 50})
    tenths = [simulator.pod(name, {names.GPU: 10}, meta=meta) for name in ("b", "c", "d")]

    found = simulator.place(*simulator.both("n1", "2xT4"), half, *tenths)

    minors = [one["allocation"]["containers"]["main"]["gpu"][0]["minor"] for one in found]
    assert minors == [0, 1, 1, 1]


@pytest.mark.parametrize("meta", REQUIRED.values(), ids=REQUIRED.keys())
@pytest.mark.parametrize(
    ("text", "minor"), [("v1 0:,,,,9984 1:,,,,10048", 1), ("", 0)], ids=["measured", "not measured"]
)
def test_a_whole_card_that_others_use_is_left_alone(meta: dict[str, Any], text: str, minor: int) -> None:
    """As far as that was measured lately."""
    lease = simulator.lease("n1", NOW)
    lease["metadata"]["annotations"] = {names.LOAD: text} if text else {}

    (found,) = simulator.place(*simulator.both("n1", "2xT4"), lease, simulator.pod("p", meta=meta))

    assert found["allocation"]["containers"]["main"]["gpu"][0]["minor"] == minor


def test_a_pod_that_finds_too_little_is_told_how_much_there_is() -> None:
    """In the words that the page shows."""
    page = (simulator.ROOT / "manifests" / "operating.md").read_text().replace("\n", " ")
    nodes = [body for name in ("n1", "n2") for body in simulator.both(name, "1xA100-SXM4-80GB")]
    halves = [
        simulator.pod(name, {names.GPU: 50}, annotations={names.UUIDS: simulator.cards(nodes[at])[0]})
        for name, at in (("a", 1), ("b", 3))
    ]
    waiting = simulator.pod("c", {names.GPU: 10}, annotations={names.FREE_MEMORY_AT_LEAST: "70Gi"})

    told = simulator.run_on((*nodes, *halves, waiting)).out

    (shown,) = re.findall("until then it is told `(.*?)`", page)
    reason, nearest = shown.removesuffix(")").split(" (nearest: ")
    assert f"0/2 nodes are available: {reason}" in told
    assert f"nearest: {nearest}" in told
