"""Quantities are read exactly, and rounded so that nothing is promised that is not there."""

import decimal

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling.nodes import facts
from berth_operator.translate import quantities
from translate import pod_requests

decimal.getcontext().prec = 400


# A text, and what it is as a demand and as a supply.
READ: dict[str, tuple[str, int, int]] = {
    "nothing": ("0", 0, 0),
    "a plain number": ("7", 7, 7),
    "a plus sign": ("+7", 7, 7),
    "leading zeros": ("007", 7, 7),
    "kilo": ("2k", 2_000, 2_000),
    "mega": ("2M", 2_000_000, 2_000_000),
    "giga": ("2G", 2 * 10**9, 2 * 10**9),
    "tera": ("2T", 2 * 10**12, 2 * 10**12),
    "peta": ("2P", 2 * 10**15, 2 * 10**15),
    "exa": ("0.001E", 10**15, 10**15),
    "kibi": ("2Ki", 2 * 2**10, 2 * 2**10),
    "mebi": ("2Mi", 2 * 2**20, 2 * 2**20),
    "gibi": ("2Gi", 2 * 2**30, 2 * 2**30),
    "tebi": ("2Ti", 2 * 2**40, 2 * 2**40),
    "pebi": ("2Pi", 2 * 2**50, 2 * 2**50),
    "exbi": ("0.0009765625Ei", 2**50, 2**50),
    "an exponent": ("3e2", 300, 300),
    "an exponent in capitals is no exa": ("3E2", 300, 300),
    "an exponent with a sign": ("3e+2", 300, 300),
    "a negative exponent": ("300e-2", 3, 3),
    "a fraction of a unit": ("1.5Gi", 3 * 2**29, 3 * 2**29),
    "nothing after the point": ("5.", 5, 5),
    "thousandths": ("2000m", 2, 2),
    "millionths": ("2000000u", 2, 2),
    "billionths": ("2000000000n", 2, 2),
    "a fraction": ("1.1", 2, 1),
    "half": ("500m", 1, 0),
    "next to nothing": ("1n", 1, 0),
    "nothing before the point": (".5", 1, 0),
    "a small number of JSON, which is printed with an exponent": ("1e-07", 1, 0),
    "less than nothing": ("-1.5", 0, 0),
    "more than any node has": ("100P", facts.LARGEST, facts.LARGEST - 1),
    "more than 64 bits": ("9e99", facts.LARGEST, facts.LARGEST - 1),
    "a large number of JSON, which is printed with an exponent": ("1e+22", facts.LARGEST, facts.LARGEST - 1),
}
THOUSANDTHS: dict[str, tuple[str, int, int]] = {
    "one cpu": ("1", 1000, 1000),
    "a tenth of a cpu": ("100m", 100, 100),
    "finer than a thousandth": ("0.0015", 2, 1),
    "a millionth": ("1u", 1, 0),
}
CASES = {name: (False, *row) for name, row in READ.items()} | {
    name: (True, *row) for name, row in THOUSANDTHS.items()
}


@pytest.mark.parametrize(("thousandths", "text", "demand", "supply"), CASES.values(), ids=CASES.keys())
def test_amounts(thousandths: bool, text: str, demand: int, supply: int) -> None:  # noqa: FBT001  a column
    """Demands are rounded up, supplies down, within what can be added up; cpu counts in thousandths."""
    assert quantities.demand(text, thousandths=thousandths) == demand
    assert quantities.supply(text, thousandths=thousandths) == supply


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


@pytest.mark.parametrize(
    ("most", "found", "read"),
    [
        pytest.param(9, 6, 3, id="all of them"),
        pytest.param(6, 6, 3, id="just as much"),
        pytest.param(2, 2, 2, id="more than that"),
    ],
)
def test_no_more_is_read_than_is_added_up(most: int, found: int, read: int) -> None:
    """There may be tens of thousands, while other pods wait."""
    amounts = iter([1, 2, 3])

    assert quantities.sum_up_to(most, amounts) == found
    assert len(list(amounts)) == 3 - read
