"""A process is joined to its pod by the name of its cgroup, however that is spelled."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from berth_agent.kubelet import cgroups
from berth_agent.kubelet.cgroups import HOST, CgroupOwner

UID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
OTHER_UID = "ffffffff-4e5f-6071-8293-a4b5c6d7e8f9"
FLAT = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
CID = "c0ffee" + 58 * "0"
OUTER = "beef" + 60 * "1"
BOTH = CgroupOwner(UID, CID)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param(f"0::/kubepods/burstable/pod{UID}/{CID}\n", BOTH, id="v2, cgroupfs"),
        pytest.param(f"0::/kubepods/pod{UID}/{CID}\n", BOTH, id="v2, cgroupfs, guaranteed"),
        pytest.param(
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FLAT}.slice"
            f"/cri-containerd-{CID}.scope\n",
            BOTH,
            id="v2, systemd",
        ),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod{FLAT}.slice/cri-containerd-{CID}.scope\n",
            BOTH,
            id="v2, systemd, guaranteed",
        ),
        pytest.param(
            f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"
            f"/kubelet-kubepods-besteffort-pod{FLAT}.slice/cri-containerd-{CID}.scope\n",
            BOTH,
            id="v2, systemd, under a root of its own",
        ),
        pytest.param(
            f"0::/system.slice/containerd.service/kubepods-burstable-pod{FLAT}.slice:cri-containerd:{CID}\n",
            BOTH,
            id="containerd under systemd with the other driver",
        ),
        pytest.param(
            f"0::/kubepods.slice/kubepods-pod{FLAT}.slice/crio-{CID}.scope\n", BOTH, id="v2, systemd, CRI-O"
        ),
        pytest.param(
            f"12:memory:/kubepods/besteffort/pod{UID}/{CID}\n"
            f"11:cpu,cpuacct:/kubepods/besteffort/pod{UID}/{CID}\n1:name=systemd:/\n0::/\n",
            BOTH,
            id="v1, cgroupfs, with controllers that say nothing",
        ),
        pytest.param(
            f"5:devices:/\n4:memory:/kubepods.slice/kubepods-pod{FLAT}.slice/cri-containerd-{CID}.scope\n"
            "0::/system.slice/containerd.service\n",
            BOTH,
            id="v1, systemd, with the runtime's own v2 path",
        ),
        pytest.param(
            f"0::/docker/{OUTER}/kubelet/kubepods/burstable/pod{UID}/{CID}\n", BOTH, id="node in a container"
        ),
        pytest.param(
            f"0::/kubepods/burstable/pod{UID}/{CID}/app/worker\n", BOTH, id="cgroups of the pod's own"
        ),
        pytest.param(
            f"0::/kubepods/burstable/pod{UID}/{CID}/kubepods/pod{OTHER_UID}/{OUTER}\n",
            BOTH,
            id="cgroups that pretend to be another pod's",
        ),
        pytest.param(f"0::/kubepods/pod{STATIC}/{CID}\n", CgroupOwner(STATIC, CID), id="static pod"),
        pytest.param(f"0::/kubepods/burstable/pod{UID}\n", CgroupOwner(UID), id="pod without a container"),
        pytest.param(
            f"0::/../../kubepods-pod{FLAT}.slice/cri-containerd-{CID}.scope\n",
            BOTH,
            id="seen from a namespace",
        ),
        pytest.param(
            f"0::/../cri-containerd-{CID}.scope\n",
            CgroupOwner("", CID),
            id="seen from a namespace, container alone",
        ),
        pytest.param("0::/\n", HOST, id="root"),
        pytest.param("", HOST, id="nothing"),
        pytest.param("0::/user.slice/user-1000.slice/session-3.scope\n", HOST, id="somebody at the console"),
        pytest.param(f"0::/system.slice/docker-{CID}.scope\n", HOST, id="container of no kubelet"),
        pytest.param(f"0::/docker/{CID}\n", HOST, id="container of docker"),
        pytest.param(f"0::/kubepods/burstable/pod{UID[:-1]}\n", HOST, id="uid that is too short"),
        pytest.param(f"0::/tripod{UID}/{CID}\n", HOST, id="folder that only ends in pod"),
        pytest.param("nonsense\n\n::\n", HOST, id="no cgroup file"),
    ],
)
def test_place_of_a_process(text: str, place: CgroupOwner) -> None:
    """Pod and container are found where they are named, and nothing is made up where they are not."""
    assert cgroups.parse_owner(text) == place


def test_file_is_read(tmp_path: Path) -> None:
    """The file of the process is read under the root that was chosen."""
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cgroup").write_text(f"0::/kubepods/pod{UID}/{CID}\n")

    assert cgroups.read_owner(tmp_path, 42) == BOTH


def test_process_that_has_ended_has_no_place(tmp_path: Path) -> None:
    """A process without a file is not taken for one of the host."""
    assert cgroups.read_owner(tmp_path, 42) is None


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(lambda path: path.symlink_to(path), id="a link in a circle"),
        pytest.param(lambda path: path.mkdir(), id="a folder"),
        pytest.param(os.mkfifo, id="a pipe"),
        pytest.param(lambda path: path.write_bytes(b"x" * (cgroups.LONGEST + 1)), id="a giant"),
    ],
)
def test_odd_file_tells_of_no_process(tmp_path: Path, odd: Callable[[Path], object]) -> None:
    """What is no file of a reasonable size says nothing, as if the process had ended."""
    (tmp_path / "7").mkdir()
    odd(tmp_path / "7/cgroup")

    assert cgroups.read_owner(tmp_path, 7) is None
