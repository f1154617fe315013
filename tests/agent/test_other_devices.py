"""Devices of packages reach containers as their sources open them, or the container is not made."""

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth_agent import found_devices, package_sources, sysfs
from berth_agent.delivery import other_devices
from berth_agent.delivery.containers import WRITABLE, Delivery, DeviceNode, Mount, Undeliverable
from berth_agent.delivery.device_nodes import DeviceNodes
from berth_agent.delivery.driver_files import DriverFiles
from berth_agent.delivery.means import DirectMeans
from berth_agent.nri import adjuster, messages
from berth_crds import allocation, device_packages, device_types, names, wire
from berth_crds.device_sources import GivenDevice, HostPath, Opening, SourceNode
from support import device_package

CARDS = (wire.Card("GPU-a", "gpu", 0, memory=1 << 30), wire.Card("npu-x-1", "npu-x", 1))
NPU = allocation.Share("npu-x-1", 1, 100, 0)
VOID = {"NVIDIA_VISIBLE_DEVICES": "void", "BERTH_GPU_MEMORY": "", "BERTH_GPU_CORE": ""}


class Opener:
    """Opens devices as a test says."""

    def __init__(self, opening: Any) -> None:
        self.opening = opening
        self.asked: list[Sequence[GivenDevice]] = []

    async def open(self, devices: Sequence[GivenDevice]) -> Opening:
        """Return what the test says."""
        self.asked.append(devices)
        found: Opening = self.opening
        return found


def view(root: Path, *nodes: str) -> DeviceNodes:
    """Make device nodes of major 1 and minor 3."""
    if os.geteuid() != 0:
        pytest.skip("only root can make device nodes")
    for name in nodes:
        path = root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    return DeviceNodes(root / "dev", root / "proc")


async def delivered(
    opener: other_devices.Opener | None,
    root: Path,
    *nodes: str,
    cards: Sequence[wire.Card] = CARDS,
    others: Mapping[str, other_devices.Opener] = {},
    **held: Sequence[allocation.Share],
) -> Delivery | None:
    """Return what container `main` gets that was given this of each type."""
    device_nodes = view(root, *nodes)
    config = adjuster.NriConfig(
        Path("/nri"),
        DirectMeans(DeviceNodes(root / "dev", root / "proc", optional=True), DriverFiles(root, root)),
        openers={**others, **({"npu-x": opener} if opener else {})},
        device_nodes=device_nodes,
    )
    shares = {kind.replace("_", "-"): list(given) for kind, given in held.items()}
    record = allocation.encode(allocation.of("n1", {"main": shares, "other": {"npu-x": [NPU]}}))
    annotations = {names.TERM: "t", names.ALLOCATION: record}
    made = adjuster.Adjuster("n1", lambda: cards, lambda _: (), config)
    return await made.delivery(messages.NewContainer("ml", "p", "main", annotations))


class PatientOpener(Opener):
    """Opens its devices once others do, too."""

    def __init__(self, together: asyncio.Barrier) -> None:
        super().__init__(Opening())
        self.together = together

    async def open(self, devices: Sequence[GivenDevice]) -> Opening:
        """Wait for the others."""
        async with asyncio.timeout(10):
            await self.together.wait()
        return await super().open(devices)


async def test_all_sources_open_at_the_same_time(tmp_path: Path) -> None:
    """The runtime does not wait for long, however many types a container was given."""
    together = asyncio.Barrier(2)
    npu, dsp = PatientOpener(together), PatientOpener(together)
    cards = (*CARDS, wire.Card("dsp-1", "dsp", 1))

    await delivered(
        npu,
        tmp_path,
        cards=cards,
        others={"dsp": dsp},
        npu_x=[NPU],
        dsp=[allocation.Share("dsp-1", 1, 100, 0)],
    )

    assert npu.asked == [[GivenDevice(id="1", minor=1)]]
    assert dsp.asked == [[GivenDevice(id="1", minor=1)]]


async def test_the_example_opens_what_its_container_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its device node, its variable, and its library; the GPUs of the container come as ever."""
    monkeypatch.syspath_prepend(str(device_package.installed(tmp_path)))
    node = SourceNode("n1", tmp_path, tmp_path, tmp_path / "dev")
    with device_package.added():
        assert device_packages.load(("npu-x",)) == ()
        sources = package_sources.of_node(node, sysfs.Kernel(tmp_path, tmp_path), patience=1)
        gpu = allocation.Share("GPU-a", 0, 100, 1 << 30)

        found = await delivered(sources.openers["npu-x"], tmp_path, "npu1", gpu=[gpu], npu_x=[NPU])

    assert found is not None
    assert found.env["NPU_X_VISIBLE"] == "1"
    assert found.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-a"
    assert found.edits.device_nodes == (DeviceNode("/dev/npu1", 1, 3, 0o600),)
    assert found.edits.mounts == (Mount("/opt/npu-x/lib", "/opt/npu-x/lib"),)


async def test_the_example_finds_what_its_driver_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its memory and its labels; one that is not ready is listed as sick."""
    monkeypatch.syspath_prepend(str(device_package.installed(tmp_path)))
    for minor, state in enumerate(("ready", "updating")):
        folder = tmp_path / f"class/npu_x/npu{minor}"
        folder.mkdir(parents=True)
        for name, text in (("serial", f"S{minor}"), ("state", state), ("memory", 1 << 34), ("fabric", "a")):
            (folder / name).write_text(f"{text}\n")
    with device_package.added():
        device_packages.load(("npu-x",))
        sources = package_sources.of_node(
            SourceNode("n1", tmp_path), sysfs.Kernel(tmp_path, tmp_path), patience=5
        )
        first, second = sources.read()

    assert (first.entry.uuid, first.entry.minor, first.entry.memory) == ("npu-x-S0", 0, 1 << 34)
    assert first.entry.labels == {"fabric": "a"} and first.problem is None
    assert second.problem and second.problem.reason == "NotReady"


async def test_a_part_is_passed_on_as_it_was_given(tmp_path: Path) -> None:
    """How much of the device it is, and which virtual function."""
    opener = Opener(Opening())
    function = wire.VfGroup(vfs=(wire.Vf(0, "0000:3b:00.3"),))
    cards = (wire.Card("npu-x-1", "npu-x", 1, vf_groups=(function,)),)
    part = allocation.Share("npu-x-1", 1, 25, 0, vf="0000:3b:00.3")

    assert await delivered(opener, tmp_path, cards=cards, npu_x=[part]) == Delivery(VOID)

    assert opener.asked == [[GivenDevice(id="1", minor=1, percent=25, function="0000:3b:00.3")]]


async def test_a_container_without_such_a_device_asks_no_source(tmp_path: Path) -> None:
    """Nor does one with a device that nobody opens."""
    opener = Opener(Opening(env={"A": "1"}))
    nic = allocation.Share("rdma-gone", 0, 1, 0)

    assert await delivered(opener, tmp_path, rdma=[nic]) == Delivery(VOID)
    assert await delivered(None, tmp_path, npu_x=[NPU]) == Delivery(VOID)
    assert opener.asked == []


@pytest.mark.parametrize(
    ("share", "cards", "why"),
    [
        pytest.param(NPU, CARDS[:1], "device npu-x-1 is no longer on this node", id="gone"),
        pytest.param(
            NPU,
            (wire.Card("npu-x-1", "npu-x", 2),),
            "changed from 1 to 2 after the bind",
            id="renumbered",
        ),
        pytest.param(
            NPU, (wire.Card("npu-x-1", "other", 1),), "is no longer on this node", id="another type"
        ),
        pytest.param(
            msgspec.structs.replace(NPU, vf="0000:3b:00.3"),
            (wire.Card("npu-x-1", "npu-x", 1, vf_groups=(wire.VfGroup(vfs=(wire.Vf(0, "0000:3c:00.3"),)),)),),
            "npu-x-1 no longer has the virtual function 0000:3b:00.3",
            id="without the function",
        ),
    ],
)
async def test_a_device_that_is_not_as_it_was_is_not_delivered(
    tmp_path: Path, share: allocation.Share, cards: Sequence[wire.Card], why: str
) -> None:
    """Also where the package is not loaded, and nobody could open it."""
    for opener in (Opener(Opening()), None):
        with pytest.raises(Undeliverable, match=why):
            await delivered(opener, tmp_path, cards=cards, npu_x=[share])


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (None, "the source of npu-x returned no Opening"),
    "a variable twice": (
        Opening(env={"NVIDIA_VISIBLE_DEVICES": "all"}),
        "the source of npu-x sets NVIDIA_VISIBLE_DEVICES, which another source or Berth sets otherwise",
    ),
    "no variable": (Opening(env={"A=B": "1"}), "npu-x: 'A=B' is no name of a variable"),
    "a number": (Opening(env={"A": 1}), "the source of npu-x returned what cannot be used: "),  # type: ignore[dict-item]
    "a long text": (Opening(env={"A": "x" * 5000}), "npu-x: A is no text of at most 4096 characters"),
    "many variables": (Opening(env={f"A{at}": "" for at in range(65)}), "it sets more than 64 variables"),
    "no path": (Opening(device_nodes=["npu1"]), "npu-x: 'npu1' is no path below /dev"),
    "a path out of /dev": (Opening(device_nodes=["/dev/../sda"]), "is no path below /dev"),
    "another folder": (Opening(device_nodes=["/etc/passwd"]), "is no path below /dev"),
    "no device node": (Opening(device_nodes=["/dev/npu9"]), "there is no device node .*/dev/npu9"),
    "many device nodes": (Opening(device_nodes=["/dev/npu1"] * 65), "it names more than 64 device nodes"),
    "no mount": (Opening(mounts=["/opt"]), "npu-x: a mount is no HostPath"),  # type: ignore[list-item]
    "a relative mount": (Opening(mounts=[HostPath("opt", "/opt")]), "npu-x: 'opt' is no absolute path"),
    "a mount upwards": (Opening(mounts=[HostPath("/opt", "/opt/../etc")]), "is no absolute path"),
}


@pytest.mark.parametrize(("opening", "why"), WRONG.values(), ids=WRONG)
async def test_an_opening_that_cannot_be_used_is_not_delivered(
    tmp_path: Path, opening: Any, why: str
) -> None:
    """The container is not made, with a sentence that says what the source did."""
    with pytest.raises(Undeliverable, match=why):
        await delivered(Opener(opening), tmp_path, npu_x=[NPU])


async def test_a_mount_may_be_written_to(tmp_path: Path) -> None:
    """Where the source says so."""
    opening = Opening(mounts=[HostPath("/run/npu", "/run/npu", writable=True)])

    found = await delivered(Opener(opening), tmp_path, npu_x=[NPU])

    assert found and found.edits.mounts == (Mount("/run/npu", "/run/npu", WRITABLE),)


def test_the_uuid_of_a_device_begins_with_its_type() -> None:
    """What a source is told of a device is what it found it as."""
    assert found_devices.uuid("npu-x", "S1").removeprefix("npu-x-") == "S1"
    assert {one.name for one in device_types.BUILT_IN} == other_devices.BUILT_IN
