"""A field that is null is one that is absent, at any depth; an element of a list is not a field."""

from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from berth_agent.gpupods import watched_pod
from berth_crds import wire
from berth_crds.client import decoding, watch
from berth_operator.translate import raw

META = {"name": "a", "uid": "u", "resourceVersion": "7"}
POD = {"metadata": META, "spec": {"nodeName": "n1", "containers": [{"name": "main"}]}}
NODE = {"metadata": META, "spec": {}, "status": {}}
DEVICE = {"metadata": META, "spec": {"node": "n1", "devices": [{"uuid": "GPU-a", "type": "gpu", "minor": 0}]}}
GPU_POD = {"metadata": META, "spec": {"node": "n1", "podUID": "u"}}
POLICY: dict[str, Any] = {"metadata": META, "spec": {}}

NULLED: tuple[tuple[type[msgspec.Struct], dict[str, Any], tuple[str, ...]], ...] = (
    (watched_pod.Pod, POD, ("metadata.labels", "metadata.annotations", "metadata.ownerReferences", "status")),
    (raw.Pod, POD, ("metadata.annotations", "spec.volumes", "spec.tolerations", "spec.schedulerName")),
    (raw.Pod, POD, ("metadata.creationTimestamp", "spec.containers.0.resources", "status.conditions")),
    (raw.Node, NODE, ("metadata.labels", "spec.taints", "spec.unschedulable", "status.allocatable")),
    (wire.Device, DEVICE, ("spec.partitions", "spec.cordon", "status.devices", "spec.devices.0.links")),
    (wire.Device, DEVICE, ("metadata.labels", "spec.devices.0.model", "status.conditions", "spec.bootID")),
    (wire.GpuPod, GPU_POD, ("spec.containers", "status.granted", "status.phase", "metadata.annotations")),
    (wire.PlacementPolicy, POLICY, ("spec.health", "spec.models", "spec.strategy", "status")),
)


def nulled(thing: Any, *path: str) -> Any:
    """Return a copy in which one field is null."""
    first, *rest = path
    if isinstance(thing, list):
        return [nulled(element, *rest) if str(at) == first else element for at, element in enumerate(thing)]
    return {**thing, first: nulled(thing.get(first, {}), *rest) if rest else None}


@pytest.mark.parametrize(
    ("kind", "thing", "path"),
    [(kind, thing, path) for kind, thing, paths in NULLED for path in paths],
    ids=lambda it: it if isinstance(it, str) else getattr(it, "__name__", ""),
)
def test_null_is_absent(kind: type[msgspec.Struct], thing: dict[str, Any], path: str) -> None:
    """Nothing else is lost for it."""
    codec, plain = watch.Codec(kind), msgspec.Raw(msgspec.json.encode(thing))
    with_null = msgspec.Raw(msgspec.json.encode(nulled(thing, *path.split("."))))

    found = codec.decode_object(with_null)

    assert isinstance(found, kind), found
    assert found == codec.decode_object(plain)


@pytest.mark.parametrize(
    "spec",
    [{"node": "n1", "devices": [None]}, {"node": None}, {"node": "n1", "devices": [{"uuid": None}]}],
    ids=["element", "what must be there", "what must be there, below"],
)
def test_null_is_not_enough_where_something_must_be(spec: object) -> None:
    """What is required is missing then, and the object is one that cannot be read."""
    found = watch.Codec(wire.Device).decode_object(
        msgspec.Raw(msgspec.json.encode({"metadata": META, "spec": spec}))
    )

    assert isinstance(found, watch.Undecodable)
    assert found.metadata.name == "a"


@hypothesis.given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_only_null_fields_go(thing: Any) -> None:
    """No field that is left is null, and to leave them out once more changes nothing."""
    left = decoding.without_nulls(thing)

    assert not list(null_fields(left))
    assert decoding.without_nulls(left) == left
    if not list(null_fields(thing)):
        assert left == thing


def null_fields(thing: Any) -> list[str]:
    """Return all fields of a tree that are null."""
    if isinstance(thing, list):
        return [name for element in thing for name in null_fields(element)]
    if not isinstance(thing, dict):
        return []
    here = [name for name, value in thing.items() if value is None]
    return here + [name for value in thing.values() for name in null_fields(value)]
