"""What an agent publishes of the load of its cards is what the operator reads."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_agent import card_loads, probe, simulated
from berth_crds import card_load
from berth_operator.translate import measured_load

PERCENT = st.none() | st.integers(0, 100)
MEASURED = st.builds(
    probe.Measurements,
    utilization=PERCENT,
    encoder_utilization=PERCENT,
    decoder_utilization=PERCENT,
    power=st.none() | st.integers(0, 2_000_000),
    power_limit=st.none() | st.integers(0, 1_000_000),
    memory_free=st.none() | st.integers(0, 2**40),
)


def sample(*measured: probe.Measurements) -> probe.Sample:
    """Return a sample of cards that measure this."""
    machine = simulated.machine("n1", f"{len(measured)}xT4")
    cards = zip(machine.answering_cards(), measured, strict=True)
    return dataclasses.replace(
        machine, cards=tuple(dataclasses.replace(card, measurements=one) for card, one in cards)
    )


@hypothesis.given(st.lists(MEASURED, min_size=1, max_size=8))
def test_what_an_agent_writes_the_operator_reads(measured: list[probe.Measurements]) -> None:
    """Of each card that measures anything, and nothing of the others."""
    found = measured_load.read(card_loads.annotation(sample(*measured)))

    assert not isinstance(found, str)
    for minor, one in enumerate(measured):
        load = found.get(minor, card_load.NOTHING)
        assert (load.utilization == card_load.UNKNOWN) is (one.utilization is None)
        assert (load.power == card_load.UNKNOWN) is (one.power is None or not one.power_limit)
        assert abs(load.encoder - (one.encoder_utilization or 0)) < card_load.PERCENT_STEP
        assert load.free_memory <= (one.memory_free or 0)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        pytest.param(probe.SourceFailed("Hung", "It hangs."), "", id="a source that failed"),
        pytest.param(sample(probe.Measurements()), "", id="a card that measures nothing"),
        pytest.param(
            dataclasses.replace(sample(probe.Measurements()), cards=(probe.LostCard(0, "Lost", "gone"),)),
            "",
            id="a card that did not answer",
        ),
        pytest.param(
            sample(
                probe.Measurements(
                    utilization=93, power=208_000, power_limit=250_000, memory_free=30 * 2**30 + 5
                )
            ),
            "v1 0:95,,,85,30720",
            id="a busy card",
        ),
    ],
)
def test_only_what_is_measured_is_written(outcome: probe.Outcome, text: str) -> None:
    """Rounded, and an annotation without figures is none at all."""
    assert card_loads.annotation(outcome) == text


@pytest.mark.parametrize(
    ("fault", "health", "text"),
    [
        pytest.param({"health": "Healthy"}, "Healthy", "v1 1:95,5,,60,1024", id="of a healthy card"),
        pytest.param({"reason": "Test"}, "Unhealthy", "v1 1:95,5,,60,1024", id="of a broken card"),
    ],
)
def test_a_simulated_card_measures_what_its_file_says(
    tmp_path: Path, fault: dict[str, Any], health: str, text: str
) -> None:
    """Whether it is well or not."""
    load = {"utilization": 95, "encoder": 5, "power": 60, "freeMemoryMiB": 1024}
    (faults := tmp_path / "faults.json").write_text(json.dumps({"n1": {"1": fault | {"load": load}}}))

    outcome = simulated.SimulatedProbe("n1", "2xT4", faults).sample()

    assert isinstance(outcome, probe.Sample)
    assert [card.health.state for card in outcome.answering_cards() if card.health] == ["Healthy", health]
    assert card_loads.annotation(outcome) == text
