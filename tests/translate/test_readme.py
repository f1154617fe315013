"""What the README says can be asked is understood as it stands there, and its sentences are Berth's."""

import re
from pathlib import Path
from typing import Final

import pytest

from berth_crds import names
from berth_operator.scheduling import policy, policy_rules
from berth_operator.scheduling.devices.requests import Gpus, OtherDevices
from berth_operator.translate import pods
from translate import pod_requests

README: Final = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def row(title: str) -> str:
    """Return how the table says that something is asked."""
    found = re.search(rf"^\| {title} \| (.*) \|$", README, re.MULTILINE)
    assert found is not None
    return found[1]


def test_shares_of_several_cards() -> None:
    """The amounts in the row, all together, give the share of each card that it tells of."""
    shown = row("equal shares of several cards")
    written = dict(re.findall(r"`(berth\.dev/\S+): (\d+)`", shown))

    request = pod_requests.request(pod_requests.asking(written))

    assert written.keys() == {names.GPU_CORE, names.GPU_MEMORY_RATIO, names.GPU_SHARED}
    assert [one.asks for one in request.containers] == [(Gpus(2, core=30, ratio=30),)]
    assert "30 % of each of two cards" in shown


@pytest.mark.parametrize(("amount", "count", "share"), [(100, 1, 100), (200, 2, 100), (30, 1, 30)])
def test_nics(amount: int, count: int, share: int) -> None:
    """The row says in which unit a NIC is asked for: in percent, of which a hundred are one."""
    (container,) = pod_requests.request(pod_requests.asking({names.RDMA: amount})).containers

    meant = "`berth.dev/rdma: 100` is one NIC, `200` are two, and less than `100` is that many percent"
    assert meant in row("NICs and FPGAs")
    assert container.asks == (OtherDevices("rdma", count, share),)


def test_the_sentence_on_a_misspelt_resource() -> None:
    """What a user is told there is what the operator says."""
    (sentence,) = pod_requests.sentences(pod_requests.asking({"berth.dev/gpus": 1}))

    assert f"`{sentence}`" in README


def test_the_sentence_on_a_few_bytes() -> None:
    """It names the field of the policy by which it can be changed, too."""
    pod_info = pods.pod_info(pod_requests.asking({names.GPU_MEMORY: 8}))

    (fault,) = policy_rules.apply(policy.Policy(), pod_info).faults

    assert f"`{fault.detail.split('? ')[0]}?`" in README
    assert "`spec.sharing.minMemoryMiB`" in README
