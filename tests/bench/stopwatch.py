"""Adds up the processor time of the parts of a program, each without the parts inside it."""

import collections
import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar
from unittest import mock

P = ParamSpec("P")
T = TypeVar("T")


class Stopwatch:
    """Time of this thread by part; what a part calls of another part is that one's."""

    def __init__(self) -> None:
        self.seconds = collections.defaultdict[str, float](float)
        self._inner = 0.0  # What parts inside the present one have taken.

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Let the block be a part."""
        outer, self._inner = self._inner, 0.0
        started = time.thread_time()
        try:
            yield
        finally:
            took = time.thread_time() - started
            self.seconds[name] += took - self._inner
            self._inner = outer + took

    def timed(self, name: str, function: Callable[P, T]) -> Callable[P, T]:
        """Return the function as a part."""

        @functools.wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            with self.part(name):
                return function(*args, **kwargs)

        return measured

    def patched(self, name: str, owner: object, attribute: str) -> contextlib.AbstractContextManager[object]:
        """Let a function of a module or a class be a part, in the block."""
        return mock.patch.object(owner, attribute, self.timed(name, getattr(owner, attribute)))
