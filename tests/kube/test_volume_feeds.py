"""Claims and storage are followed on the real server, and what is gone or cannot be read does not count."""

import secrets
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from berth_crds import tasks, wire
from berth_crds.client import api, resources, watch
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import volume_feeds
from berth_operator.scheduling.volumes import index
from kube.conftest import RecordingApi
from support import storage
from support import volumes as make
from testbed import waiting

Body = dict[str, Any]
# If kube-controller-manager could not write what it wanted to, it tries again after 15 s.
SECONDS_OF_A_CONTROLLER: Final = 60
KINDS: Final = (
    resources.STORAGE_CLASSES,
    resources.CSI_DRIVERS,
    resources.CSI_NODES,
    resources.CAPACITIES,
    resources.VOLUMES,
    resources.CLAIMS,
)


@pytest.fixture
async def known(session: RecordingApi) -> AsyncIterator[index.Volumes]:
    """Yield what the operator's own account reads of storage, kept up to date."""
    ledger = Ledger(time.monotonic)
    async with tasks.running(volume_feeds.VolumeFeeds(session, ledger, clock=time.monotonic).run()):
        await waiting.eventually(lambda: ledger.inventory.volumes.is_read, what="all to be read")
        yield ledger.inventory.volumes


def bodies(name: str) -> dict[resources.Resource, Body]:
    """Return one object of each kind, all of that name."""
    found = {
        kind: {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
        for kind in KINDS
    }
    found[resources.STORAGE_CLASSES] = storage.storage_class(name)
    found[resources.CSI_DRIVERS]["spec"] = {"storageCapacity": True}
    driver = {"name": "d", "nodeID": "n", "topologyKeys": [], "allocatable": {"count": 7}}
    found[resources.CSI_NODES]["spec"] = {"drivers": [driver]}
    found[resources.CAPACITIES] |= {"storageClassName": name, "capacity": "1Gi", "nodeTopology": {}}
    found[resources.VOLUMES] = storage.volume(name, name, {"zone": "a"})
    found[resources.CLAIMS] = storage.claim(name, name)
    return found


def facts_of(known: index.Volumes, name: str, namespace: str) -> list[bool]:
    """Return of which kinds something of that name is known."""
    return [
        name in known.classes,
        name in known.tracking_drivers,
        bool(known.attached.limits_of(name)),
        name in known.capacities,
        name in known.volumes,
        (namespace, name) in known.claims,
    ]


async def test_what_there_is_counts_until_it_is_gone(
    known: index.Volumes, admin: api.Api, namespace: str
) -> None:
    """Of each kind an object is made and deleted."""
    name = f"all-{secrets.token_hex(3)}"
    for kind, body in bodies(name).items():
        await admin.create(kind, body, namespace=namespace if kind.namespaced else "")
    await waiting.eventually(lambda: all(facts_of(known, name, namespace)), what="all to be known")
    # The server makes it Pending, and its controller says that it may be claimed.
    await waiting.eventually(
        lambda: known.volumes[name].phase == "Available",
        what="the volume to be available",
        seconds=SECONDS_OF_A_CONTROLLER,
    )

    assert known.classes[name].waits_for_pod
    assert known.claims[namespace, name].size == make.GIBI

    for kind in KINDS:
        await admin.delete(kind, name, namespace=namespace if kind.namespaced else "")
    # Controllers have to agree that the volume and the claim go.
    await waiting.eventually(
        lambda: not any(facts_of(known, name, namespace)),
        what="all to be forgotten",
        seconds=SECONDS_OF_A_CONTROLLER,
        instead=lambda: facts_of(known, name, namespace),
    )


def test_what_cannot_be_read_counts_as_gone() -> None:
    """A pod that depends on it waits, whatever was known before."""
    found: list[str] = []
    sink = volume_feeds.Sink[Any](found.append, lambda meta: found.remove(meta.name))
    meta = wire.Meta(name="data")

    sink.upserted("data")
    sink.undecodable(watch.Undecodable(meta, "no"))
    assert found == []
    sink.upserted("data")
    sink.undecodable_deleted(meta)
    assert found == []
