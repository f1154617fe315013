"""What changes all the time is no drift, however often it changes; what was lost or misread still is."""

import dataclasses
import itertools
from collections.abc import AsyncIterator, Collection

import msgspec
import pytest

from berth_crds import wire
from berth_crds.client import api
from berth_operator.engine import drift
from berth_operator.kube import auditor
from kube import following
from kube.following import NODE
from support import ledgers, manifests, stub

DRIFTED = [(drift.DEVICE, NODE)]


class Follower(following.Follower):
    """A ledger that follows a cluster whose Device changes without a word from the watch."""

    def __init__(self, session: api.Api, cluster: following.Cluster) -> None:
        super().__init__(session)
        self.cluster = cluster
        self.seen: dict[drift.Source, str] = {}  # Beside what the feeds have seen.
        self.revision = 0
        self.publish()

    def revisions_of(self, sources: Collection[drift.Source]) -> drift.Revisions:
        """Return the revisions that the ledger has seen."""
        return {**super().revisions_of(sources), **self.seen}

    def publish(self) -> None:
        """Have the agent publish another model of cards."""
        self.revision += 1
        device = manifests.device(NODE, 1)
        device["metadata"] |= {"uid": "d-1", "resourceVersion": str(self.revision)}
        device["spec"]["devices"][0]["model"] = f"T{self.revision}"
        self.cluster.devices[:] = [device]

    async def audit(self) -> list[tuple[str, str]]:
        """Return the kinds and names that an audit finds."""
        return [(difference.kind, difference.name) for difference in await self.auditor.audit()]


@pytest.fixture
async def follower(
    server: stub.Stub, stub_session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Follower]:
    """Lend a ledger that is up to date with the first revision."""
    monkeypatch.setattr(auditor, "SECOND_COMPARISON_SECONDS", 0.0)
    lent = Follower(stub_session, following.Cluster(server))
    async with lent.following():
        yield lent


async def test_a_device_that_changes_all_the_time_is_no_drift(follower: Follower) -> None:
    """Each comparison finds the ledger behind, and each time by another revision: nothing is read anew."""
    follower.publish()
    follower.auditor.after_comparison = follower.publish

    assert await follower.audit() == []
    assert follower.reports == [0]


async def test_a_device_that_goes_to_and_fro_is_no_drift(follower: Follower) -> None:
    """Both comparisons come upon the same two values, but the ledger has seen changes between them."""

    def to_and_fro() -> None:
        info = follower.ledger.inventory.node(NODE)
        assert info is not None and info.published is not None
        follower.ledger.device_seen(dataclasses.replace(info.published, astray=("x",)))
        follower.ledger.device_seen(dataclasses.replace(info.published, astray=()))

    follower.publish()
    follower.auditor.after_comparison = to_and_fro

    assert await follower.audit() == []


async def test_a_change_that_is_never_seen_is_drift(follower: Follower) -> None:
    """Neither of the two values has changed from one comparison to the next; it is mended."""
    follower.publish()

    assert await follower.audit() == DRIFTED
    assert await follower.audit() == []


async def test_what_was_seen_and_lost_is_drift_however_busy_it_is(follower: Follower) -> None:
    """Both have seen the same revision, whichever that is: no event on its way could tell of it."""

    def change() -> None:
        follower.publish()
        follower.seen[drift.DEVICE, NODE] = str(follower.revision)

    follower.ledger.device_gone(NODE)
    follower.auditor.after_comparison = change

    assert await follower.audit() == DRIFTED


async def test_what_comes_and_goes_is_no_drift(follower: Follower) -> None:
    """That the ledger knew nothing of it both times proves nothing where it has seen it in between."""
    follower.ledger.device_gone(NODE)
    follower.seen[drift.DEVICE, NODE] = "9"
    follower.publish()
    follower.auditor.after_comparison = follower.seen.clear

    assert await follower.audit() == []


async def test_a_gpupod_that_changes_all_the_time_makes_no_drift_of_its_pod(follower: Follower) -> None:
    """Which cards are granted to a pod, beside those of its record, is the word of its GpuPod."""
    serial = itertools.count(1)

    def grant() -> None:
        gpupod = manifests.gpupod("holder", "u-1", NODE, 0, namespace="ml", uid="gpupod")
        gpupod["metadata"]["resourceVersion"] = f"{next(serial)}"
        granted = {"container": "main", "uuids": [f"GPU-{next(serial)}"], "source": "podresources"}
        gpupod["status"] = {"phase": "Running", "granted": [granted]}
        follower.cluster.gpupods[:] = [gpupod]

    def heard_and_granted_anew() -> None:
        ledgers.gpupod_seen(follower.ledger, msgspec.convert(follower.cluster.gpupods[0], wire.GpuPod))
        grant()

    follower.cluster.pods.append(following.holder("4"))
    grant()
    await follower.feeds.resync()
    grant()
    follower.auditor.after_comparison = heard_and_granted_anew

    assert await follower.audit() == []


async def test_revisions_are_found_by_kind_and_name(follower: Follower) -> None:
    """Pods by their uids, GpuPods by their titles; of another kind the same name is another thing."""
    follower.cluster.pods.append(following.pod("p", "u-1", "8"))
    gpupod = manifests.gpupod("p", "u-1", NODE, namespace="ml", uid="gpupod-p", resourceVersion="1")
    follower.cluster.gpupods.append(gpupod)
    await follower.feeds.resync()
    known = {
        (drift.NODE, NODE): "1",
        (drift.DEVICE, NODE): "1",
        (drift.POD, "u-1"): "8",
        (drift.GPU_POD, "ml/p"): "1",
    }

    assert follower.feeds.revisions_of({*known, (drift.POD, "ml/q"), (drift.GPU_POD, NODE)}) == known
