"""The bound that ends a search early: it may only say no where no packing can succeed."""

import pytest

from berth_operator.scheduling.devices import bounds

TWO_HALVES = bounds.Unplaced(column=0, spots=(0, 1), total=100, steps=((50, 2),))


@pytest.mark.parametrize(
    ("left", "too_much"),
    [
        pytest.param((100, 0), False, id="exactly enough on one card"),
        pytest.param((50, 50), False, id="exactly enough on two"),
        pytest.param((50, 49), True, id="one percent short"),
        pytest.param((60, 40), True, id="enough in all, in no pieces of that size"),
    ],
)
def test_a_demand_that_fits_exactly_is_not_too_much(left: tuple[int, int], too_much: bool) -> None:  # noqa: FBT001  a column of the table
    """Of compute that is left on two cards, each half of a card takes a whole half."""
    rooms = [(one, 0) for one in left]

    assert bounds.exceeds(TWO_HALVES, rooms, [(0,), (0,)]) is too_much
