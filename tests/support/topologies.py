"""Devices of catalog topologies as the core knows them: a simulated agent publishes, the operator reads."""

from berth_agent import device_spec, simulated
from berth_crds import wire
from berth_operator.scheduling.devices import device_facts
from berth_operator.translate import devices


def published(node: str, shape: str) -> wire.Device:
    """Return the Device that a simulated agent publishes for a shape such as `8xT4`."""
    spec = device_spec.spec(node, simulated.machine(node, shape), None)
    return wire.Device(metadata=wire.Meta(name=node), spec=spec)


def device(node: str, shape: str) -> device_facts.Device:
    """Return the same as the core knows it."""
    return devices.read(published(node, shape))
