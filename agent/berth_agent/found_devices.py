"""What a source of devices found, as it is listed in the Device."""

from collections.abc import Iterable, Iterator, Mapping

from berth_agent import found_labels, probe, sysfs
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
            vf_groups=groups((wire.Vf(one.number, one.bus_id), one.labels) for one in found.functions),
            labels=dict(sorted(_labels(found.labels))),
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
    return tuple(
        device_sources.VirtualFunction(one.minor, one.bus_id, labels=of_driver(kernel, one.bus_id))
        for one in listed
    )


def of_driver(kernel: sysfs.Kernel, address: str) -> Mapping[str, str]:
    """Return the label that says which driver has a PCI device or virtual function."""
    return found_labels.of_driver(kernel.driver(address))


def groups(functions: Iterable[tuple[wire.Vf, Mapping[str, str]]]) -> tuple[wire.VfGroup, ...]:
    """Return virtual functions in groups of equal labels, in their order."""
    found: dict[tuple[tuple[str, str], ...], list[wire.Vf]] = {}
    for function, labels in functions:
        found.setdefault(tuple(sorted(labels.items())), []).append(function)
    return tuple(wire.VfGroup(dict(labels), tuple(vfs)) for labels, vfs in found.items())


def _labels(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for pair in labels.items():
        key, value = (text.line(one, most=schema_limits.LONGEST_LABEL) for one in pair)
        yield key, value


def _problem(found: device_sources.FoundDevice) -> probe.DeviceHealth | None:
    if not found.reason:
        return None
    return probe.DeviceHealth(vocabulary.Health.UNHEALTHY, found.reason, message=found.message)
