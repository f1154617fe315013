"""A pod that cannot be read any more is drift and no ghost: no audit gives its cards away (I1, I9)."""

import asyncio
import time
from typing import Any, Final

import pytest

from berth_crds import names
from berth_crds.client import api
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import auditor, feeds
from berth_operator.scheduling import decisions, holds
from berth_operator.scheduling.decisions import Reason
from kube import auditing
from kube.auditing import NODE, Cluster
from support import builders, ledgers, manifests, stub, timeless

HOLDER: Final = {"namespace": "ml", "name": "holder", "uid": "u-1"}


def rival() -> dict[str, Any]:
    """Make a pod that waits for a card."""
    made = manifests.pod("rival")
    made["metadata"] = {"namespace": "ml", "name": "rival", "uid": "u-2", "resourceVersion": "4"}
    return made


def holder(version: str, **changes: Any) -> dict[str, Any]:
    """Make a pod that holds the card."""
    made = manifests.pod("holder", nodeName=NODE)
    made["metadata"] = HOLDER | {"resourceVersion": version, "annotations": manifests.allocated(NODE, 0)}
    return made | {"status": {"phase": "Running"}} | changes


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(holder("6", spec={"nodeName": NODE, "priority": "high"}), id="its request"),
        pytest.param(holder("6", spec={"nodeName": 7}), id="its node"),
        pytest.param(holder("6", spec={"nodeName": 7}, metadata=HOLDER | {"uid": 7}), id="its uid"),
        pytest.param(holder("6", metadata=7), id="its name"),
    ],
)
async def test_a_pod_that_cannot_be_read_any_more_keeps_its_card(
    odd: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while the audit mends nor afterwards is the card given to anybody else; its end frees it."""
    monkeypatch.setattr(auditor, "SECOND_COMPARISON_SECONDS", 0.0)
    ledger = Ledger(time.monotonic)
    watchdog = Watchdog(ledger, clock=time.monotonic)
    given: list[decisions.Decision] = []

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        cluster = Cluster(server)
        cluster.pods[:] = [holder("5"), rival()]
        following = feeds.Feeds(session, ledger, watchdog, auditor.NullObserver())

        async def mend(ghosts: Any) -> None:
            given.extend(ledgers.decide(ledger))
            await following.resync(ghosts)
            given.extend(ledgers.decide(ledger))

        audit = auditing.audit_of(session, ledger, following, resync=mend)
        async with timeless.beside(following.run()):
            await asyncio.wait_for(following.wait_synced(), 5)
            watchdog.lease_seen(NODE, "later")
            cluster.pods[:] = [odd, rival()]
            assert await audit.audit() != ()
            cluster.pods[:] = [rival()]
            await following.resync()

    assert [type(one) for one in given] == [decisions.Wait] * 2
    assert {count.reason for one in given if isinstance(one, decisions.Wait) for count in one.counts} <= {
        Reason.FULL,
        Reason.WITHHELD,
    }
    assert [type(one) for one in ledgers.decide(ledger)] == [decisions.Bind]


async def test_a_name_that_the_ledger_lost_is_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its GpuPod has not changed: what the audit reads anew is told all the same, and names the card."""
    monkeypatch.setattr(auditor, "SECOND_COMPARISON_SECONDS", 0.0)
    ledger = Ledger(time.monotonic)
    watchdog = Watchdog(ledger, clock=time.monotonic)
    nameless = HOLDER | {"resourceVersion": "5", "annotations": {names.ALLOCATION: "{"}}

    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        cluster = Cluster(server)
        cluster.pods[:] = [holder("5", metadata=nameless)]
        cluster.gpupods[:] = [
            manifests.gpupod(
                "holder", "u-1", NODE, 0, namespace="ml", uid="gpupod-holder", resourceVersion="1"
            )
        ]
        following = feeds.Feeds(session, ledger, watchdog, auditor.NullObserver())
        audit = auditing.audit_of(session, ledger, following)
        async with timeless.beside(following.run()):
            await asyncio.wait_for(following.wait_synced(), 5)
            known = ledger.inventory.hold("u-1")
            ledger.gpupod_gone("ml/holder")
            lost = ledger.inventory.hold("u-1")
            found = await audit.audit()

    assert known is not None
    assert lost is not None
    assert (known.withheld, [one.uuid for one in known.shares]) == (0, [builders.uuid(NODE, 0)])
    assert lost.withheld == holds.ALL_CARDS
    assert [one.name for one in found] == ["u-1"]
    assert ledger.inventory.hold("u-1") == known
