"""What the README's table says can be asked is understood as it stands there."""

import re
from pathlib import Path
from typing import Final

from berth_crds import names
from berth_operator.scheduling.devices.requests import Gpus
from translate import manifests

README: Final = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def row(title: str) -> str:
    """Return how the table says that something is asked."""
    found = re.search(rf"^\| {title} \| (.*) \|$", README, re.MULTILINE)
    assert found is not None
    return found[1]


def test_shares_of_several_cards() -> None:
    """The amounts in the row, all together, give the share of each card that it tells of."""
    said = row("equal shares of several cards")
    written = dict(re.findall(r"`(berth\.dev/\S+): (\d+)`", said))

    request = manifests.asked(manifests.one(written))

    assert written.keys() == {names.GPU_CORE, names.GPU_MEMORY_RATIO, names.GPU_SHARED}
    assert [one.asks for one in request.containers] == [(Gpus(2, core=30, ratio=30),)]
    assert "30 % of each of two cards" in said
