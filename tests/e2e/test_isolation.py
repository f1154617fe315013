"""What keeps containers of a real node to their parts of cards, looked at from inside."""

from pathlib import Path
from typing import Final

import pytest

from agent.test_mps import PLAYED
from berth_agent.delivery.isolation import SHM
from berth_crds import catalog, names
from e2e.conditions import condition
from e2e.inside import MOST_CARDS, Inside, container, pod, until_running, whole
from e2e.stage import Stage
from testbed import workers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leader")]

SHAPE: Final = f"{MOST_CARDS}xT4"


async def started(stage: Stage, worker: workers.Worker, driver: Path, *flags: str) -> None:
    """Start an agent that keeps containers to their parts."""
    nri = ("--nri", str(worker.nri), "--nvidia-driver-root", str(driver))
    await stage.agent(*nri, *flags, **{worker.name: SHAPE})
    await stage.until_ready(worker.name)

    async def isolated() -> bool:
        device = (await stage.devices())[worker.name]
        return condition(device, "SharesIsolated").get("status") == "True"

    await stage.until("parts to be enforced", isolated)


async def shared(stage: Stage, worker: workers.Worker) -> tuple[dict[str, str], dict[str, str]]:
    """Run a pod with half a card and one with a whole one, and return their environments."""
    half = {names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50"}
    await stage.create(pod("half", container("main", **half)), pod("all", whole("main")))
    await until_running(stage, "half", "all")
    one, other = (Inside(stage, worker, (name, "main")).env for name in ("half", "all"))
    return one, other


def told(stage: Stage, name: str) -> str:
    """Return what the pod's Events say."""
    return stage.cluster.kubectl(
        *("get", "events", "--namespace", stage.namespace, "--field-selector", f"involvedObject.name={name}"),
        *("--output", "jsonpath={.items[*].message}"),
    )


async def test_mps_enforces_parts(stage: Stage, worker: workers.Worker, driver: Path, tmp_path: Path) -> None:
    """Its daemon is started and reached from inside, and has its limits from the part."""
    program, root = tmp_path / "nvidia-cuda-mps-control", tmp_path / "mps"
    program.write_text(PLAYED)
    program.chmod(0o755)
    root.mkdir()
    (root / "shm").symlink_to(SHM)
    flags = ("--share-isolation", "mps", "--mps-root", str(root), "--mps-control", str(program))
    await started(stage, worker, driver, *flags)

    half, all_ = await shared(stage, worker)

    memory = int(half["BERTH_GPU_MEMORY"]) // catalog.MIB
    assert (
        half.items()
        >= {
            "CUDA_MPS_PIPE_DIRECTORY": "/mps/pipe",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={memory}M",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
        }.items()
    )
    assert [key for key in all_ if "MPS" in key] == ["CUDA_MPS_PIPE_DIRECTORY"]
    (root / "shm" / f"berth-{worker.name}").touch()
    try:
        for name in ("half", "all"):
            paths = "/mps/pipe/control", f"{SHM}/berth-{worker.name}"
            assert Inside(stage, worker, (name, "main"), *paths).opened(*paths) == ["opened", "opened"]
    finally:
        (root / "shm" / f"berth-{worker.name}").unlink()
    assert ", enforced by MPS" in told(stage, "half")
    assert "enforce" not in told(stage, "all")


async def test_hamis_library_enforces_parts(
    stage: Stage, worker: workers.Worker, driver: Path, tmp_path: Path
) -> None:
    """It stands before the programs of containers that have a part, and of no others."""
    for name in ("libvgpu.so", "ld.so.preload"):
        (tmp_path / name).touch()
    await started(stage, worker, driver, "--share-isolation", "hami-core", "--hami-core", str(tmp_path))

    half, all_ = await shared(stage, worker)

    assert half["CUDA_DEVICE_SM_LIMIT"] == "50"
    assert half["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{int(half['BERTH_GPU_MEMORY']) // catalog.MIB}m"
    assert not [key for key in all_ if key.startswith("CUDA_DEVICE")]
    paths = "/usr/local/vgpu/libvgpu.so", "/etc/ld.so.preload"
    assert Inside(stage, worker, ("half", "main"), *paths).opened(*paths) == ["opened", "opened"]
    assert "opened" not in Inside(stage, worker, ("all", "main"), *paths).opened(*paths)
    assert ", enforced by HAMi's library" in told(stage, "half")
