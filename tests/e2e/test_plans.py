"""What chaos deals: two hundred rounds kill operators at every kind of call, at each of its moments."""

import pytest

from e2e import plans, scenarios

NAMES = list(scenarios.SCENARIOS)


@pytest.mark.parametrize("start", [0, 1, 7, 134_296, 2**31])
def test_two_hundred_rounds_kill_everywhere(start: int) -> None:
    """Whatever seed they begin with, as long as the scenarios take turns."""
    seeds = [seed for seed in range(start, start + 200) if NAMES[seed % len(NAMES)] == "kills"]

    dealt = {pair for seed in seeds for pair in plans.kills_of(seed, len(NAMES))}

    assert dealt == set(plans.PAIRS)
    assert len(plans.PAIRS) == 3 * len(plans.KINDS)
