"""What tests of the agent lend to each other around the mock of NVML."""

import contextlib
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Final

import pynvml
import pytest

from berth_agent import sampler
from support.nvml import build, machine, presets

PATIENCE_SECONDS: Final = 10.0
REAL: Final = "BERTH_TEST_GPU"  # Set where the tests shall run on the cards of this machine.


def require() -> None:
    """Load the mock, or skip the test where that cannot be."""
    if os.environ.get(REAL):
        pytest.skip(f"{REAL} is set: the real library is loaded, and a process can have only one")
    if not build.compiler():
        pytest.skip("the mock of NVML is built with gcc, and there is none")
    build.load()


@contextlib.contextmanager
def running(
    folder: pathlib.Path, preset: presets.Preset, monkeypatch: pytest.MonkeyPatch
) -> Iterator[machine.Machine]:
    """Have the mock speak for a machine; whatever was left open is closed at the end."""
    require()
    made = machine.Machine.make(folder, preset)
    monkeypatch.setenv(machine.VARIABLE, str(made.state))
    try:
        yield made
    finally:
        made.release_all()
        _await_probes()
        with contextlib.suppress(pynvml.NVMLError_Uninitialized):
            while True:
                pynvml.nvmlShutdown()


def _await_probes() -> None:
    """Wait for looks that outlive their agent: one that goes on would open the library for the next test."""
    for thread in threading.enumerate():
        if thread.name == sampler.THREAD:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "a sampler was not closed"
