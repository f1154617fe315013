"""How many requests are under way at once: of all namespaces, and of one whose requests take long.

A webhook may take seconds for the binds of one namespace. If these had all slots, the binds of
all other namespaces would wait with them. So a request that has no answer after a moment counts
for the others no more, and its namespace has a window of its own from then on, as a connection
has that meets congestion: few requests at once, one more for each quick answer, until the window
is as wide as everybody's and is forgotten.
"""

import asyncio
import collections
import dataclasses
from collections.abc import Callable, Collection
from typing import Final

SLOW_SECONDS: Final = 0.5
NARROW: Final = 4  # A window begins with a quarter of all slots.
ALL_NARROW: Final = 2  # All windows together have half of them.
FORGOTTEN_SECONDS: Final = 60.0  # After the last slow answer, where nothing has been asked since.


@dataclasses.dataclass(slots=True, eq=False)
class Window:
    """What one slow namespace has: so many requests at once, and those that are under way."""

    width: int
    slow_at: float
    used: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class Slot:
    """Leave for one request."""

    namespace: str
    window: Window | None  # None: it counts for all.
    sent: float | None = None
    over: bool = False


class Counts:
    """How many there are in all, and in each namespace."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[str, int] = {}

    def of(self, namespace: str) -> int:
        """Return how many there are in a namespace."""
        return self._of.get(namespace, 0)

    def add(self, namespace: str) -> None:
        """Count one more."""
        self.total += 1
        self._of[namespace] = self.of(namespace) + 1

    def drop(self, namespace: str) -> None:
        """Count one less."""
        self.total -= 1
        self._of[namespace] -= 1
        if not self._of[namespace]:
            del self._of[namespace]


class Slots:
    """Hands out leave to send; `changed` hears when a namespace gets a window or loses it."""

    def __init__(self, at_once: int, changed: Callable[[], None]) -> None:
        self._at_once = at_once
        self._changed = changed
        self._free = asyncio.Semaphore(at_once)
        self._windows: dict[str, Window] = {}
        self._narrow_free = asyncio.Event()
        self._sent: collections.deque[Slot] = collections.deque()  # In order; some are over already.
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        """Describe the state."""
        return f"<Slots: {self._at_once} at once, slow: {sorted(self._windows)}>"

    @property
    def slow(self) -> Collection[str]:
        """The namespaces that have windows."""
        return self._windows.keys()

    def width(self, namespace: str) -> int | None:
        """Return how many requests of a namespace may be under way; None where only those of all count."""
        window = self._window(namespace)
        return window.width if window is not None else None

    async def take(self, namespace: str) -> Slot | None:
        """Wait for a slot; there is none for whoever waits when the namespace turns out to be slow."""
        if self._window(namespace) is not None:
            return await self.take_narrow(namespace)
        await self._free.acquire()
        if self._window(namespace) is None:
            return Slot(namespace, None)
        self._free.release()
        return None

    async def take_narrow(self, namespace: str) -> Slot:
        """Wait for a slot, in the window if there is one."""
        while (window := self._window(namespace)) is not None:
            if window.used < window.width and self._used < max(1, self._at_once // ALL_NARROW):
                window.used += 1
                return Slot(namespace, window)
            self._narrow_free.clear()
            await self._narrow_free.wait()
        await self._free.acquire()
        return Slot(namespace, None)

    @property
    def _used(self) -> int:
        return sum(one.used for one in self._windows.values())

    def send(self, slot: Slot) -> None:
        """Begin to measure how long the answer takes."""
        slot.sent = self._now()
        self._sent.append(slot)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._look)

    def give_back(self, slot: Slot) -> None:
        """Let another request have this slot."""
        slot.over = True
        if slot.window is None:
            self._free.release()
            return
        slot.window.used -= 1
        if slot.sent is not None and self._now() - slot.sent < SLOW_SECONDS:
            self._widen(slot.namespace, slot.window)
        self._narrow_free.set()

    def _widen(self, namespace: str, window: Window) -> None:
        window.width += 1
        if window.width >= self._at_once and self._windows.get(namespace) is window:
            self._forget(namespace)

    # ------------------------------------------------------------ who is slow

    def _look(self) -> None:
        """Find requests that take long; called as long as any are under way."""
        self._timer = None
        latest = self._now() - SLOW_SECONDS
        while self._sent:
            slot = self._sent[0]
            if not slot.over and slot.sent is not None and slot.sent > latest:
                wait = slot.sent - latest
                self._timer = asyncio.get_running_loop().call_later(wait, self._look)
                return
            self._sent.popleft()
            if not slot.over:
                self._take_note(slot)

    def _take_note(self, slot: Slot) -> None:
        """Have a namespace keep to a narrow window."""
        window = self._windows.get(slot.namespace)
        narrow = max(1, self._at_once // NARROW)
        if window is None:
            window = self._windows[slot.namespace] = Window(narrow, self._now())
            for one in (slot, *self._sent):
                if one.namespace == slot.namespace and one.window is None and not one.over:
                    one.window = window
                    window.used += 1
                    self._free.release()
            self._changed()
        window.width, window.slow_at = narrow, self._now()

    def _window(self, namespace: str) -> Window | None:
        window = self._windows.get(namespace)
        if window is not None and not window.used and self._now() - window.slow_at > FORGOTTEN_SECONDS:
            self._forget(namespace)
            return None
        return window

    def _forget(self, namespace: str) -> None:
        del self._windows[namespace]
        self._narrow_free.set()
        self._changed()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
