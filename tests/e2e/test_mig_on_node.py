"""MIG instances on a real node by each way of delivery: what a container may open, looked at from inside."""

from pathlib import Path
from typing import Final

import pytest

from berth_crds import names
from e2e.inside import (
    ABSENT,
    ALLOWED,
    DENIED,
    Inside,
    container,
    give_cards,
    make_node,
    pod,
    until_allocatable,
    until_running,
)
from e2e.stage import HARDWARE, Stage
from support import thorough
from support.nvml import fixtures, machine, presets
from testbed import workers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leader")]

PROFILE: Final = f"{names.NVIDIA_MIG_PREFIX}2g.20gb"
INSTANCES: Final = ((1, 0), (3, 0), (9, 0), (11, 0))  # Of card 0: the GPU instance and its compute instance.
OURS: Final = 1  # Which of these is of the profile.


@pytest.fixture
def mig(tmp_path: Path, driver: Path) -> machine.Machine:
    """Return a machine with instances, each of which the driver guards by two device nodes."""
    fixtures.require()
    made = machine.Machine.make(tmp_path / "machine", presets.MIG)
    capabilities = made.proc / "driver/nvidia/capabilities/gpu0/mig"
    for number, (gi, ci) in enumerate(INSTANCES):
        for place, minor in ((f"gi{gi}", 100 + number), (f"gi{gi}/ci{ci}", 200 + number)):
            (capabilities / place).mkdir(parents=True)
            (capabilities / place / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 444\n")
            make_node(driver, f"nvidia-caps/nvidia-cap{minor}", minor)
    return made


def instance_of(mig: machine.Machine) -> str:
    """Return the uuid of the instance."""
    uuid: str = mig.read()[f"card.0.mig.{OURS}"].split()[0]
    return uuid


async def started(stage: Stage, worker: workers.Worker, mig: machine.Machine, *words: str) -> None:
    """Start an agent of this machine."""
    stage.agents_read(mig)
    roots = ("--sysfs", str(mig.sys), "--procfs", str(mig.proc))
    await stage.agent(*roots, *words, **{worker.name: HARDWARE})
    await stage.until_ready(worker.name)


def plugin(worker: workers.Worker) -> tuple[str, ...]:
    """Return the flags of an agent that is the device plugin of a worker."""
    kubelet = ("--kubelet-socket", str(worker.plugins / "kubelet.sock"))
    return (*kubelet, "--pod-resources", str(worker.pod_resources), "--cdi", str(worker.cdi))


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(("--nri",), id="NRI"),
        pytest.param(("--device-list-strategy", "cdi-cri"), id="the plugin by CDI"),
        thorough.case(("--pass-device-specs",), id="the plugin by device nodes"),
    ],
)
async def test_an_instance_is_opened_and_no_other_of_its_card(
    stage: Stage, worker: workers.Worker, driver: Path, mig: machine.Machine, way: tuple[str, ...]
) -> None:
    """The driver's files below /proc name the device nodes of each."""
    by_plugin = way[0] != "--nri"
    words = (*plugin(worker), *way) if by_plugin else (*way, str(worker.nri))
    await started(stage, worker, mig, "--nvidia-driver-root", str(driver), *words)
    if by_plugin:
        await until_allocatable(stage, worker.name, 1, PROFILE)

    await stage.create(pod("p", container("main", **{PROFILE: "1"})))
    await until_running(stage, "p")

    paths = {minor: f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in (*range(100, 104), *range(200, 204))}
    inside = Inside(stage, worker, ("p", "main"), *paths.values(), made=(102,))
    assert inside.uuids() == instance_of(mig)
    assert inside.minors() == [0]
    own = [paths.pop(minor) for minor in (100 + OURS, 200 + OURS)]
    assert inside.opened(*own) == [ALLOWED] * len(own)
    assert inside.opened(*paths.values()) == [ABSENT] * len(paths)
    assert inside.made(102) == [DENIED]


async def test_nvidias_runtime_is_told_the_instance(
    stage: Stage, nvidia_worker: workers.Worker, mig: machine.Machine
) -> None:
    """By its uuid, in the variable that the admission policy puts into the container."""
    give_cards(nvidia_worker, {instance_of(mig): 0})
    await started(stage, nvidia_worker, mig)

    await stage.create(pod("p", container("main", **{PROFILE: "1"}), container("none")))
    await until_running(stage, "p")

    seen = [Inside(stage, nvidia_worker, ("p", name)) for name in ("main", "none")]
    assert [(one.uuids(), one.minors()) for one in seen] == [(instance_of(mig), [0]), ("void", [])]
