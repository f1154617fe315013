"""A published Device becomes cards in the order of their minors, each with its trouble."""

import pathlib
from typing import Any, Final
from unittest import mock

import pytest
import yaml

import berth_crds
from berth_crds import schema_limits, wire
from berth_crds.vocabulary import Recovery
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.translate import devices, raw
from support import builders

MIG = {"mig": {"enabled": True}}
SICK = {"uuid": "GPU-n1-0", "health": "Unhealthy"}
HAUNTED = {"uuid": "GPU-n1-0", "health": "Healthy", "occupants": [{"pid": 7}]}


def test_cards_are_read() -> None:
    """A card keeps its identity, its minor and its bytes; its model gets the one spelling."""
    thing = builders.published(
        cards=[{"model": "NVIDIA A100-SXM4-80GB", "memory": 85198045184}, {"memory": None}]
    )

    found = devices.read(thing)

    assert (found.node, found.failed) == ("n1", "")
    assert found.cards == (
        PhysicalDevice("GPU-n1-0", 0, "A100-SXM4-80GB", 85198045184),
        PhysicalDevice("GPU-n1-1", 1, builders.MODEL, 0),
    ), "memory that is unknown is none to promise"


def test_only_gpus_are_cards_and_they_come_by_minor() -> None:
    """However they are listed, cards stand in the order of their minors, equals by uuid."""
    cards: list[dict[str, Any]] = [{"minor": 10}, {"minor": 2}, {"minor": 2, "uuid": "GPU-a"}, {"minor": 0}]
    others = [{"type": kind} for kind in ("rdma", "fpga", "quantum")]

    found = devices.read(builders.published(cards=[*cards, *others]))

    assert [card.uuid for card in found.cards] == ["GPU-n1-3", "GPU-a", "GPU-n1-1", "GPU-n1-0"]


@pytest.mark.parametrize(
    ("card", "verdict", "cordon", "expected"),
    [
        pytest.param({}, None, False, None, id="nobody says anything"),
        pytest.param({}, {"uuid": "GPU-n1-0", "health": "Healthy"}, False, None, id="said to be healthy"),
        pytest.param({}, SICK, False, Reason.UNHEALTHY, id="unhealthy"),
        pytest.param({}, SICK | {"health": "Unknown"}, False, Reason.UNHEALTHY, id="of unknown health"),
        pytest.param({}, SICK | {"health": "Tired"}, False, Reason.UNHEALTHY, id="a word we do not know"),
        pytest.param({}, SICK | {"health": ""}, False, Reason.UNHEALTHY, id="no word at all"),
        pytest.param(
            {}, SICK | {"health": "healthy"}, False, Reason.UNHEALTHY, id="the word in another case"
        ),
        pytest.param({}, SICK | {"uuid": "GPU-other"}, False, None, id="a verdict on another card"),
        pytest.param({}, HAUNTED, False, Reason.OCCUPIED, id="occupied by a stranger"),
        pytest.param({}, None, True, Reason.CARD_CORDONED, id="cordoned"),
        pytest.param(MIG, None, False, None, id="MIG mode is no trouble"),
        pytest.param(
            MIG, SICK | HAUNTED | {"health": "Unhealthy"}, True, Reason.CARD_CORDONED, id="people go first"
        ),
        pytest.param(MIG, HAUNTED | {"health": "Unhealthy"}, False, Reason.UNHEALTHY, id="then health"),
        pytest.param(MIG, HAUNTED, False, Reason.OCCUPIED, id="then strangers"),
    ],
)
def test_trouble(
    card: dict[str, Any],
    verdict: dict[str, Any] | None,
    cordon: bool,  # noqa: FBT001  a column of the table
    expected: Reason | None,
) -> None:
    """A card has at most one trouble, the one that somebody must see to first (I6); others stay well."""
    verdicts, cordoned = [verdict] if verdict else [], ["GPU-n1-0", "GPU-gone"] if cordon else []
    thing = builders.published(cards=[card, {}], verdicts=verdicts, cordon=cordoned)

    assert [card.trouble for card in devices.read(thing).cards] == [expected, None]


@pytest.mark.parametrize(
    ("conditions", "failed"),
    [
        pytest.param({}, "", id="no source is configured"),
        pytest.param({"NVMLReady": "True"}, "", id="the source works"),
        pytest.param({"NVMLReady": "False"}, "NVMLReady", id="the source is down"),
        pytest.param({"NVMLReady": "Unknown"}, "NVMLReady", id="the source hangs"),
        pytest.param({"NVMLReady": "true"}, "NVMLReady", id="a word we do not know"),
        pytest.param({"PodResourcesReady": "False"}, "", id="only verification is degraded"),
        pytest.param({"Ready": "False"}, "", id="the operator's own condition"),
    ],
)
def test_failed_source(conditions: dict[str, str], failed: str) -> None:
    """Cards are not trusted when the source that reads them says it is down."""
    thing = builders.published(conditions=conditions)

    assert devices.read(thing).failed == failed


@pytest.mark.parametrize("status", ["True", "False"])
def test_whether_the_kubelet_is_asked(status: str) -> None:
    """The condition is there where the agent asks, whether or not the kubelet answers just now."""
    asked = builders.published(conditions={"PodResourcesReady": status})
    served = builders.published(conditions={"DevicePluginReady": status})

    assert [devices.read(one).kubelet_read for one in (asked, served)] == [True, False]
    assert [devices.read(one).kubelet_served for one in (asked, served)] == [False, True]


def test_whether_containers_get_several_replicas() -> None:
    """As the agent says of any of its cards."""
    cards = [
        wire.Card(f"GPU-{minor}", "gpu", minor, sharing=wire.Sharing("mps", 2, one_per_container=one))
        for minor, one in enumerate((False, True))
    ]
    found = [
        devices.read(wire.Device(wire.Meta("n"), wire.DeviceSpec("n", devices=tuple(those))))
        for those in (cards, cards[:1])
    ]

    assert [one.one_replica_each for one in found] == [True, False]


def test_failed_source_gives_its_reason() -> None:
    """Where the agent says why its source is down, that is passed on."""
    conditions = (wire.Condition("NVMLReady", "False", reason="DriverGone"),)

    assert devices.failed_source(conditions) == "DriverGone"


# ---------------------------------------------------------------- a Device that says too much

Cards = list[dict[str, Any]]

NIC: Final = {"type": "rdma", "memory": None, "model": ""}


def cut(cards: int, each: int, profiles: int = 1) -> Cards:
    """Return cards with so many MIG instances each, of so many profiles in all."""
    numbers = [[card * each + one for one in range(each)] for card in range(cards)]
    lists = [
        [{"uuid": f"M{at}", "profile": f"1g.{at % profiles + 1}gb", "memory": 1} for at in those]
        for those in numbers
    ]
    return [{"mig": {"enabled": True, "instances": instances}} for instances in lists]


def virtual(groups: int, functions: int, labels: int = 0, length: int = 1) -> Cards:
    """Return a network card with so many groups of so many functions, and labels of so many characters."""
    texts = {f"l{at:02}": "x" * length for at in range(labels)}
    vfs = [[{"minor": 0, "busID": f"{at:04}:{one:03}"} for one in range(functions)] for at in range(groups)]
    return [NIC | {"vfGroups": [{"labels": texts, "vfs": each} for each in vfs]}]


def labelled(cards: int, labels: int, length: int = 1) -> Cards:
    """Return cards with so many labels each, of so many characters."""
    return [{"labels": {f"l{at:02}": "x" * length for at in range(labels)}}] * cards


CASES: Final[dict[str, tuple[Cards, Cards, str]]] = {
    "uuids": (cut(8, 63), cut(8, 64), "512 uuids of cards and MIG instances"),
    "profiles": (cut(2, 64, 64), cut(2, 64, 65), "64 MIG profiles"),
    "functions": (virtual(16, 256), virtual(17, 256), "4096 virtual functions"),
    "labels of cards": (labelled(64, 16), labelled(64, 17), "1024 labels"),
    "labels of functions": (
        virtual(1, 256, 64),
        virtual(1, 257, 64),
        "16384 labels of virtual functions, counted for each of them",
    ),
    "long labels": (labelled(32, 16, 253), labelled(32, 16, 254), "131072 characters in labels"),
}


@pytest.mark.parametrize(("enough", "too_much", "what"), CASES.values(), ids=CASES.keys())
def test_a_device_that_says_too_much_is_closed(enough: Cards, too_much: Cards, what: str) -> None:
    """As much as the limit is read; of more nothing is given, but the cards stay known, and it says why."""
    read, closed = (devices.read(builders.published(cards=cards)) for cards in (enough, too_much))

    assert (read.failed, closed.failed) == ("", f"more than {what}")
    kept = [*closed.cards, *closed.others]
    assert len(kept) == len(too_much)
    assert not any(one.instances or one.functions or one.labels for one in kept)
    assert [one.mig for one in closed.cards] == ["mig" in one for one in too_much if one.get("type") is None]


def test_labels_that_agents_write_are_kept_once() -> None:
    """However many cards and nodes have the same, they take the memory of one."""
    labels = {"family": "hopper", "product": "H100-80GB-HBM3", "computeCapability": "9.0"}
    found = [
        devices.read(builders.published(at, cards=[{"labels": dict(labels)}] * 2)) for at in ("n1", "n2")
    ]

    kept = [card.labels for device in found for card in device.cards]
    assert kept == [tuple(sorted(labels.items()))] * 4
    assert len({id(one) for one in kept}) == 1


def test_labels_of_functions_are_sorted_once_for_each_group() -> None:
    """All functions of a group share one list of labels, however many they are."""
    thing = builders.published(cards=virtual(2, 200, 40))

    with mock.patch.object(devices, "sorted", wraps=sorted, create=True) as ordered:
        (found,) = devices.read(thing).others

    assert len({id(one.labels) for one in found.functions}) == 2
    assert ordered.call_count < 10


def test_function_without_an_address_is_not_kept() -> None:
    """It cannot be given out, so nothing is known of it."""
    vfs = [{"minor": 0}, {"minor": 1, "busID": "0000:3b:00.2"}, {"minor": 2, "busID": ""}]

    (found,) = devices.read(builders.published(cards=[NIC | {"vfGroups": [{"vfs": vfs}]}])).others

    assert found.functions == (device_facts.Function("0000:3b:00.2", 1),)


def test_uuids_that_are_read_can_all_be_recorded() -> None:
    """The status of a Device takes a claim for each of them."""
    crd = yaml.safe_load((pathlib.Path(berth_crds.__file__).parents[1] / "devices.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]

    assert schema["status"]["properties"]["claims"]["maxItems"] >= schema_limits.TOTAL_UUIDS


@pytest.mark.parametrize(
    ("length", "failed"), [(1 << 20, ""), ((1 << 20) + 1, "more than 1048576 bytes as an object")]
)
def test_a_device_into_which_little_can_be_written_is_closed(length: int, failed: str) -> None:
    """Whose its cards are might not be recorded there, so it claims none of them."""
    thing = builders.published(cards=cut(2, 3))

    found = devices.read(raw.Device(thing.metadata, thing.spec, thing.status, length=length))

    assert (found.failed, found.large, len(found.cards)) == (failed, bool(failed), 2)
    assert len(list(device_facts.claimed_uuids(found))) == (0 if failed else 8)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (SICK | {"recovery": "reset"}, Recovery.RESET),
        (SICK | {"recovery": "reboot"}, Recovery.REBOOT),
        (SICK | {"recovery": "none"}, Recovery.NONE),
        (SICK | {"recovery": "prayer"}, None),
        (SICK, None),
        (SICK | {"health": "Healthy", "recovery": "reset"}, None),
        (SICK | {"health": "Unknown", "recovery": "reset"}, None),
    ],
    ids=["reset", "reboot", "none", "a word we do not know", "no word", "healthy", "of unknown health"],
)
def test_what_a_sick_card_needs(verdict: dict[str, Any], expected: Recovery | None) -> None:
    """Of a card that is not surely sick nothing is said, nor is a word that we do not know counted."""
    found = devices.read(builders.published(cards=[{}], verdicts=[verdict]))

    assert found.cards[0].recovery is expected
    assert not found.cards[0].occupants


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        pytest.param([{"pid": 7}], (device_facts.Occupant(7),), id="a process"),
        pytest.param(
            [{"pid": 7, "command": "python3", "namespace": "ml", "pod": "a"}],
            (device_facts.Occupant(7, "python3", "ml/a"),),
            id="a process of a pod",
        ),
        pytest.param([{"pid": 7, "small": True}], (), id="a monitor"),
        pytest.param(
            [{"pid": 7, "small": True}, {"pid": 8}],
            (device_facts.Occupant(8),),
            id="a monitor beside a process",
        ),
    ],
)
def test_processes_close_a_card_unless_they_are_small(
    processes: list[dict[str, Any]], expected: tuple[device_facts.Occupant, ...]
) -> None:
    """The card knows who uses it; for those that use too little of it, it is given out all the same."""
    verdict = {"uuid": "GPU-n1-0", "health": "Healthy", "occupants": processes}

    (card,) = devices.read(builders.published(cards=[{}], verdicts=[verdict])).cards

    assert card.occupants == expected
    assert card.trouble is (Reason.OCCUPIED if expected else None)
