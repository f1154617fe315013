"""`make demo`, as whoever tries Berth first sees it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.thorough]

ROOT: Final = Path(__file__).resolve().parents[2]
# What each part of the story shows, in its order.
SHOWN: Final = (
    "The whole story takes about half a minute",
    "A100-SXM4-80GB x8",
    "berth.dev/gpu: 150",
    "A card fails",
    "Nobody restarted anything.",
    "An agent dies",
    "The agent comes back",
    "everything is stopped and removed",
)


def test_the_demo_tells_its_story_and_ends() -> None:
    """Part by part, without anything gone wrong."""
    environment = {**os.environ, "PYTHONPATH": "tests"}
    command = [sys.executable, "-m", "e2e.demo"]
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert told.returncode == 0, told.stdout + told.stderr
    places = [told.stdout.find(text) for text in SHOWN]
    assert -1 not in places, told.stdout
    assert places == sorted(places)
