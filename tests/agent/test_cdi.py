"""The CDI spec that the agent keeps on its node."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from berth_agent.cdi import specs, writer
from berth_agent.delivery.containers import DeviceNode, GivenCard, Mount, Undeliverable
from berth_agent.delivery.device_nodes import DeviceNodes
from berth_agent.delivery.driver_files import DriverFiles
from berth_agent.delivery.means import DirectMeans
from berth_crds import tasks, wire
from testbed import waiting

INSTANCE = wire.MigInstance("MIG-1", "1g.10gb", 10, gi=9, ci=0)
PLAIN = wire.Card("GPU-a", "gpu", 0)
CUT = wire.Card("GPU-b", "gpu", 1, mig=wire.Mig(enabled=True, instances=(INSTANCE,)))
FOREIGN = wire.Card("nic", "rdma", 0)
CONTROL = DeviceNode("/dev/nvidiactl", 195, 255)


class Nodes(DeviceNodes):
    """Device nodes for each minor, but for those that lack."""

    def __init__(self) -> None:
        self.lacking: set[int] = set()

    def of_driver(self) -> Any:
        """Yield the one that controls all."""
        yield CONTROL

    def of_card(self, given: GivenCard) -> Any:
        """Yield one for the card and one for the instance."""
        if given.card.minor in self.lacking:
            raise Undeliverable(f"{given.card.minor} lacks")
        yield DeviceNode(f"/dev/nvidia{given.card.minor}", 195, given.card.minor)
        if given.instance:
            yield DeviceNode("/dev/nvidia-caps/nvidia-cap7", 240, 7, 0o444)


class Files(DriverFiles):
    """One file."""

    def __init__(self) -> None:
        self.version = "1"

    def mounts(self) -> tuple[Mount, ...]:
        """Return it, of the version that is installed."""
        return (Mount(f"/lib/libcuda.so.{self.version}", "/usr/local/nvidia/lib64/libcuda.so"),)


@pytest.fixture
def means() -> DirectMeans:
    """Return what opens the cards of a node."""
    return DirectMeans(Nodes(), Files())


def test_a_spec_has_whole_cards_and_instances(means: DirectMeans) -> None:
    """A card that is cut is given in parts alone; what every container needs stands there once."""
    node = {"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0, "fileMode": 0o666}
    caps = {"path": "/dev/nvidia-caps/nvidia-cap7", "type": "c", "major": 240, "minor": 7, "fileMode": 0o444}
    mount = {
        "hostPath": "/lib/libcuda.so.1",
        "containerPath": "/usr/local/nvidia/lib64/libcuda.so",
        "options": ("ro", "nosuid", "nodev", "rbind", "rprivate"),
    }

    assert specs.spec((PLAIN, CUT, FOREIGN), means).content == {
        "cdiVersion": "0.5.0",
        "kind": "berth.dev/gpu",
        "devices": [
            {"name": "GPU-a", "containerEdits": {"deviceNodes": [node]}},
            {
                "name": "MIG-1",
                "containerEdits": {
                    "deviceNodes": [node | {"path": "/dev/nvidia1", "minor": 1}, caps],
                },
            },
        ],
        "containerEdits": {
            "deviceNodes": [node | {"path": "/dev/nvidiactl", "minor": 255}],
            "mounts": [mount],
        },
    }


def test_a_card_that_cannot_be_opened_keeps_no_other_from_it(means: DirectMeans) -> None:
    """And a node without any has no spec, for runtimes refuse one without devices."""
    assert isinstance(means.device_nodes, Nodes)
    means.device_nodes.lacking = {1}
    found = specs.spec((PLAIN, CUT), means)
    means.device_nodes.lacking = {0, 1}

    assert found.content
    assert [device["name"] for device in found.content["devices"]] == ["GPU-a"]
    assert found.missing == ("1 lacks",)
    assert specs.spec((PLAIN, CUT), means) == specs.NodeSpec(None, ("0 lacks", "1 lacks"))
    assert specs.spec((), means) == specs.NodeSpec(None)


# ---------------------------------------------------------------- the file


class Node:
    """A node whose cards a test changes, and the file about them."""

    def __init__(self, folder: Path, means: DirectMeans) -> None:
        self.cards: Sequence[wire.Card] | None = None
        self.path = folder / "cdi" / writer.FILE
        config = writer.CdiConfig(folder / "cdi", means)
        self.writer = writer.CdiWriter(config, "n1", lambda: self.cards, interval=0.01)

    def devices(self) -> list[str]:
        """Return the names of the devices in the file; none where there is none."""
        with contextlib.suppress(FileNotFoundError):
            return [device["name"] for device in json.loads(self.path.read_text())["devices"]]
        return []

    async def until(self, *names: str) -> None:
        """Wait until these devices stand there."""
        await waiting.eventually(lambda: self.devices() == list(names), what=f"{names} to be in the spec")


@pytest.fixture
async def node(tmp_path: Path, means: DirectMeans) -> AsyncIterator[Node]:
    """Yield a node whose spec is kept."""
    made = Node(tmp_path, means)
    running = asyncio.create_task(made.writer.run())
    yield made
    await tasks.end([running])


async def test_the_file_follows_the_node(
    node: Node, means: DirectMeans, caplog: pytest.LogCaptureFixture
) -> None:
    """It is written when the cards are known, and again when cards, driver or the file itself change."""
    caplog.set_level("INFO")
    await asyncio.sleep(0.05)
    assert not node.path.parent.exists()
    assert (node.writer.condition().status, node.writer.condition().reason) == ("False", "NotWritten")
    node.cards = (PLAIN,)
    await node.until("GPU-a")
    assert (node.writer.condition().status, node.writer.condition().reason) == ("True", "Written")
    before = node.path.stat()
    await asyncio.sleep(0.05)
    assert node.path.stat() == before
    assert before.st_mode & 0o777 == 0o644

    node.cards = (PLAIN, CUT)
    await node.until("GPU-a", "MIG-1")
    assert isinstance(means.driver_files, Files)
    means.driver_files.version = "2"
    await waiting.eventually(lambda: "libcuda.so.2" in node.path.read_text(), what="the new driver")
    node.path.unlink()
    await node.until("GPU-a", "MIG-1")
    node.path.write_text("{}")
    await waiting.eventually(lambda: node.path.read_text() != "{}", what="the file to be mended")

    node.cards = ()
    await waiting.eventually(lambda: not node.path.exists(), what="the file to go")
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"node n1: {node.path} is {what}" for what in (*["written"] * 5, "removed")]
    assert list(node.path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("cards", "lacking", "said"),
    [
        pytest.param((PLAIN, CUT), set(), ("True", "Written", "{} names the cards."), id="all are there"),
        pytest.param(
            (PLAIN, CUT),
            {1},
            ("True", "Written", "{} names the cards, but for some that cannot be opened: 1 lacks."),
            id="one lacks",
        ),
        pytest.param(
            (PLAIN, CUT),
            {0, 1},
            ("False", "NotWritten", "No card can be opened: 0 lacks; 1 lacks."),
            id="all lack",
        ),
        pytest.param(
            (FOREIGN,),
            set(),
            ("True", "NothingToWrite", "{} is not there: no card has a device node."),
            id="there are none",
        ),
    ],
)
async def test_the_condition_says_which_cards_the_file_names(
    node: Node, means: DirectMeans, cards: Sequence[wire.Card], lacking: set[int], said: tuple[str, str, str]
) -> None:
    """A node all of whose cards lack their device nodes has no file, and cannot deliver by it."""
    assert isinstance(means.device_nodes, Nodes)
    means.device_nodes.lacking = lacking
    node.cards = cards

    await waiting.eventually(
        lambda: node.writer.condition().message != "It has not been written yet.", what="a look"
    )
    found = node.writer.condition()
    assert (found.status, found.reason, found.message) == (*said[:2], said[2].format(node.path))
    assert node.path.exists() is (found.reason == "Written")


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/zero"), os.mkfifo], ids=["link", "pipe"])
async def test_what_is_no_file_is_replaced(node: Node, make: Callable[[Path], object]) -> None:
    """Nobody waits for it, nor reads what has no end."""
    node.path.parent.mkdir()
    make(node.path)

    node.cards = (PLAIN,)

    await waiting.eventually(node.path.is_file, what="the file to be written")
    assert node.devices() == ["GPU-a"]


async def test_a_folder_that_cannot_be_written_is_told_and_tried_again(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent goes on."""
    node.path.parent.write_text("no folder")
    node.cards = (PLAIN,)
    await waiting.eventually(lambda: "is not kept (attempt 1)" in caplog.text, what="the failure to be told")

    assert node.writer.condition().reason == "NotWritten"
    node.path.parent.unlink()

    await node.until("GPU-a")


async def test_a_write_that_fails_leaves_what_was_there(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And nothing half."""
    node.cards = (PLAIN,)
    await node.until("GPU-a")

    def full(_self: Path, _to: Path) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", full)
        node.cards = (PLAIN, CUT)
        await waiting.eventually(lambda: "the disk is full" in caplog.text, what="the failure to be told")
        assert node.devices() == ["GPU-a"]
    await node.until("GPU-a", "MIG-1")
    assert [path.name for path in node.path.parent.iterdir()] == [writer.FILE]
