"""What changes all the time is no drift, however often it changes; what was lost or misread still is."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import pytest

from berth_crds.client import api
from berth_operator.engine import drift
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import auditor, feeds
from kube.auditing import NODE, Cluster
from support import manifests, stub, timeless

DRIFTED = [(drift.DEVICE, NODE)]


class Looking(auditor.Auditor):
    """An audit after each look of which something may happen."""

    happen: Callable[[], None] | None = None

    async def _compare(self) -> tuple[drift.Difference, ...]:
        found = await super()._compare()
        if self.happen is not None:
            self.happen()
        return found


class Audited:
    """A ledger that follows such a server, and what it made of the Devices there."""

    def __init__(self, cluster: Cluster, session: api.Api) -> None:
        self.cluster = cluster
        self.ledger = Ledger(time.monotonic)
        watchdog = Watchdog(self.ledger, clock=time.monotonic)
        self.feeds = feeds.Feeds(session, self.ledger, watchdog, auditor.NullObserver())
        self.reports: list[int] = []
        self.auditor = Looking(
            session,
            self.ledger,
            clock=time.monotonic,
            report=self.reports.append,
            resync=self.feeds.resync,
            revisions=self._revisions,
        )
        self.heard: dict[drift.Source, str] = {}
        self._revision = 0
        self.publish()

    def _revisions(self, sources: Collection[drift.Source]) -> drift.Revisions:
        return self.feeds.revisions_of(sources) | self.heard

    def publish(self) -> None:
        """Have the agent publish another model of cards, of which the watch says nothing."""
        self._revision += 1
        made = manifests.device(NODE, 1)
        made["metadata"] |= {"uid": "d-1", "resourceVersion": str(self._revision)}
        made["spec"]["devices"][0]["model"] = f"T{self._revision}"
        self.cluster.devices[:] = [made]

    def hear(self) -> None:
        """Let the ledger have heard of the newest revision, whatever it has made of that."""
        self.heard[drift.DEVICE, NODE] = str(self._revision)

    async def audit(self) -> list[tuple[str, str]]:
        """Audit once."""
        return [(one.kind, one.name) for one in await self.auditor.audit()]


def waiting() -> dict[str, Any]:
    """Make the pod ml/p."""
    made = manifests.pod("p")
    made["metadata"] = {"namespace": "ml", "name": "p", "uid": "u-1", "resourceVersion": "8"}
    return made


@pytest.fixture
async def audited(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Audited]:
    """Lend a ledger that is up to date with the first revision."""
    monkeypatch.setattr(auditor, "SECOND_COMPARISON_SECONDS", 0.0)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        lent = Audited(Cluster(server), session)
        async with timeless.beside(lent.feeds.run()):
            await asyncio.wait_for(lent.feeds.wait_synced(), 5)
            yield lent


async def test_a_device_that_changes_all_the_time_is_no_drift(audited: Audited) -> None:
    """Each look finds the ledger behind, and each time by another revision: nothing is read anew."""
    audited.publish()
    audited.auditor.happen = audited.publish

    assert await audited.audit() == []
    assert audited.reports == [0]


async def test_a_device_that_goes_to_and_fro_is_no_drift(audited: Audited) -> None:
    """Both looks come upon the same two values, but the ledger has heard of changes between them."""

    def to_and_fro() -> None:
        info = audited.ledger.inventory.node(NODE)
        assert info is not None and info.published is not None
        audited.ledger.device_seen(dataclasses.replace(info.published, astray=("x",)))
        audited.ledger.device_seen(dataclasses.replace(info.published, astray=()))

    audited.publish()
    audited.auditor.happen = to_and_fro

    assert await audited.audit() == []


async def test_a_change_that_is_never_heard_is_drift(audited: Audited) -> None:
    """Neither of the two values has changed from one look to the next; it is mended."""
    audited.publish()

    assert await audited.audit() == DRIFTED
    assert await audited.audit() == []


async def test_what_was_heard_and_lost_is_drift_however_busy_it_is(audited: Audited) -> None:
    """Both have seen the same revision, whichever that is: no event on its way could tell of it."""

    def change() -> None:
        audited.publish()
        audited.hear()

    audited.ledger.device_gone(NODE)
    audited.auditor.happen = change

    assert await audited.audit() == DRIFTED


async def test_what_comes_and_goes_is_no_drift(audited: Audited) -> None:
    """That the ledger knew nothing of it in either look proves nothing where it heard of it in between."""
    audited.ledger.device_gone(NODE)
    audited.heard[drift.DEVICE, NODE] = "9"
    audited.publish()
    audited.auditor.happen = audited.heard.clear

    assert await audited.audit() == []


async def test_each_kind_is_told_by_its_name(audited: Audited) -> None:
    """Pods by their uids, GpuPods by their titles; of another kind the same name is another thing."""
    audited.cluster.pods.append(waiting())
    audited.cluster.gpupods.append(
        manifests.gpupod("p", "u-1", NODE, namespace="ml", uid="gpupod-p", resourceVersion="1")
    )
    await audited.feeds.resync()
    asked = {(drift.NODE, NODE), (drift.DEVICE, NODE), (drift.POD, "u-1"), (drift.GPU_POD, "ml/p")}

    assert audited.feeds.revisions_of({*asked, (drift.POD, "ml/q"), (drift.GPU_POD, NODE)}) == {
        (drift.NODE, NODE): "1",
        (drift.DEVICE, NODE): "1",
        (drift.POD, "u-1"): "8",
        (drift.GPU_POD, "ml/p"): "1",
    }
