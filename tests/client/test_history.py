"""What the revisions of a server say."""

import pytest

from berth_crds.client import history


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("7", 7, id="a number"),
        pytest.param("18446744073709551615", (1 << 64) - 1, id="the largest of 64 bits"),
        pytest.param("9" * 5000, None, id="more digits than Python reads"),
        pytest.param("", None, id="nothing"),
        pytest.param("-1", None, id="below zero"),
        pytest.param("\uff17", None, id="a digit of another script"),
    ],
)
def test_a_revision_is_a_number_or_says_nothing(text: str, expected: int | None) -> None:
    """Whatever stands there, reading it does not fail."""
    assert history.revision(text) == expected
