"""The policies that the pages show mean what the text around them says."""

from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from berth_crds import wire
from berth_operator.scheduling.policy import Oversale, Policy
from berth_operator.translate import policies

PAGE: Final = Path(__file__).parents[2] / "manifests" / "operating.md"
SHOWN: Final = {
    "all that may follow from silent agents, sick and cordoned cards": (
        "evictAfter",
        Policy(taint_silent=True, evict_after_seconds=900.0, evict_sick=True, drain_cordoned=True),
    ),
    "models have further names": (
        "v-hundred",
        Policy(models=(("v-hundred", "NVIDIA A100-SXM4-80GB"), ("vortex", "Tesla T4"))),
    ),
    "core is oversold to batch pods": ("oversale", Policy(oversale=Oversale(150, frozenset({"batch"})))),
    "a second scheduler is believed": (
        "podRecordsFrom",
        Policy(pod_records_from=frozenset({"koord-scheduler", "my-koord-scheduler"})),
    ),
}


@pytest.mark.parametrize(("word", "expected"), SHOWN.values(), ids=SHOWN.keys())
def test_a_policy_that_the_page_shows_is_one(word: str, expected: Policy) -> None:
    """Nothing in it is misspelt, and all that is left out has its default."""
    blocks = [block.split("```")[0] for block in PAGE.read_text().split("```yaml\n")[1:]]
    (text,) = (block for block in blocks if word in block)

    body = {"metadata": {"name": "default"}, "spec": yaml.safe_load(text)["spec"]}

    assert policies.read(msgspec.convert(body, wire.PlacementPolicy)) == expected
