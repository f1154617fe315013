"""What the driver tells by itself: errors of cards, by NVIDIA's numbers of them (XIDs).

One set of events lasts as long as its session. Cards are entered into it when they are read;
a driver or a card that cannot tell errors is no failure, for the vitals are judged as well,
and one that fails to is asked again with the next look. What was told waits here until a look
takes it along, and an error of a card that tells its name no more is known by the handle that
it had. An error that names no card at all condemns none: the look that follows shows which one
does not answer.
"""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, Final

import pynvml

from berth_agent import probe
from berth_agent.nvml import calls

XID: Final = pynvml.nvmlEventTypeXidCriticalError
MOST_AT_ONCE: Final = 1000  # What a look takes along; a card that rains errors must not hold it up.


class Events:
    """The errors told since the session began, and not yet taken."""

    def __init__(self) -> None:
        # Whatever fails here must not: the library has just been opened, and somebody has to close it.
        self._set = _granted(pynvml.nvmlEventSetCreate)
        self._uuids: dict[int, str] = {}
        self._followed: set[str] = set()
        self._told: list[probe.Xid] = []

    def follow(self, handle: Any, uuid: str) -> None:
        """Have a card's errors told from now on, if it can; once that is so, this does nothing."""
        if self._set is None or uuid in self._followed:
            return
        try:
            types = calls.ask_or(0, pynvml.nvmlDeviceGetSupportedEventTypes, handle) & XID
            if types:
                calls.ask_or(None, pynvml.nvmlDeviceRegisterEvents, handle, types, self._set)
        except calls.Failed:
            return
        self._followed.add(uuid)
        self._uuids[_address(handle)] = uuid

    def has_any(self) -> bool:
        """Return whether there is an error to take."""
        if not self._told and (found := self._next()):
            self._told.append(found)
        return bool(self._told)

    def take(self) -> tuple[probe.Xid, ...]:
        """Return all errors that came since the last time, once."""
        self._told += self._waiting()
        told, self._told = tuple(self._told), []
        return told

    def close(self) -> None:
        """Be told nothing more."""
        if self._set is not None:
            _granted(pynvml.nvmlEventSetFree, self._set)
        self._set = None

    def _waiting(self) -> Iterator[probe.Xid]:
        for _ in range(MOST_AT_ONCE):
            found = self._next()
            if found is None:
                return
            yield found

    def _next(self) -> probe.Xid | None:
        """Return an error that waits to be told; None when there is none, or nobody can tell."""
        if self._set is None:
            return None
        try:
            told = calls.ask(pynvml.nvmlEventSetWait_v2, self._set, 0)
        except calls.Failed:
            # Mostly that nothing has happened. A library that fails shows in the look that follows.
            return None
        return probe.Xid(self._name(told.device), int(told.eventData))

    def _name(self, handle: Any) -> str:
        """Name the card of a handle; empty for one that was never read."""
        return self._uuids.get(_address(handle), "")


def _granted(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return calls.ask(call, *arguments)
    except calls.Failed:
        return None


def _address(handle: Any) -> int:
    return ctypes.addressof(handle.contents) if handle else 0
