"""What is read of an answer of Prometheus: samples by card, whatever else stands in it."""

import json
import math
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.engine import sampled_loads
from berth_operator.engine.sampled_loads import Metric, Sample
from berth_operator.prometheus import answers, faults

NOW: Final = 500.0
CARD: Final = "GPU-1"
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def series(mark: str, value: object, **labels: Any) -> dict[str, Any]:
    """Return a series of an answer, as of 1000 by the clock of Prometheus."""
    return {"metric": {"UUID": CARD, "berth": mark} | labels, "value": [1000.0, value]}


def body(*result: Any) -> bytes:
    """Return an answer that has these series."""
    data = {"resultType": "vector", "result": list(result)}
    return json.dumps({"status": "success", "data": data}).encode()


GOOD: Final = (series("value", "95"), series("time", "990"))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(GOOD, {CARD: Sample(95.0, NOW - 10)}, id="a value and its time"),
        pytest.param(GOOD[::-1], {CARD: Sample(95.0, NOW - 10)}, id="in the other order"),
        pytest.param((series("value", "9.5e+01"), GOOD[1]), {CARD: Sample(95.0, NOW - 10)}, id="an exponent"),
        pytest.param((GOOD[0], series("time", "1.0005e3")), {CARD: Sample(95.0, NOW)}, id="a bit ahead"),
        pytest.param((GOOD[0], series("time", "1100")), {}, id="measured in the future"),
        pytest.param(GOOD[:1], {}, id="a value without a time"),
        pytest.param(GOOD[1:], {}, id="a time without a value"),
        pytest.param((GOOD[0], series("time", "990", instance="b")), {}, id="of two exporters"),
        pytest.param((series("value", "NaN"), GOOD[1]), {}, id="no number"),
        pytest.param((series("value", "+Inf"), GOOD[1]), {}, id="no end"),
        pytest.param((series("value", "many"), GOOD[1]), {}, id="a word"),
        pytest.param((series("value", 95), GOOD[1]), {}, id="a number that is no text"),
        pytest.param((series("other", "95"), GOOD[1]), {}, id="another mark"),
        pytest.param(({"metric": {"berth": "value"}, "value": [1000, "95"]},), {}, id="no uuid"),
        pytest.param([series(mark, "9", UUID="x" * 65) for mark in ("value", "time")], {}, id="a long uuid"),
    ],
)
async def test_samples_are_read_by_card(result: Any, expected: dict[str, Sample]) -> None:
    """Each with its time by our own clock; without a time that makes sense it is none."""
    assert await answers.read(body(*result), NOW) == expected


@hypothesis.given(result=st.lists(JSON, max_size=5))
async def test_a_series_that_is_odd_costs_no_other(result: list[Any]) -> None:
    """Whatever it is."""
    found = await answers.read(body(*result, *GOOD), NOW)

    assert found == {CARD: Sample(95.0, NOW - 10)}


@hypothesis.given(answer=st.binary(max_size=64) | JSON.map(lambda thing: json.dumps(thing).encode()))
async def test_any_other_answer_is_a_fault(answer: bytes) -> None:
    """And nothing else, with one printable line on it."""
    with pytest.raises(faults.Fault) as fault:
        await answers.read(answer, NOW)
    assert str(fault.value).isprintable()


async def test_an_answer_that_is_nested_without_end_is_a_fault() -> None:
    """It does not end the leader."""
    with pytest.raises(faults.Fault):
        await answers.read(b'{"status":' + b"[" * 100_000, NOW)


async def test_a_list_of_millions_of_short_things_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take a hundred times its size in memory, at once; as many true series are read."""
    monkeypatch.setattr(answers, "MOST_SERIES", 20)
    true = [series(mark, "990", UUID=f"GPU-{at}") for mark in ("value", "time") for at in range(10)]

    assert len(await answers.read(body(*true), NOW)) == 10
    with pytest.raises(faults.Fault, match="more than 20 series"):
        await answers.read(body(*range(200)), NOW)


async def test_many_series_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is lost between two of them."""
    monkeypatch.setattr(answers, "AT_ONCE", 3)
    result = [series(mark, "990", UUID=f"GPU-{at}") for mark in ("value", "time") for at in range(10)]

    found = await answers.read(body(*result), NOW)

    assert found == {f"GPU-{at}": Sample(990.0, NOW - 10) for at in range(10)}


# ---------------------------------------------------------------- what figures mean


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        pytest.param({}, (-1, -1, -1, -1, -1), id="nothing measured"),
        pytest.param({Metric.UTILIZATION: 97.6}, (100, -1, -1, -1, -1), id="rounded as agents do"),
        pytest.param({Metric.UTILIZATION: 101.0}, (-1,) * 5, id="more than all of the time"),
        pytest.param({Metric.ENCODER: -1.0, Metric.DECODER: 0.0}, (-1, -1, 0, -1, -1), id="less than none"),
        pytest.param({Metric.DECODER: 9223372036854775792.0}, (-1,) * 5, id="how DCGM writes what it lacks"),
        pytest.param({Metric.FREE_MEMORY: 9223372036854775792.0}, (-1,) * 5, id="and so for memory"),
        pytest.param({Metric.POWER: 300.0}, (-1,) * 5, id="power without a limit"),
        pytest.param({Metric.POWER: 300.0, Metric.POWER_LIMIT: 0.0}, (-1,) * 5, id="a limit of nothing"),
        pytest.param(
            {Metric.POWER: 450.0, Metric.POWER_LIMIT: 400.0}, (-1, -1, -1, 100, -1), id="above the limit"
        ),
        pytest.param({Metric.FREE_MEMORY: 127.9}, (-1, -1, -1, -1, 64 << 20), id="memory, rounded down"),
    ],
)
def test_figures_that_cannot_be_meant_are_unknown(
    figures: sampled_loads.Figures, expected: tuple[int, ...]
) -> None:
    """What is unknown is judged by the promises, and never taken for idle or full."""
    assert tuple(sampled_loads.load(figures)) == expected


@hypothesis.given(figures=st.dictionaries(st.sampled_from(Metric), st.floats(), max_size=6))
def test_any_figures_have_a_load(figures: dict[Metric, float]) -> None:
    """Percents up to 100, and memory that a table can hold."""
    *percents, free = sampled_loads.load(figures)

    assert all(-1 <= percent <= 100 for percent in percents)
    assert -1 <= free < 2**63
    assert math.isfinite(free)
