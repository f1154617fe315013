"""What a source said last stands until it says something else, and silence means something only then."""

from collections.abc import Collection

from berth_agent.card_processes import Process
from berth_agent.gpupods import process_owners, verification
from berth_agent.gpupods.evidence import EvidenceCache, EvidenceSources
from berth_agent.kubelet import device_ids, podresources
from berth_agent.kubelet.cgroups import HOST, CgroupOwner
from berth_agent.kubelet.podresources import FailureReason, ListedContainer, ListedDevices, ListedPod
from berth_agent.kubelet.poller import KubeletReport
from berth_crds import wire

KEY, UID = ("ml", "train"), "u-1"
ALLOCATABLE = device_ids.allocatable_devices(
    wire.Card(uuid=f"GPU-{one}", type="gpu", minor=at, memory=16) for at, one in enumerate("ab")
)
AWAY = podresources.PodResourcesError(FailureReason.UNREACHABLE, "Nobody answers.")


class Stage:
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

    def lists(self, *ids: str, name: str = "train") -> None:
        """Have the kubelet list one pod with these devices."""
        devices = (ListedDevices("nvidia.com/gpu", ids),) if ids else ()
        self.cache.kubelet_reported(
            KubeletReport((ListedPod("ml", name, (ListedContainer("main", devices),)),))
        )

    def shows(self, *uuids: str, pid: int = 7, mine: bool = True) -> None:
        """Have the driver show one process on these cards."""
        place = CgroupOwner(UID, "") if mine else HOST
        found = tuple(process_owners.LocatedProcess(Process(pid, uuid, 1), place) for uuid in uuids)
        self.cache.processes_seen(found, lambda place: (KEY, "main") if place != HOST else None)

    def kubelet(self) -> verification.ByContainer:
        """Return what the kubelet says of the pod."""
        evidence = self.cache.of_pod(KEY)
        assert evidence is not None
        return evidence.kubelet


def nothing(_key: device_ids.PodKey) -> tuple[str, ...]:
    """Say that Berth gave nothing to anybody."""
    return ()


def test_both_sources_are_heard() -> None:
    """What either says of a pod is evidence, each for itself."""
    stage = Stage()
    stage.lists("GPU-a::1")
    stage.shows("GPU-b")

    assert stage.cache.of_pod(KEY) == verification.Evidence({"main": ("GPU-a",)}, {"main": ("GPU-b",)})


def test_without_sources_there_is_no_evidence() -> None:
    """Where nobody is asked, nothing is known, not even that nothing is held."""
    assert Stage(kubelet=False, driver=False).cache.of_pod(KEY) is None


def test_kubelet_that_fails_is_still_quoted() -> None:
    """Its last word stands, and beside it that there is trouble."""
    stage = Stage()
    stage.lists("GPU-a")
    stage.cache.kubelet_reported(
        KubeletReport(
            (
                ListedPod(
                    "ml", "train", (ListedContainer("main", (ListedDevices("nvidia.com/gpu", ("GPU-a",)),)),)
                ),
            ),
            AWAY,
        )
    )

    assert stage.cache.of_pod(KEY) == verification.Evidence({"main": ("GPU-a",)}, {}, "Nobody answers.")


def test_kubelet_that_has_just_started_takes_nothing_back() -> None:
    """A list without a pod that lives says nothing of it; one that has it without devices does."""
    stage = Stage()
    stage.lists("GPU-a")

    stage.cache.kubelet_reported(KubeletReport(()))
    assert stage.kubelet() == {"main": ("GPU-a",)}
    stage.lists()
    assert stage.kubelet() == {}


def test_word_on_a_pod_ends_with_it() -> None:
    """What was said of a pod is not said of its successor of the same name, nor after its end."""
    stage = Stage()
    stage.lists("GPU-a")
    stage.living[KEY] = "u-2"

    stage.cache.kubelet_reported(KubeletReport(()))

    assert stage.kubelet() == {}


def test_silence_counts_once_the_pod_is_listed_and_the_driver_has_spoken() -> None:
    """Only then would each source have shown the pod on a card."""
    stage = Stage()
    said = [stage.cache.is_complete(KEY)]
    stage.lists()
    said.append(stage.cache.is_complete(KEY))
    stage.shows()
    said.append(stage.cache.is_complete(KEY))

    assert said == [False, False, True]
    assert not stage.cache.is_complete(("ml", "other"))


def test_record_speaks_for_a_source_that_has_not_spoken_yet() -> None:
    """Until a source speaks of a pod, what its record quotes of it stands; from then on only what it says."""
    stage = Stage()
    said = (wire.Grant("main", ("GPU-a",), "podresources"), wire.Grant("main", ("GPU-b",), "nvml"))
    first = stage.cache.of_pod(KEY, said)
    stage.lists("GPU-a", name="other")
    second = stage.cache.of_pod(KEY, said)
    stage.lists()
    stage.shows()

    remembered = verification.Evidence({"main": ("GPU-a",)}, {"main": ("GPU-b",)})
    assert (first, second) == (remembered, remembered)
    assert stage.cache.of_pod(KEY, said) == verification.Evidence()


def test_nobody_is_stirred_by_what_is_known() -> None:
    """The same look again, or the same cards, makes nobody look at any record."""
    stage = Stage()
    stage.shows("GPU-a")
    before = len(stage.changes)

    stage.shows("GPU-a")
    stage.cache.set_allocatable(ALLOCATABLE)

    assert len(stage.changes) == before
    stage.shows("GPU-b")
    assert len(stage.changes) == before + 1


def test_pods_of_which_the_same_is_said_are_not_looked_at_again() -> None:
    """A question is asked for one pod, and what it costs must not grow with all others of the node."""
    stage = Stage()
    stage.living |= {("ml", "other"): "u-2", ("ml", "new"): "u-3"}
    train = ListedPod(
        "ml", "train", (ListedContainer("main", (ListedDevices("nvidia.com/gpu", ("GPU-a",)),)),)
    )
    other, new = ListedPod("ml", "other"), ListedPod("ml", "new")
    stage.cache.kubelet_reported(KubeletReport((train, other)))
    stage.shows("GPU-a")
    stage.changes.clear()

    stage.cache.kubelet_reported(KubeletReport((train, other, new)))
    stage.cache.kubelet_reported(KubeletReport((other, new), AWAY))
    stage.shows("GPU-b")

    assert stage.changes == [{("ml", "new")}, None, {KEY}]


def test_cards_that_come_to_be_known_make_sense_of_ids() -> None:
    """An id that meant no card leads to one as soon as the node has it."""
    stage = Stage()
    stage.cache.set_allocatable({})
    stage.lists("GPU-a")
    assert stage.cache.holdings[KEY]["main"][0].device is None

    stage.cache.set_allocatable(ALLOCATABLE)

    assert stage.cache.holdings[KEY]["main"][0].device == ALLOCATABLE["GPU-a"]


# ---------------------------------------------------------------- unauthorized


def test_stray_is_told_at_the_second_look() -> None:
    """A process of the host is told once two looks in a row have shown it."""
    stage = Stage(kubelet=False)
    found = []
    for _ in range(3):
        stage.shows("GPU-a", mine=False)
        found.append([one.pid for one in stage.cache.unauthorized(nothing) or ()])

    assert found == [[], [7], [7]]


def test_what_berth_or_the_kubelet_gave_makes_no_stray() -> None:
    """A process on a card that either gave to its pod is where it belongs."""
    by_berth, by_kubelet, by_nobody = Stage(), Stage(), Stage()
    for stage in (by_berth, by_kubelet, by_nobody):
        stage.lists(*(["GPU-a"] if stage is by_kubelet else []))
    found = []
    for stage in (by_berth, by_kubelet, by_nobody):
        for _ in range(2):
            stage.shows("GPU-a")
            unauthorized = stage.cache.unauthorized((lambda _: ("GPU-a",)) if stage is by_berth else nothing)
        found.append(len(unauthorized or ()))

    assert found == [0, 0, 1]


def test_no_stray_is_told_before_the_kubelet_was_heard() -> None:
    """Until the kubelet has spoken, or surely does not, nobody can say that it gave nothing."""
    stage = Stage()
    stage.shows("GPU-a")
    assert stage.cache.unauthorized(nothing) is None

    stage.cache.kubelet_reported(KubeletReport(None, AWAY))

    assert stage.cache.unauthorized(nothing) == ()


# ---------------------------------------------------------------- pods without devices


def test_a_pod_that_runs_and_is_listed_without_devices_has_none() -> None:
    """That is said of the very pod that was listed, and not of one that was never listed."""
    stage = Stage()

    before = stage.cache.listed_without_devices(KEY, UID)
    stage.lists()

    assert (before, stage.cache.listed_without_devices(KEY, UID)) == (False, True)
    assert not stage.cache.listed_without_devices(KEY, "u-2")


def test_a_pod_with_a_device_of_any_kind_is_not_without() -> None:
    """What counts as a card may be set wrong; a device plugin gave it something."""
    stage = Stage()

    stage.cache.kubelet_reported(
        KubeletReport(
            (
                ListedPod(
                    "ml", "train", (ListedContainer("main", (ListedDevices("example.com/other", ("x",)),)),)
                ),
            )
        )
    )

    assert not stage.cache.listed_without_devices(KEY, UID)


def test_what_was_listed_before_the_pod_ran_says_nothing() -> None:
    """The kubelet lists a pod before it hands out its devices; it must be asked again."""
    stage = Stage()
    stage.running.clear()
    stage.lists()
    stage.running.add(KEY)

    early = stage.cache.listed_without_devices(KEY, UID)
    stage.lists()

    assert (early, stage.cache.listed_without_devices(KEY, UID)) == (False, True)


def test_what_was_listed_before_the_pod_ran_says_nothing_when_the_kubelet_fails() -> None:
    """Its last word is repeated then, and is as old as it was."""
    stage = Stage()
    stage.running.clear()
    stage.lists()
    stage.running.add(KEY)

    stage.cache.kubelet_reported(KubeletReport((ListedPod("ml", "train", (ListedContainer("main"),)),), AWAY))

    assert not stage.cache.listed_without_devices(KEY, UID)


def test_an_answer_that_was_on_its_way_when_the_pod_began_to_run_says_nothing() -> None:
    """It may be older than the devices; a pod that had run before stays what it was."""
    stage = Stage()
    stage.running.clear()
    stage.cache.kubelet_requested()
    stage.running.add(KEY)
    stage.cache.pod_changed(KEY)
    stage.lists()
    early = stage.cache.listed_without_devices(KEY, UID)

    stage.cache.kubelet_requested()
    stage.lists()
    asked_again = stage.cache.listed_without_devices(KEY, UID)
    stage.cache.pod_changed(KEY)
    stage.lists()

    assert (early, asked_again, stage.cache.listed_without_devices(KEY, UID)) == (False, True, True)
