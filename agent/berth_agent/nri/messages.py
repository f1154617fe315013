"""The messages of NRI, as much of them as Berth needs, by their field numbers in the public API. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth_agent import protobuf
from berth_agent.delivery.containers import Delivery, DeviceNode
from berth_agent.protobuf import Malformed, field, message

RUNTIME: Final = "nri.pkg.api.v1alpha1.Runtime"
CREATE_CONTAINER: Final = 1 << 3  # Of the events that a plugin may ask for.


class NewContainer(NamedTuple):
    """A container that is being made, and the annotations of its pod."""

    namespace: str
    pod: str
    name: str
    annotations: Mapping[str, str]


def register(name: str, index: str) -> bytes:
    """Return a RegisterPluginRequest; plugins are asked in the order of their indexes."""
    return field(1, name) + field(2, index)


def configured(events: int) -> bytes:
    """Return a ConfigureResponse: the events that are wanted."""
    return field(2, events)


def synchronized(request: bytes) -> bytes:
    """Return a SynchronizeResponse that changes nothing; whether more is to come is said as it was asked."""
    return field(2, _number(dict(protobuf.fields(request)).get(3, 0)))


def new_container(request: bytes) -> NewContainer:
    """Read a CreateContainerRequest."""
    parts = {number: _bytes(value) for number, value in protobuf.fields(request) if number in {1, 2}}
    name = ""
    for number, value in protobuf.fields(parts.get(2, b"")):
        name = protobuf.text(value) if number == 3 else name  # noqa: PLR2004  Container.name
    said = {2: "", 4: ""}  # PodSandbox.name and namespace.
    annotations: dict[str, str] = {}
    for number, value in protobuf.fields(parts.get(1, b"")):
        if number in said:
            said[number] = protobuf.text(value)
        elif number == 6:  # noqa: PLR2004  PodSandbox.annotations
            pair = dict(protobuf.fields(_bytes(value)))
            annotations[protobuf.text(pair.get(1, b""))] = protobuf.text(pair.get(2, b""))
    return NewContainer(said[4], said[2], name, annotations)


def adjusted(delivery: Delivery) -> bytes:
    """Return a CreateContainerResponse that gives a container its devices."""
    env = b"".join(message(4, field(1, name) + field(2, value)) for name, value in delivery.env.items())
    devices = b"".join(message(1, _device(one)) for one in delivery.nodes)
    linux = message(6, devices) if devices else b""
    return message(1, env + linux)


def _device(node: DeviceNode) -> bytes:
    number = field(3, node.major) + field(4, node.minor)
    return field(1, node.path) + field(2, "c") + number + message(5, field(1, node.mode))


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise Malformed("a message in it is a number")
    return value


def _number(value: bytes | int) -> int:
    if isinstance(value, bytes):
        raise Malformed("a number in it is a message")
    return value
