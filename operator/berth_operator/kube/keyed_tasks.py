"""Tasks by key: several keys at a time, and one task for each."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from berth_crds import tasks

T = TypeVar("T")


class KeyedTasks(Generic[T]):
    """Runs one task for each key; the tasks outlive their callers."""

    def __init__(self) -> None:
        self._tasks: dict[T, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of tasks that run."""
        return len(self._tasks)

    def __contains__(self, key: object) -> bool:
        """Whether the task of a key runs."""
        return key in self._tasks

    def keys(self) -> tuple[T, ...]:
        """Return the keys whose tasks run."""
        return tuple(self._tasks)

    def start(self, key: T, work: Coroutine[Any, Any, None]) -> None:
        """Start the task of a key."""
        task = self._tasks[key] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._finished(key))

    def _finished(self, key: T) -> None:
        del self._tasks[key]
        self.notify()

    def notify(self) -> None:
        """Wake the caller of `wait_changed`."""
        self._changed.set()

    async def wait_changed(self) -> None:
        """Wait until a task ends or `notify` is called."""
        await self._changed.wait()
        self._changed.clear()

    async def wait_for(self, key: T, seconds: float) -> None:
        """Wait until the task of a key ends, at most so long."""
        if (task := self._tasks.get(key)) is not None:
            await asyncio.wait([task], timeout=seconds)

    async def cancel(self) -> None:
        """Cancel all tasks, and wait for their end."""
        await tasks.end(tuple(self._tasks.values()))
