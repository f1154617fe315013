"""Errors of cards that the driver reports by itself, by NVIDIA's numbers (XIDs).

A set of events lasts as long as its session. Cards are registered when they are read. A driver or a
card that cannot report errors is no failure, since the measurements are judged as well; one that
fails to register is tried again with the next sample. Errors wait here until a sample takes them. A
card that no longer reports its uuid is known by its handle. An error that names no card counts
against none: the next sample shows which card does not answer.
"""

import ctypes
import itertools
from typing import Any, Final

import pynvml

from berth_agent import probe
from berth_agent.nvml import calls

XID: Final = pynvml.nvmlEventTypeXidCriticalError
MOST_AT_ONCE: Final = 1000  # What a sample takes; a card with endless errors must not delay it.


class Events:
    """The errors reported since the session began, and not yet taken."""

    def __init__(self) -> None:
        # This must not raise: the library has just been opened, and has to be closed again.
        self._set = calls.ask_or_nothing(pynvml.nvmlEventSetCreate)
        self._uuids: dict[int, str] = {}  # Of the registered cards, by their handles.
        self._reported: list[probe.XidEvent] = []

    def register(self, handle: Any, uuid: str) -> None:
        """Register a card, if it can report errors and is not registered yet."""
        if self._set is None or uuid in self._uuids.values():
            return
        try:
            types = calls.ask_or(0, pynvml.nvmlDeviceGetSupportedEventTypes, handle) & XID
            if types:
                calls.ask_or(None, pynvml.nvmlDeviceRegisterEvents, handle, types, self._set)
        except calls.CallFailed:
            return
        self._uuids[_address(handle)] = uuid

    def is_pending(self) -> bool:
        """Whether there is an error to take."""
        if not self._reported and (found := self._next()):
            self._reported.append(found)
        return bool(self._reported)

    def take(self) -> tuple[probe.XidEvent, ...]:
        """Return all errors since the last call."""
        self._reported += itertools.islice(iter(self._next, None), MOST_AT_ONCE)
        event, self._reported = tuple(self._reported), []
        return event

    def close(self) -> None:
        """Free the set of events."""
        if self._set is not None:
            calls.ask_or_nothing(pynvml.nvmlEventSetFree, self._set)
        self._set = None

    def _next(self) -> probe.XidEvent | None:
        """Return the next error of the driver; None when there is none, or it cannot be read."""
        if self._set is None:
            return None
        # Usually nothing has happened. A library that fails shows in the next sample.
        event = calls.ask_or_nothing(pynvml.nvmlEventSetWait_v2, self._set, 0)
        return (
            None
            if event is None
            else probe.XidEvent(self._uuids.get(_address(event.device), ""), int(event.eventData))
        )


def _address(handle: Any) -> int:
    return ctypes.addressof(handle.contents) if handle else 0
