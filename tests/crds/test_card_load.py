"""The load of cards in a Lease: what is written is read, and garbage is told in a sentence."""

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import card_load
from berth_crds.card_load import MIB, UNKNOWN, CardLoad

PERCENTS = st.integers(UNKNOWN, 100)
LOADS = st.builds(CardLoad, PERCENTS, PERCENTS, PERCENTS, PERCENTS, st.integers(UNKNOWN, 2**39))


@hypothesis.given(st.dictionaries(st.integers(0, 255), LOADS, max_size=card_load.MOST_CARDS))
def test_what_is_written_is_read(loads: dict[int, CardLoad]) -> None:
    """Rounded, and without cards of which nothing is measured; the text of 64 cards is within its limit."""
    measured = {minor: card_load.rounded(one) for minor, one in loads.items() if one != card_load.NOTHING}

    text = card_load.write(loads)

    assert len(card_load.signed(text, "a" * 64 + "_" + "0" * 8)) <= card_load.LONGEST
    assert card_load.read(text) == measured


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        pytest.param(card_load.signed("v1 0:1,2,3,4,5", "a"), "v1 0:1,2,3,4,5", id="of the holder"),
        pytest.param(card_load.signed("v1 0:1,2,3,4,5", "b"), "", id="of another agent"),
        pytest.param(card_load.signed("", "a"), "", id="of nothing"),
        pytest.param("v1 0:1,2,3,4,5", "v1 0:1,2,3,4,5", id="of nobody, as in a file that a person wrote"),
        pytest.param("rubbish", "rubbish", id="rubbish"),
    ],
)
def test_only_what_the_holder_measured_counts(annotation: str, text: str) -> None:
    """An agent of another version may leave what an earlier one wrote."""
    assert card_load.measured_by(annotation, "a") == text


@hypothesis.given(LOADS)
def test_rounding_is_small_and_says_it_once(load: CardLoad) -> None:
    """A percentage is off by less than a step, memory is never more than there is, and both stay rounded."""
    found = card_load.rounded(load)

    assert card_load.rounded(found) == found
    for before, after in zip(load[:4], found[:4], strict=True):
        assert (before == UNKNOWN) is (after == UNKNOWN)
        assert abs(before - after) < card_load.PERCENT_STEP
    assert found.free_memory <= load.free_memory < found.free_memory + card_load.MEMORY_STEP * MIB + 1


def test_cards_beyond_the_limit_are_left_out() -> None:
    """Those with the highest minors, and the text stays readable."""
    text = card_load.write({minor: CardLoad(100, 100, 100, 100, 2**39) for minor in range(70)})

    assert sorted(card_load.read(text)) == list(range(card_load.MOST_CARDS))


def test_figures_of_a_later_version_are_ignored() -> None:
    """So that an agent may be newer than the operator."""
    assert card_load.read("v1 3:95,0,,40,1024,7,8") == {3: CardLoad(95, 0, UNKNOWN, 40, 1024 * MIB)}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("v2 0:1,2,3,4,5", "begin with v1", id="another version"),
        pytest.param("{}", "begin with v1", id="something else"),
        pytest.param("v1 0:1,2,3,4", "five figures", id="too few figures"),
        pytest.param("v1 0:1,2,3,4,-5", "five figures", id="less than nothing"),
        pytest.param("v1  0:1,2,3,4,5", "five figures", id="two spaces"),
        pytest.param("v1 ٣:1,2,3,4,5", "five figures", id="digits of another script"),
        pytest.param("v1 0:101,2,3,4,5", "above 100", id="more than all the time"),
        pytest.param("v1 0:1,2,3,4,5 0:1,2,3,4,5", "twice", id="a card twice"),
        pytest.param("v1" + " 0:1,2,3,4,5" * 65, "65 cards", id="too many cards"),
        pytest.param("v1 " + "x" * 5000, "5003 characters", id="too long"),
    ],
)
def test_garbage_is_told_in_a_sentence(text: str, fault: str) -> None:
    """Nothing of it counts."""
    with pytest.raises(card_load.UnreadableLoad, match=fault):
        card_load.read(text)


@hypothesis.given(st.text(max_size=60) | st.from_regex(r"v1( \d+:[\d,]*)*", fullmatch=True))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    """Whatever is written, it is figures in their bounds or a sentence."""
    try:
        loads = card_load.read(text)
    except card_load.UnreadableLoad:
        return
    assert all(UNKNOWN <= figure <= 100 for load in loads.values() for figure in load[:4])
