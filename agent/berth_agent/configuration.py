"""The settings of the agent, with what its configuration file says; read again when that may have changed.

Which file it is may be for the Node to say, by a label. So the settings without a file come first: they say
how to reach the API server.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from berth_agent import config_choice, config_file
from berth_agent.flag_table import PROGRAM
from berth_agent.settings import Settings, parse
from berth_crds import flags
from berth_crds.client import api, connection, errors, resources

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0  # Where the API server does not say which file it is.
CHECK_SECONDS: Final = 60.0  # Between two looks at the label of the Node.


class SettingsReader:
    """Reads the settings of one process from its command line, its environment, and a file."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], *, host: str) -> None:
        """Read the settings `without_file`, or raise a usage error; `--help` prints and exits."""
        self._arguments = arguments
        self._environment = environment
        self._host = host
        self._is_due = asyncio.Event()
        self.without_file = parse(arguments, environment, host=host, checked=False)

    async def at_start(self) -> Settings:
        """Return the settings; wait for the API server if the Node says which file it is."""
        while True:
            try:
                settings, unused = await self._read()
            except errors.Unusable:
                raise
            except errors.ClientError as error:
                log.warning("the label with the node's configuration cannot be read yet: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            for key in unused:
                log.warning("the configuration file says %s, which the agent does not use", key)
            return settings

    def look_again(self) -> None:
        """Have the settings read soon, and once more if they are being read just now."""
        self._is_due.set()

    async def changed(self, settings: Settings) -> None:
        """Return once the settings differ from these; what cannot be used, or read, changes nothing."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS if self.without_file.config_folder else None):
                    await self._is_due.wait()
            self._is_due.clear()
            try:
                found, _ = await self._read()
            except (flags.UsageError, errors.ClientError) as error:
                log.warning("the configuration stays as it was: %s", error)
                continue
            except Exception:
                log.exception("the configuration stays as it was")
                continue
            if found != settings:
                log.info("the configuration has changed: starting anew")
                return

    async def _read(self) -> tuple[Settings, Sequence[str]]:
        """Return the settings, and what the file says in vain."""
        path = self.without_file.config_file
        if self.without_file.config_folder:
            path = await self._file_of_node(self.without_file.config_folder)
        config = config_file.read(path) if path else config_file.NONE
        settings = parse(self._arguments, self._environment, host=self._host, config=config)
        return settings, config.unused

    async def _file_of_node(self, folder: config_choice.ConfigFolder) -> Path | None:
        first = self.without_file
        link = connection.load(first.kubeconfig, context=first.context)
        async with api.Api(link, agent=PROGRAM) as session:
            node = await session.find(resources.NODES, first.nodes[0].name, into=api.WithMetadata)
        label = node.metadata.labels.get(config_choice.LABEL, "") if node else ""
        name = config_choice.chosen(label, config_choice.files(folder.path), folder)
        return folder.path / name if name else None


def ignore_hangups() -> None:
    """Have a SIGHUP do nothing: until the new program has learned what it means, it would end it."""
    asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def start_anew() -> None:
    """Start the program in place of this process, which keeps its number; containers go on meanwhile."""
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606  # the same command once more


def start_anew_unless(stop: asyncio.Event) -> None:
    """Start the program anew, unless it has been told to end."""
    if not stop.is_set():
        start_anew()
