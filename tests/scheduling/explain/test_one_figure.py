"""An amount that a pod asks for is written the same wherever a sentence names it."""

from typing import Final

from berth_operator.scheduling.devices import requests
from scheduling.explain import scenes
from support import builders

MIB: Final = 1 << 20


def test_what_is_asked_for_is_one_figure() -> None:
    """It is rounded up both where it is lacking and where less is proposed."""
    said = scenes.said(
        builders.inventory(*builders.nodes(1, 2)), scenes.pod(requests.Gpus(1, 0, 1_000_000 * MIB))
    )

    assert "with at least 976.6 GiB" in said
    assert "it asked for 80 GiB instead of 976.6 GiB" in said
