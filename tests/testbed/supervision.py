"""Keeps a program running, as a kubelet keeps the control plane's static pods.

The controller manager ends itself when the API server is away at the wrong moment, and tests take the API
server away on purpose. On a real cluster it would be back seconds later, so here too.
"""

import contextlib
import threading
from collections.abc import Callable

from testbed import processes

PAUSE_SECONDS = 0.5


class Supervised:
    """A program that is started again whenever it ends, until it is stopped."""

    def __init__(self, launch: Callable[[], processes.Program]) -> None:
        """Start it by calling `launch`, now and after each of its deaths."""
        self._launch = launch
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._program = launch()
        self._keeper = threading.Thread(target=self._keep, daemon=True, name=f"keep-{self._program.name}")
        self._keeper.start()

    def stop(self, *, grace: float) -> None:
        """Stop it for good."""
        self._stopping.set()
        with (
            self._lock
        ):  # From here on nothing is launched: whoever gets the lock next sees that we are stopping.
            self._program.stop(grace=grace)
        self._keeper.join()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self._program.process.wait()
            self._stopping.wait(PAUSE_SECONDS)
            # When the interpreter ends without a stop, the programs die with it and no new one can be
            # started.
            with self._lock, contextlib.suppress(RuntimeError):
                if not self._stopping.is_set():
                    self._program = self._launch()
