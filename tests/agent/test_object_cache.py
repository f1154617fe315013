"""What is known of an object is the latest of two sources, and what others added is taken out exactly."""

import pytest

from berth_agent.publish import device_publisher, object_cache, object_writer
from berth_crds import wire
from berth_crds.client import store

KEY = ("ns", "p")


def record(uid: str, version: int) -> wire.GpuPod:
    """Return a GpuPod at a revision."""
    meta = wire.Meta(name="p", namespace="ns", uid=uid, resource_version=str(version))
    return wire.GpuPod(meta, wire.GpuPodSpec("n1", "u-1"))


@pytest.fixture
def on_change() -> list[store.Key]:
    """Lend the list of what the cache told."""
    return []


@pytest.fixture
def cache(on_change: list[store.Key]) -> object_cache.ObjectCache[wire.GpuPod]:
    """Lend a cache that knows one object, from the answer to a write."""
    cache: object_cache.ObjectCache[wire.GpuPod] = object_cache.ObjectCache(on_change.append)
    cache.write_answered(record("x", 9), deletions=0)
    return cache


def test_slow_watch_changes_nothing(
    cache: object_cache.ObjectCache[wire.GpuPod], on_change: list[store.Key]
) -> None:
    """What a watch tells of the time before our own write is old news; what is newer is taken and told."""
    cache.upserted(record("x", 8))
    assert (cache.get(KEY), on_change) == (record("x", 9), [])

    cache.upserted(record("x", 10))
    assert (cache.get(KEY), on_change) == (record("x", 10), [KEY])


def test_slow_answer_changes_nothing(cache: object_cache.ObjectCache[wire.GpuPod]) -> None:
    """An answer that arrives after the watch told of something newer is old news, too."""
    cache.upserted(record("x", 12))

    cache.write_answered(record("x", 11), deletions=0)
    assert cache.get(KEY) == record("x", 12)


def test_deletion_is_never_undone_by_an_answer(cache: object_cache.ObjectCache[wire.GpuPod]) -> None:
    """An answer to a write that was under way when a deletion was told brings nothing back."""
    before = cache.deletions
    cache.deleted(record("x", 10).metadata)

    cache.write_answered(record("x", 9), deletions=before)
    assert cache.get(KEY) is None
    cache.write_answered(record("y", 12), deletions=cache.deletions)
    assert cache.get(KEY) == record("y", 12)


def test_end_of_an_earlier_object_is_not_that_of_the_new_one(
    cache: object_cache.ObjectCache[wire.GpuPod], on_change: list[store.Key]
) -> None:
    """The late news that an earlier object is gone does not take away the one made since."""
    cache.deleted(record("earlier", 8).metadata)
    assert (cache.get(KEY), on_change) == (record("x", 9), [])

    # A list that was read anew tells of a delete with the last revision that its watch had seen.
    cache.deleted(record("x", 5).metadata)
    assert (cache.get(KEY), on_change) == (None, [KEY])


def test_what_a_later_list_lacks_is_gone(
    cache: object_cache.ObjectCache[wire.GpuPod], on_change: list[store.Key]
) -> None:
    """What was made and deleted while no watch was open is told by nothing but the next list."""
    cache.listed("8")
    assert (cache.get(KEY), on_change) == (record("x", 9), [])

    cache.listed("9")
    assert (cache.get(KEY), on_change) == (None, [KEY])


def test_what_was_shown_once_stands_until_its_deletion_is_told(
    cache: object_cache.ObjectCache[wire.GpuPod],
) -> None:
    """A list passes on only what changed: an object that stays as it was shown is not gone."""
    cache.upserted(record("x", 12))
    cache.write_answered(record("x", 12), deletions=0)
    cache.listed("30")

    assert cache.get(KEY) == record("x", 12)


def test_what_a_list_lacks_after_a_restore_is_gone(cache: object_cache.ObjectCache[wire.GpuPod]) -> None:
    """The revision of the write is of a future that never happened."""
    cache.restored()
    cache.listed("3")

    assert cache.get(KEY) is None


def test_an_earlier_revision_counts_once_after_a_restore(
    cache: object_cache.ObjectCache[wire.GpuPod],
) -> None:
    """After that the later one counts again."""
    cache.restored()
    cache.upserted(record("x", 7))
    cache.upserted(record("x", 6))

    assert cache.get(KEY) == record("x", 7)


# ---------------------------------------------------------------- corrections


SPEC, STATUS = device_publisher.DEVICE.parts
CARD = wire.Card("GPU-1", "gpu", 0)
ALIEN = wire.Card("GPU-2", "gpu", 1)


def test_corrections_set_what_differs_and_leave_the_rest() -> None:
    """A list with a foreign entry is set outright, a field that should not be goes, the cordon stays."""
    meant = wire.DeviceSpec("n1", boot_id="b", devices=(CARD,))
    said = wire.DeviceSpec(
        "n1",
        boot_id="b",
        devices=(CARD, ALIEN),
        partitions=(wire.Partition(("GPU-2",)),),
        cordon=("GPU-1",),
    )

    assert object_writer.corrections(SPEC, desired=meant, actual=said) == [
        {"op": "add", "path": "/spec/devices", "value": ({"uuid": "GPU-1", "type": "gpu", "minor": 0},)},
        {"op": "remove", "path": "/spec/partitions"},
    ]


def test_corrections_leave_what_others_write_in_the_status() -> None:
    """The operator's condition and summary are none of the agent's business."""
    said = wire.DeviceStatus(
        conditions=(wire.Condition("Ready", "True"),), summary=wire.StatusSummary(free=1, used=0, healthy=1)
    )

    assert object_writer.corrections(STATUS, desired=wire.DeviceStatus(), actual=said) == []
