"""Keeps the CDI spec of a node true: it is written when its contents change, whole or not at all.

It stays when the agent ends, because containers that are made meanwhile name its devices. It is removed when
the node has no card any more that could be opened.
"""

import asyncio
import contextlib
import dataclasses
import logging
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Never

import msgspec

from berth_agent import backoff, device_status
from berth_agent.cdi import specs
from berth_agent.delivery.means import DirectMeans
from berth_agent.way import Cards, Way
from berth_crds import vocabulary, wire

log = logging.getLogger(__name__)

FILE: Final = "berth.dev-gpu.json"
MOST_PAUSE_SECONDS: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class CdiConfig:
    """The folder that container runtimes read, and what opens the cards of the node."""

    folder: Path
    means: DirectMeans


class CdiWriter(Way):
    """Writes the spec of one node."""

    def __init__(self, config: CdiConfig, node: str, cards: Cards, *, interval: float) -> None:
        self._path = config.folder / FILE
        self._node = node
        self._cards = cards
        self._means = config.means
        self._interval = interval
        self._failure = "It has not been written yet."
        self._spec = specs.NodeSpec(None)
        self._failure_log = backoff.FailureLog(log, f"node {node}: the CDI spec {self._path} is not kept")

    async def run(self) -> Never:
        """Look for changes for ever."""
        while True:
            seconds = await self._refresh()
            await asyncio.sleep(seconds)

    def condition(self) -> wire.Condition:
        """Return whether the spec is kept and names cards, if the node has any; it has no time yet."""
        missing = "; ".join(self._spec.missing)
        failure, fine, message = self._failure, "Written", f"{self._path} names the cards."
        if self._spec.content is None:
            fine, message = "NothingToWrite", f"{self._path} is not there: no card has a device node."
            failure = failure or (missing and f"No card can be opened: {missing}.")
        elif missing:
            message = f"{self._path} names the cards, but for some that cannot be opened: {missing}."
        kind = vocabulary.DeviceCondition.CDI_READY
        return device_status.ready_or_not(kind, failure, failed="NotWritten", fine=fine, message=message)

    async def _refresh(self) -> float:
        """Make the file agree with the node, and return how long to rest."""
        if (cards := self._cards()) is None:
            return min(self._interval, 1.0)
        try:
            spec, changed = await asyncio.to_thread(self._write, cards)
        except OSError as error:
            self._failure = f"{self._path}: {error.strerror or error}"
            return self._failure_log.failed(error, most=MOST_PAUSE_SECONDS)
        self._failure_log.succeeded()
        self._failure, self._spec = "", spec
        if changed:
            log.info("node %s: %s is %s", self._node, self._path, changed)
        return self._interval

    def _write(self, cards: Sequence[wire.Card]) -> tuple[specs.NodeSpec, str]:
        """Write the file if that changes it; return the spec, and what was done, empty for nothing."""
        spec = specs.spec(cards, self._means)
        if spec.content is None:
            existed = self._path.is_symlink() or self._path.exists()
            self._path.unlink(missing_ok=True)
            return spec, "removed" if existed else ""
        content = msgspec.json.format(msgspec.json.encode(spec.content)) + b"\n"
        if _is(self._path, content):
            return spec, ""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        _replace(self._path, content)
        return spec, "written"


def _is(path: Path, content: bytes) -> bool:
    """Return whether a file has this content; what is no file has none, and what is longer is not read on."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(handle, "rb") as file:
        return stat.S_ISREG(os.fstat(handle).st_mode) and file.read(len(content) + 1) == content


def _replace(path: Path, content: bytes) -> None:
    """Replace a file as a whole, for a runtime may read it at any moment; half ones it passes over."""
    handle, half = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".half")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(half).chmod(0o644)
        Path(half).rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(half).unlink()
        raise
