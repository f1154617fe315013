"""The last answer of a source stands until the next one, and only an answer says that nothing is held."""

from collections.abc import Collection

import pytest

from berth_agent.gpupods import process_owners, verification
from berth_agent.gpupods.evidence import EvidenceCache, EvidenceSources
from berth_agent.kubelet import device_ids, podresources
from berth_agent.kubelet.cgroups import HOST, CgroupOwner
from berth_agent.kubelet.podresources import (
    ClaimedDevice,
    FailureReason,
    ListedClaim,
    ListedContainer,
    ListedDevices,
    ListedPod,
)
from berth_agent.kubelet.poller import KubeletReport
from berth_agent.probe import Process
from berth_crds import wire

KEY, UID = ("ml", "train"), "u-1"
POD = CgroupOwner(UID, "")
ALLOCATABLE = device_ids.allocatable_devices(
    wire.Card(uuid=f"GPU-{one}", type="gpu", minor=at, memory=16) for at, one in enumerate("ab")
)
AWAY = podresources.PodResourcesError(FailureReason.UNREACHABLE, "Nobody answers.")


def listed(name: str, *ids: str, resource: str = "nvidia.com/gpu") -> ListedPod:
    """Return a pod as the kubelet lists it, with these devices."""
    return ListedPod("ml", name, (ListedContainer("main", (ListedDevices(resource, ids),) if ids else ()),))


class NodeEvidence:
    """The evidence of one node, with pods that live or do not."""

    def __init__(self, *, kubelet: bool = True, driver: bool = True) -> None:
        self.changes: list[Collection[device_ids.PodKey] | None] = []
        self.living = {KEY: UID}
        self.running = {KEY}
        self.cache = EvidenceCache(
            EvidenceSources(kubelet=kubelet, driver=driver),
            lambda key: self.living.get(key, ""),
            self.running.__contains__,
            on_change=self.changes.append,
        )
        self.cache.set_allocatable(ALLOCATABLE)

    def lists(self, *pods: ListedPod, failure: podresources.PodResourcesError | None = None) -> None:
        """Have the kubelet list these pods, or have listed them before it failed."""
        self.cache.kubelet_reported(KubeletReport(pods, failure))

    def shows(self, *uuids: str, pid: int = 7, owner: CgroupOwner = POD) -> None:
        """Have the driver show one process on these cards."""
        found = tuple(process_owners.LocatedProcess(Process(pid, uuid, 1), owner) for uuid in uuids)
        self.cache.processes_seen(found, {POD: (KEY, "main")}.get)

    def kubelet(self) -> verification.ByContainer | None:
        """Return what the kubelet says of the pod."""
        evidence = self.cache.of_pod(KEY)
        return evidence.kubelet if evidence else None


TRAIN, IDLE = listed("train", "GPU-a"), listed("train")


def test_each_source_is_evidence_for_itself() -> None:
    """What either says of a pod stands, also while the kubelet fails, beside the words of its failure."""
    node = NodeEvidence()
    node.lists(listed("train", "GPU-a::1"))
    node.shows("GPU-b")
    assert node.cache.of_pod(KEY) == verification.Evidence({"main": ("GPU-a",)}, {"main": ("GPU-b",)})

    node.lists(TRAIN, failure=AWAY)
    assert node.cache.of_pod(KEY) == verification.Evidence(
        {"main": ("GPU-a",)}, {"main": ("GPU-b",)}, "Nobody answers."
    )


def test_without_sources_there_is_no_evidence() -> None:
    """Where nobody is asked, nothing is known, not even that nothing is held."""
    assert NodeEvidence(kubelet=False, driver=False).cache.of_pod(KEY) is None


@pytest.mark.parametrize(
    ("then", "uid", "left"),
    [
        pytest.param((), UID, {"main": ("GPU-a",)}, id="a kubelet that has just started lists nothing"),
        pytest.param((IDLE,), UID, {}, id="listed without devices"),
        pytest.param((), "u-2", {}, id="another pod of that name"),
        pytest.param((), "", {}, id="the pod has ended"),
    ],
)
def test_answer_about_a_pod_stands_while_that_pod_lives(
    then: tuple[ListedPod, ...], uid: str, left: verification.ByContainer
) -> None:
    """A list without a pod that lives says nothing of it; one that has it without devices does."""
    node = NodeEvidence()
    node.lists(TRAIN)
    node.living[KEY] = uid

    node.lists(*then)

    assert node.kubelet() == left


def test_evidence_is_complete_once_the_pod_is_listed_and_the_driver_has_answered() -> None:
    """Only then would each source have shown the pod on a card."""
    node = NodeEvidence()
    complete = [node.cache.is_complete(KEY)]
    node.lists(IDLE)
    complete.append(node.cache.is_complete(KEY))
    node.shows()
    complete.append(node.cache.is_complete(KEY))

    assert complete == [False, False, True]
    assert not node.cache.is_complete(("ml", "other"))


def test_evidence_of_a_pod_that_runs_is_complete_once_it_was_listed_since() -> None:
    """An answer that was under way when the pod came to be known may be older than it is."""
    node = NodeEvidence(driver=False)
    node.living.clear()
    node.lists(IDLE)
    node.living[KEY] = UID
    node.cache.pod_changed(KEY)
    complete = [node.cache.is_complete(KEY)]
    node.lists(IDLE)
    complete.append(node.cache.is_complete(KEY))
    node.cache.kubelet_requested()
    node.lists(IDLE)
    complete.append(node.cache.is_complete(KEY))

    assert complete == [False, False, True]


def test_evidence_of_a_pod_that_does_not_run_yet_is_complete_once_it_is_listed() -> None:
    """Whatever the kubelet gives it later is a change; a listing of another pod of that name says nothing."""
    node = NodeEvidence(driver=False)
    node.running.clear()
    node.lists(IDLE)
    complete = node.cache.is_complete(KEY)
    node.living[KEY] = "u-2"

    assert (complete, node.cache.is_complete(KEY)) == (True, False)


def test_published_grants_stand_for_a_source_that_has_not_answered_yet() -> None:
    """Until a source answers about a pod, what its GpuPod quotes of it stands; then only the answer does."""
    node = NodeEvidence()
    published = (wire.Grant("main", ("GPU-a",), "podresources"), wire.Grant("main", ("GPU-b",), "nvml"))
    first = node.cache.of_pod(KEY, published)
    node.lists(listed("other", "GPU-a"))
    second = node.cache.of_pod(KEY, published)
    node.lists(IDLE)
    node.shows()

    remembered = verification.Evidence({"main": ("GPU-a",)}, {"main": ("GPU-b",)})
    assert (first, second) == (remembered, remembered)
    assert node.cache.of_pod(KEY, published) == verification.Evidence()


def test_pods_of_which_the_same_is_said_are_not_looked_at_again() -> None:
    """A question is asked for one pod, and what it costs must not grow with all others of the node."""
    node = NodeEvidence()
    node.living |= {("ml", "other"): "u-2", ("ml", "new"): "u-3"}
    other, new = listed("other"), listed("new")
    node.lists(TRAIN, other)
    node.shows("GPU-a")
    node.changes.clear()

    node.lists(TRAIN, other, new)
    node.lists(other, new, failure=AWAY)
    for uuid in ("GPU-a", "GPU-b"):
        node.shows(uuid)
    node.cache.set_allocatable(ALLOCATABLE)

    assert node.changes == [{("ml", "new")}, None, {KEY}]


def test_cards_that_come_to_be_known_make_sense_of_ids() -> None:
    """An id that meant no card leads to one as soon as the node has it."""
    node = NodeEvidence()
    node.cache.set_allocatable({})
    node.lists(TRAIN)
    assert node.cache.holdings[KEY]["main"][0].device is None

    node.cache.set_allocatable(ALLOCATABLE)

    assert node.cache.holdings[KEY]["main"][0].device == ALLOCATABLE["GPU-a"]


# ---------------------------------------------------------------- unauthorized


def given_nothing(_key: device_ids.PodKey) -> tuple[str, ...]:
    """Return what Berth gave to a pod."""
    return ()


def test_unauthorized_process_is_reported_at_the_second_sample() -> None:
    """A process of the host is told once two looks in a row have shown it."""
    node = NodeEvidence(kubelet=False)
    found = []
    for _ in range(3):
        node.shows("GPU-a", owner=HOST)
        found.append([one.pid for one in node.cache.unauthorized(given_nothing, {}) or ()])

    assert found == [[], [7], [7]]


def test_unauthorized_process_is_not_forgotten_by_an_agent_that_restarts() -> None:
    """One that is published was seen before, by another; the driver says whether it is still there."""
    published = {"GPU-a": (wire.Occupant(7), wire.Occupant(8))}
    node = NodeEvidence(kubelet=False)
    assert node.cache.unauthorized(given_nothing, published) is None

    node.shows("GPU-a", owner=HOST)

    assert [one.pid for one in node.cache.unauthorized(given_nothing, published) or ()] == [7]


@pytest.mark.parametrize(
    ("by_berth", "by_kubelet", "count"),
    [
        pytest.param(("GPU-a",), IDLE, 0, id="Berth gave it"),
        pytest.param((), TRAIN, 0, id="the kubelet gave it"),
        pytest.param((), IDLE, 1, id="nobody gave it"),
    ],
)
def test_process_on_a_card_that_its_pod_was_given_is_authorized(
    by_berth: tuple[str, ...], by_kubelet: ListedPod, count: int
) -> None:
    """It is the same whether Berth or the kubelet gave the card."""
    node = NodeEvidence()
    node.lists(by_kubelet)
    for _ in range(2):
        node.shows("GPU-a")
        unauthorized = node.cache.unauthorized(lambda _: by_berth, {})

    assert len(unauthorized or ()) == count


def test_no_process_is_unauthorized_before_the_kubelet_has_answered() -> None:
    """Until the kubelet has spoken, or surely does not, nobody can say that it gave nothing."""
    node = NodeEvidence()
    node.shows("GPU-a")
    assert node.cache.unauthorized(given_nothing, {}) is None

    node.cache.kubelet_reported(KubeletReport(None, AWAY))

    assert node.cache.unauthorized(given_nothing, {}) == ()


def test_process_on_a_card_that_a_claim_brought_is_authorized() -> None:
    """A driver of claims gives cards as a device plugin does, and what it gave is evidence as well."""
    node = NodeEvidence()
    claim = ListedClaim("card", "ml", (ClaimedDevice("gpu.nvidia.com", "gpu-0"),))
    node.lists(ListedPod("ml", "train", (ListedContainer("main", claims=(claim,)),)))
    for _ in range(2):
        node.shows("GPU-a")
        unauthorized = node.cache.unauthorized(given_nothing, {})

    assert node.cache.of_pod(KEY) == verification.Evidence({"main": ("GPU-a",)}, {"main": ("GPU-a",)})
    assert unauthorized == ()


# ---------------------------------------------------------------- pods without devices


@pytest.mark.parametrize(
    ("pods", "uid", "without"),
    [
        pytest.param((IDLE,), UID, True, id="listed without devices"),
        pytest.param((IDLE,), "u-2", False, id="it was another pod that was listed"),
        pytest.param((), UID, False, id="never listed"),
        pytest.param((listed("train", "x", resource="example.com/other"),), UID, False, id="any device"),
    ],
)
def test_a_pod_that_runs_and_is_listed_without_devices_has_none(
    pods: tuple[ListedPod, ...], uid: str, *, without: bool
) -> None:
    """Whatever counts as a card: a device plugin that gave it anything may have given it one."""
    node = NodeEvidence()
    node.lists(*pods)

    assert node.cache.listed_without_devices(KEY, uid) is without


@pytest.mark.parametrize("failure", [None, AWAY], ids=["the kubelet answers", "its last answer is repeated"])
def test_what_was_listed_before_the_pod_ran_says_nothing(
    failure: podresources.PodResourcesError | None,
) -> None:
    """The kubelet lists a pod before it hands out its devices; it must be asked again, and answer."""
    node = NodeEvidence()
    node.running.clear()
    node.lists(IDLE)
    node.running.add(KEY)
    early = node.cache.listed_without_devices(KEY, UID)

    node.lists(IDLE, failure=failure)

    assert (early, node.cache.listed_without_devices(KEY, UID)) == (False, failure is None)


def test_an_answer_that_was_on_its_way_when_the_pod_began_to_run_says_nothing() -> None:
    """It may be older than the devices; a pod that had run before stays what it was."""
    node = NodeEvidence()
    node.running.clear()
    node.cache.kubelet_requested()
    node.running.add(KEY)
    node.cache.pod_changed(KEY)
    node.lists(IDLE)
    early = node.cache.listed_without_devices(KEY, UID)

    node.cache.kubelet_requested()
    node.lists(IDLE)
    asked_again = node.cache.listed_without_devices(KEY, UID)
    node.cache.pod_changed(KEY)
    node.lists(IDLE)

    assert (early, asked_again, node.cache.listed_without_devices(KEY, UID)) == (False, True, True)
