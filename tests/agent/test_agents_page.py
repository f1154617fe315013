"""The page for those who keep the agents running says what is so."""

import dataclasses
import re
from pathlib import Path
from typing import Final

import pytest

from berth_agent import (
    card_modes,
    config_file,
    device_entries,
    device_totals,
    flag_table,
    found_labels,
    metrics,
    node_view,
    probe,
    rdma,
    settings,
    simulated,
)
from berth_agent.health import health_rules, problems, xid_table
from berth_crds import names, vocabulary, wire

MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"
PAGE: Final = (MANIFESTS / "agents.md").read_text()


def test_its_flags_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Each flag that it names is one of the agent's."""
    with pytest.raises(SystemExit):
        settings.parse(["--help"], {}, host="here")
    text = capsys.readouterr().out
    named = set(re.findall(r"`(--[a-z-]+)[ `]", PAGE))

    assert named
    assert [flag for flag in named if flag not in text] == []


def test_nvidias_variables_are_those_that_are_read() -> None:
    """The page for those who come from NVIDIA's plugin names each variable of it that the agent reads."""
    page = (MANIFESTS / "migrating.md").read_text()
    bullet = page[page.index("It takes these options of NVIDIA's plugin") :].partition("\n\n")[0]
    read = {name for variables in flag_table.FOREIGN_VARIABLES.values() for name in variables}

    assert set(re.findall(r"`([A-Z_]+)`", bullet)) == read


def test_its_configuration_file_is_read_whole() -> None:
    """Each key of the example is one that the agent has a use for."""
    (example,) = re.findall(r"```yaml\n(version: v1\n.*?)```", PAGE, re.DOTALL)
    config = config_file.parse(example, "the page")

    assert config.unused == ()
    found = settings.parse([], {}, host="here", config=config).modes
    assert found == card_modes.CardModes(
        wire.Sharing("time-slicing", 4), renamed=False, mig_strategy="single"
    )


def test_its_metrics_are_those_that_are_served() -> None:
    """It names every metric, and none that there is not."""
    made = node_view.NodeView("n1")
    made.record_sample(simulated.machine("n1", "1xT4"), 0.0)
    made.record_tick(seconds=0.1, now=0.0)
    text = metrics.text(metrics.Collector([made], clock=lambda: 0.0)).decode()
    families = {match[1]: match[2] for match in re.finditer(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)}

    assert set(re.findall(r"`(berth_(?:dev|agent)_\w*[a-z])`", PAGE)) == families.keys()


def test_its_reasons_are_those_of_the_code() -> None:
    """Each reason that it names is one that a verdict may have, with that recovery."""
    vitals = (
        probe.Measurements(recovery=vocabulary.Recovery.RESET),
        probe.Measurements(remapped_rows=probe.RemappedRows(0, 0, pending=True, failed=True)),
        probe.Measurements(errors_uncorrected=1),
        probe.Measurements(temperature=99, slowdown_temperature=95),
    )
    card = next(simulated.machine("n1", "1xT4").answering_cards())
    before = probe.Measurements(errors_uncorrected=0)
    told = [
        sign
        for each in vitals
        for sign in problems.of_card(dataclasses.replace(card, measurements=each), before)
    ]
    told += problems.of_xids([48, 79], health_rules.DEFAULT)
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]

    assert len({sign.reason for sign in told}) == 6
    for sign in told:
        assert any(f"`{sign.reason}`" in row for row in rows), sign.reason


def test_its_errors_mean_what_the_table_says() -> None:
    """The numbers that it gives as examples are of the consequence that it tells."""
    needing = re.search(r"needs a reset, such as ([\d, ]+)", PAGE)
    harmless = re.search(r"of a program \(XIDs ([\d, ]+)", PAGE)

    assert needing and harmless
    assert {xid_table.meaning(int(each)).consequence for each in needing[1].split(",")} == {
        xid_table.Consequence.RESET
    }
    assert {xid_table.meaning(int(each)).consequence for each in harmless[1].split(",")} == {
        xid_table.Consequence.PROGRAM
    }


def test_its_figures_are_the_defaults() -> None:
    """The seconds and looks of the way back are what holds where nobody says otherwise."""
    plain, policy = health_rules.DEFAULT, wire.HealthRules()

    assert f"for {plain.cool_down:g} s and {plain.clean_probes} looks in a row" in PAGE
    assert (policy.cool_down_seconds, policy.clean_probes) == (plain.cool_down, plain.clean_probes)
    assert f"{names.REPAIRED}=" in PAGE


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_its_files_of_devices_are_read() -> None:
    """Each example is a file that the agent can use."""
    devices, labels = (device_entries.decode(block.encode()) for block in _blocks("json"))

    assert len(devices.devices) == 1 and len(labels.labels) == 5


def test_its_table_of_labels_is_what_the_agent_writes() -> None:
    """Each label of its own, and no other; the limits of those that people give as well."""
    section = PAGE[PAGE.index("## Labels of devices") :].partition("\n## ")[0]
    named = re.findall(r"^\| [^|]+ \| `(\w+)` \|", section, re.MULTILINE)
    written = {found_labels.PRODUCT, found_labels.FAMILY, found_labels.CAPABILITY, found_labels.DRIVER}

    assert {*named} == written | {rdma.LINK_LAYER, rdma.SPEED}
    assert f"is given {device_totals.MOST_GIVEN} labels by files at most" in section
    assert f"of {device_totals.MOST_GIVEN_CHARACTERS} characters together" in section
