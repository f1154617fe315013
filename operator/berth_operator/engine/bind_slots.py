"""Limits on the requests that are under way at once: of all namespaces, and of each.

A webhook may take seconds for the binds of one namespace. If these had all slots, the binds of all
other namespaces would wait as well; and since the server has limits of its own, it would soon reject
all binds. So each namespace has a window, as a connection has: few requests at once at first, one more
for each quick answer, until only the number of all slots limits it. A request without an answer after
a moment makes its namespace slow: the window closes to a few again, and the requests under way there
do not use the slots of other namespaces any more.
"""

import asyncio
import collections
import dataclasses
from collections.abc import Callable, Collection
from typing import Final

SLOW_SECONDS: Final = 0.5
FIRST_WIDTH: Final = 16  # Few enough not to take all that a server has for one priority level.
PRECISION_SECONDS: Final = 0.001  # A timer may come a trifle too early.
FORGOTTEN_SECONDS: Final = 60.0  # After the last request of a namespace.


@dataclasses.dataclass(slots=True, eq=False)
class Window:
    """How many requests of a namespace may be under way; `slow_slots_used` counts those in slow slots."""

    namespace: str
    width: int
    last_used_at: float
    slow: bool = False
    slow_slots_used: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class Slot:
    """The right to have one request under way."""

    window: Window
    is_slow_slot: bool  # One of those for slow namespaces: it uses none of the others.
    sent_at: float | None = None
    released: bool = False


class BindSlots:
    """Slots for requests; `changed` is called when a namespace becomes slow, or is not slow any more."""

    def __init__(self, at_once: int, changed: Callable[[], None]) -> None:
        self._at_once = at_once
        self._first_width = min(FIRST_WIDTH, at_once)
        self.most_slow = max(1, at_once // 2)  # Requests of all slow namespaces together.
        self._slow_width = min(FIRST_WIDTH, self.most_slow)
        self._on_change = changed
        self._free = asyncio.Semaphore(at_once)
        self._windows: dict[str, Window] = {}
        self._slow: dict[str, Window] = {}  # Of these.
        self._slow_slot_free = asyncio.Event()
        self._timed: collections.deque[Slot] = collections.deque()  # In order; some are released already.
        self._timer: asyncio.TimerHandle | None = None
        self._pruned_at = 0.0

    @property
    def slow(self) -> Collection[str]:
        """The slow namespaces."""
        return self._slow.keys()

    def width(self, namespace: str) -> int | None:
        """Return how many requests of a namespace may be under way; None if only the limit of all applies."""
        if (window := self._windows.get(namespace)) is None:
            return self._first_width if self._first_width < self._at_once else None
        return window.width if window.slow or window.width < self._at_once else None

    async def acquire(self, namespace: str) -> Slot | None:
        """Wait for a slot; return None if the namespace turns out to be slow meanwhile."""
        window = self._window(namespace)
        if window.slow:
            return await self.acquire_patiently(namespace)
        await self._free.acquire()
        if not window.slow:
            return Slot(window, is_slow_slot=False)
        self._free.release()
        return None

    async def acquire_patiently(self, namespace: str) -> Slot:
        """Wait for a slot, however long that takes in a slow namespace."""
        window = self._window(namespace)
        while window.slow:
            used = sum(one.slow_slots_used for one in self._slow.values())
            if window.slow_slots_used < window.width and used < self.most_slow:
                window.slow_slots_used += 1
                return Slot(window, is_slow_slot=True)
            self._slow_slot_free.clear()
            await self._slow_slot_free.wait()
        await self._free.acquire()
        return Slot(window, is_slow_slot=False)

    def start_timing(self, slot: Slot) -> None:
        """Start to measure how long the answer takes."""
        slot.sent_at = self._now()
        self._timed.append(slot)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._find_slow)

    def release(self, slot: Slot) -> None:
        """Make a slot free for another request."""
        slot.released = True
        window = slot.window
        if slot.is_slow_slot:
            window.slow_slots_used -= 1
            self._slow_slot_free.set()
        else:
            self._free.release()
        quick = slot.sent_at is not None and self._now() - slot.sent_at < SLOW_SECONDS
        if quick and (window.slow or window.width < self._at_once):
            window.width = min(window.width + 1, self._at_once)
            if window.width == self._at_once:
                self._set_slow(window, slow=False)

    # ------------------------------------------------------------ slow namespaces

    def _find_slow(self) -> None:
        """Find requests that take long; runs again while any are under way."""
        self._timer = None
        now = self._now()
        while self._timed:
            slot = self._timed[0]
            due = (slot.sent_at or 0.0) + SLOW_SECONDS
            if not slot.released and due - now > PRECISION_SECONDS:
                self._timer = asyncio.get_running_loop().call_at(due, self._find_slow)
                return
            if not slot.released:
                self.narrow(slot.window.namespace)
            self._timed.popleft()

    def narrow(self, namespace: str) -> None:
        """Narrow the window of a namespace, and move its requests under way to slow slots.

        In a window that is slow already, these are requests that had their slot before and were sent late.
        """
        window = self._window(namespace)
        window.width = self._slow_width
        for slot in self._timed:
            if slot.window is window and not slot.released and not slot.is_slow_slot:
                slot.is_slow_slot = True
                window.slow_slots_used += 1
                self._free.release()
        if not window.slow:
            self._set_slow(window, slow=True)

    def _set_slow(self, window: Window, *, slow: bool) -> None:
        window.slow = slow
        self._slow = {name: one for name, one in self._windows.items() if one.slow}
        self._slow_slot_free.set()
        self._on_change()

    def _window(self, namespace: str) -> Window:
        now = self._now()
        if now - self._pruned_at > FORGOTTEN_SECONDS:
            self._prune(now)
        if (window := self._windows.get(namespace)) is None:
            window = self._windows[namespace] = Window(namespace, self._first_width, now)
        window.last_used_at = now
        return window

    def _prune(self, now: float) -> None:
        """Forget the namespaces without requests for long."""
        self._pruned_at = now
        in_use = {id(slot.window) for slot in self._timed if not slot.released}
        self._windows = {
            name: one
            for name, one in self._windows.items()
            if now - one.last_used_at <= FORGOTTEN_SECONDS or one.slow_slots_used or id(one) in in_use
        }
        self._slow = {name: one for name, one in self._windows.items() if one.slow}

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
