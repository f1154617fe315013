"""The charts beside a benchmark's results."""

import itertools
from xml.etree import ElementTree as ET

import pytest

from bench import plots

SVG = "{http://www.w3.org/2000/svg}"


def read(title: str, unit: str, figures: dict[str, float]) -> ET.Element:
    """Draw, and read what was drawn."""
    return ET.fromstring(plots.bars(title, unit, figures))  # noqa: S314  It is our own.


def test_the_bars_are_as_long_as_their_figures_say() -> None:
    """Names are written as they are, and figures stand beside their bars."""
    drawn = read("Pods <bound>", "a second", {"Berth & co": 500.0, "other": 125.0})

    first, second = (float(one.attrib["width"]) for one in drawn.iter(f"{SVG}rect"))
    assert first == 4 * second == plots.BAR_WIDTH
    colours = [one.attrib["fill"] for one in drawn.iter(f"{SVG}rect")]
    assert colours == list(plots.COLOURS)
    words = [one.text for one in drawn.iter(f"{SVG}text")]
    assert words == ["Pods <bound> (a second)", "Berth & co", "500", "other", "125"]


@pytest.mark.parametrize("figures", [{}, {"a": 0.0}], ids=["none", "nothing but zero"])
def test_nothing_to_draw_is_drawn_all_the_same(figures: dict[str, float]) -> None:
    """A chart without bars, or with one of no length, is a chart."""
    drawn = read("a", "b", figures)

    assert all(float(one.attrib["width"]) == 0 for one in drawn.iter(f"{SVG}rect"))


def test_bars_do_not_touch() -> None:
    """Each has a line of its own."""
    drawn = read("a", "b", {"x": 1.0, "y": 2.0, "z": 3.0})

    tops = [float(one.attrib["y"]) for one in drawn.iter(f"{SVG}rect")]
    assert all(below - above > plots.BAR_HEIGHT for above, below in itertools.pairwise(tops))
