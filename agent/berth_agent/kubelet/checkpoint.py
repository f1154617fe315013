"""Completes the kubelet's list of given devices by its checkpoint: the file that it has for its own restarts.

PodResources lists no init containers, but the kubelet keeps their devices for the pod until that is gone, and
gives them to no other. The file names them. It is the kubelet's own and may change with it, so an agent does
without what it cannot read there, and says so once.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from berth_agent.kubelet import podresources

log = logging.getLogger(__name__)

FILE: Final = "kubelet_internal_checkpoint"
MOST_BYTES: Final = 16 << 20

PodKey = tuple[str, str]  # Namespace and name of a pod.
Keys = Callable[[], Mapping[str, PodKey]]  # Of the pods of the node, by uid.


class Entry(msgspec.Struct, frozen=True):
    """The devices of one resource that a container was given, by NUMA node."""

    uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    ids_by_numa_node: dict[str, tuple[str, ...] | None] | None = msgspec.field(default=None, name="DeviceIDs")

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the devices, each once."""
        every = (self.ids_by_numa_node or {}).values()
        return tuple(dict.fromkeys(one for ids in every for one in ids or ()))


class Data(msgspec.Struct, frozen=True):
    """What the kubelet remembers."""

    entries: tuple[Entry, ...] | None = msgspec.field(default=None, name="PodDeviceEntries")


class Checkpoint(msgspec.Struct, frozen=True):
    """The file."""

    data: Data = msgspec.field(name="Data")


_decoder: Final = msgspec.json.Decoder(Checkpoint)


class CompletedLister:
    """A lister whose pods have their init containers, too."""

    def __init__(self, lister: podresources.PodResourcesLister, file: Path, keys: Keys) -> None:
        self._lister = lister
        self._file = file
        self._keys = keys
        self._read: tuple[object, tuple[Entry, ...]] = None, ()  # Of which state of the file.
        self._failure = ""

    async def pods(self) -> tuple[podresources.ListedPod, ...]:
        """Return the pods, or raise `PodResourcesError`."""
        listed = await self._lister.pods()
        return completed(listed, await self._entries(), self._keys())

    async def close(self) -> None:
        """Close the connection."""
        await self._lister.close()

    async def _entries(self) -> tuple[Entry, ...]:
        try:
            found = self._file.stat()
            state = found.st_ino, found.st_mtime_ns, found.st_size
            if self._read[0] != state:
                # A kubelet with thousands of containers has megabytes to remember.
                self._read = state, await asyncio.to_thread(read, self._file)
        except FileNotFoundError:
            return ()  # It has given nothing yet, or the agent is not shown its folder.
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._failed(f"{self._file}: {error}")
            return ()
        self._failure = ""
        return self._read[1]

    def _failed(self, failure: str) -> None:
        if failure != self._failure:
            log.warning("which devices init containers have is not known: %s", failure)
        self._failure = failure


def path(*, plugins: Path | None, pod_resources: Path | None) -> Path | None:
    """Return where the file should be, by the sockets for plugins and for PodResources."""
    if plugins is not None:
        return plugins.parent / FILE
    return pod_resources.parent.parent / "device-plugins" / FILE if pod_resources is not None else None


def read(file: Path) -> tuple[Entry, ...]:
    """Return the entries of a checkpoint, or raise what reading or decoding it raises."""
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is no file")
        if len(body := opened.read(MOST_BYTES + 1)) > MOST_BYTES:
            raise OSError(f"it has more than {MOST_BYTES} bytes")
    return _decoder.decode(body).data.entries or ()


def completed(
    listed: Iterable[podresources.ListedPod], entries: Iterable[Entry], keys: Mapping[str, PodKey]
) -> tuple[podresources.ListedPod, ...]:
    """Return the listed pods, each with those containers that the kubelet remembers and does not list."""
    remembered: dict[PodKey, dict[str, list[podresources.ListedDevices]]] = {}
    for entry in entries:
        if (key := keys.get(entry.uid)) is not None and (ids := entry.ids()):
            containers = remembered.setdefault(key, {})
            containers.setdefault(entry.container, []).append(podresources.ListedDevices(entry.resource, ids))
    return tuple(
        msgspec.structs.replace(pod, containers=(*pod.containers, *_unlisted(pod, more)))
        if (more := remembered.get((pod.namespace, pod.name)))
        else pod
        for pod in listed
    )


def _unlisted(
    pod: podresources.ListedPod, remembered: Mapping[str, list[podresources.ListedDevices]]
) -> Iterator[podresources.ListedContainer]:
    known = {container.name for container in pod.containers if container.devices}
    for name, devices in remembered.items():
        if name not in known:
            yield podresources.ListedContainer(name, tuple(devices))
