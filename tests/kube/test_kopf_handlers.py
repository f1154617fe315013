"""What Kopf's handlers take from an object, and that Kopf keeps and writes nothing of it."""

from pathlib import Path
from typing import Any

import kopf
import pytest

from berth_crds import names
from berth_crds.client import api, connection, resources
from berth_operator.kube import gpupod_store, kopf_handlers, kopf_settings
from kube import eventually
from kube.reconcilers import running
from support import manifests

GPUPOD = {
    "metadata": {"name": "train", "namespace": "ml", "uid": "g1", "resourceVersion": "7"},
    "spec": {"node": "n1", "podUID": "u1"},
}


class RecordingSink:
    """Records all calls of the handlers."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        """Return a method that records what it is called with."""
        return lambda *arguments: self.calls.append((name, *arguments))


@pytest.fixture
def sink() -> RecordingSink:
    """Lend a sink."""
    return RecordingSink()


@pytest.fixture
def handlers(sink: RecordingSink) -> dict[str, Any]:
    """Lend the handlers by kind."""
    registry = kopf.OperatorRegistry()
    kopf_handlers.register(registry, sink)
    return {str(one.id): one.fn for one in registry._watching._handlers}


async def test_there_is_one_for_each_kind(handlers: dict[str, Any]) -> None:
    """No kind of ours is left out, and nothing else is watched."""
    assert set(handlers) == set(kopf_handlers.WATCHED) == {"devices", "gpupods", "placementpolicies"}


async def test_they_take_few_words_and_return_nothing(handlers: dict[str, Any], sink: RecordingSink) -> None:
    """Each passes on the few plain values needed; what it returned, Kopf would write into the object."""
    device, gpupod, policy = (handlers[kind] for kind in kopf_handlers.WATCHED)
    meta, body = {"resourceVersion": "7"}, {"metadata": {"name": "default"}}
    status = {"summary": {}, "devices": [{"minor": 0}]}
    where = {"name": "train", "namespace": "ml"}

    returned = [
        await device(type="ADDED", name="n1", body={"metadata": meta, "status": status}),
        await device(type=None, name="n2", body={"metadata": {}}),
        await device(type="DELETED", name="n1", body={"metadata": meta}),
        await gpupod(type=None, body=GPUPOD, **where),
        await gpupod(type="DELETED", body=GPUPOD, **where),
        await policy(type="MODIFIED", name="default", body=body),
        await policy(type="DELETED", name="default", body=body),
    ]

    assert returned == [None] * 7
    assert sink.calls == [
        ("device_seen", "n1", "7", {"summary": {}}),
        ("device_seen", "n2", "", {}),
        ("device_gone", "n1"),
        ("gpupod_seen", "ml/train", gpupod_store.Record("g1", "u1", "n1")),
        ("gpupod_gone", "ml/train", "g1"),
        ("policy_seen", "default", "", body),
        ("policy_gone", "default"),
    ]


@pytest.mark.parametrize(
    "spec", [pytest.param({"node": "n1"}, id="of no pod"), pytest.param([], id="no object at all")]
)
async def test_a_gpupod_that_says_not_whose_it_is(
    handlers: dict[str, Any], sink: RecordingSink, spec: Any
) -> None:
    """One that cannot be read is as good as deleted, and ends no handler."""
    await handlers[names.GPU_PODS](type=None, name="train", namespace="ml", body=GPUPOD | {"spec": spec})

    assert sink.calls == [("gpupod_gone", "ml/train", "g1")]


async def test_kopf_keeps_nothing_of_an_object() -> None:
    """Tens of thousands of objects are not remembered, also where their deletes are missed."""
    memories = kopf_settings.NoMemories()

    first = await memories.recall(GPUPOD, noticed_by_listing=True)

    assert first.noticed_by_listing
    assert list(memories.iter_all_memories()) == []


async def test_gpupods_on_a_real_server(account: Path, admin: api.Api, namespace: str) -> None:
    """Those that are there, that come and that go reach the store; no write of ours makes Kopf one."""
    store, first, second = gpupod_store.GpuPodStore(), f"{namespace}/first", f"{namespace}/second"
    await admin.create(resources.GPU_PODS, manifests.gpupod("first", "u-first", "n1", 0), namespace=namespace)

    async with running(connection.load(account), store=store):
        await eventually.holds(lambda: first in store.records, "the first GpuPod", seconds=30)
        await admin.create(
            resources.GPU_PODS, manifests.gpupod("second", "u-second", "n1", 1), namespace=namespace
        )
        await eventually.holds(lambda: second in store.records, "the second GpuPod", seconds=30)
        await admin.delete(resources.GPU_PODS, "first", namespace=namespace)
        await eventually.holds(lambda: first not in store.records, "the delete", seconds=30)
        kept = await admin.get(resources.GPU_PODS, "second", into=dict, namespace=namespace)

    assert store.records[second] == gpupod_store.Record(kept["metadata"]["uid"], "u-second", "n1")
    assert not {"annotations", "finalizers"} & kept["metadata"].keys()
    assert "status" not in kept
