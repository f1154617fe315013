"""Processes on cards lead to pods, by the names of their cgroups, and may be there without permission."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from berth_agent.gpupods import pod_cache, process_owners, watched_pod
from berth_agent.gpupods.process_owners import CardProcess, LocatedProcess
from berth_agent.kubelet import cgroups, device_ids
from berth_agent.kubelet.cgroups import HOST, CgroupOwner
from berth_agent.probe import Process
from berth_crds import schema_limits, wire

UID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
CID, OTHER = "c" * 64, "d" * 64
POD = ("ml", "train")
CARDS = (
    wire.Card(uuid="GPU-a", type="gpu", minor=0, memory=16),
    wire.Card(
        uuid="GPU-b",
        type="gpu",
        minor=1,
        memory=40,
        mig=wire.Mig(True, tuple(wire.MigInstance(f"MIG-{n}", "1g.5gb", 5, gi=n, ci=0) for n in (1, 2))),
    ),
)
ALLOCATABLE = device_ids.allocatable_devices(CARDS)
A, MIG, SIBLING, B = (ALLOCATABLE[uuid] for uuid in ("GPU-a", "MIG-1", "MIG-2", "GPU-b"))


POD_OF_UID = watched_pod.Pod(wire.Meta(name="train", namespace="ml", uid=UID))


def pods(*containers: tuple[str, str]) -> pod_cache.PodCache:
    """Return the cache of one pod with these containers, by name and id."""
    known = pod_cache.PodCache(lambda _: None)
    statuses = tuple(watched_pod.ContainerStatus(name, f"containerd://{one}") for name, one in containers)
    status = watched_pod.PodStatus("Running", statuses)
    known.upserted(msgspec.structs.replace(POD_OF_UID, status=status))
    return known


TWO = (("main", CID), ("side", OTHER))


@pytest.mark.parametrize(
    ("containers", "owner", "found"),
    [
        pytest.param(TWO, CgroupOwner(UID, CID), (POD, "main"), id="pod and container"),
        pytest.param(TWO, CgroupOwner("", CID), (POD, "main"), id="container alone"),
        pytest.param(
            TWO, CgroupOwner("f" * 32, CID), (POD, "main"), id="static pod, whose uid in the API is another"
        ),
        pytest.param(TWO, CgroupOwner(UID, "e" * 64), (POD, ""), id="container that is not known yet"),
        pytest.param(TWO, CgroupOwner(UID), (POD, ""), id="pod alone"),
        pytest.param(TWO, CgroupOwner("f" * 32, "e" * 64), None, id="pod that is not known"),
        pytest.param(TWO, HOST, None, id="host"),
        pytest.param(TWO[:1], CgroupOwner(UID), (POD, "main"), id="pod of one container"),
    ],
)
def test_cgroups_lead_to_pods(
    containers: tuple[tuple[str, str], ...],
    owner: CgroupOwner,
    found: tuple[device_ids.PodKey, str] | None,
) -> None:
    """A process belongs to the container with its id, else to the pod with its uid, else to nobody."""
    assert pods(*containers).owner_of(owner) == found


def test_containers_of_a_pod_that_is_gone_are_nobodys() -> None:
    """Neither a deleted pod nor a container that was replaced is found any more."""
    known = pods(("main", CID))

    known.upserted(POD_OF_UID)
    assert known.owner_of(CgroupOwner("", CID)) is None
    known.deleted(POD_OF_UID.metadata)
    assert known.owner_of(CgroupOwner(UID)) is None


def test_container_of_another_pod_is_not_believed() -> None:
    """Where pod and container disagree, the process belongs to the pod, in no container that is known."""
    known = pods(("main", CID))
    other = wire.Meta(name="other", namespace="ml", uid="f" * 32)
    known.upserted(watched_pod.Pod(other))

    assert known.owner_of(CgroupOwner("f" * 32, CID)) == (("ml", "other"), "")


def test_pod_stirs_only_by_what_matters() -> None:
    """A new revision, label or annotation of others stirs nobody; a new phase or container does."""
    on_change: list[device_ids.PodKey] = []
    known = pod_cache.PodCache(on_change.append)
    later = wire.Meta(
        name="train", namespace="ml", uid=UID, resource_version="2", annotations={"a": "b"}, labels={"c": "d"}
    )
    for meta, phase in ((POD_OF_UID.metadata, "Pending"), (later, "Pending"), (later, "Running")):
        known.upserted(watched_pod.Pod(meta, watched_pod.PodSpec("n1"), watched_pod.PodStatus(phase)))

    assert on_change == [POD, POD]


def test_processes_name_pod_container_and_piece() -> None:
    """Each process is seen on its piece; one on a card that the node does not have is left out."""
    crowd = (
        LocatedProcess(Process(7, "MIG-1", 5), CgroupOwner(UID, CID)),
        LocatedProcess(Process(8, "GPU-a"), HOST),
        LocatedProcess(Process(9, "GPU-x"), HOST),
    )

    found = process_owners.on_cards(crowd, ALLOCATABLE, pods(("main", CID)).owner_of)

    assert found == (CardProcess(7, 5, MIG, POD, "main"), CardProcess(8, None, A))
    assert process_owners.by_pod(found) == {POD: {"main": ("MIG-1",)}}


@pytest.mark.parametrize(
    ("device", "pod", "given", "unauthorized"),
    [
        pytest.param(A, POD, ("GPU-a",), False, id="its card"),
        pytest.param(A, POD, ("GPU-b",), True, id="another card"),
        pytest.param(A, POD, (), True, id="given nothing"),
        pytest.param(MIG, POD, ("MIG-1",), False, id="its instance"),
        pytest.param(SIBLING, POD, ("MIG-1",), True, id="another instance of the same card"),
        pytest.param(B, POD, ("MIG-1",), False, id="the driver names the card of its instance"),
        pytest.param(MIG, POD, ("GPU-b",), False, id="an instance of its whole card"),
        pytest.param(A, None, ("GPU-a",), True, id="a process of the host, whatever others were given"),
    ],
)
def test_unauthorized(
    device: device_ids.AllocatableDevice,
    pod: device_ids.PodKey | None,
    given: tuple[str, ...],
    *,
    unauthorized: bool,
) -> None:
    """A process is unauthorized where nothing that its pod was given covers what it is on."""
    process = CardProcess(7, 5, device, pod)

    assert bool(process_owners.unauthorized((process,), lambda _: given, ALLOCATABLE)) is unauthorized


def test_one_look_is_not_enough() -> None:
    """Only who was suspect on the same card the look before is told, or is told of that card already."""
    now = (CardProcess(7, 5, A), CardProcess(8, 5, A), CardProcess(9, 5, MIG))
    before = (CardProcess(7, 4, A), CardProcess(9, 5, A))
    published = {"GPU-a": (wire.Occupant(8), wire.Occupant(9)), "GPU-b": (wire.Occupant(7),)}

    assert process_owners.seen_before(now, before, {}) == (CardProcess(7, 5, A),)
    assert process_owners.seen_before(now, (), published) == (CardProcess(8, 5, A),)


def test_occupants_stand_at_their_card_in_order() -> None:
    """They are told of the physical card, by pid, and with their pod where they have one."""
    found = process_owners.occupants((CardProcess(9, 5, SIBLING, POD, "main"), CardProcess(7, 3, MIG)), {})

    assert found == {"GPU-b": (wire.Occupant(7, 3), wire.Occupant(9, 5, "ml", "train"))}


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        pytest.param(1100, 1000, id="a little more"),
        pytest.param(900, 1000, id="a little less"),
        pytest.param(1300, 1300, id="much more"),
        pytest.param(None, None, id="unknown now"),
    ],
)
def test_breathing_memory_is_not_told(memory: int | None, told: int | None) -> None:
    """The memory is published again only when it has changed by a good part."""
    said = {"GPU-a": (wire.Occupant(7, 1000),)}

    assert process_owners.occupants((CardProcess(7, memory, A),), said) == {
        "GPU-a": (wire.Occupant(7, told),)
    }


LEAST = 64


@pytest.mark.parametrize(
    ("memory", "published", "small"),
    [
        pytest.param(63, None, True, id="a monitor"),
        pytest.param(0, None, True, id="no memory at all"),
        pytest.param(64, None, False, id="a program"),
        pytest.param(None, None, False, id="nobody knows how much"),
        pytest.param(63, wire.Occupant(7, 64), False, id="a program that uses a little less now"),
        pytest.param(47, wire.Occupant(7, 64), True, id="a program that uses much less now"),
        pytest.param(64, wire.Occupant(7, 63, small=True), False, id="a monitor that uses more now"),
    ],
)
def test_small_process_does_not_close_its_card(
    memory: int | None, published: wire.Occupant | None, *, small: bool
) -> None:
    """It is told and is small; one that closes its card does so until it uses much less."""
    before = {"GPU-a": (published,)} if published else {}

    found = process_owners.occupants((CardProcess(7, memory, A),), before, least_memory=LEAST)

    assert [bool(one.small) for one in found["GPU-a"]] == [small]


@pytest.mark.parametrize(("memory", "small"), [(4 * LEAST - 1, True), (4 * LEAST, False), (None, False)])
def test_the_server_of_mps_may_have_more(memory: int | None, *, small: bool) -> None:
    """The pods that share a card by MPS go on getting their parts of it."""
    server = CardProcess(7, memory, A, command="nvidia-cuda-mps")

    found = process_owners.occupants((server,), {}, least_memory=LEAST)

    assert [bool(one.small) for one in found["GPU-a"]] == [small]


def test_processes_that_close_a_card_are_told_first() -> None:
    """Monitors do not push them out of a list that has no more room."""
    crowd = [CardProcess(pid, 1, A) for pid in range(1, 30)]

    found = process_owners.occupants([*crowd, CardProcess(99, LEAST, A)], {}, least_memory=LEAST)

    assert [one.pid for one in found["GPU-a"]][:2] == [99, 1]
    assert len(found["GPU-a"]) == schema_limits.MOST_OCCUPANTS


def test_first_name_of_a_program_stays() -> None:
    """A program that renames itself causes no write."""
    said = {"GPU-a": (wire.Occupant(7, 5, command="python3"),)}

    found = process_owners.occupants((CardProcess(7, 5, A, command="worker-17"),), said)

    assert found == said


@pytest.mark.parametrize(
    ("content", "command"),
    [
        pytest.param(b"python3\n", "python3", id="a program"),
        pytest.param(b"a\x1b[2Jb\n", r"a\x1b[2Jb", id="what steers a terminal"),
        pytest.param(b"\xff\n", "\ufffd", id="no text"),
        pytest.param(None, "", id="a process that has ended"),
    ],
)
def test_name_of_a_program_is_one_line(tmp_path: Path, content: bytes | None, command: str) -> None:
    """It is what the kernel says, printable and short."""
    (tmp_path / "7").mkdir()
    if content is not None:
        (tmp_path / "7" / "comm").write_bytes(content)

    assert cgroups.read_command(tmp_path, 7) == command


@pytest.mark.parametrize(("cards", "each"), [(1, 16), (32, 16), (64, 8)])
def test_no_more_occupants_are_told_than_a_device_takes(cards: int, each: int) -> None:
    """The first ones of each card are told, fewer where very many cards have some."""
    pieces = [device_ids.AllocatableDevice(f"GPU-{at:02}", f"GPU-{at:02}", at, 5) for at in range(cards)]
    found = process_owners.occupants([CardProcess(pid, 5, one) for one in pieces for pid in range(1, 40)], {})

    assert {card: [one.pid for one in held] for card, held in found.items()} == {
        one.card: list(range(1, each + 1)) for one in pieces
    }
    assert each <= schema_limits.MOST_OCCUPANTS
    assert cards * each <= schema_limits.TOTAL_OCCUPANTS


# ---------------------------------------------------------------- names of cgroups

OTHER_UID = "ffffffff-4e5f-6071-8293-a4b5c6d7e8f9"
FLAT = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
OUTER = "beef" + 60 * "1"
BOTH = CgroupOwner(UID, CID)


@pytest.mark.parametrize(
    ("text", "owner"),
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
def test_owner_of_a_process(text: str, owner: CgroupOwner) -> None:
    """Pod and container are found where they are named, and nothing is made up where they are not."""
    assert cgroups.parse_owner(text) == owner


@pytest.mark.parametrize(
    ("write", "owner"),
    [
        pytest.param(lambda path: path.write_text(f"0::/kubepods/pod{UID}/{CID}\n"), BOTH, id="a file"),
        pytest.param(lambda _: None, None, id="none: the process has ended"),
        pytest.param(lambda path: path.symlink_to(path), None, id="a link in a circle"),
        pytest.param(lambda path: path.mkdir(), None, id="a folder"),
        pytest.param(os.mkfifo, None, id="a pipe"),
        pytest.param(lambda path: path.write_bytes(b"x" * (cgroups.LONGEST + 1)), None, id="a giant"),
    ],
)
def test_owner_is_read_from_a_file(
    tmp_path: Path, write: Callable[[Path], object], owner: CgroupOwner | None
) -> None:
    """What is no file of a reasonable size says nothing, as if the process had ended."""
    (tmp_path / "7").mkdir()
    write(tmp_path / "7/cgroup")

    assert cgroups.read_owner(tmp_path, 7) == owner
