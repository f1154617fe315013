"""An amount that a pod asks for is written the same wherever a sentence names it."""

from typing import Final

from berth_operator.scheduling.devices import requests
from scheduling.explain import scenes

MIB: Final = 1 << 20


def test_what_is_asked_for_is_one_figure() -> None:
    """It is rounded up both where it is lacking and where less is proposed."""
    said = scenes.said(scenes.picture(*scenes.several(1)), scenes.pod(requests.Gpus(1, 0, 100_000 * MIB)))

    assert "with at least 97.7 GiB" in said
    assert "it asked for 8 GiB instead of 97.7 GiB" in said
