"""What a container gets with devices of other types than GPUs, as their sources open them. Pure.

A source may be of any maker, and what it returns goes to the container runtime. So it is checked here: what
is wrong keeps the container from being made, for it would start without its device.
"""

import dataclasses
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

from berth_agent.delivery.containers import (
    MOUNT_OPTIONS,
    WRITABLE,
    Delivery,
    DeviceNode,
    Mount,
    Undeliverable,
    check_minor,
    entries,
)
from berth_agent.delivery.device_nodes import DEV, DeviceNodes
from berth_crds import allocation, device_types, vocabulary, wire
from berth_crds.device_sources import GivenDevice, HostPath, Opening
from berth_crds.text import line

MOST: Final = 64  # Variables, device nodes or mounts.
LONGEST_TEXT: Final = 4096
VARIABLE: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
T = TypeVar("T")
# That they are there is checked only where something opens them; their minors count what is there.
BUILT_IN: Final = frozenset(one.name for one in device_types.BUILT_IN)


class Opener(Protocol):
    """What opens devices of one type to containers."""

    async def open(self, devices: Sequence[GivenDevice]) -> Opening:
        """Return what opens these devices to one container, or raise `Undeliverable`."""


NO_OPENERS: Final[Mapping[str, Opener]] = {}


def given(
    annotations: Mapping[str, str],
    container: str,
    node: str,
    cards: Sequence[wire.Card],
    *,
    opened: Container[str] = (),
) -> Mapping[str, Sequence[GivenDevice]]:
    """Return by type which other devices a container was given, or raise `Undeliverable`.

    The node must list them now, but for those of built-in types that are not `opened` anyway.
    """
    found: dict[str, list[GivenDevice]] = {}
    for entry in entries(annotations, container, node):
        if entry.type != vocabulary.DeviceType.GPU and (entry.type not in BUILT_IN or entry.type in opened):
            found.setdefault(entry.type, []).append(_given(entry, cards))
    return found


def _given(entry: allocation.Entry, cards: Iterable[wire.Card]) -> GivenDevice:
    share = entry.share
    card = next((one for one in cards if (one.type, one.uuid) == (entry.type, share.uuid)), None)
    if card is None:
        raise Undeliverable(
            f"device {share.uuid} is no longer on this node; delete the pod, so that it is placed anew"
        )
    if entry.type not in BUILT_IN:
        check_minor(share, card)
    if share.vf and share.vf not in {one.bus_id for group in card.vf_groups for one in group.vfs}:
        raise Undeliverable(
            f"device {share.uuid} no longer has the virtual function {share.vf}; "
            "delete the pod, so that it is placed anew"
        )
    own = share.uuid.removeprefix(f"{entry.type}-")
    return GivenDevice(id=own, minor=share.minor, percent=share.core, function=share.vf)


def with_opening(found: Delivery, kind: str, opening: object, device_nodes: DeviceNodes) -> Delivery:
    """Return a delivery with what opens devices of a type, or raise `Undeliverable` if it is unusable."""
    if not isinstance(opening, Opening):
        raise Undeliverable(f"the source of {kind} returned no Opening")
    try:
        env, nodes, mounts = _env(opening), tuple(_nodes(opening, device_nodes)), tuple(_mounts(opening))
    except (TypeError, AttributeError) as error:
        raise Undeliverable(
            f"the source of {kind} returned what cannot be used: {line(str(error))}"
        ) from error
    except Undeliverable as error:
        raise Undeliverable(f"{kind}: {error}") from error
    if twice := next((name for name in env if found.env.get(name, env[name]) != env[name]), ""):
        raise Undeliverable(
            f"the source of {kind} sets {twice}, which another source or Berth sets otherwise"
        )
    edits = dataclasses.replace(
        found.edits,
        device_nodes=tuple(dict.fromkeys(found.edits.device_nodes + nodes)),
        mounts=found.edits.mounts + mounts,
    )
    return Delivery({**env, **found.env}, edits)


def _env(opening: Opening) -> dict[str, str]:
    env = dict(opening.env)
    if len(env) > MOST:
        raise Undeliverable(f"it sets more than {MOST} variables")
    for name, value in env.items():
        if not VARIABLE.fullmatch(name) or len(name) > LONGEST_TEXT:
            raise Undeliverable(f"'{line(name)}' is no name of a variable")
        if len(value) > LONGEST_TEXT or "\0" in value:
            raise Undeliverable(f"{name} is no text of at most {LONGEST_TEXT} characters")
    return env


def _nodes(opening: Opening, device_nodes: DeviceNodes) -> Iterator[DeviceNode]:
    for path in _few(opening.device_nodes, "device nodes"):
        if not _is_plain(path) or DEV not in Path(path).parents:
            raise Undeliverable(f"'{line(path)}' is no path below {DEV}")
        yield from device_nodes.at(path)


def _mounts(opening: Opening) -> Iterator[Mount]:
    for mount in _few(opening.mounts, "mounts"):
        if not isinstance(mount, HostPath):
            raise Undeliverable("a mount is no HostPath")
        for path in (mount.source, mount.destination):
            if not _is_plain(path):
                raise Undeliverable(f"'{line(path)}' is no absolute path")
        yield Mount(mount.source, mount.destination, WRITABLE if mount.writable else MOUNT_OPTIONS)


def _few(values: Sequence[T], what: str) -> Sequence[T]:
    if len(values) > MOST:
        raise Undeliverable(f"it names more than {MOST} {what}")
    return values


def _is_plain(path: str) -> bool:
    """Whether a path is absolute, and leads to where it seems to lead."""
    plain = Path(path)
    return plain.is_absolute() and ".." not in plain.parts and "\0" not in path and len(path) <= LONGEST_TEXT
