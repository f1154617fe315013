"""A Device is read anew when anything changes of which its reading is made, and only then."""

import msgspec
import pytest

from berth_agent import device_spec, simulated
from berth_crds import vocabulary, wire
from berth_operator.translate import device_cache, devices

SPEC = device_spec.spec("n1", simulated.machine("n1", "2xT4"), None)
FIRST = SPEC.devices[0].uuid
DEVICE = wire.Device(wire.Meta(name="n1", uid="u1", generation=1, resource_version="7"), SPEC)


def changed(*, meta: dict[str, object] | None = None, **status: object) -> wire.Device:
    """Return the Device with other metadata and another status."""
    return msgspec.structs.replace(
        DEVICE,
        metadata=msgspec.structs.replace(DEVICE.metadata, **meta or {}),
        status=msgspec.structs.replace(DEVICE.status, **status),
    )


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(changed(meta={"resource_version": "8"}), id="its revision alone"),
        pytest.param(changed(summary=wire.StatusSummary(free=1, used=1, healthy=2)), id="its counts"),
        pytest.param(changed(claims=(FIRST,), disputed=(FIRST,)), id="whose its uuids are"),
    ],
)
def test_what_the_operator_writes_changes_nothing(later: wire.Device) -> None:
    """The very value comes back, so that nobody has to compare cards."""
    cache = device_cache.DeviceCache()

    first = cache.read(DEVICE)

    assert cache.read(later).device is first.device


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(
            msgspec.structs.replace(changed(), spec=msgspec.structs.replace(SPEC, cordon=("all",))),
            id="its spec, with the generation that another had before a restore",
        ),
        pytest.param(
            changed(devices=(wire.CardStatus(FIRST, vocabulary.Health.UNHEALTHY, "Xid"),)), id="a verdict"
        ),
        pytest.param(
            changed(conditions=(wire.Condition(type="NVMLReady", status="False", reason="NoAnswer"),)),
            id="a source that fails",
        ),
        pytest.param(changed(meta={"labels": {"berth.dev/gpu-partition-policy": "Honor"}}), id="a label"),
        pytest.param(changed(meta={"annotations": {"a": "b"}}), id="an annotation"),
    ],
)
def test_what_others_write_is_read(later: wire.Device) -> None:
    """As if nothing had been read before."""
    cache = device_cache.DeviceCache()

    first = cache.read(DEVICE)

    assert cache.read(later).device is not first.device
    assert cache.read(later).device == devices.read(later)


def test_a_device_that_is_gone_is_forgotten() -> None:
    """Nothing stays in memory, and one that comes back is read."""
    cache = device_cache.DeviceCache()

    first = cache.read(DEVICE)
    cache.forget("n1")

    assert cache.read(DEVICE).device is not first.device
