"""A record says what the sources say, and of a pod that Berth did not place, what the kubelet gave it."""

import datetime as dt

from berth_agent.gpupods import desired, verification, watched_pod
from berth_agent.kubelet import device_ids
from berth_crds import wire

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
CARDS = (
    wire.Card(uuid="GPU-a", type="gpu", minor=0, memory=16, model="Tesla T4"),
    wire.Card(
        uuid="GPU-b",
        type="gpu",
        minor=1,
        memory=16,
        model="Tesla T4",
        sharing=wire.Sharing("time-slicing", replicas=4),
    ),
    wire.Card(
        uuid="GPU-c",
        type="gpu",
        minor=2,
        memory=40,
        mig=wire.Mig(True, (wire.MigInstance("MIG-1", "1g.5gb", 5, gi=7, ci=0),)),
    ),
)
ALLOCATABLE = device_ids.allocatable_devices(CARDS)
NODE_CARDS = desired.NodeCards("n1", desired.gpus_by_minor(CARDS), None, ALLOCATABLE)


def pod(phase: str = "Running") -> watched_pod.Pod:
    """Give a pod that Berth did not place."""
    meta = wire.Meta(name="p", namespace="ns", uid="u-1")
    return watched_pod.Pod(meta, watched_pod.PodSpec("n1"), watched_pod.PodStatus(phase))


def held(uuid: str, count: int = 1) -> device_ids.HeldDevice:
    """Give a holding."""
    return device_ids.HeldDevice(uuid, ALLOCATABLE.get(uuid), count)


def handed(**containers: tuple[device_ids.HeldDevice, ...]) -> wire.GpuPodSpec:
    """Say what the kubelet gave, as a record does."""
    return desired.spec(pod(), desired.allocation_by_kubelet("n1", containers), NODE_CARDS)


def test_record_names_what_the_kubelet_gave() -> None:
    """Whole cards, replicas and instances stand with what they are worth, by container."""
    spec = handed(main=(held("GPU-a"), held("GPU-b", 3)), side=(held("MIG-1"),))

    assert spec == wire.GpuPodSpec(
        "n1",
        "u-1",
        (
            wire.HoldingContainer(
                "main",
                (
                    wire.HeldCard("GPU-a", 0, "gpu", core=100, memory=16, model="Tesla T4"),
                    wire.HeldCard("GPU-b", 1, "gpu", core=75, memory=12, model="Tesla T4"),
                ),
            ),
            wire.HoldingContainer(
                "side", (wire.HeldCard("MIG-1", 2, "gpu", core=100, memory=5, profile="1g.5gb"),)
            ),
        ),
    )


def test_replicas_of_a_card_that_tells_none_count_as_the_card() -> None:
    """Where nobody says into how many parts a card is cut, a part of it is never taken for less than all."""
    spec = handed(main=(held("GPU-a", 2),))

    assert [(one.core, one.memory) for one in spec.containers[0].devices] == [(100, 16)]


def test_what_is_no_card_of_the_node_is_left_open() -> None:
    """No minor is made up for an unknown device: the operator withholds what is left open."""
    assert handed(main=(held("GPU-x"),), side=(held("GPU-a"),)) == handed(side=(held("GPU-a"),))


def test_what_stands_there_is_kept_and_added_to() -> None:
    """A container that is named keeps its cards; one that is not, or without cards, gets the kubelet's."""
    seen = wire.GpuPodSpec(
        "n1", "u-1", (*handed(main=(held("GPU-a"),)).containers, wire.HoldingContainer("side"))
    )

    spec = desired.merged(seen, handed(main=(held("GPU-b"),), side=(held("MIG-1"),)))

    assert spec == handed(main=(held("GPU-a"),), side=(held("MIG-1"),))


def test_status_quotes_each_source() -> None:
    """Each source stands beside each container with what it says, and the condition judges."""
    evidence = verification.Evidence({"main": ("GPU-a",)}, {"main": ("GPU-b",), "": ("GPU-a",)})

    status = desired.status(
        pod(), handed(main=(held("GPU-a"),)), wire.GpuPodStatus(), NODE_CARDS, evidence=evidence, now=NOON
    )

    assert (status.phase, status.minors) == ("Running", "0")
    assert status.granted == (
        wire.Grant("main", ("GPU-a",), "podresources"),
        wire.Grant("main", ("GPU-b",), "nvml"),
    )
    assert [(one.status, one.reason) for one in status.conditions] == [("False", "Mismatch")]


def test_status_can_be_written_whatever_the_ids_are() -> None:
    """An id that the schema refuses is told in the condition alone."""
    evidence = verification.Evidence({"main": ("GPU-a", "no uuid at all", "x" * 65)})

    status = desired.status(pod(), handed(), wire.GpuPodStatus(), NODE_CARDS, evidence=evidence, now=NOON)

    assert status.granted == (wire.Grant("main", ("GPU-a",), "podresources"),)
    assert "no uuid at all" in status.conditions[0].message


def test_pod_that_has_ended_holds_nothing() -> None:
    """Old kubelets list pods that have ended; their records say that nothing is held."""
    evidence = verification.Evidence({"main": ("GPU-a",)})
    spec = handed(main=(held("GPU-a"),))

    status = desired.status(
        pod("Succeeded"), spec, wire.GpuPodStatus(), NODE_CARDS, evidence=evidence, now=NOON
    )

    assert status.granted == ()
    assert [(one.status, one.reason) for one in status.conditions] == [("Unknown", "Finished")]
