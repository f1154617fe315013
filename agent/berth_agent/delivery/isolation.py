"""What keeps a container to its parts of cards: MPS, HAMi's library, or nothing.

Each kind adds variables and files to a container as the runtime makes it. What it needs on the node and does
not find there keeps such a container from being made: it would take more than its part.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from berth_agent.delivery.containers import WRITABLE, Limits, Mount, Part, Undeliverable, no_limits
from berth_crds import catalog
from berth_crds.vocabulary import IsolationReason

PIPE_FOLDER: Final = "pipe"
LOG_FOLDER: Final = "log"
SHM_FOLDER: Final = "shm"
PIPE_IN_CONTAINER: Final = "/mps/pipe"
MPS_PIPE: Final = "CUDA_MPS_PIPE_DIRECTORY"
SHM: Final = "/dev/shm"  # noqa: S108  by which MPS and its clients share memory
LIBRARY: Final = "libvgpu.so"
PRELOAD: Final = "ld.so.preload"
LIBRARY_IN_CONTAINER: Final = f"/usr/local/vgpu/{LIBRARY}"  # Which HAMi's own list names.
PRELOAD_IN_CONTAINER: Final = f"/etc/{PRELOAD}"


class State(NamedTuple):
    """Whether parts are enforced now: why not, if so, and by what otherwise."""

    failure: str
    reason: IsolationReason = IsolationReason.NOT_ENFORCED
    message: str = ""


class Isolation(Protocol):
    """One kind of isolation."""

    def limits(self, parts: Sequence[Part]) -> Limits:
        """Return what keeps a container to its parts, or raise `Undeliverable`."""

    def state(self) -> State:
        """Return whether parts are enforced."""


class NotIsolated:
    """Nothing is enforced: a program learns its part from its variables."""

    def limits(self, parts: Sequence[Part]) -> Limits:
        """Return nothing."""
        return no_limits(parts)

    def state(self) -> State:
        """Return that nothing is enforced."""
        return State("Nothing stops a program that takes more than its part of a card.")


NOT_ISOLATED: Final = NotIsolated()


class Mps(Protocol):
    """The daemon of MPS."""

    @property
    def root(self) -> Path:
        """Where its folders are."""

    @property
    def failure(self) -> str:
        """Why it does not serve, as a clause; empty if it does."""


class MpsIsolation:
    """The limits of MPS, which its daemon enforces."""

    def __init__(self, mps: Mps) -> None:
        self._mps = mps

    def limits(self, parts: Sequence[Part]) -> Limits:
        """Return the way to the daemon, which each container with a card needs, and its limits."""
        cards = [part for part in parts if part.given.instance is None]
        if not cards:
            return Limits()
        if failure := self._mps.failure:
            raise Undeliverable(f"MPS does not serve: {failure}")
        memory = ",".join(f"{at}={_mib(part)}M" for at, part in enumerate(parts) if _is_limited(part))
        env = {MPS_PIPE: PIPE_IN_CONTAINER}
        env |= {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": memory} if memory else {}
        env |= _least_core(parts, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") | _order(parts)
        return Limits(env, mps_mounts(self._mps.root))

    def state(self) -> State:
        """Return whether the daemon answers."""
        return State(
            self._mps.failure, IsolationReason.BY_MPS, "MPS keeps each container to its parts of cards."
        )


def mps_mounts(root: Path) -> tuple[Mount, ...]:
    """Return the files by which a container reaches the daemon; its own shared memory gives way."""
    return (
        Mount(f"{root / PIPE_FOLDER}", PIPE_IN_CONTAINER, WRITABLE),
        Mount(f"{root / SHM_FOLDER}", SHM, WRITABLE, replaces=True),
    )


class HamiIsolation:
    """HAMi's library, which stands between programs and the driver, from a folder of the node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def limits(self, parts: Sequence[Part]) -> Limits:
        """Return the library and what it is to enforce; a container with whole cards alone needs neither."""
        if not any(map(_is_limited, parts)):
            return Limits()
        if failure := self._missing():
            raise Undeliverable(failure)
        env = {
            f"CUDA_DEVICE_MEMORY_LIMIT_{at}": f"{_mib(part)}m"
            for at, part in enumerate(parts)
            if _is_limited(part)
        }
        env |= _least_core(parts, "CUDA_DEVICE_SM_LIMIT") | _order(parts)
        mounts = (
            Mount(f"{self._folder / LIBRARY}", LIBRARY_IN_CONTAINER),
            Mount(f"{self._folder / PRELOAD}", PRELOAD_IN_CONTAINER),
        )
        return Limits(env, mounts)

    def state(self) -> State:
        """Return whether the library is there."""
        return State(
            self._missing(),
            IsolationReason.BY_HAMI,
            "HAMi's library keeps each container to its parts of cards.",
        )

    def _missing(self) -> str:
        missing = [name for name in (LIBRARY, PRELOAD) if not (self._folder / name).is_file()]
        return f"HAMi's {missing[0]} is not in {self._folder}" if missing else ""


def _is_limited(part: Part) -> bool:
    """Whether a container has less than all of a card; instances are isolated by the hardware."""
    return part.given.instance is None and not part.is_whole


def _mib(part: Part) -> int:
    return part.memory // catalog.MIB


def _least_core(parts: Sequence[Part], variable: str) -> dict[str, str]:
    """Return the variable that limits the compute of all cards alike: to the smallest part, if any."""
    limits = [part.core for part in parts if _is_limited(part) and part.core]
    return {variable: str(min(limits))} if limits else {}


def _order(parts: Sequence[Part]) -> dict[str, str]:
    """Return the variable that has CUDA number several cards in the order in which their limits are."""
    if len(parts) == 1 or not any(map(_is_limited, parts)):
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(part.given.uuid for part in parts)}
