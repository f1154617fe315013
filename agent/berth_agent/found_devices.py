"""What a source of devices found, as it is listed in the Device."""

from collections.abc import Iterator

from berth_agent import probe, sysfs
from berth_crds import device_sources, schema_limits, text, vocabulary, wire


def extra_device(
    kind: str, found: device_sources.FoundDevice, kernel: sysfs.Kernel, *, origin: str
) -> probe.ExtraDevice:
    """Return a device of a type; the kernel says where one with a PCI address is."""
    return probe.ExtraDevice(
        wire.Card(
            uuid=uuid(kind, found.id),
            type=kind,
            minor=found.minor,
            vendor=found.vendor,
            model=probe.model_name(found.model),
            memory=found.memory,
            topology=kernel.location(found.bus_id) if found.bus_id else None,
            vf_groups=_functions(found),
            labels=dict(sorted(_labels(found))),
        ),
        health=None,
        problem=_problem(found),
        origin=origin,
    )


def uuid(kind: str, own: str) -> str:
    """Return the uuid of a device that its source knows as `own`."""
    return f"{kind}-{own}"


def functions(kernel: sysfs.Kernel, address: str) -> tuple[device_sources.VirtualFunction, ...]:
    """Return the virtual functions of a PCI device, as the kernel lists them."""
    listed = kernel.virtual_functions(address)
    return tuple(device_sources.VirtualFunction(one.minor, one.bus_id) for one in listed)


def _labels(found: device_sources.FoundDevice) -> Iterator[tuple[str, str]]:
    for pair in found.labels.items():
        key, value = (text.line(one, most=schema_limits.LONGEST_LABEL) for one in pair)
        yield key, value


def _functions(found: device_sources.FoundDevice) -> tuple[wire.VfGroup, ...]:
    vfs = tuple(wire.Vf(one.number, one.bus_id) for one in found.functions)
    return (wire.VfGroup(vfs=vfs),) if vfs else ()


def _problem(found: device_sources.FoundDevice) -> probe.DeviceHealth | None:
    if not found.reason:
        return None
    return probe.DeviceHealth(vocabulary.Health.UNHEALTHY, found.reason, message=found.message)
