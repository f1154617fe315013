"""Whether NVIDIA's container runtime is set up, so that containers get what their environment names.

Its configuration is looked at again and again, because drivers and runtimes are installed while agents run.
"""

import asyncio
import dataclasses
import logging
import tomllib
from pathlib import Path
from typing import Final, Never

from berth_agent import device_status
from berth_agent.way import Way
from berth_crds import vocabulary, wire

log = logging.getLogger(__name__)

OBEYS: Final = "accept-nvidia-visible-devices-envvar-when-unprivileged"


@dataclasses.dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """The files of which one says how the runtime is set up, as a rule the same file in several places."""

    files: tuple[Path, ...]

    def failure(self) -> str:
        """Return why containers do not get what their environment names; empty if they do."""
        failures = [failure(path) for path in self.files]
        return "" if "" in failures else " ".join(failures)


def failure(path: Path) -> str:
    """Return why the runtime whose configuration is in a file does not obey; empty if it does."""
    try:
        settings = tomllib.loads(path.read_text())
    except OSError as error:
        return f"{path}: {error.strerror or error}."
    except ValueError as error:  # Also what is no UTF-8.
        return f"{path} cannot be read: {error}."
    return f"{path} says {OBEYS} = false." if settings.get(OBEYS) is False else ""


class RuntimeWatch(Way):
    """Looks at the configuration of one node's runtime."""

    def __init__(self, config: RuntimeConfig, *, interval: float) -> None:
        self._config = config
        self._interval = interval
        self._failure = "The configuration of the NVIDIA runtime has not been checked yet."

    async def run(self) -> Never:
        """Look for ever."""
        while True:
            self._failure = await asyncio.to_thread(self._config.failure)
            await asyncio.sleep(self._interval)

    def condition(self) -> wire.Condition:
        """Return whether the runtime obeys the environment of containers; it has no time yet."""
        return device_status.ready_or_not(
            vocabulary.DeviceCondition.ENV_READY,
            self._failure,
            failed="NoRuntime",
            fine="RuntimeFound",
            message="NVIDIA's container runtime is set up, and obeys the environment of containers.",
        )
