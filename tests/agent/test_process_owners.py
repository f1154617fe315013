"""Processes on cards lead to pods, and those on cards that their pods were not given are unauthorized."""

import pytest

from berth_agent.card_processes import Process
from berth_agent.gpupods import pod_cache, process_owners, watched_pod
from berth_agent.gpupods.process_owners import CardProcess, LocatedProcess
from berth_agent.kubelet import device_ids
from berth_agent.kubelet.cgroups import HOST, CgroupOwner
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


def pods(*containers: tuple[str, str]) -> pod_cache.PodCache:
    """Return the cache of one pod with these containers, by name and id."""
    known = pod_cache.PodCache(lambda _: None)
    statuses = tuple(watched_pod.ContainerStatus(name, f"containerd://{one}") for name, one in containers)
    meta = wire.Meta(name="train", namespace="ml", uid=UID)
    known.upserted(
        watched_pod.Pod(meta, watched_pod.PodSpec("n1"), watched_pod.PodStatus("Running", statuses))
    )
    return known


@pytest.mark.parametrize(
    ("place", "found"),
    [
        pytest.param(CgroupOwner(UID, CID), (POD, "main"), id="pod and container"),
        pytest.param(CgroupOwner("", CID), (POD, "main"), id="container alone"),
        pytest.param(
            CgroupOwner("f" * 32, CID), (POD, "main"), id="static pod, whose uid in the API is another"
        ),
        pytest.param(CgroupOwner(UID, "e" * 64), (POD, ""), id="container that is not known yet"),
        pytest.param(CgroupOwner(UID), (POD, ""), id="pod alone"),
        pytest.param(CgroupOwner("f" * 32, "e" * 64), None, id="pod that is not known"),
        pytest.param(HOST, None, id="host"),
    ],
)
def test_places_lead_to_pods(place: CgroupOwner, found: tuple[device_ids.PodKey, str] | None) -> None:
    """A process belongs to the container with its id, else to the pod with its uid, else to nobody."""
    assert pods(("main", CID), ("side", OTHER)).owner_of(place) == found


def test_only_container_of_a_pod_is_known() -> None:
    """What runs in a pod of one container runs in that container."""
    assert pods(("main", CID)).owner_of(CgroupOwner(UID)) == (POD, "main")


def test_containers_of_a_pod_that_is_gone_are_nobodys() -> None:
    """Neither a deleted pod nor a container that was replaced is found any more."""
    known = pods(("main", CID))
    pod = known.get(POD)
    assert pod is not None
    again = watched_pod.Pod(pod.metadata, pod.spec, watched_pod.PodStatus("Running"))

    known.upserted(again)
    assert known.owner_of(CgroupOwner("", CID)) is None
    known.deleted(again.metadata)
    assert known.owner_of(CgroupOwner(UID)) is None


def test_container_of_another_pod_is_not_believed() -> None:
    """Where pod and container disagree, the process belongs to the pod, in no container that is known."""
    known = pods(("main", CID))
    other = wire.Meta(name="other", namespace="ml", uid="f" * 32)
    known.upserted(watched_pod.Pod(other, watched_pod.PodSpec("n1"), watched_pod.PodStatus("Running")))

    assert known.owner_of(CgroupOwner("f" * 32, CID)) == (("ml", "other"), "")


def test_pod_stirs_only_by_what_matters() -> None:
    """A new revision, label or annotation of others stirs nobody; a new phase or container does."""
    on_change: list[device_ids.PodKey] = []
    known = pod_cache.PodCache(on_change.append)
    first = wire.Meta(name="train", namespace="ml", uid=UID, resource_version="1")
    later = wire.Meta(
        name="train", namespace="ml", uid=UID, resource_version="2", annotations={"a": "b"}, labels={"c": "d"}
    )
    for meta, phase in ((first, "Pending"), (later, "Pending"), (later, "Running")):
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
    ("device", "given", "unauthorized"),
    [
        pytest.param(A, ("GPU-a",), False, id="its card"),
        pytest.param(A, ("GPU-b",), True, id="another card"),
        pytest.param(A, (), True, id="given nothing"),
        pytest.param(MIG, ("MIG-1",), False, id="its instance"),
        pytest.param(SIBLING, ("MIG-1",), True, id="another instance of the same card"),
        pytest.param(B, ("MIG-1",), False, id="the driver names the card of its instance"),
        pytest.param(MIG, ("GPU-b",), False, id="an instance of its whole card"),
    ],
)
def test_unauthorized(
    device: device_ids.AllocatableDevice,
    given: tuple[str, ...],
    *,
    unauthorized: bool,
) -> None:
    """A process is unauthorized where nothing that its pod was given covers what it is on."""
    process = CardProcess(7, 5, device, POD, "main")

    assert bool(process_owners.unauthorized((process,), lambda _: given, ALLOCATABLE)) is unauthorized


def test_process_of_the_host_is_unauthorized() -> None:
    """Who belongs to no pod was given nothing, whatever others were."""
    assert process_owners.unauthorized((CardProcess(7, 5, A),), lambda _: ("GPU-a",), ALLOCATABLE)


def test_one_look_is_not_enough() -> None:
    """One look is not enough: only who was suspect on the same card the look before is told."""
    now = (CardProcess(7, 5, A), CardProcess(8, 5, A), CardProcess(9, 5, MIG))
    before = (CardProcess(7, 4, A), CardProcess(9, 5, A))

    assert process_owners.seen_twice(now, before) == (CardProcess(7, 5, A),)


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
