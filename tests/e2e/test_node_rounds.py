"""A few pods for each way of delivery, and a few rounds of the device plugin; `make e2e-node` plays more."""

import pytest

from e2e import fleet, node_rounds
from e2e.inside import MOST_CARDS
from testbed import workers

ROUNDS = 3


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("way", node_rounds.WAYS)
async def test_pods_come_and_go(base: fleet.Fleet, way: str) -> None:
    """Each sees its cards and no others, and nothing is left of them."""
    if why := workers.obstacle():
        pytest.skip(why)

    counts = await node_rounds.play(base, way, 20, rounds=ROUNDS, seed=1, say=lambda _: None)

    assert counts["as promised"] > 20
    if way == "plugin":
        assert counts["Agreed"] == ROUNDS * MOST_CARDS
        assert counts["mixed, ours: Running"] == ROUNDS
        assert counts["mixed, stock: Running"] >= ROUNDS
    assert not counts["Mismatch"]
