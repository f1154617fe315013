"""The messages of the kubelet's device plugin API (v1beta1), by their field numbers. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth_agent import protobuf
from berth_agent.protobuf import field, message

VERSION: Final = "v1beta1"
REGISTER: Final = f"/{VERSION}.Registration/Register"
SERVICE: Final = f"{VERSION}.DevicePlugin"
OPTIONS: Final = field(
    2, 1
)  # That a preference is asked for; nothing needs to be done before a container starts.


class OfferedDevice(NamedTuple):
    """A device as the kubelet counts it."""

    id: str
    is_healthy: bool = True
    numa_node: int | None = None


class Preference(NamedTuple):
    """The kubelet's question which of the available devices a container should get, or has to get."""

    available: tuple[str, ...]
    must_include: tuple[str, ...]
    size: int


class PluginMount(NamedTuple):
    """A path of the host that is mounted into a container."""

    container_path: str
    host_path: str
    read_only: bool = True


class ContainerResponse(NamedTuple):
    """What a container gets with its devices."""

    env: Mapping[str, str] = {}
    mounts: tuple[PluginMount, ...] = ()
    device_nodes: tuple[tuple[str, str], ...] = ()  # In the container, and on the host.
    annotations: Mapping[str, str] = {}
    cdi_devices: tuple[str, ...] = ()


def registration(endpoint: str, resource: str) -> bytes:
    """Return a RegisterRequest of a plugin that serves at this file of the kubelet's folder."""
    return field(1, VERSION) + field(2, endpoint) + field(3, resource) + message(4, OPTIONS)


def listed(devices: Iterable[OfferedDevice]) -> bytes:
    """Return a ListAndWatchResponse."""
    return b"".join(message(1, _device(device)) for device in devices)


def _device(device: OfferedDevice) -> bytes:
    numa = b"" if device.numa_node is None else message(3, message(1, field(1, device.numa_node)))
    return field(1, device.id) + field(2, "Healthy" if device.is_healthy else "Unhealthy") + numa


def preferences(request: bytes) -> list[Preference]:
    """Read a PreferredAllocationRequest: a question for each container."""
    return [_preference(content) for content in _messages(request, 1)]


def _preference(content: bytes) -> Preference:
    texts: dict[int, list[str]] = {1: [], 2: []}
    size = 0
    for number, value in protobuf.fields(content):
        if number in texts:
            texts[number].append(protobuf.text(value))
        elif isinstance(value, int):
            size = value
    return Preference(tuple(texts[1]), tuple(texts[2]), size)


def preferred(answers: Iterable[Iterable[str]]) -> bytes:
    """Return a PreferredAllocationResponse: an answer for each container, empty for no preference."""
    return b"".join(message(1, b"".join(field(1, device) for device in answer)) for answer in answers)


def allocations(request: bytes) -> list[tuple[str, ...]]:
    """Read an AllocateRequest: the ids of the devices that the kubelet chose for each container."""
    return [
        tuple(protobuf.text(value) for number, value in protobuf.fields(content) if number == 1)
        for content in _messages(request, 1)
    ]


def allocated(responses: Iterable[ContainerResponse]) -> bytes:
    """Return an AllocateResponse."""
    return b"".join(message(1, _response(response)) for response in responses)


def _response(response: ContainerResponse) -> bytes:
    mounts = (
        field(1, mount.container_path) + field(2, mount.host_path) + field(3, int(mount.read_only))
        for mount in response.mounts
    )
    nodes = (
        field(1, inside) + field(2, on_host) + field(3, "rw") for inside, on_host in response.device_nodes
    )
    return b"".join(
        (
            *(message(1, pair) for pair in _pairs(response.env)),
            *(message(2, mount) for mount in mounts),
            *(message(3, node) for node in nodes),
            *(message(4, pair) for pair in _pairs(response.annotations)),
            *(message(5, field(1, name)) for name in response.cdi_devices),
        )
    )


def _pairs(mapping: Mapping[str, str]) -> Iterable[bytes]:
    return (field(1, key) + field(2, value) for key, value in mapping.items())


def _messages(body: bytes, wanted: int) -> Iterable[bytes]:
    return (protobuf.content(value) for number, value in protobuf.fields(body) if number == wanted)
