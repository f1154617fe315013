"""A pod that cannot be read any more is drift and no ghost: no audit gives its cards away (I1, I9)."""

from collections.abc import Iterable
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import api
from berth_operator.kube import auditor
from berth_operator.scheduling import decisions, holds
from berth_operator.scheduling.decisions import Reason
from kube import following
from kube.following import NODE
from support import builders, ledgers, manifests, stub

RIVAL = following.pod("rival", "u-2")
META: dict[str, Any] = {"namespace": "ml", "name": "holder", "uid": "u-1", "resourceVersion": "6"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare a second time at once."""
    monkeypatch.setattr(auditor, "SECOND_COMPARISON_SECONDS", 0.0)


class Follower(following.Follower):
    """A ledger that decides before and after an audit mends it."""

    def __init__(self, session: api.Api) -> None:
        super().__init__(session)
        self.decisions: list[decisions.Decision] = []

    async def resync(self, ghosts: Iterable[str]) -> None:
        """Decide, mend, and decide again."""
        self.decisions += ledgers.decide(self.ledger)
        await super().resync(ghosts)
        self.decisions += ledgers.decide(self.ledger)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"spec": {"nodeName": NODE, "priority": "high"}}, id="its request"),
        pytest.param({"spec": {"nodeName": 7}}, id="its node"),
        pytest.param({"spec": {"nodeName": 7}, "metadata": META | {"uid": 7}}, id="its uid"),
        pytest.param({"metadata": 7}, id="its name"),
    ],
)
async def test_a_pod_that_cannot_be_read_any_more_keeps_its_card(
    changes: dict[str, Any], server: stub.Stub, stub_session: api.Api
) -> None:
    """Neither while the audit mends nor afterwards is the card given to anybody else; its end frees it."""
    cluster, follower = following.Cluster(server), Follower(stub_session)
    cluster.pods[:] = [following.holder("5"), RIVAL]

    async with follower.following():
        follower.watchdog.lease_seen(NODE, "later")
        cluster.pods[:] = [following.holder("6", **changes), RIVAL]
        found = await follower.auditor.audit()
        cluster.pods[:] = [RIVAL]
        await follower.feeds.resync()

    assert found != ()
    waits = [decision for decision in follower.decisions if isinstance(decision, decisions.Wait)]
    assert len(waits) == len(follower.decisions) == 2
    assert {count.reason for wait in waits for count in wait.counts} <= {Reason.FULL, Reason.WITHHELD}
    assert [type(decision) for decision in ledgers.decide(follower.ledger)] == [decisions.Bind]


async def test_a_name_that_the_ledger_lost_is_known_again(server: stub.Stub, stub_session: api.Api) -> None:
    """Its GpuPod has not changed: what the audit reads anew is fed all the same, and names the card."""
    cluster, follower = following.Cluster(server), Follower(stub_session)
    cluster.pods[:] = [following.holder("5", metadata=META | {"annotations": {names.ALLOCATION: "{"}})]
    cluster.gpupods[:] = [
        manifests.gpupod("holder", "u-1", NODE, 0, namespace="ml", uid="gpupod-holder", resourceVersion="1")
    ]

    async with follower.following():
        known = follower.ledger.inventory.hold("u-1")
        follower.ledger.gpupod_gone("ml/holder")
        lost = follower.ledger.inventory.hold("u-1")
        found = await follower.auditor.audit()

    assert known is not None and lost is not None
    assert (known.withheld, [share.uuid for share in known.shares]) == (0, [builders.uuid(NODE, 0)])
    assert lost.withheld == holds.ALL_CARDS
    assert [difference.name for difference in found] == ["u-1"]
    assert follower.ledger.inventory.hold("u-1") == known
