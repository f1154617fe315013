"""Quantities are read exactly, and rounded so that nothing is promised that is not there."""

import decimal

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling.nodes import facts
from berth_operator.translate import quantities
from translate import pod_requests

decimal.getcontext().prec = 400


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("0", 0, id="nothing"),
        pytest.param("7", 7, id="a plain number"),
        pytest.param("+7", 7, id="a plus sign"),
        pytest.param("007", 7, id="leading zeros"),
        pytest.param("2k", 2_000, id="kilo"),
        pytest.param("2M", 2_000_000, id="mega"),
        pytest.param("2G", 2 * 10**9, id="giga"),
        pytest.param("2T", 2 * 10**12, id="tera"),
        pytest.param("2P", 2 * 10**15, id="peta"),
        pytest.param("0.001E", 10**15, id="exa"),
        pytest.param("2Ki", 2 * 2**10, id="kibi"),
        pytest.param("2Mi", 2 * 2**20, id="mebi"),
        pytest.param("2Gi", 2 * 2**30, id="gibi"),
        pytest.param("2Ti", 2 * 2**40, id="tebi"),
        pytest.param("2Pi", 2 * 2**50, id="pebi"),
        pytest.param("0.0009765625Ei", 2**50, id="exbi"),
        pytest.param("3e2", 300, id="an exponent"),
        pytest.param("3E2", 300, id="an exponent in capitals is no exa"),
        pytest.param("3e+2", 300, id="an exponent with a sign"),
        pytest.param("300e-2", 3, id="a negative exponent"),
        pytest.param("1.5Gi", 3 * 2**29, id="a fraction of a unit"),
        pytest.param("5.", 5, id="nothing after the point"),
        pytest.param("2000m", 2, id="thousandths"),
        pytest.param("2000000u", 2, id="millionths"),
        pytest.param("2000000000n", 2, id="billionths"),
    ],
)
def test_whole_amounts(text: str, value: int) -> None:
    """An amount that is whole is the same as a demand and as a supply."""
    assert quantities.demand(text) == value
    assert quantities.supply(text) == value


@pytest.mark.parametrize(
    ("text", "demand", "supply"),
    [
        pytest.param("1.1", 2, 1, id="a fraction"),
        pytest.param("500m", 1, 0, id="half"),
        pytest.param("1n", 1, 0, id="next to nothing"),
        pytest.param(".5", 1, 0, id="nothing before the point"),
        pytest.param("1e-9", 1, 0, id="a negative exponent"),
        pytest.param("-1.5", 0, 0, id="less than nothing"),
        pytest.param("100P", facts.LARGEST, facts.LARGEST - 1, id="more than any node has"),
        pytest.param("9e99", facts.LARGEST, facts.LARGEST - 1, id="more than 64 bits"),
    ],
)
def test_rounding(text: str, demand: int, supply: int) -> None:
    """Demands are rounded up, supplies down, and both stay within what can be added up."""
    assert quantities.demand(text) == demand
    assert quantities.supply(text) == supply


@pytest.mark.parametrize(
    ("text", "demand", "supply"),
    [
        pytest.param("1", 1000, 1000, id="one cpu"),
        pytest.param("100m", 100, 100, id="a tenth of a cpu"),
        pytest.param("0.0015", 2, 1, id="finer than a thousandth"),
        pytest.param("1u", 1, 0, id="a millionth"),
    ],
)
def test_thousandths(text: str, demand: int, supply: int) -> None:
    """Cpu is counted in thousandths, rounded the same way."""
    assert quantities.demand(text, thousandths=True) == demand
    assert quantities.supply(text, thousandths=True) == supply


@pytest.mark.parametrize(
    ("value", "read"),
    [
        pytest.param(2, 2, id="a whole number"),
        pytest.param(0.5, 1, id="a fraction"),
        pytest.param(1e22, facts.LARGEST, id="a large number, which is printed with an exponent"),
        pytest.param(1e-7, 1, id="a small number, which is printed with an exponent"),
    ],
)
def test_numbers_of_json(value: float, read: int) -> None:
    """A manifest may say `cpu: 2` without quotes."""
    assert quantities.demand(str(value)) == read


GARBAGE = {
    "nothing at all": "",
    "a word": "half",
    "a unit alone": "Gi",
    "a sign alone": "-",
    "a point alone": ".",
    "a unit that is none": "1Q",
    "a unit in the wrong case": "1K",
    "two units": "1kM",
    "binary thousandths": "1mi",
    "an exponent without a number": "1e",
    "a unit after an exponent": "1e3k",
    "two points": "1.2.3",
    "two signs": "--1",
    "a space": "1 Gi",
    "a space around": " 1",
    "a line end": "1\n",
    "an underscore": "1_000",
    "a comma": "1,5",
    "hexadecimal": "0x10",
    "not a number": "nan",
    "without end": "inf",
    "other digits": "\N{ARABIC-INDIC DIGIT ONE}",
    "an absurd exponent": "1e999",
    "an endless number": "9" * 5000,
}


@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage(text: str) -> None:
    """What is no quantity is refused, and never taken for some number."""
    with pytest.raises(ValueError, match=r"not a quantity|Exceeds the limit"):
        quantities.exact(text)


@pod_requests.PROPERTY
@hypothesis.given(
    st.from_regex(quantities.PATTERN, fullmatch=True).filter(lambda text: len(text) <= quantities.MAX_LENGTH)
)
def test_whatever_is_a_quantity_is_within_bounds(text: str) -> None:
    """A quantity in any spelling is a number that can be reckoned with, demands never below supplies."""
    demand, supply = quantities.demand(text), quantities.supply(text)

    assert 0 <= supply <= demand <= facts.LARGEST


POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
UNITS = {unit: decimal.Decimal(10) ** power for unit, power in POWERS.items()} | {
    unit: decimal.Decimal(2) ** power for unit, power in BINARY.items()
}
EXPONENTS = {f"{mark}{power}": decimal.Decimal(10) ** power for mark in "eE" for power in (-12, -1, 0, 3, 20)}


@pod_requests.PROPERTY
@hypothesis.given(
    number=st.decimals(-1000, 10**9, places=3).map(lambda number: f"{number:f}"),
    unit=st.sampled_from([*UNITS, *EXPONENTS]),
    thousandths=st.booleans(),
)
def test_reference(number: str, unit: str, thousandths: bool) -> None:  # noqa: FBT001  drawn by hypothesis
    """Long arithmetic by hand comes to the same amounts."""
    exact = decimal.Decimal(number) * (UNITS | EXPONENTS)[unit] * (1000 if thousandths else 1)
    up, down = (
        max(0, int(exact.to_integral_value(way))) for way in (decimal.ROUND_CEILING, decimal.ROUND_FLOOR)
    )

    demand = quantities.demand(number + unit, thousandths=thousandths)
    supply = quantities.supply(number + unit, thousandths=thousandths)

    assert demand == min(up, facts.LARGEST)
    assert supply == min(down, facts.LARGEST - 1)


def test_unreadable_demand_fits_nowhere() -> None:
    """The largest demand is larger than the largest supply."""
    assert quantities.demand("9E") > quantities.supply("9E")
