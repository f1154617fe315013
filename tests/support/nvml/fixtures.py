"""What tests of the agent lend to each other around the mock of NVML."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Final

import pynvml
import pytest

from support.nvml import build, machine, presets

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
        with contextlib.suppress(pynvml.NVMLError_Uninitialized):
            while True:
                pynvml.nvmlShutdown()
