"""Nodes that every probe can be tried on: the same cards simulated, under the mock of NVML, or real.

A rig is one node, the probe that looks at it, and a hand that breaks it. The suite that all
probes must pass speaks to rigs only, so that it cannot know which probe it has before it.
"""

import datetime as dt
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import pytest

from berth_agent import (
    device_spec,
    device_status,
    extra_devices,
    health_monitor,
    probe,
    simulated,
    sysfs,
)
from berth_agent.health import health_rules
from berth_agent.nvml import nvml_probe
from berth_crds import device, wire
from berth_crds import device_status as status_schema
from support.nvml import fixtures, machine, presets

NODE: Final = "n1"
NOON: Final = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class Rig(Protocol):
    """One node and what may happen to it; cards are named by their index."""

    preset: presets.Preset | None

    def start(self) -> probe.Probe:
        """Return the probe of an agent that has just been started."""

    def lose(self, index: int) -> None:
        """Let a card stop to answer."""

    def find(self, index: int) -> None:
        """Let it answer again."""

    def fail(self) -> None:
        """Let the source as a whole say nothing."""

    def hang(self) -> None:
        """Let the source hang."""

    def mend(self) -> None:
        """End what `fail` or `hang` began."""


class Simulated:
    """A node without hardware."""

    def __init__(self, preset: presets.Preset, folder: Path) -> None:
        self.preset: presets.Preset | None = preset
        self._faults: dict[str, Any] = {}
        self._path = folder / "faults.json"

    def start(self) -> probe.Probe:
        """Make the cards up."""
        assert self.preset
        return simulated.SimulatedProbe(NODE, self.preset.shape, self._path)

    def lose(self, index: int) -> None:
        """Write the card into the file of faults; minors are indices here."""
        self._write({**self._faults, str(index): {"lost": True, "reason": "GpuIsLost"}})

    def find(self, index: int) -> None:
        """Remove the card from the file of faults."""
        self._write({key: fault for key, fault in self._faults.items() if key != str(index)})

    def fail(self) -> None:
        """Write a failed source into the file of faults."""
        self._write({**self._faults, "source": {"reason": "DriverNotLoaded", "message": "No driver."}})

    def hang(self) -> None:
        """Write a hung source into the file of faults."""
        self._write({**self._faults, "source": {"hang": True}})

    def mend(self) -> None:
        """Remove the source from the file of faults."""
        self._write({key: fault for key, fault in self._faults.items() if key != "source"})

    def _write(self, faults: dict[str, Any]) -> None:
        self._faults = faults
        half = self._path.with_suffix(".half")
        half.write_text(json.dumps({NODE: faults}))
        half.rename(self._path)


class Mocked:
    """A node whose cards are read through NVML, of which the library is the mock."""

    def __init__(self, preset: presets.Preset, made: machine.Machine) -> None:
        self.preset: presets.Preset | None = preset
        self.machine = made

    @functools.cached_property
    def source(self) -> nvml_probe.NvmlProbe:
        """The probe of an agent that is started when it is first used."""
        return self.start()

    def start(self, *readers: extra_devices.Reader) -> nvml_probe.NvmlProbe:
        """Return the probe of an agent that has just been started, with readers of extra devices."""
        kernel = sysfs.Kernel(self.machine.sys, self.machine.proc)
        return nvml_probe.NvmlProbe(kernel, extra_devices.ExtraDevices(readers).complete)

    def look(self) -> probe.Sample:
        """Sample once, on a node that answers."""
        return look(self.source)

    def spec(self, known: wire.DeviceSpec | None = None) -> wire.DeviceSpec:
        """Return the Device that follows from one sample."""
        return spec(self.source, known)

    def lose(self, index: int) -> None:
        """Let a card fall off the bus."""
        self.machine.lose(index)

    def find(self, index: int) -> None:
        """Let it answer again."""
        self.machine.find(index)

    def fail(self) -> None:
        """Unload the driver."""
        self.machine.unload()

    def hang(self) -> None:
        """Let the first call of a look hang."""
        self.machine.hang("nvmlSystemGetDriverVersion")

    def mend(self) -> None:
        """Load the driver, and let calls go on."""
        self.machine.release("nvmlSystemGetDriverVersion")
        self.machine.load()


class Real:
    """The cards of this machine, which no test breaks."""

    preset: presets.Preset | None = None

    def start(self) -> probe.Probe:
        """Look through the NVML of this machine."""
        return nvml_probe.NvmlProbe(sysfs.Kernel())

    def lose(self, index: int) -> None:
        """Skip the test."""
        pytest.skip(f"card {index} is a real one, and is not broken")

    find = lose

    def fail(self) -> None:
        """Skip the test."""
        pytest.skip("the driver is a real one, and is not broken")

    hang = mend = fail


class Place(Protocol):
    """Makes nodes under the mock of NVML, with changes to the usual machine."""

    def __call__(self, preset: presets.Preset, changes: Mapping[str, object] | None = None) -> Mocked:
        """Make a node."""


def look(looking: probe.Probe) -> probe.Sample:
    """Look once at a node that answers."""
    outcome = looking.sample()
    assert isinstance(outcome, probe.Sample), outcome
    return outcome


def spec(looking: probe.Probe, known: wire.DeviceSpec | None = None) -> wire.DeviceSpec:
    """Return the Device that follows from one sample of a node that answers; the schema accepts it."""
    found = device_spec.spec(NODE, look(looking), known)
    device.DeviceSpec.model_validate_json(msgspec.json.encode(found))
    return found


def first(looking: probe.Probe) -> probe.Card:
    """Return the first card of a node that answers."""
    return next(look(looking).answering_cards())


def failed(looking: probe.Probe) -> probe.SourceFailed:
    """Look once at a node whose source fails."""
    outcome = looking.sample()
    assert isinstance(outcome, probe.SourceFailed), outcome
    return outcome


# Rules under which a card that answers is well at once: for tests of everything but the way back.
AT_ONCE: Final = health_rules.HealthRules(cool_down=0, clean_probes=1)


def status(
    outcome: probe.Outcome,
    said: wire.DeviceSpec,
    before: wire.DeviceStatus | None = None,
    *,
    now: dt.datetime = NOON,
    **beside: Any,
) -> wire.DeviceStatus:
    """Return how the cards of `said` fare, judged by this one look; the schema accepts it.

    `beside` are the unauthorized processes (`occupants`) and the condition of the kubelet.
    """
    so_far = before or wire.DeviceStatus()
    verdicts = health_monitor.HealthMonitor(AT_ONCE).judge(outcome, said, said, so_far, now=0.0)
    found = device_status.status(outcome, verdicts, so_far, now=now, **beside)
    status_schema.DeviceStatus.model_validate_json(msgspec.json.encode(found))
    return found


Maker = Callable[[Path, pytest.MonkeyPatch], Iterator[Rig]]


def makers() -> Iterator[tuple[str, Maker]]:
    """Name every node that there is to try, and how to make it."""
    for preset in presets.PRESETS:
        if preset.shape:
            if "mig.0" not in " ".join(preset.state):
                yield f"simulated {preset.name}", _simulated(preset)
            yield f"nvml {preset.name}", mocked(preset)
    if os.environ.get(fixtures.REAL):
        yield "real", lambda _folder, _monkeypatch: iter([Real()])


def _simulated(preset: presets.Preset) -> Maker:
    return lambda folder, _: iter([Simulated(preset, folder)])


def mocked(preset: presets.Preset) -> Callable[[Path, pytest.MonkeyPatch], Iterator[Mocked]]:
    """Make a preset under the mock of NVML."""

    def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mocked]:
        with fixtures.running(folder / "node", preset, monkeypatch) as made:
            yield Mocked(preset, made)

    return make
