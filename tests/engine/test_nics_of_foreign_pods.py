"""NICs and other devices that Koordinator's record names, or that a pod without one may have (I1, I8, I9)."""

import functools
import json
from collections.abc import Mapping
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import aliases, allocation, names
from berth_operator.engine import node_summaries
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import allocation_recovery, decisions
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.policy import Policy
from berth_operator.translate import pods, raw
from scheduling.placements import place
from support import builders, ledgers, random_clusters, thorough

RDMA: Final = "koordinator.sh/rdma"
KOORDINATOR: Final = names.KOORDINATOR_SCHEDULER
NODE: Final = builders.node("n1", extra=dict.fromkeys((RDMA, "koordinator.sh/fpga", names.RDMA), 400))
FPGA: Final = PhysicalDevice("fpga-n1-0", 0, type="fpga")
NICS: Final = (builders.nic(0), builders.nic(1), builders.nic(2, functions=3))
DEVICE: Final = builders.device("n1", others=(*NICS, FPGA))
BUSES: Final = [one.bus for one in NICS[2].functions]

Entry = dict[str, Any]


def entry(minor: int, core: int = 100, *buses: str, name: str = RDMA) -> Entry:
    """Return what Koordinator writes of one device."""
    found: Entry = {"minor": minor, "id": "0000:1f:00.0", "resources": {name: str(core)}}
    return found | ({"extension": {"vfs": [{"minor": -1, "busID": bus} for bus in buses]}} if buses else {})


def pod(written: object, asks: Mapping[str, object], **fields: Any) -> raw.Pod:
    """Return a pod that Koordinator has bound and that runs, with this record; None is no record."""
    usual: dict[str, Any] = {
        "nodeName": "n1",
        "schedulerName": KOORDINATOR,
        "phase": "Running",
        "containers": [builders.asking("main", asks)],
        "annotations": {} if written is None else {aliases.KOORDINATOR_RECORD: json.dumps(written)},
    }
    return builders.admitted(builders.pod("p", **usual | fields))


nic = functools.partial(pod, asks={RDMA: 100})


def ledger_with(*seen: raw.Pod, late: bool = False) -> Ledger:
    """Return a ledger of a node with NICs on which these pods run; the pods first if `late`."""
    ledger = ledgers.with_nodes()
    ledgers.in_turn(
        lambda: ledger.node_seen(NODE),
        lambda: ledger.device_seen(DEVICE),
        *(functools.partial(ledgers.pod_seen, ledger, one) for one in seen),
        late=late,
    )
    return ledger


def given(ledger: Ledger, ask: requests.OtherDevices) -> list[str]:
    """Give such devices away as long as there are any; return their uuids, or their functions."""
    found: list[str] = []
    while (placement := place(ledger.inventory, builders.pod_info(f"next-{len(found)}", ask))) is not None:
        (share,) = placement.grants[0].shares
        found.append(share.function or share.uuid)
        ledger.inventory.charge(builders.hold(f"next-{len(found)}", shares=[share]))
    return sorted(found)


WHOLE: Final = requests.OtherDevices("rdma", 1)
HALF: Final = requests.OtherDevices("rdma", 1, 50)
ALL: Final = [one.uuid for one in NICS]
FIRST, SECOND, LAST = ALL
PARTS: Final = {"containers": [builders.asking("a", {RDMA: 30}), builders.asking("b", {RDMA: 40})]}

CASES: Final[dict[str, tuple[raw.Pod, list[str]]]] = {
    "the NIC that it names": (nic({"rdma": [entry(0)]}), [SECOND, LAST]),
    "by the name of old": (nic({"rdma": [entry(0, name="kubernetes.io/rdma")]}), [SECOND, LAST]),
    "all that it names": (pod({"rdma": [entry(0), entry(2)]}, {RDMA: 200}), [SECOND]),
    "a NIC of which it has a part": (pod({"rdma": [entry(1, 70)]}, {}, **PARTS), [FIRST, LAST]),
    "a NIC that an init container has before": (
        pod({"rdma": [entry(0)]}, {RDMA: 100}, initContainers=[builders.asking("init", {RDMA: 100})]),
        [SECOND, LAST],
    ),
    "a virtual function": (pod({"rdma": [entry(2, 1, BUSES[0])]}, {RDMA: 1}), [FIRST, SECOND]),
    "beside a card that it names": (
        pod({"gpu": [{"minor": 0}], "rdma": [entry(0)]}, {RDMA: 100, "koordinator.sh/gpu": 100}),
        [SECOND, LAST],
    ),
    "beside cards that cannot be read": (nic({"gpu": "x", "rdma": [entry(0)]}), [SECOND, LAST]),
    "no record": (nic(None), []),
    "a record of another type": (nic({"fpga": [entry(0, name="koordinator.sh/fpga")]}), []),
    "fewer than it asks for: the rest may be any": (pod({"rdma": [entry(0)]}, {RDMA: 200}), []),
    "more than it asks for": (pod({"rdma": [entry(0), entry(1)]}, {RDMA: 100}), []),
    "one of which it has nothing, beside": (nic({"rdma": [entry(0), entry(1, 0)]}), []),
    "the same one twice": (pod({"rdma": [entry(0), entry(0)]}, {RDMA: 200}), []),
    "one that is not there": (nic({"rdma": [entry(9)]}), []),
    "a function that is not there": (pod({"rdma": [entry(2, 1, "0000:ff:00.0")]}, {RDMA: 1}), []),
    "more functions than percent": (pod({"rdma": [entry(2, 1, *BUSES[:2])]}, {RDMA: 1}), []),
    "no amount": (nic({"rdma": [{"minor": 0}]}), []),
    "an amount of another type": (nic({"rdma": [entry(0, name="koordinator.sh/fpga")]}), []),
    "what cannot be read": (nic({"rdma": [entry(0), {"minor": "1"}]}), []),
    "no JSON": (nic(None, annotations={aliases.KOORDINATOR_RECORD: "{"}), []),
    "what is too long": (nic({"rdma": [entry(0)], "pad": " " * (1 << 16)}), []),
    "a scheduler that the policy does not name": (nic({"rdma": [entry(0)]}, schedulerName="other"), []),
    "taken over by Berth": (pods.as_berth_pod(nic({"rdma": [entry(0)]})), [SECOND, LAST]),
    "taken over by Berth, of a scheduler that is not named": (
        pods.as_berth_pod(nic({"rdma": [entry(0)]}, schedulerName="other")),
        [],
    ),
    "a pod that asks for no NIC": (pod({"rdma": [entry(0)]}, {"koordinator.sh/gpu": 100}), ALL),
    "a pod that asks for nothing": (pod({"rdma": [entry(0)]}, {}), ALL),
    "a pod that asks for another type": (pod({"rdma": [entry(0)]}, {"koordinator.sh/fpga": 100}), ALL),
    "a pod that asks by a name that nodes just list": (pod(None, {names.RDMA: 100}), ALL),
    "a pod that is over": (nic({"rdma": [entry(0)]}, phase="Succeeded"), ALL),
}


@pytest.mark.parametrize(("theirs", "free"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("late", [False, True], ids=["the pod last", "the pod first"])
def test_a_nic_that_a_pod_of_others_may_have_is_given_to_nobody_else(
    theirs: raw.Pod, free: list[str], *, late: bool
) -> None:
    """By a record that counts those that it names; else all of the node, for nothing tells which."""
    ledger = ledger_with(theirs, late=late)

    assert given(ledger, WHOLE) == free


def test_what_the_node_does_not_list_is_not_held(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can have given it, whatever the record says; nor is a GpuPod said to have named what is held."""
    caplog.set_level("INFO")
    ledger = ledger_with(nic({"rdma": [entry(0)]}))
    listed = kept(ledger)

    ledger.node_seen(builders.node("n1"))

    assert (listed, kept(ledger)) == (([FIRST], set()), ([], set()))
    assert not [message for message in caplog.messages if "names its devices" in message]


def test_a_gpupod_speaks_of_no_type_that_the_record_names() -> None:
    """What both name is held once."""
    ledger = ledger_with(nic({"rdma": [entry(0)]}))

    ledger.gpupod_seen(gpupod(half(FIRST, 100)))

    assert kept(ledger) == ([FIRST], set())


def test_an_edit_of_a_record_frees_nothing() -> None:
    """A pod of Berth's keeps back the NIC that its record lacked when it was first seen."""
    asks = builders.asking("main", {names.RDMA: 100, names.NVIDIA_GPU: 1})
    fields: dict[str, Any] = {"nodeName": "n1", "containers": [asks]}
    both = {"main": {"gpu": [builders.recorded(0)], "rdma": [allocation.Share(FIRST, 0, 100, 0)]}}
    ledger = ledger_with(builders.pod("p", annotations=builders.record(main=[0]), **fields))
    first = kept(ledger)

    ledgers.pod_seen(ledger, builders.pod("p", annotations=builders.written("n1", both), **fields))

    assert first == kept(ledger) == ([builders.uuid("n1", 0)], {"rdma"})


def test_the_device_counts_the_pod() -> None:
    """Its REASON says that there is one without a record that counts."""
    (summary,) = node_summaries.summarize(ledger_with(nic(None)).inventory, {"n1"})

    assert "1 pod whose allocation annotation is missing or unreadable" in summary.reason


def test_the_rest_of_a_nic_is_given() -> None:
    """What a record does not name of a device is free, and so are the other virtual functions."""
    part = pod({"rdma": [entry(0, 50)]}, {RDMA: 50})
    function = builders.renamed(pod({"rdma": [entry(2, 1, BUSES[0])]}, {RDMA: 1}), "q")

    ledger = ledger_with(part, function)

    assert given(ledger, HALF) == sorted([FIRST, SECOND, SECOND, BUSES[1]])


def test_several_functions_of_one_device_are_held() -> None:
    """They take together what the record says of the device, and not so much each."""
    ledger = ledger_with(pod({"rdma": [entry(2, 50, *BUSES[:2])]}, {RDMA: 50}))

    info = ledger.inventory.node("n1")
    assert info is not None
    assert set(info.functions) == set(BUSES[:2])
    assert info.used[LAST].core == 50


def test_devices_of_other_types_and_cards_are_not_kept_back() -> None:
    """A pod that may have any NIC has no card, and no FPGA."""
    ledger = ledger_with(nic(None))

    assert given(ledger, requests.OtherDevices("fpga", 1)) == [FPGA.uuid]
    assert place(ledger.inventory, builders.pod_info("q", 4)) is not None


@pytest.mark.parametrize("over", [None, nic(None, phase="Succeeded")], ids=["deleted", "succeeded"])
def test_who_waits_for_a_nic_is_tried_when_the_pod_ends(over: raw.Pod | None) -> None:
    """All that was kept back for it is free at once."""
    ledger = ledger_with(nic(None))
    ledgers.add_sleeping(
        ledger, "next", ClusterEvent.CAPACITY_FREED, cards=0, request=builders.request(WHOLE)
    )
    before = ledgers.ready_names(ledger)

    ledgers.pod_seen(ledger, over, uid="uid-p")

    assert (before, ledgers.ready_names(ledger)) == ([], ["next"])
    assert given(ledger, WHOLE) == ALL


def kept(ledger: Ledger) -> tuple[list[str], set[str]]:
    """Return which devices are kept back for the pod by name, and the types of which all are."""
    hold = ledger.inventory.hold("uid-p")
    assert hold is not None
    return [share.uuid for share in hold.shares], set(hold.withheld_types)


def test_a_change_of_the_policy_counts_at_once() -> None:
    """For pods that run, too; and who waits for what is not kept back any more is tried."""
    ledger, found = ledger_with(nic({"rdma": [entry(0)]}, schedulerName="other")), []

    for policy in (Policy(), Policy(pod_records_from=frozenset({"other"})), Policy()):
        ledger.policy_seen(policy)
        found.append(kept(ledger))

    assert found == [([], {"rdma"}), ([FIRST], set()), ([], {"rdma"})]


def gpupod(*shares: decisions.Share) -> allocation_recovery.NamedDevices:
    """Return a GpuPod that names these devices."""
    return allocation_recovery.NamedDevices("ml/p", "uid-p", "n1", (decisions.Grant("main", shares),))


def half(uuid: str, core: int = 50) -> decisions.Share:
    """Return a part of a NIC."""
    return decisions.Share(uuid, ALL.index(uuid), core, 0, "rdma")


def test_a_pod_of_berths_keeps_back_what_its_record_lacks_until_its_gpupod_names_it() -> None:
    """Its damaged record surely named a NIC."""
    damaged = builders.pod(
        "p",
        nodeName="n1",
        containers=[builders.asking("main", {names.RDMA: 50})],
        annotations={names.ALLOCATION: "{"},
    )
    ledger, found = ledger_with(damaged), []

    gone = decisions.Share("rdma-gone", 9, 50, 0, "rdma")
    for shares in ([], [half(SECOND, 20)], [half(SECOND), gone], [half(SECOND)]):
        ledger.gpupod_seen(gpupod(*shares))
        found.append(kept(ledger)[1])

    assert found == [{"rdma"}, {"rdma"}, {"rdma"}, set()]
    assert given(ledger, WHOLE) == [FIRST, LAST]


# ---------------------------------------------------------------- forged records

AMOUNTS: Final = st.integers(-1, 130).map(str) | st.sampled_from(["", "x", "1k", "0.5"])
ENTRIES: Final = st.builds(
    lambda minor, amount, buses, name: entry(minor, amount, *buses, name=name),
    st.integers(-1, 4),
    AMOUNTS,
    st.lists(st.sampled_from([*BUSES, "0000:ff:00.0"]), max_size=3),
    st.sampled_from([RDMA, "koordinator.sh/fpga", "kubernetes.io/rdma"]),
)
FORGED: Final[st.SearchStrategy[dict[str, Any]]] = st.dictionaries(
    st.sampled_from(["rdma", "fpga", "gpu", "other"]),
    st.lists(ENTRIES, max_size=4) | st.sampled_from([None, "x", [{}], [{"minor": "0"}]]),
)
# What is asked for, and of that the part of a NIC that may be named, rather often.
ASKED: Final = st.sampled_from([0, 1, 2, 50, 100, 200, 300])


@hypothesis.settings(random_clusters.PROPERTY, max_examples=thorough.examples(300))
@hypothesis.given(forged=FORGED, asks=ASKED, believed=st.booleans(), listed=st.booleans(), late=st.booleans())
@hypothesis.example(forged={"rdma": [entry(0), entry(1)]}, asks=200, believed=True, listed=True, late=False)
def test_a_record_holds_what_its_pod_asks_for_or_all_that_it_may_have(
    forged: dict[str, Any], asks: int, *, believed: bool, listed: bool, late: bool
) -> None:
    """Whatever is written; where it is not believed, nothing that is written makes any difference."""
    policy = Policy(pod_records_from=frozenset({KOORDINATOR} if believed else ()))
    found = []
    for written in (forged, None):
        ledger = ledgers.with_nodes()
        ledgers.in_turn(
            functools.partial(ledger.policy_seen, policy),
            functools.partial(ledger.node_seen, NODE if listed else builders.node("n1")),
            functools.partial(ledger.device_seen, DEVICE),
            functools.partial(ledgers.pod_seen, ledger, pod(written, {RDMA: asks} if asks else {})),
            late=late,
        )
        hold = ledger.inventory.hold("uid-p")
        assert hold is not None
        found.append(hold)

    with_it, without = found
    held = sum(share.core for share in with_it.shares)
    assert {share.type for share in with_it.shares} <= {"rdma"}
    assert without.withheld_types == ({"rdma"} if asks and listed else set())
    assert (with_it.withheld_types, held) in [(without.withheld_types, 0), (set(), asks * listed)]
    if not believed:
        assert (with_it.shares, with_it.withheld_types) == ((), without.withheld_types)
