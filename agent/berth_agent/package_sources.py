"""The devices that packages find on a node, and how they open them: code of any maker, kept at a distance.

Each call of a source is made in a thread of its own, which may hang for ever: nobody waits for it longer than
a limit. What a source returns is checked, because the server refuses a whole Device for one bad value. The
devices of a source that fails stand as they were read last, but no pod gets one until the source is well.
All other devices are published as ever.
"""

import asyncio
import concurrent.futures
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from berth_agent import device_entries, found_devices, probe, sysfs
from berth_agent.delivery.containers import Undeliverable
from berth_crds import device_sources, device_types, schema_limits, text, vocabulary

log = logging.getLogger(__name__)

DELIVER_SECONDS: Final = 1.0  # The runtime waits for 2 s and then makes the container as it is.
MOST_DELIVERING: Final = 4  # Calls of one source at a time: those that hang are not to fill the process.
SOURCE_FAILED: Final = "SourceFailed"

T = TypeVar("T")
Future = concurrent.futures.Future


class Unusable(Exception):
    """What a source returned cannot be used; the text is a clause."""


def in_thread(call: Callable[[], T], *, name: str) -> "Future[T]":
    """Return the result to come of a call in a thread, which may outlive everybody's patience."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            found = call()
        except BaseException as error:  # noqa: BLE001  a package may even exit: its thread is all that ends
            # Of these a future would make something else.
            odd = isinstance(error, StopIteration) or not isinstance(error, Exception)
            future.set_exception(Unusable(f"it raised {type(error).__name__}") if odd else error)
        else:
            future.set_result(found)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class PackageSource:
    """The source of one type on one node."""

    def __init__(
        self,
        description: device_types.TypeDescription,
        node: device_sources.SourceNode,
        kernel: sysfs.Kernel,
        *,
        patience: float,
    ) -> None:
        self.kind = description.name
        self.failure = ""
        self._description = description
        self._node = node
        self._kernel = kernel
        self._patience = patience
        self._source: device_sources.DeviceSource | None = None
        self._making = threading.Lock()
        self._found: tuple[probe.ExtraDevice, ...] = ()
        self._pending: Future[tuple[probe.ExtraDevice, ...]] | None = None
        self._is_late = False
        self._delivering: list[Future[device_sources.Opening]] = []

    def begin(self) -> "Future[tuple[probe.ExtraDevice, ...]] | None":
        """Start to look for devices, and return the look; None if the last one still goes on.

        That one is not waited for once more: a source that hangs must not delay each tick.
        """
        self._is_late = self._pending is not None and self._pending.done()
        if self._is_late:
            self._take()
        if self._pending is not None:
            return None
        self._pending = in_thread(self._discover, name=f"devices {self.kind}")
        return self._pending

    def devices(self) -> tuple[probe.ExtraDevice, ...]:
        """Return what was found; devices of a source that fails are not to be given to pods.

        A look that is always late counts as that of the tick before, and is no failure.
        """
        if self._pending is not None and self._pending.done():
            self._take()
        elif not self._is_late:
            self._fail(f"it has not answered within {self._patience:g} s")
        if not self.failure:
            return self._found
        message = text.line(f"{self.kind}: {self.failure}", most=schema_limits.LONGEST_MESSAGE)
        unknown = probe.DeviceHealth(vocabulary.Health.UNKNOWN, SOURCE_FAILED, message=message)
        return tuple(probe.ExtraDevice(one.entry, health=unknown, origin=one.origin) for one in self._found)

    @property
    def count(self) -> int:
        """How many devices were found last."""
        return len(self._found)

    def _take(self) -> None:
        pending, self._pending = self._pending, None
        assert pending is not None, "there is a look that has ended"  # noqa: S101
        try:
            self._found = pending.result()
            self.failure = ""
        except Unusable as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001  whatever the package raised
            self._fail(f"{type(error).__name__}: {text.cause(error)}", error)

    def _fail(self, why: str, error: BaseException | None = None) -> None:
        """Note why the source fails; the traceback is logged once."""
        if error is not None and self.failure != why:
            log.warning("node %s: the source of %s failed", self._node.name, self.kind, exc_info=error)
        self.failure = why

    # ------------------------------------------------------------ in threads

    def _discover(self) -> tuple[probe.ExtraDevice, ...]:
        listed = self._made().discover()
        found = tuple(itertools.islice(listed, schema_limits.MOST_DEVICES + 1))
        if len(found) > schema_limits.MOST_DEVICES:
            raise Unusable(f"it lists more than {schema_limits.MOST_DEVICES} devices")
        check(self.kind, found)
        origin = f"the source of {self.kind}"
        return tuple(found_devices.extra_device(self.kind, one, self._kernel, origin=origin) for one in found)

    def _made(self) -> device_sources.DeviceSource:
        with self._making:
            if self._source is None:
                assert self._description.source is not None, "only types with a source come here"  # noqa: S101
                self._source = self._description.source(self._node)
            return self._source

    # ------------------------------------------------------------ delivery

    async def open(self, devices: Sequence[device_sources.GivenDevice]) -> device_sources.Opening:
        """Return what opens these devices to one container, or raise `Undeliverable`."""
        self._delivering = [one for one in self._delivering if not one.done()]
        if len(self._delivering) >= MOST_DELIVERING:
            raise Undeliverable(f"the source of {self.kind} has not answered for other containers yet")
        try:
            pending = in_thread(lambda: self._made().deliver(devices), name=f"delivery {self.kind}")
            self._delivering.append(pending)
            answer = asyncio.wrap_future(pending)
            await asyncio.wait({answer}, timeout=DELIVER_SECONDS)
            if answer.done():
                return answer.result()
        except Exception as error:
            why = f"{type(error).__name__}: {text.cause(error)}"
            raise Undeliverable(f"the source of {self.kind} failed: {text.line(why)}") from error
        answer.cancel()  # Nobody waits for it any more; its thread goes on.
        raise Undeliverable(f"the source of {self.kind} has not answered within {DELIVER_SECONDS:g} s")


class PackageSources:
    """The sources of one node, and the packages that could not be loaded."""

    def __init__(
        self, sources: Iterable[PackageSource], *, patience: float, not_loaded: Sequence[str] = ()
    ) -> None:
        self._sources = tuple(sources)
        self._patience = patience
        self._not_loaded = tuple(not_loaded)

    def __bool__(self) -> bool:
        """Whether there is anything to report."""
        return bool(self._sources or self._not_loaded)

    @property
    def openers(self) -> Mapping[str, PackageSource]:
        """What opens the devices of each type."""
        return {one.kind: one for one in self._sources}

    def read(self) -> tuple[probe.ExtraDevice, ...]:
        """Return the devices of all sources, which are all asked at once."""
        begun = [one.begin() for one in self._sources]
        concurrent.futures.wait(list(filter(None, begun)), timeout=self._patience)
        return tuple(device for one in self._sources for device in one.devices())

    def failure(self) -> str:
        """Return what is wrong with sources and packages, in sentences; empty for nothing."""
        failing = (f"{one.kind}: {one.failure}." for one in self._sources if one.failure)
        return " ".join((*self._not_loaded, *failing))

    def counts(self) -> str:
        """Return how many devices of each type there are, as a sentence."""
        counted = ((one.count, device_types.BY_NAME.get(one.kind)) for one in self._sources)
        return f"{', '.join(f'{count} {of.noun(count)}' for count, of in counted if of)}."


def of_node(
    node: device_sources.SourceNode, kernel: sysfs.Kernel, *, patience: float, not_loaded: Sequence[str] = ()
) -> PackageSources:
    """Return the sources of all types that packages have added."""
    sources = [
        PackageSource(one, node, kernel, patience=patience)
        for one in device_types.BY_NAME.values()
        if one.source
    ]
    return PackageSources(sources, patience=patience, not_loaded=not_loaded)


# ---------------------------------------------------------------- what a source returned


def check(kind: str, found: Sequence[object]) -> None:
    """Raise `Unusable` where a source returned what the server would refuse, or one device twice."""
    ids: set[str] = set()
    minors: set[int] = set()
    for place, one in enumerate(found, start=1):
        if not isinstance(one, device_sources.FoundDevice):
            raise Unusable(f"device {place} is no FoundDevice but {text.quoted(type(one).__name__)}")
        try:
            msgspec.convert(_entry(kind, one), device_entries.DeviceEntry)
        except (msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
            raise Unusable(f"device {place} cannot be used: {text.line(str(error))}") from error
        if one.id in ids or one.minor in minors:
            raise Unusable(f"device {place} has the id or the minor of another: {one.id}, {one.minor}")
        ids.add(one.id)
        minors.add(one.minor)


def _entry(kind: str, found: device_sources.FoundDevice) -> dict[str, object]:
    """Return a device with the fields of a file of devices, whose limits are those of the server."""
    for function in found.functions:
        _check_function(function)
    if len(found.functions) > schema_limits.MOST_VFS:
        raise ValueError(f"it has more than {schema_limits.MOST_VFS} virtual functions")
    if len({tuple(sorted(one.labels.items())) for one in found.functions}) > schema_limits.MOST_GROUPS:
        raise ValueError(
            f"its virtual functions have more than {schema_limits.MOST_GROUPS} different sets of labels"
        )
    entry: dict[str, object] = {
        "uuid": found_devices.uuid(kind, found.id),
        "type": kind,
        "minor": found.minor,
        "vendor": found.vendor,
        "model": found.model,
        "memory": found.memory,
        "busID": found.bus_id,
        "labels": dict(found.labels),
        "message": found.message,
    }
    return entry | ({"reason": found.reason} if found.reason else {})


def _check_function(function: device_sources.VirtualFunction) -> None:
    """Raise `ValueError` where a virtual function is none that the server takes."""
    if not schema_limits.BUS_ID.matches(function.bus_id):
        raise ValueError(f"{text.quoted(str(function.bus_id))} is no PCI address of a virtual function")
    if not isinstance(function.number, int) or not 0 <= function.number <= schema_limits.LARGEST_MINOR:
        raise ValueError(f"{text.quoted(str(function.number))} is no number of a virtual function")
    labels = msgspec.convert(dict(function.labels), device_entries.Labels)
    if fault := device_entries.labels_fault(labels):
        raise ValueError(f"the virtual function {function.bus_id}: {fault}")
