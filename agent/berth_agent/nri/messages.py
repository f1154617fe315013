"""The messages of NRI, as much of them as Berth needs, by their field numbers in the public API. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from berth_agent import protobuf
from berth_agent.delivery.containers import Delivery, DeviceNode, Mount
from berth_agent.protobuf import Malformed, field, message

RUNTIME: Final = "nri.pkg.api.v1alpha1.Runtime"
CREATE_CONTAINER: Final = 1 << 3  # Of the events that a plugin may ask for.
REMOVED: Final = "-"  # Before the destination of a mount that is to go.


class NewContainer(NamedTuple):
    """A container that is being made, with its environment, and the annotations and uid of its pod."""

    namespace: str
    pod: str
    name: str
    annotations: Mapping[str, str]
    environment: tuple[str, ...] = ()
    pod_uid: str = ""


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
    """Read a CreateContainerRequest: PodSandbox is its field 1, Container its field 2."""
    parts = {
        number: protobuf.content(value) for number, value in protobuf.fields(request) if number in {1, 2}
    }
    namespace, pod, uid, annotations = _pod(parts.get(1, b""))
    name, environment = _container(parts.get(2, b""))
    return NewContainer(namespace, pod, name, annotations, environment, uid)


def _pod(sandbox: bytes) -> tuple[str, str, str, Mapping[str, str]]:
    """Return namespace, name, uid and annotations of a PodSandbox."""
    namespace = name = uid = ""
    annotations: dict[str, str] = {}
    for number, value in protobuf.fields(sandbox):
        match number:
            case 2:
                name = protobuf.text(value)
            case 3:
                uid = protobuf.text(value)
            case 4:
                namespace = protobuf.text(value)
            case 6:
                pair = dict(protobuf.fields(protobuf.content(value)))
                annotations[protobuf.text(pair.get(1, b""))] = protobuf.text(pair.get(2, b""))
            case _:
                pass
    return namespace, name, uid, annotations


def _container(container: bytes) -> tuple[str, tuple[str, ...]]:
    """Return name and environment of a Container; it has a text for each variable."""
    found = list(protobuf.fields(container))
    name = next((protobuf.text(value) for number, value in found if number == 3), "")  # noqa: PLR2004
    environment = tuple(_loose(value) for number, value in found if number == 8)  # noqa: PLR2004
    return name, environment


def adjusted(delivery: Delivery) -> bytes:
    """Return a CreateContainerResponse that gives a container its devices."""
    edits = delivery.edits
    env = b"".join(message(4, field(1, name) + field(2, value)) for name, value in delivery.env.items())
    mounts = b"".join(message(3, each) for mount in edits.mounts for each in _mounts(mount))
    cdi_devices = b"".join(message(8, field(1, name)) for name in edits.cdi_devices)
    device_nodes = b"".join(message(1, _device(node)) for node in edits.device_nodes)
    linux = message(6, device_nodes) if device_nodes else b""
    return message(1, mounts + env + linux + cdi_devices)


def _mounts(mount: Mount) -> Iterator[bytes]:
    """Yield a mount, after the removal of what it replaces."""
    if mount.replaces:
        yield field(1, f"{REMOVED}{mount.destination}")
    options = b"".join(field(4, option) for option in mount.options)
    yield field(1, mount.destination) + field(2, "bind") + field(3, mount.source) + options


def _device(node: DeviceNode) -> bytes:
    number = field(3, node.major) + field(4, node.minor)
    return field(1, node.path) + field(2, "c") + number + message(5, field(1, node.mode))


def _loose(value: bytes | int) -> str:
    """Return a text that a container's author wrote, which need not be UTF-8."""
    return protobuf.content(value).decode(errors="replace")


def _number(value: bytes | int) -> int:
    if isinstance(value, bytes):
        raise Malformed("a number in it is a message")
    return value
