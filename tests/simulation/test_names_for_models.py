"""The policy's names of models that the page shows, in each key by which pods ask for models."""

from typing import Final

import pytest
import yaml

from berth_crds import names
from simulation import simulator

PAGE: Final = (simulator.ROOT / "manifests" / "operating.md").read_text()
(SHOWN,) = (
    block.split("```")[0] for block in PAGE.split("```yaml\n")[1:] if "v-hundred" in block.split("```")[0]
)
ASKED: Final = {
    "our model": ("annotations", names.MODEL, "a100"),
    "our pattern": ("annotations", names.MODEL_PATTERN, "a100"),
    "our model to avoid": ("annotations", names.AVOID_MODEL, "t4"),
    "our pattern to avoid": ("annotations", names.AVOID_MODEL_PATTERN, "t4"),
    "Genius' label": ("labels", "genius/gpu-model", "a100"),
    "caden2016's annotation": ("annotations", "nvidia-gpu-scheduler/gpu.model", "a100"),
    "HAMi's annotation": ("annotations", "nvidia.com/use-gputype", "a100"),
    "HAMi's annotation to avoid": ("annotations", "nvidia.com/nouse-gputype", "t4"),
}
NAMED: Final = {"a100": "v-hundred", "t4": "vortex"}


@pytest.mark.parametrize(("where", "key", "model"), ASKED.values(), ids=ASKED.keys())
def test_each_key_takes_the_names_of_the_policy(where: str, key: str, model: str) -> None:
    """Only with the policy; without it no driver reports such a name."""
    small, large = simulator.both("n1", "1xT4"), simulator.both("n2", "1xA100-SXM4-80GB")
    pod = simulator.pod("p", meta={where: {key: NAMED[model]}})

    (named,) = simulator.place(*small, *large, yaml.safe_load(SHOWN), pod)
    (unknown,) = simulator.place(*small, *large, pod)

    assert named["node"] == "n2"
    assert unknown["node"] == (None if model == "a100" else "n1")
