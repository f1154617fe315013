"""The daemon of MPS, played by a program that does what NVIDIA's control program promises."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pynvml
import pytest

from berth_agent.mps import daemon, limits
from berth_agent.mps.daemon import MpsConfig, MpsDaemon
from berth_agent.nvml import compute_mode
from berth_crds import catalog, wire
from support import nodes, timeless
from support.nvml import presets
from testbed import waiting

CARDS = tuple(
    wire.Card(f"GPU-{minor}", "gpu", minor, memory=16 * catalog.GIB, compute_capability="8.0")
    for minor in range(2)
)
CUT = wire.Card("GPU-m", "gpu", 2, mig=wire.Mig(enabled=True))
NIC = wire.Card("nic", "rdma", 0)
BY_MPS = wire.Sharing("mps", 3)

# With -d it starts; a command on its standard input is answered while it runs, and written down.
PLAYED = f"""#!{sys.executable}
import json, os, pathlib, sys, time
pipe = pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
log = pathlib.Path(os.environ["CUDA_MPS_LOG_DIRECTORY"])
said = pipe / "said"
def note(what):
    with said.open("a") as file:
        file.write(json.dumps(what) + "\\n")
if sys.argv[1:] == ["-d"]:
    if (log / "broken").exists():
        sys.exit(0)
    if (pipe / "control").exists():
        sys.exit("An instance of this daemon is already running")
    note(["started", os.environ["CUDA_VISIBLE_DEVICES"]])
    (pipe / "control").touch()
elif not (pipe / "control").exists():
    sys.exit("Cannot find MPS control daemon process")
elif (log / "slow").exists():
    (log / "slow").unlink()
    time.sleep(60)
else:
    command = sys.stdin.readline().strip()
    limit = pipe / "limit"
    if command.startswith("get_"):
        print(limit.read_text() if limit.exists() else "100.0")
    else:
        note(["told", command])
        if "percentage" in command:
            limit.write_text(command.split()[-1] + ".0")
"""


class Scene:
    """A daemon with its folders, and what the played program was told."""

    def __init__(self, folder: Path, sharing: wire.Sharing | None = None) -> None:
        self.root = folder / "mps"
        self.program = folder / "control"
        self.program.write_text(PLAYED)
        self.program.chmod(0o755)
        self.exclusive: list[Sequence[str]] = []
        self.failure = ""
        config = MpsConfig(self.root, f"{self.program}", sharing, self.make_exclusive, shm=self.root / "shm")
        self.daemon = MpsDaemon(config, "n1", interval=0.02)
        self.daemon.set_cards((*CARDS, CUT, NIC))

    def make_exclusive(self, uuids: Sequence[str]) -> str:
        """Note which cards are set."""
        self.exclusive.append(list(uuids))
        return self.failure

    def said(self) -> list[list[str]]:
        """Return what the program was told."""
        path = self.root / "pipe" / "said"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def starts(self) -> int:
        """Count how often it was started."""
        return sum(said[0] == "started" for said in self.said())

    async def until(self, failure: str) -> None:
        """Wait until the daemon says so."""

        async def so() -> bool:
            return failure in self.daemon.failure if failure else not self.daemon.failure

        await waiting.eventually(so, what=failure or "the daemon to serve", seconds=20)


async def test_it_is_started_for_the_cards_and_told_their_limits(tmp_path: Path) -> None:
    """Each replica has its part of the memory, in whole MiB, and of the compute; cut cards are left out."""
    scene = Scene(tmp_path, BY_MPS)
    async with timeless.beside(scene.daemon.run()):
        await scene.until("")

    assert scene.exclusive == [["GPU-0", "GPU-1"]]
    assert scene.said() == [
        ["started", "GPU-0,GPU-1"],
        ["told", "set_default_device_pinned_mem_limit 0 5461M"],
        ["told", "set_default_device_pinned_mem_limit 1 5461M"],
        ["told", "set_default_active_thread_percentage 33"],
    ]


async def test_it_is_found_by_the_next_agent_and_started_when_it_is_gone(tmp_path: Path) -> None:
    """Programs depend on it, so one that answers is left alone."""
    scene = Scene(tmp_path)
    async with timeless.beside(scene.daemon.run()):
        await scene.until("")
    again = Scene(tmp_path)
    async with timeless.beside(again.daemon.run()):
        await again.until("")
        assert again.exclusive == []
        (scene.root / "pipe" / "control").unlink()
        await waiting.eventually(
            lambda: asyncio.sleep(0, scene.starts() == 2), what="another start", seconds=20
        )
    assert scene.starts() == 2


async def test_the_next_agent_has_it_serve_as_soon_as_it_knows_the_cards(tmp_path: Path) -> None:
    """A container that is made meanwhile learns that they are not known yet, and of no fault of the node."""
    scene = Scene(tmp_path)
    async with timeless.beside(scene.daemon.run()):
        await scene.until("")
    config = MpsConfig(scene.root, f"{scene.program}", shm=scene.root / "shm")
    scene.daemon = MpsDaemon(config, "n1", interval=3600)
    async with timeless.beside(scene.daemon.run()):
        await scene.until("the cards of the node have not been read yet")
        scene.daemon.set_cards(CARDS)
        await scene.until("")


async def test_limits_of_an_earlier_agent_are_undone(tmp_path: Path) -> None:
    """Programs then bring their own; those that bring none have all of it."""
    scene = Scene(tmp_path, BY_MPS)
    async with timeless.beside(scene.daemon.run()):
        await scene.until("")
    before = len(scene.said())
    again = Scene(tmp_path)
    async with timeless.beside(again.daemon.run()):
        await again.until("")
        assert again.said()[before:] == [
            ["told", "set_default_device_pinned_mem_limit 0 16384M"],
            ["told", "set_default_device_pinned_mem_limit 1 16384M"],
            ["told", "set_default_active_thread_percentage 100"],
        ]
        before = len(again.said())
        (scene.root / "pipe" / "limit").write_text("50.0")
        await waiting.eventually(
            lambda: asyncio.sleep(0, len(again.said()) > before), what="it to be told again", seconds=20
        )


async def test_cards_that_a_running_daemon_does_not_know_are_told(tmp_path: Path) -> None:
    """It serves those that it was started for, and to end it would end the programs."""
    scene = Scene(tmp_path)
    async with timeless.beside(scene.daemon.run()):
        await scene.until("")
        scene.daemon.set_cards(CARDS[:1])
        await scene.until("it serves GPU-0, GPU-1, and the node has GPU-0: stop it when no program")


async def test_cards_keep_the_numbers_by_which_it_knows_them(tmp_path: Path) -> None:
    """It was started for them in that order, in whatever order the driver finds them later."""
    cards = (CARDS[0], msgspec.structs.replace(CARDS[1], memory=32 * catalog.GIB))
    scene = Scene(tmp_path)
    scene.daemon.set_cards(cards)
    async with timeless.beside(scene.daemon.run()):
        await scene.until("")
    again = Scene(tmp_path)
    again.daemon.set_cards(cards[::-1])
    async with timeless.beside(again.daemon.run()):
        await again.until("")

    told = [said for said in again.said() if said[0] == "told"]
    assert told[: len(told) // 2] == told[len(told) // 2 :]
    assert told[1] == ["told", "set_default_device_pinned_mem_limit 1 32768M"]


async def test_a_spoiled_list_of_its_cards_ends_no_agent(tmp_path: Path) -> None:
    """Which cards it serves is not known, so it counts as one that serves others."""
    scene = Scene(tmp_path)
    async with timeless.beside(scene.daemon.run()):
        await scene.until("")
        (scene.root / "cards").write_bytes(b"GPU-0\n\xff\xfe")
        await scene.until("it serves GPU-0, \ufffd\ufffd, and the node has GPU-0, GPU-1")


async def test_a_daemon_that_is_slow_once_has_the_cards_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It cannot be started a second time, so what it serves is what it was started for."""
    scene = Scene(tmp_path)
    scene.daemon.set_cards(CARDS[:1])
    async with timeless.beside(scene.daemon.run()):
        await scene.until("")
        scene.daemon.set_cards(CARDS)
        await scene.until("it serves GPU-0, and the node has GPU-0, GPU-1")
        monkeypatch.setattr(daemon, "ANSWER_SECONDS", 1.0)
        (scene.root / "log" / "slow").touch()
        await waiting.eventually(
            lambda: asyncio.sleep(0, "exit code 1" in caplog.text), what="another start to fail", seconds=20
        )
        await scene.until("it serves GPU-0, and the node has GPU-0, GPU-1")
    assert scene.starts() == 1


async def test_what_keeps_it_from_serving_is_told(tmp_path: Path) -> None:
    """One clause for each, and it serves once that is over."""
    scene = Scene(tmp_path)
    scene.failure = "the compute mode of GPU-0 cannot be set: Insufficient Permissions"
    async with timeless.beside(scene.daemon.run()):
        await scene.until("the compute mode of GPU-0 cannot be set")
        scene.failure = ""
        await scene.until("")
        scene.daemon.set_cards((CUT,))
        await scene.until("the node has no card that it can serve")
        scene.daemon.set_cards(CARDS)
        await scene.until("")
        (scene.root / "log" / "broken").touch()
        (scene.root / "pipe" / "control").unlink()
        await scene.until("it was started and does not answer; its log is in ")
        scene.program.unlink()
        await scene.until("there is no program ")


async def test_memory_must_be_shared_with_containers(tmp_path: Path) -> None:
    """The daemon's own shared memory is where containers find it, or programs hang."""
    scene = Scene(tmp_path)
    config = MpsConfig(scene.root, f"{scene.program}", shm=tmp_path)
    unshared = MpsDaemon(config, "n1", interval=0.02)
    unshared.set_cards(CARDS)
    async with timeless.beside(unshared.run()):
        await waiting.eventually(
            lambda: asyncio.sleep(0, "mount one at the other" in unshared.failure), what="it to say so"
        )


async def test_a_program_that_hangs_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended, and that is told."""
    monkeypatch.setattr(daemon, "ANSWER_SECONDS", 0.3)
    scene = Scene(tmp_path)
    scene.program.write_text("#!/bin/sh\nsleep 60\n")  # A child, which keeps its pipes.
    async with timeless.beside(scene.daemon.run()):
        await scene.until("does not end")


@pytest.mark.parametrize("answer", [None, "", "nan", "inf", "1e999", "49", "fifty"])
def test_odd_answers_are_not_the_limit(answer: str | None) -> None:
    """Whoever reaches the daemon's folder may give them."""
    assert not daemon._says(answer, 50)


def test_replicas_are_no_more_than_programs_that_it_serves() -> None:
    """By the card's compute capability."""
    old = wire.Card("GPU-v", "gpu", 0, compute_capability="7.0")
    assert limits.excess_of_clients(CARDS, wire.Sharing("mps", 48)) == ""
    assert limits.excess_of_clients(CARDS, wire.Sharing("mps", 49)) == (
        "it serves 48 programs on GPU-0, which is to have 49 replicas"
    )
    assert limits.excess_of_clients([old], wire.Sharing("mps", 17)).startswith("it serves 16 programs")
    assert limits.excess_of_clients([old], wire.Sharing("time-slicing", 17)) == ""


def test_replicas_of_time_slicing_are_no_matter_of_its() -> None:
    """And of a card of unknown size only the compute is limited."""
    assert limits.commands(CARDS, None) == limits.commands(CARDS, wire.Sharing("time-slicing", 2))
    assert limits.commands([wire.Card("GPU-u", "gpu", 0)], BY_MPS) == (
        "set_default_active_thread_percentage 33",
    )


def test_cards_take_no_program_but_by_way_of_mps(place: nodes.Place) -> None:
    """The driver is asked for that; what it refuses is told, with the card."""
    uuids = [card.uuid for card in place(presets.A10).look().answering_cards()]

    assert compute_mode.make_exclusive(uuids) == ""
    pynvml.nvmlInit()
    try:
        modes = [pynvml.nvmlDeviceGetComputeMode(pynvml.nvmlDeviceGetHandleByUUID(uuid)) for uuid in uuids]
    finally:
        pynvml.nvmlShutdown()
    assert modes == [pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS] * len(uuids)

    refusing = place(presets.A10, {"error.nvmlDeviceSetComputeMode": pynvml.NVML_ERROR_NO_PERMISSION})
    first = next(refusing.look().answering_cards()).uuid
    assert compute_mode.make_exclusive([first]) == (
        f"the compute mode of {first} cannot be set: Insufficient Permissions"
    )
