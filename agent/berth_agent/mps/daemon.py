"""Keeps the daemon of MPS running for the cards of one node, and tells it the limits of replicas.

Programs that run depend on the daemon, so an agent that finds one leaves it alone, and nobody but a person
ends it (`echo quit | nvidia-cuda-mps-control`), or the end of the container in which it was started.
"""

import asyncio
import contextlib
import dataclasses
import logging
import os
import shutil
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Never

from berth_agent.delivery.isolation import LOG_FOLDER, PIPE_FOLDER, SHM, SHM_FOLDER
from berth_agent.mps import limits
from berth_agent.way import Way
from berth_crds import wire

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 5.0
# NVIDIA's own question for whether the daemon is ready.
CARDS: Final = "cards"  # The file that says for which cards the daemon was started.
NOT_READ: Final = "the cards of the node have not been read yet"
QUESTION: Final = "get_default_active_thread_percentage"


@dataclasses.dataclass(frozen=True, slots=True)
class MpsConfig:
    """Where the daemon has its folders, what starts it, and how cards are set for it.

    `make_exclusive` lets no program on these cards but by way of MPS; it returns what failed. `shm` is where
    the daemon finds its shared memory.
    """

    root: Path
    program: str = "nvidia-cuda-mps-control"
    sharing: wire.Sharing | None = None
    make_exclusive: Callable[[Sequence[str]], str] = lambda _: ""
    shm: Path = Path(SHM)


class _Failed(Exception):
    """The daemon does not serve; the text is a clause."""


class MpsDaemon(Way):
    """The daemon of one node."""

    def __init__(self, config: MpsConfig, node: str, *, interval: float) -> None:
        self._config = config
        self._node = node
        self._interval = interval
        self._cards: tuple[wire.Card, ...] | None = None
        self._cards_changed = asyncio.Event()
        self._told: tuple[str, ...] | None = None  # By this agent, and what.
        self._failure = NOT_READ

    @property
    def failure(self) -> str:
        """Why the daemon does not serve, as a clause; empty if it does."""
        return self._failure

    @property
    def root(self) -> Path:
        """Where its folders are."""
        return self._config.root

    def set_device(self, spec: wire.DeviceSpec, unusable: Collection[str]) -> None:  # noqa: ARG002
        """Set the cards of the node, the sick ones among them."""
        self.set_cards(spec.devices)

    def set_cards(self, cards: Sequence[wire.Card]) -> None:
        """Set the cards of the node, and have them served at once where they have changed."""
        if (found := tuple(cards)) != self._cards:
            self._cards = found
            self._cards_changed.set()

    async def run(self) -> Never:
        """Look for ever whether it serves, and start it where it does not."""
        while True:
            self._cards_changed.clear()
            before, self._failure = self._failure, await self._look()
            if self._failure != before:
                log.log(
                    logging.WARNING if self._failure else logging.INFO,
                    "node %s: MPS %s",
                    self._node,
                    f"is not available: {self._failure}" if self._failure else "is available",
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._cards_changed.wait()

    async def _look(self) -> str:
        """Have the daemon serve the cards; return why it does not."""
        if self._cards is None:
            return NOT_READ
        try:
            await self._serve(limits.served(self._cards))
        except _Failed as failure:
            return f"{failure}"
        return ""

    async def _serve(self, cards: Sequence[wire.Card]) -> None:
        if not cards:
            raise _Failed("the node has no card that it can serve")
        if fault := limits.excess_of_clients(cards, self._config.sharing):
            raise _Failed(fault)
        self._make_folders()
        uuids = [card.uuid for card in cards]
        answer = await self._answer(uuids)
        if answer is None:
            await self._start(uuids)
        numbered = self._numbered(cards)
        commands = limits.commands(numbered, self._config.sharing)
        # One that somebody else has started since has forgotten its limits.
        if commands != self._told or not _says(answer, limits.percentage(self._config.sharing)):
            for command in commands:
                await self._run(uuids, text=command)
            self._told = commands

    def _numbered(self, cards: Sequence[wire.Card]) -> Sequence[wire.Card]:
        """Return the cards as the daemon numbers them: in the order in which it was started for them.

        Raise where it was started for others, for it cannot be told of new ones.
        """
        try:
            # What is no text names no card of the node, and so is a reason, too.
            served = (self._config.root / CARDS).read_text(errors="replace").split()
        except OSError:
            return cards  # Somebody else has started it, and knows for which cards.
        by_uuid = {card.uuid: card for card in cards}
        if set(served) != set(by_uuid):
            raise _Failed(
                f"it serves {', '.join(served)}, and the node has {', '.join(by_uuid)}:"
                " stop it when no program uses it"
            )
        return [by_uuid[uuid] for uuid in served]

    def _make_folders(self) -> None:
        """Make the folders, and see that the daemon shares its memory with containers."""
        root = self._config.root
        try:
            for name in (PIPE_FOLDER, LOG_FOLDER, SHM_FOLDER):
                (root / name).mkdir(parents=True, exist_ok=True)
            shared = (root / SHM_FOLDER).samefile(self._config.shm)
        except OSError as error:
            raise _Failed(f"{error}") from error
        if not shared:
            raise _Failed(f"{self._config.shm} is not {root / SHM_FOLDER}: mount one at the other")

    async def _start(self, uuids: Sequence[str]) -> None:
        if shutil.which(self._config.program) is None:
            raise _Failed(f"there is no program {self._config.program}")
        if failure := await asyncio.to_thread(self._config.make_exclusive, uuids):
            raise _Failed(failure)
        self._told = None
        path = self._config.root / CARDS
        half = path.with_suffix(".half")
        try:
            half.write_text("\n".join(uuids))
            # It goes on in the background, and would keep a pipe open.
            await self._run(uuids, "-d", pipe=asyncio.subprocess.DEVNULL)
            # Not before: one that runs and was only slow to answer refuses, and has the cards that it had.
            half.replace(path)
        except OSError as error:
            raise _Failed(f"{error}") from error
        if await self._answer(uuids) is None:
            raise _Failed(
                f"it was started and does not answer; its log is in {self._config.root / LOG_FOLDER}"
            )

    async def _answer(self, uuids: Sequence[str]) -> str | None:
        """Return what the daemon answers; None where it does not."""
        try:
            return await self._run(uuids, text=QUESTION)
        except _Failed:
            return None

    async def _run(
        self, uuids: Sequence[str], *words: str, text: str = "", pipe: int = asyncio.subprocess.PIPE
    ) -> str:
        """Run the control program, with a command for the daemon if there is one, and return what it says."""
        try:
            process = await asyncio.create_subprocess_exec(
                self._config.program,
                *words,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=os.environ | self._environment(uuids),
                start_new_session=True,
            )
        except OSError as error:
            raise _Failed(f"{self._config.program} cannot be run: {error}") from error
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                said, wrong = await process.communicate(f"{text}\n".encode() if text else None)
        except TimeoutError as error:
            raise _Failed(f"{self._config.program} does not end") from error
        finally:
            await _ended(process)
        if process.returncode:
            why = (wrong or said or b"").decode(errors="replace").strip()
            raise _Failed(f"{self._config.program}: {why or f'exit code {process.returncode}'}")
        return (said or b"").decode(errors="replace").strip()

    def _environment(self, uuids: Sequence[str]) -> Mapping[str, str]:
        return {
            "CUDA_MPS_PIPE_DIRECTORY": f"{self._config.root / PIPE_FOLDER}",
            "CUDA_MPS_LOG_DIRECTORY": f"{self._config.root / LOG_FOLDER}",
            "CUDA_VISIBLE_DEVICES": ",".join(uuids),
        }


def _says(answer: str | None, percentage: int) -> bool:
    """Whether the daemon answers with this limit of compute."""
    try:
        return answer is not None and round(float(answer)) == percentage
    except (ValueError, OverflowError):
        return False


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End a process that has not ended by itself, and whatever it has started: a child may keep its pipes."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
