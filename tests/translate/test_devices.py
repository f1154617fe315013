"""A published Device becomes cards in the order of their minors, each with its trouble."""

from typing import Any

import pytest

from berth_crds import wire
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import devices
from support import builders

MIG = {"mig": {"enabled": True}}
SICK = {"uuid": "GPU-n1-0", "health": "Unhealthy"}
HAUNTED = {"uuid": "GPU-n1-0", "health": "Healthy", "occupants": [{"pid": 7}]}


def trouble(thing: wire.Device) -> Reason | None:
    """Return the trouble of the first card."""
    return devices.read(thing).cards[0].trouble


def test_cards_are_read() -> None:
    """A card keeps its identity, its minor and its bytes; its model gets the one spelling."""
    thing = builders.published(cards=[{"model": "NVIDIA A100-SXM4-80GB", "memory": 85198045184}])

    found = devices.read(thing)

    assert (found.node, found.failed) == ("n1", "")
    (card,) = found.cards
    assert (card.uuid, card.minor, card.model) == ("GPU-n1-0", 0, "A100-SXM4-80GB")
    assert (card.memory, card.trouble) == (85198045184, None)


def test_cards_come_by_minor() -> None:
    """However they are listed, cards stand in the order of their minors, equals by uuid."""
    cards: list[dict[str, Any]] = [{"minor": 10}, {"minor": 2}, {"minor": 2, "uuid": "GPU-a"}, {"minor": 0}]

    found = devices.read(builders.published(cards=cards))

    assert [card.uuid for card in found.cards] == ["GPU-n1-3", "GPU-a", "GPU-n1-1", "GPU-n1-0"]


@pytest.mark.parametrize("kind", ["rdma", "fpga", "quantum"])
def test_only_gpus_are_cards(kind: str) -> None:
    """Devices of other types, known or not, are not given out as cards."""
    found = devices.read(builders.published(cards=[{"type": kind}, {}]))

    assert [card.minor for card in found.cards] == [1]


def test_card_without_memory() -> None:
    """A card whose memory is unknown has none to promise."""
    thing = builders.published(cards=[{"memory": None}])

    assert devices.read(thing).cards[0].memory == 0


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
        pytest.param({}, None, True, Reason.CORDONED, id="cordoned"),
        pytest.param(MIG, None, False, None, id="MIG mode is no trouble"),
        pytest.param(
            MIG, SICK | HAUNTED | {"health": "Unhealthy"}, True, Reason.CORDONED, id="people go first"
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
    """A card has at most one trouble, the one that somebody must see to first (I6)."""
    thing = builders.published(
        cards=[card], verdicts=[verdict] if verdict else [], cordon=["GPU-n1-0"] if cordon else []
    )

    assert trouble(thing) is expected


def test_cordon_is_by_uuid() -> None:
    """People take cards out of service by identity, not by place."""
    thing = builders.published(cards=[{}, {}], cordon=["GPU-n1-1", "GPU-gone"])

    assert [card.trouble for card in devices.read(thing).cards] == [None, Reason.CORDONED]


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
    other = builders.published(conditions={"NVMLReady": status})

    assert [devices.read(one).heard for one in (asked, other)] == [True, False]


def test_failed_source_gives_its_reason() -> None:
    """Where the agent says why its source is down, that is passed on."""
    conditions = (wire.Condition("NVMLReady", "False", reason="DriverGone"),)

    assert devices.failed_source(conditions) == "DriverGone"
