"""What the README's table says can be asked is understood as it stands there."""

import re
from pathlib import Path
from typing import Final

from berth_crds import names
from berth_operator.scheduling.devices.requests import Gpus, OtherDevices
from translate import pod_requests

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

    request = pod_requests.request(pod_requests.asking(written))

    assert written.keys() == {names.GPU_CORE, names.GPU_MEMORY_RATIO, names.GPU_SHARED}
    assert [one.asks for one in request.containers] == [(Gpus(2, core=30, ratio=30),)]
    assert "30 % of each of two cards" in said


def test_nics() -> None:
    """The row says in which unit a NIC is asked for: in percent, of which a hundred are one."""
    said = row("NICs and FPGAs")
    meant = {
        100: OtherDevices("rdma", 1, 100),
        200: OtherDevices("rdma", 2, 100),
        30: OtherDevices("rdma", 1, 30),
    }

    asked = {amount: pod_requests.request(pod_requests.asking({names.RDMA: amount})) for amount in meant}

    assert "`berth.dev/rdma: 100` is one NIC, `200` are two, and less than `100` is that many percent" in said
    assert {amount: request.containers[0].asks for amount, request in asked.items()} == {
        amount: (parts,) for amount, parts in meant.items()
    }
