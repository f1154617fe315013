"""What a Device says follows from one look and from what was said before."""

import dataclasses
import datetime as dt
import logging
from collections.abc import Mapping

import msgspec
import pytest

from berth_agent import card_modes, device_spec, device_status, probe, simulated
from berth_crds import schema_limits, vocabulary, wire
from support import nodes
from support.nvml import presets

LATER = nodes.NOON + dt.timedelta(minutes=5)
NOTHING = wire.DeviceStatus()

PAIR = simulated.machine("n1", "2xA100-SXM4-80GB")
FIRST, SECOND = PAIR.answering_cards()
KNOWN = device_spec.spec("n1", PAIR, None)
FAILED = probe.SourceFailed("DriverNotLoaded", "The driver is not loaded.")
SICK = probe.DeviceHealth(
    vocabulary.Health.UNHEALTHY, "XidCritical", 79, "fallen off the bus", vocabulary.Recovery.RESET
)
SICKER = probe.DeviceHealth(vocabulary.Health.UNHEALTHY, "RowRemapFailed", message="no spare rows")
LOST = dataclasses.replace(PAIR, cards=(FIRST, probe.LostCard(1, "GpuIsLost", "it does not answer")))


def with_health(health: probe.DeviceHealth) -> probe.Sample:
    """Return the pair of cards with the second of them in this health."""
    return dataclasses.replace(PAIR, cards=(FIRST, dataclasses.replace(SECOND, health=health)))


def status(
    outcome: probe.Outcome,
    before: wire.DeviceStatus = NOTHING,
    *,
    occupants: Mapping[str, tuple[wire.Occupant, ...]] | None = None,
    kubelet: wire.Condition | None = None,
    now: dt.datetime = nodes.NOON,
) -> wire.DeviceStatus:
    """Return the status of the pair, which is known already, with these processes on its cards."""
    spec = device_spec.spec("n1", outcome, KNOWN)
    held = device_status.listed_occupants(spec, occupants or {})
    return nodes.status(outcome, spec, before, now=now, occupants=held, others=(kubelet,))


# ---------------------------------------------------------------- spec


def test_spec_tells_what_the_probe_gave() -> None:
    """Every reading of a card stands in the Device under its own name, and as such where it is zero."""
    card = msgspec.to_builtins(KNOWN.devices[0])

    assert (KNOWN.node, KNOWN.boot_id, KNOWN.driver) == ("n1", PAIR.boot_id, wire.Driver("simulated"))
    assert card == {
        "uuid": FIRST.uuid,
        "type": "gpu",
        "minor": 0,
        "vendor": "nvidia",
        "model": "NVIDIA A100-SXM4-80GB",
        "index": 0,
        "moduleID": 1,
        "memory": 85_198_045_184,
        "computeCapability": "8.0",
        "topology": {"numaNode": 0, "pcieRoot": "pci0000:00", "busID": "0000:01:00.0"},
        "links": ({"peer": SECOND.uuid, "kind": "nvlink", "count": 12},),
        "mig": {"enabled": False},
        "labels": {"computeCapability": "8.0", "family": "ampere", "product": "A100-SXM4-80GB"},
        "resources": {
            "berth.dev/gpu": 100,
            "berth.dev/gpu-core": 100,
            "berth.dev/gpu-memory": 85_198_045_184,
            "berth.dev/gpu-memory-ratio": 100,
        },
    }


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        pytest.param("16xH100-SXM5-80GB", {"nvlink", "numa", "system"}, id="two boards"),
        pytest.param("22xT4", {"pcie-switch", "numa", "system"}, id="22 cards in slots"),
        pytest.param("64xT4", {"pcie-switch"}, id="64 cards in slots"),
        pytest.param("64xH100-SXM5-80GB", {"nvlink"}, id="eight boards"),
    ],
)
def test_no_more_links_are_told_than_a_device_takes(shape: str, kinds: set[str]) -> None:
    """All of a usual machine; of more cards the nearest ways, for the places of the cards tell the others."""
    sample = simulated.machine("n1", shape)
    spec = device_spec.spec("n1", sample, None)

    links = [link for card in spec.devices for link in card.links]
    near = [link for card in sample.answering_cards() for link in card.links if link.kind in kinds]
    assert len(links) == len(near) <= schema_limits.TOTAL_LINKS
    assert {link.kind for link in links} <= kinds


def test_mig_instances_are_described() -> None:
    """An instance stands with its ids and its slices, the first of which is zero."""
    instance = wire.MigInstance(
        "MIG-1", "1g.10gb", 10_468_982_784, gi=7, ci=0, placement=wire.MigPlacement(0, 1)
    )
    card = dataclasses.replace(FIRST, mig=wire.Mig(enabled=True, instances=(instance,)))

    written = msgspec.to_builtins(device_spec.card(card))["mig"]

    assert written == {
        "enabled": True,
        "instances": (
            {
                "uuid": "MIG-1",
                "profile": "1g.10gb",
                "memory": 10_468_982_784,
                "gi": 7,
                "ci": 0,
                "placement": {"start": 0, "size": 1},
            },
        ),
    }


@pytest.mark.parametrize(
    ("shape", "models", "gpus"),
    [
        pytest.param("8xA100-SXM4-80GB", "A100-SXM4-80GB x8", 8, id="one model"),
        pytest.param("2xL4+1xL40S", "L4 x2, L40S x1", 3, id="mixed"),
        pytest.param("1xL4+1xL40S+1xL4", "L4 x2, L40S x1", 3, id="mixed without order"),
    ],
)
def test_summary_counts_models(shape: str, models: str, gpus: int) -> None:
    """The summary names each model once with its count, mixed ones joined by commas."""
    assert device_spec.spec("n1", simulated.machine("n1", shape), None).summary == wire.SpecSummary(
        models, gpus
    )


@pytest.mark.parametrize("outcome", [PAIR, LOST, FAILED], ids=["well", "a lost card", "a failed source"])
def test_cordon_is_never_written(outcome: probe.Outcome) -> None:
    """What people cordoned is not taken over, not even from the Device that an agent finds at its start."""
    cordoned = msgspec.structs.replace(KNOWN, cordon=("GPU-1",))

    assert "cordon" not in msgspec.to_builtins(device_spec.spec("n1", outcome, cordoned))


SHARED = wire.Sharing(vocabulary.SharingStrategy.TIME_SLICING, 4)
MODES = card_modes.CardModes(SHARED)


def test_shared_cards_say_so_and_those_cut_into_instances_do_not(place: nodes.Place) -> None:
    """What people say of the device plugin stands with each whole card, and in the summary."""
    shared = device_spec.spec("n1", PAIR, None, MODES)
    cut = device_spec.spec("n1", place(presets.MIG).look(), None, MODES)
    not_shared_any_more = device_spec.spec("n1", LOST, shared)

    assert [card.sharing for card in shared.devices] == [SHARED, SHARED]
    assert shared.summary == wire.SpecSummary("A100-SXM4-80GB x2", 2, "time-slicing x4")
    assert cut.devices[0].sharing is None
    assert cut.summary is not None and cut.summary.sharing.startswith("mig ")
    assert [card.sharing for card in not_shared_any_more.devices] == [None, None]
    assert device_spec.spec("n1", FAILED, shared) == shared


# ---------------------------------------------------------------- what fails


def test_failed_source_changes_no_card() -> None:
    """When the source fails, the cards stand as they were last known, and the condition says so."""
    ill = status(with_health(SICK))

    assert device_spec.spec("n1", FAILED, KNOWN) == KNOWN
    after = status(FAILED, ill, now=LATER)
    assert after.devices == ill.devices
    assert after.conditions == (
        wire.Condition(
            type="NVMLReady",
            status="False",
            reason="DriverNotLoaded",
            message="The driver is not loaded.",
            last_transition_time="2026-01-01T12:05:00Z",
        ),
    )


def test_source_that_never_answered_gives_an_empty_device() -> None:
    """With nothing known, the Device says that there is nothing to say, beside a condition that is False."""
    assert device_spec.spec("n1", FAILED, None) == wire.DeviceSpec(node="n1", summary=wire.SpecSummary("", 0))


@pytest.mark.parametrize("uuid", [SECOND.uuid, ""], ids=["by uuid", "by index"])
def test_lost_card_stays_as_last_known(uuid: str) -> None:
    """A card that stops answering stays in the list with a bad verdict, and the node stays open."""
    lost = probe.LostCard(1, "GpuIsLost", "it does not answer", uuid)
    outcome = dataclasses.replace(PAIR, cards=(FIRST, lost))

    assert device_spec.spec("n1", outcome, KNOWN).devices == KNOWN.devices
    after = status(outcome)
    assert [(each.uuid, each.health, each.reason) for each in after.devices] == [
        (SECOND.uuid, "Unhealthy", "GpuIsLost")
    ]
    assert [(each.status, each.reason) for each in after.conditions] == [("True", "CardsLost")]
    assert "1 of 2 cards answered" in after.conditions[0].message


def test_card_lost_before_it_was_known_leaves_no_dangling_link() -> None:
    """A lost card that was never seen is not listed, nor does any link lead to it; the condition names it."""
    spec = device_spec.spec("n1", LOST, None)

    assert [(card.minor, card.links) for card in spec.devices] == [(0, ())]
    assert spec.summary == wire.SpecSummary("A100-SXM4-80GB x1", 1)
    after = nodes.status(LOST, spec)
    assert after.devices == ()
    assert "Card 1: it does not answer" in after.conditions[0].message


def test_card_that_is_lost_twice_is_listed_once() -> None:
    """Whether told by its uuid, its address or its place in the list: it is one card, and one entry."""
    lost = (
        probe.LostCard(5, "GpuIsLost", "by uuid", SECOND.uuid),
        probe.LostCard(6, "GpuIsLost", "by address", "", SECOND.location.bus_id or ""),
        probe.LostCard(1, "GpuIsLost", "by index"),
    )

    found = device_spec.spec("n1", dataclasses.replace(PAIR, cards=(FIRST, *lost)), KNOWN)

    assert [each.uuid for each in found.devices] == [FIRST.uuid, SECOND.uuid]


@pytest.mark.parametrize("lost", [(0,), (2,), (1, 2), (0, 1, 3), (0, 1, 2, 3)])
def test_cards_stay_where_they_are_while_some_are_no_longer_counted(lost: tuple[int, ...]) -> None:
    """The driver counts those that answer from zero, so the indices of those after a lost card are less."""
    sample = simulated.machine("n1", "4xA100-SXM4-80GB")
    cards = list(sample.answering_cards())
    known = device_spec.spec("n1", sample, None)
    left = [card for card in cards if card.index not in lost]
    counted = [dataclasses.replace(card, index=index) for index, card in enumerate(left)]
    gone = [probe.LostCard(9, "NotCounted", "it is not counted", cards[index].uuid) for index in lost]

    after = device_spec.spec("n1", dataclasses.replace(sample, cards=(*counted, *gone)), known)

    assert [card.uuid for card in after.devices] == [card.uuid for card in cards]


def test_lost_card_whose_minor_is_taken_is_not_listed() -> None:
    """When another card has the minor of a lost one, only the one that answers is listed."""
    other = dataclasses.replace(FIRST, uuid="GPU-other", minor=1, links=())
    outcome = dataclasses.replace(LOST, cards=(other, *LOST.lost_cards()))

    assert [card.uuid for card in device_spec.spec("n1", outcome, KNOWN).devices] == ["GPU-other"]


# ---------------------------------------------------------------- verdicts and moments


def test_plainly_healthy_cards_have_no_entry() -> None:
    """Only cards with something to say have a verdict in the status."""
    after = status(with_health(SICK))

    assert status(PAIR).devices == ()
    assert after.devices == (
        wire.CardStatus(
            uuid=SECOND.uuid,
            health="Unhealthy",
            reason="XidCritical",
            xid=79,
            message="fallen off the bus",
            since="2026-01-01T12:00:00Z",
            recovery="reset",
        ),
    )


@pytest.mark.parametrize(
    ("second", "since"),
    [
        pytest.param(SICK, "2026-01-01T12:00:00Z", id="same verdict"),
        pytest.param(SICKER, "2026-01-01T12:00:00Z", id="another reason, same health"),
        pytest.param(
            probe.DeviceHealth(vocabulary.Health.UNKNOWN, "X"), "2026-01-01T12:05:00Z", id="another health"
        ),
    ],
)
def test_since_dates_the_health(second: probe.DeviceHealth, since: str) -> None:
    """`since` moves when the health changes, and not when only its reason does."""
    first = status(with_health(SICK))

    assert status(with_health(second), first, now=LATER).devices[0].since == since


STRAY, OTHER = wire.Occupant(7, 5), wire.Occupant(8, 5, "ml", "train")
ANSWERED = wire.Condition("PodResourcesReady", "True", "Answered", "It answers.")
AWAY = wire.Condition("PodResourcesReady", "False", "Unreachable", "Nobody answers.")


@pytest.mark.parametrize("outcome", [PAIR, with_health(SICK), LOST, FAILED])
def test_nothing_changed_gives_an_equal_status(outcome: probe.Outcome) -> None:
    """The same look a little later gives the very same status, so that nothing is written."""
    first = status(outcome, occupants={SECOND.uuid: (STRAY,)}, kubelet=ANSWERED)

    assert status(outcome, first, occupants={SECOND.uuid: (STRAY,)}, kubelet=ANSWERED, now=LATER) == first


def test_conditions_are_dated_by_their_change() -> None:
    """Each is dated anew when it turns; others' conditions play no part, and the kubelet's may be absent."""
    ready = wire.Condition(type="Ready", status="False", last_transition_time="2020-01-01T00:00:00Z")
    first = status(PAIR, wire.DeviceStatus(conditions=(ready,)), kubelet=ANSWERED)
    second = status(FAILED, first, kubelet=AWAY, now=LATER)

    assert [each.last_transition_time for each in first.conditions] == ["2026-01-01T12:00:00Z"] * 2
    assert [each.last_transition_time for each in second.conditions] == ["2026-01-01T12:05:00Z"] * 2
    assert [each.type for each in status(PAIR, second).conditions] == ["NVMLReady"]


# ---------------------------------------------------------------- unauthorized processes


def test_unauthorized_processes_stand_at_their_card() -> None:
    """A healthy card gets an entry for them alone, while they are there; no other card has one."""
    there = status(PAIR, occupants={SECOND.uuid: (STRAY, OTHER), "GPU-x": (STRAY,)})

    assert there.devices == (wire.CardStatus(SECOND.uuid, "Healthy", occupants=(STRAY, OTHER)),)
    assert status(PAIR, there).devices == ()


def test_unauthorized_processes_stand_beside_a_verdict() -> None:
    """A sick card keeps its verdict and its time; who was there before and left is not listed."""
    ill = wire.CardStatus(FIRST.uuid, "Unhealthy", reason="XidCritical", since="2025-01-01T00:00:00Z")
    before = wire.DeviceStatus(devices=(msgspec.structs.replace(ill, occupants=(OTHER,)),))

    after = status(FAILED, before, occupants={FIRST.uuid: (STRAY,)})

    assert after.devices == (msgspec.structs.replace(ill, occupants=(STRAY,)),)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        pytest.param((), (OTHER,), [f"{FIRST.uuid}: process 8 of pod ml/train"], id="comes"),
        pytest.param((OTHER,), (OTHER,), [], id="stays"),
        pytest.param((STRAY,), (wire.Occupant(7, 9),), [], id="grows"),
        pytest.param((STRAY,), (), [f"over: {FIRST.uuid}: process 7 of no pod"], id="leaves"),
    ],
)
def test_unauthorized_processes_are_logged_once(
    before: tuple[wire.Occupant, ...], after: tuple[wire.Occupant, ...], lines: list[str]
) -> None:
    """Coming and going are told, each once, and nothing of a card that was well all along."""
    first, second = (status(PAIR, occupants={FIRST.uuid: held} if held else {}) for held in (before, after))

    found = device_status.changes(first, second, listed=KNOWN.devices)

    assert [line.partition(" is on it")[0] for line in found] == lines


# ---------------------------------------------------------------- lines of the log


def test_changes_are_told_once() -> None:
    """What is new is told, what stays is not, and a card that heals is named."""
    well, ill = status(PAIR), status(with_health(SICK))

    new = {f"{SECOND.uuid} is Unhealthy (XidCritical): fallen off the bus": logging.WARNING}
    healed = {f"{SECOND.uuid} is healthy again": logging.INFO}
    assert device_status.changes(well, ill, listed=KNOWN.devices) == new
    assert device_status.changes(ill, ill, listed=KNOWN.devices) == {}
    assert device_status.changes(ill, well, listed=KNOWN.devices) == healed


def test_only_a_card_that_was_ill_and_is_well_is_told_as_repaired() -> None:
    """Whatever people wrote: one that is ill still, or was well before, is not taken as that."""
    uuid, well, ill = SECOND.uuid, status(PAIR), status(with_health(SICK))

    healed = {f"{uuid} is healthy again: it is taken as repaired": logging.INFO}
    assert device_status.changes(ill, well, listed=KNOWN.devices, repaired={uuid, "GPU-typo"}) == healed
    assert device_status.changes(ill, ill, listed=KNOWN.devices, repaired={uuid}) == {}
    assert device_status.changes(well, well, listed=KNOWN.devices, repaired={uuid}) == {}


def test_card_that_was_ill_and_is_taken_out_is_not_told_as_well() -> None:
    """It is gone, with what was wrong with it."""
    ill = status(with_health(SICK))
    gone = {f"{SECOND.uuid} is no longer one of the node's": logging.INFO}
    assert device_status.changes(ill, wire.DeviceStatus(), listed=KNOWN.devices[:1]) == gone


def test_what_is_wrong_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Who looks for warnings finds a source that failed and a card that is ill, not that they mend."""
    well = wire.DeviceStatus(conditions=(wire.Condition("NVMLReady", "True", "CardsRead"),))
    ill = wire.DeviceStatus(
        devices=(wire.CardStatus("GPU-1", "Unhealthy", reason="TooHot"),),
        conditions=(wire.Condition("NVMLReady", "False", "FaultsUnreadable"),),
    )
    there = (wire.Card("GPU-1", "gpu", 0),)
    caplog.set_level(logging.INFO)

    device_status.log_changes("n1", well, ill, listed=there)
    device_status.log_changes("n1", ill, well, listed=there)

    assert [one.levelname for one in caplog.records] == ["WARNING", "WARNING", "INFO", "INFO"]
