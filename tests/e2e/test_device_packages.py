"""A package adds an accelerator: it is published, placed, delivered and explained."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from berth_agent import package_sources, sysfs
from berth_agent.delivery.containers import Delivery
from berth_agent.delivery.device_nodes import DeviceNodes
from berth_agent.delivery.driver_files import DriverFiles
from berth_agent.delivery.means import DirectMeans
from berth_agent.nri import adjuster, messages
from berth_crds import device_packages, names, wire
from berth_crds.device_sources import SourceNode
from e2e import inside
from e2e.conditions import condition
from e2e.stage import HARDWARE, Pod, Stage, Thing, cards_of, pod
from support import device_package
from testbed import workers

NPU = "example.com/npu"


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """Lend a folder on the search path of all programs that are started."""
    path = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([path, str(tmp_path)] if path else [str(tmp_path)]))
    monkeypatch.syspath_prepend(str(tmp_path))
    with device_package.added():
        yield tmp_path


async def gpupods(stage: Stage) -> list[Thing]:
    """Return the GpuPods of the namespace."""
    return inside.records(stage)


async def delivered(stage: Stage, site: Path, bound: Pod) -> Delivery:
    """Return what the agent of a pod's node gives its container, by the annotations of the bind."""
    node = bound["spec"]["nodeName"]
    spec = msgspec.convert((await stage.devices())[node]["spec"], wire.DeviceSpec, strict=False)
    assert device_packages.load(("npu-x",)) == ()
    sources = package_sources.of_node(SourceNode(node, simulated=True), sysfs.Kernel(), patience=5)
    nodes = DeviceNodes(site / "dev", site / "proc", optional=True)
    config = adjuster.NriConfig(
        site / "nri", DirectMeans(nodes, DriverFiles(site, site)), openers=sources.openers, device_nodes=nodes
    )
    decisions = adjuster.Adjuster(node, lambda: spec.devices, lambda _: (), config)
    found = await decisions.delivery(
        messages.NewContainer(stage.namespace, "one", "main", bound["metadata"]["annotations"])
    )
    assert found is not None
    return found


async def test_a_package_adds_an_accelerator_end_to_end(stage: Stage, site: Path) -> None:
    """One pod gets one of the two on a node, and one that asks for three is told in the package's words."""
    device_package.installed(site)
    (site / "dev").mkdir()
    (site / "dev/npu0").symlink_to("/dev/null")
    await stage.deciding_operator()
    await stage.ready_nodes(carrying="1xT4", spare="1xT4")

    published = (await stage.devices())["carrying"]
    npus = [card for card in published["spec"]["devices"] if card["type"] == "npu-x"]
    assert [(card["uuid"], card["minor"]) for card in npus] == [
        ("npu-x-carrying-0", 0),
        ("npu-x-carrying-1", 1),
    ]
    assert [card["resources"] for card in npus] == [{NPU: 1}, {NPU: 1}]
    assert condition(published, "DevicePackagesReady")["message"] == "2 NPUs X of Example."

    await stage.placed(pod("one", 0, limits={NPU: "1"}, nodeSelector={"kubernetes.io/hostname": "carrying"}))
    bound = (await stage.pods())["one"]
    assert cards_of(bound) == ["npu-x-carrying-0"]
    assert bound["metadata"]["annotations"][names.container_key("main", "npu-x")] == "npu-x-carrying-0"
    (recorded,) = await stage.until("its GpuPod", lambda: gpupods(stage))
    held = recorded["spec"]["containers"][0]["devices"]
    assert [(one["type"], one["uuid"], one["core"]) for one in held] == [("npu-x", "npu-x-carrying-0", 100)]
    given = await delivered(stage, site, bound)
    assert (given.env["NPU_X_VISIBLE"], given.env["NVIDIA_VISIBLE_DEVICES"]) == ("0", "void")
    assert [one.path for one in given.edits.device_nodes] == ["/dev/npu0"]

    await stage.waiting_pod(pod("three", 0, limits={NPU: "3"}), "2 have too few NPUs X of Example")
    assert (await stage.placed(pod("two", 1, limits={NPU: "2"})))["two"] == "spare"
    await stage.waiting_pod(pod("another", 0, limits={NPU: "2"}), "NPUs X of Example")
    await stage.assert_sound("one", "two")


async def test_a_node_without_cards_gives_its_accelerators(stage: Stage, site: Path) -> None:
    """Its agent asks for no driver; the package finds what its own lists, and what is sick is not given."""
    device_package.installed(site)
    for minor, state in enumerate(("updating", "ready")):
        folder = site / f"sys/class/npu_x/npu{minor}"
        folder.mkdir(parents=True)
        for name, text in (("serial", f"S{minor}"), ("state", state), ("memory", 1 << 34), ("fabric", "a")):
            (folder / name).write_text(f"{text}\n")
    await stage.deciding_operator()
    await stage.ready_nodes("--no-gpus", "--sysfs", str(site / "sys"), cardless=HARDWARE)

    await stage.placed(pod("one", 0, limits={NPU: "1"}))
    await stage.waiting_pod(pod("next", 0, limits={NPU: "1"}))

    assert cards_of((await stage.pods())["one"]) == ["npu-x-S1"]
    device = (await stage.devices())["cardless"]
    assert condition(device, "NVMLReady")["status"] == "True"
    assert [(one["uuid"], one["reason"]) for one in device["status"]["devices"]] == [("npu-x-S0", "NotReady")]


async def test_a_package_that_breaks_leaves_the_gpus_alone(stage: Stage, site: Path) -> None:
    """One that cannot be loaded, beside one that hangs: both are named, and cards are given as ever."""
    (site / "hanging.py").write_text(HANGING)
    (site / "broken.py").write_text("raise RuntimeError('no licence')")
    device_package.listed(site, "berth-hanging", {"hanging": "hanging:TYPE"})
    device_package.listed(site, "berth-broken", {"broken": "broken:TYPE"})
    operator = await stage.deciding_operator()
    agent = await stage.ready_nodes(amid="1xT4")

    await stage.placed(pod("whole"))

    told = "The type of device broken of the package berth-broken is not used: RuntimeError: no licence."
    assert told in operator.log.read_text() and told in agent.log.read_text()
    device = await stage.until_device(
        "amid", "name both", lambda one: "hanging" in condition(one, "DevicePackagesReady")["message"]
    )
    found = condition(device, "DevicePackagesReady")
    assert (found["status"], found["reason"]) == ("False", "SourceFailed")
    assert found["message"] == f"{told} hanging: it has not answered within 0.5 s."


HANGING = """
import threading
from berth_crds.device_types import TypeDescription


class Source:
    def discover(self):
        threading.Event().wait()

    def deliver(self, devices):
        threading.Event().wait()


TYPE = TypeDescription(name="hanging", resource="example.com/hanging", source=lambda node: Source())
"""


@pytest.mark.slow
async def test_a_real_runtime_opens_the_accelerator_to_its_container(
    stage: Stage, worker: workers.Worker, driver: Path, site: Path
) -> None:
    """The device node and the variable of the one that it was given, and of no other; beside a card, too."""
    device_package.installed(site)
    for minor in (0, 1):
        inside.make_node(driver, f"npu{minor}", 100 + minor)
    stage.operator()
    flags = ("--nri", str(worker.nri), "--nvidia-driver-root", str(driver))
    await stage.agent(*flags, **{worker.name: "2xT4"})
    await stage.until_ready(worker.name)
    alone = inside.pod("alone", inside.container("main", **{NPU: "1"}), inside.container("side"))
    both = inside.pod("both", inside.container("main", **{NPU: "1", names.NVIDIA_GPU: "1"}))

    await stage.create(alone, both)
    await inside.until_running(stage, "alone", "both")

    npus = "/dev/npu0", "/dev/npu1"
    seen = {name: inside.Inside(stage, worker, (name, "main"), *npus) for name in ("alone", "both")}
    given = {name: one.env["NPU_X_VISIBLE"] for name, one in seen.items()}
    assert sorted(given.values()) == ["0", "1"]
    for name, one in seen.items():
        assert one.opened(*npus) == [
            inside.ALLOWED if given[name] == str(at) else inside.ABSENT for at in (0, 1)
        ]
    side = inside.Inside(stage, worker, ("alone", "side"), *npus)
    assert side.opened(*npus) == [inside.ABSENT] * 2
    assert "NPU_X_VISIBLE" not in side.env
    assert (len(seen["both"].minors()), seen["alone"].minors()) == (1, [])
