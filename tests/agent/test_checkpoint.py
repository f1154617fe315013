"""The kubelet's list of given devices, completed by its checkpoint if that can be read."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berth_agent.kubelet import checkpoint
from berth_agent.kubelet.podresources import ListedContainer, ListedDevices, ListedPod

GPU = "nvidia.com/gpu"
MAIN = ListedContainer("main", (ListedDevices(GPU, ("GPU-a",)),))
LISTED = ListedPod("ml", "p", (MAIN, ListedContainer("idle")))
OTHER = ListedPod("ml", "other")
KEYS = {"u-1": ("ml", "p"), "u-2": ("ml", "absent")}


def entry(container: str, *ids: str, uid: str = "u-1", resource: str = GPU) -> dict[str, Any]:
    """Return what the kubelet remembers of a container; it repeats a device for each NUMA node."""
    return {
        "PodUID": uid,
        "ContainerName": container,
        "ResourceName": resource,
        "DeviceIDs": {"-1": ids[:1], "0": ids, "1": None},
        "AllocResp": "Qg==",
    }


def written(*entries: dict[str, Any]) -> str:
    """Return a checkpoint."""
    registered = {GPU: ["GPU-a", "GPU-b"]}
    data = {"PodDeviceEntries": entries or None, "RegisteredDevices": registered}
    return json.dumps({"Data": data, "Checksum": 4086283113})


class Kubelet:
    """Lists two pods."""

    async def pods(self) -> tuple[ListedPod, ...]:
        """Return the pods."""
        return LISTED, OTHER

    async def close(self) -> None:
        """There is nothing to close."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where the file may be."""
    return tmp_path / checkpoint.FILE


def put(file: Path, *entries: dict[str, Any]) -> None:
    """Replace the checkpoint, as the kubelet does."""
    half = file.with_suffix(".half")
    half.write_text(written(*entries))
    half.rename(file)


def lister(file: Path) -> checkpoint.CompletedLister:
    """Return a lister that completes what the kubelet lists."""
    return checkpoint.CompletedLister(Kubelet(), file, lambda: KEYS)


@pytest.mark.parametrize(
    ("entries", "more"),
    [
        pytest.param([], [], id="nothing given"),
        pytest.param([entry("main", "GPU-a")], [], id="what is listed"),
        pytest.param(
            [entry("init", "GPU-b", "GPU-c")],
            [ListedContainer("init", (ListedDevices(GPU, ("GPU-b", "GPU-c")),))],
            id="an init container",
        ),
        pytest.param(
            [entry("idle", "GPU-b")],
            [ListedContainer("idle", (ListedDevices(GPU, ("GPU-b",)),))],
            id="one that is listed without devices",
        ),
        pytest.param(
            [entry("init", "GPU-b"), entry("init", "nic-1", resource="example.com/nic")],
            [
                ListedContainer(
                    "init", (ListedDevices(GPU, ("GPU-b",)), ListedDevices("example.com/nic", ("nic-1",)))
                )
            ],
            id="several resources",
        ),
        pytest.param([entry("init", "GPU-b", uid="u-9")], [], id="a pod that is gone"),
        pytest.param([entry("init", "GPU-b", uid="u-2")], [], id="a pod that is not listed"),
        pytest.param([entry("init")], [], id="no devices"),
    ],
)
async def test_containers_that_are_not_listed_are_added(
    file: Path, entries: list[dict[str, Any]], more: list[ListedContainer]
) -> None:
    """To the pods that are listed."""
    put(file, *entries)

    assert await lister(file).pods() == (ListedPod("ml", "p", (*LISTED.containers, *more)), OTHER)


async def test_it_is_read_again_when_it_was_written_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not before."""
    reads = list[Path]()
    original = checkpoint.read

    def read(path: Path) -> tuple[checkpoint.Entry, ...]:
        reads.append(path)
        return original(path)

    monkeypatch.setattr(checkpoint, "read", read)
    completed = lister(file)

    assert await completed.pods() == (LISTED, OTHER)
    put(file)
    assert [await completed.pods() for _ in range(2)] == [(LISTED, OTHER)] * 2
    put(file, entry("init", "GPU-b"))
    assert len((await completed.pods())[0].containers) == 3
    assert len(reads) == 2


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(
            lambda path: path.write_text("{}"), "missing required field `Data`", id="another format"
        ),
        pytest.param(lambda path: path.write_text('{"Data":{"PodDev'), "truncated", id="half"),
        pytest.param(lambda path: path.write_bytes(b'{"Data":"\xff'), "", id="no text"),
        pytest.param(lambda path: path.write_text("[" * 99_999), "", id="deep"),
        pytest.param(os.mkfifo, "it is no file", id="a pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "it is no file", id="no end"),
        pytest.param(lambda path: path.write_text(" " * 2000), "more than 1000 bytes", id="too long"),
    ],
)
async def test_what_cannot_be_read_is_told_once(
    file: Path,
    make: Callable[[Path], object],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And what the kubelet lists counts as it is."""
    monkeypatch.setattr(checkpoint, "MOST_BYTES", 1000 if "1000" in why else checkpoint.MOST_BYTES)
    make(file)
    completed = lister(file)

    assert [await completed.pods() for _ in range(2)] == [(LISTED, OTHER)] * 2

    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith(f"which devices init containers have is not known: {file}: ")
    assert why in said
    put(file, entry("init", "GPU-b"))
    assert len((await completed.pods())[0].containers) == 3


@pytest.mark.parametrize(
    ("plugins", "pod_resources", "found"),
    [
        (None, None, None),
        (None, "/kubelet/pod-resources/kubelet.sock", "/kubelet/device-plugins/kubelet_internal_checkpoint"),
        ("/plugins/kubelet.sock", "/pods/x/kubelet.sock", "/plugins/kubelet_internal_checkpoint"),
    ],
)
def test_it_lies_beside_the_sockets_of_plugins(
    plugins: str | None, pod_resources: str | None, found: str | None
) -> None:
    """Whatever the agent is told of the kubelet's folders."""
    path = checkpoint.path(
        plugins=Path(plugins) if plugins else None,
        pod_resources=Path(pod_resources) if pod_resources else None,
    )

    assert path == (Path(found) if found else None)
