"""What is said of a part of a card."""

import pytest

from berth_crds import card_part

CARD = 80 << 30


@pytest.mark.parametrize(
    ("core", "memory", "words"),
    [
        pytest.param(100, CARD, "", id="the whole card"),
        pytest.param(100, CARD - 90, "", id="what rounding left of the whole card"),
        pytest.param(100, CARD // 2, "100 % and 40 GiB", id="all compute"),
        pytest.param(30, CARD, "30 % and 80 GiB", id="all memory"),
        pytest.param(10, 60 << 30, "10 % and 60 GiB", id="more memory"),
        pytest.param(50, CARD // 2, "50 %", id="as much of both"),
        pytest.param(33, -(-CARD * 33 // 100), "33 %", id="as much of both, rounded up"),
        pytest.param(0, CARD // 2, "40 GiB", id="memory alone"),
    ],
)
def test_a_part_is_one_figure_where_compute_and_memory_agree(core: int, memory: int, words: str) -> None:
    """Where they differ both are told, and nothing is said of the whole card alone."""
    assert card_part.describe(core, memory, CARD) == words


def test_a_few_bytes_of_rounding_do_not_show() -> None:
    """A share in percent that came second may be a byte short of its figure."""
    assert card_part.describe_both(60, (32 << 30) * 60 // 100) == "60 % and 19.2 GiB"
    assert card_part.describe_both(0, 1000) == "1000 bytes"
