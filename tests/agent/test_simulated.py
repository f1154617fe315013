"""The probe without hardware makes up cards as real machines have them, the same each time."""

import collections
import dataclasses
import json
import re
from pathlib import Path

import pytest

from berth_agent import probe, simulated
from berth_crds import catalog, schema_limits, vocabulary

A100 = "8xA100-SXM4-80GB"


def cards(shape: str, *, node: str = "n1") -> tuple[probe.Card, ...]:
    """Make the cards of a simulated machine."""
    return tuple(simulated.machine(node, shape).answering_cards())


# ---------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    ("shape", "models"),
    [
        pytest.param(A100, ["NVIDIA A100-SXM4-80GB"] * 8, id="as in the summary of a Device"),
        pytest.param("2xa100-sxm4-80gb", ["NVIDIA A100-SXM4-80GB"] * 2, id="case is ignored"),
        pytest.param("1xNVIDIA A100-SXM4-80GB", ["NVIDIA A100-SXM4-80GB"], id="as the driver says it"),
        pytest.param(" 1 x T4 + 2xL4 ", ["Tesla T4", "NVIDIA L4", "NVIDIA L4"], id="several models"),
    ],
)
def test_shape_names_cards(shape: str, models: list[str]) -> None:
    """A shape gives as many cards of each model as it says, in its order."""
    assert [card.model for card in cards(shape)] == models


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        pytest.param("8xA101", "'A101'.*known are .*A100-SXM4-80GB", id="unknown model"),
        pytest.param("A100-SXM4-80GB", "is not COUNTxMODEL", id="no count"),
        pytest.param("", "is not COUNTxMODEL", id="empty"),
        pytest.param("8xT4+", "is not COUNTxMODEL", id="trailing plus"),
        pytest.param("0xT4", "has 0 cards", id="no cards"),
        pytest.param("60xT4+5xL4", "has 65 cards", id="more than a Device may list"),
    ],
)
def test_bad_shape_is_told_in_a_sentence(shape: str, sentence: str) -> None:
    """A shape that cannot be made is refused in one line that says what would do."""
    with pytest.raises(simulated.BadShape, match=sentence) as refusal:
        simulated.machine("n1", shape)

    assert "\n" not in str(refusal.value)


# ---------------------------------------------------------------- machines


def test_machine_is_the_same_at_every_start() -> None:
    """Equal node and shape give equal cards, to which pods hold on; another node has other ones."""
    assert cards("1xT4")[0].uuid == "GPU-79848501-3ed9-57e3-88de-a27fef7e2ef0"
    assert not {card.uuid for card in cards(A100)} & {card.uuid for card in cards(A100, node="n2")}


@pytest.mark.parametrize("model", catalog.MODELS, ids=lambda model: model.normal_name)
def test_every_model_makes_a_valid_machine(model: catalog.Model) -> None:
    """Of every model in the catalogue, up to 64 cards have distinct identities and places."""
    for count in (1, 3, 8, 64):
        sample = simulated.machine("n1", f"{count}x{model.name}")
        found = tuple(sample.answering_cards())

        identities = [(card.uuid, card.minor, card.index, card.location.bus_id) for card in found]
        assert [len(set(column)) for column in zip(*identities, strict=True)] == [count] * 4
        assert {card.memory for card in found} == {model.memory}
        assert len(sample.partitions) <= schema_limits.MOST_PARTITIONS


@pytest.mark.parametrize("shape", ["4xA100-SXM4-80GB", "8xV100-SXM2-16GB", "8xL40S"])
def test_other_boards_have_no_partitions(shape: str) -> None:
    """Half a board, a cube mesh and cards without NVLink have no partitions."""
    assert simulated.machine("n1", shape).partitions == ()


def test_board_spreads_over_the_machine() -> None:
    """Eight A100 sit on two NUMA nodes and four PCIe roots, two cards under each."""
    places = [card.location for card in cards(A100)]

    assert [place.numa_node for place in places] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert set(collections.Counter(place.pcie_root for place in places).values()) == {2}


# ---------------------------------------------------------------- faults


def broken(tmp_path: Path, faults: object) -> probe.Outcome:
    """Sample a node of three cards with these faults in the file."""
    path = tmp_path / "faults.json"
    path.write_text(faults if isinstance(faults, str) else json.dumps(faults))
    return simulated.SimulatedProbe("n1", "3xT4", path).sample()


def test_faults_break_the_cards_that_they_name(tmp_path: Path) -> None:
    """A fault changes the health of its card, or has it be lost, and nothing else."""
    words = {"reason": "XidCritical", "message": "gone"}
    ill = {"health": "Unhealthy", "xid": 79, "recovery": "reset", **words}
    outcome = broken(tmp_path, {"n1": {"0": {"lost": True, **words}, "1": ill}, "n2": {"2": ill}})

    healthy = simulated.machine("n1", "3xT4")
    _, second, third = healthy.answering_cards()
    health = probe.DeviceHealth(
        vocabulary.Health.UNHEALTHY, "XidCritical", 79, "gone", vocabulary.Recovery.RESET
    )
    lost = probe.LostCard(0, "XidCritical", "gone", judged_by_source=True)
    assert outcome == dataclasses.replace(
        healthy, cards=(lost, dataclasses.replace(second, health=health), third)
    )


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        pytest.param("{", "JSON is malformed|truncated", id="not JSON"),
        pytest.param({"n1": {"0": {"health": "Poorly"}}}, "Invalid enum value 'Poorly'", id="unknown health"),
        pytest.param({"n1": {"0": {"xdi": 79}}}, "unknown field `xdi`", id="unknown field"),
        pytest.param({"n1": {"0": {"reason": "no words"}}}, "reason", id="reason the API would refuse"),
    ],
)
def test_garbage_is_a_failed_source(tmp_path: Path, faults: object, sentence: str) -> None:
    """A file of faults that cannot be used never counts as health: the source has failed, and says why."""
    outcome = broken(tmp_path, faults)

    assert isinstance(outcome, probe.SourceFailed)
    assert outcome.reason == "FaultsUnreadable"
    assert re.search(sentence, outcome.message)


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        pytest.param({"n1": {"7": {}, "0": {}}}, "names minor '7', which is not there", id="no such card"),
        pytest.param({"n2": {"0": {}}}, "names other nodes, such as 'n2'", id="no such node"),
        pytest.param(None, "is not there", id="no such file"),
    ],
)
def test_what_the_file_names_in_vain_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, faults: object, words: str
) -> None:
    """A slip of the pen in the file is one line of the log, and breaks no card that it does not name."""
    path = tmp_path / "faults.json"
    if faults:
        path.write_text(json.dumps(faults))
    look = simulated.SimulatedProbe("n1", "2xT4", path).sample

    found = [look() for _ in range(3)][-1]

    assert isinstance(found, probe.Sample)
    assert list(found.answering_cards())[1].health == probe.DeviceHealth()
    assert [one.getMessage() for one in caplog.records] == [f"node n1: the file of faults {path} {words}"]


def test_hang_lasts_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that hangs gives no sample before its file says otherwise."""
    path = tmp_path / "faults.json"
    path.write_text('{"n1": {"source": {"hang": true}}}')
    naps: list[int] = []

    def nap() -> None:
        naps.append(1)
        if len(naps) == 3:
            path.unlink()

    monkeypatch.setattr(simulated, "wait", nap)

    assert simulated.SimulatedProbe("n1", "1xT4", path).sample() == simulated.machine("n1", "1xT4")
    assert len(naps) == 3
