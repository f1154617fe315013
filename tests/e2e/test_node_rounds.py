"""A few pods for each way of delivery, and a few rounds of the device plugin; `make e2e-node` plays many."""

import pytest

from e2e import fleet, node_rounds
from testbed import workers


@pytest.mark.slow
@pytest.mark.parametrize("way", node_rounds.WAYS)
async def test_pods_come_and_go(base: fleet.Fleet, way: str) -> None:
    """Each sees its cards and no others, and nothing is left of them."""
    if why := workers.obstacle():
        pytest.skip(why)
    said: list[str] = []

    await node_rounds.play(base, way, 20, rounds=3, seed=1, say=said.append)

    assert "as promised 2" in said[-1]
    assert "Mismatch" not in said[-1]
