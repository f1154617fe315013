"""What a Device says follows from one look and from what was said before."""

import dataclasses
import datetime as dt
import logging

import msgspec
import pytest

from berth_agent import device_spec, device_status, loop, probe, simulated
from berth_crds import schema_limits, vocabulary, wire
from support import nodes
from support.nvml import presets

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
LATER = NOON + dt.timedelta(minutes=5)
NOTHING = wire.DeviceStatus()

PAIR = simulated.machine("n1", "2xA100-SXM4-80GB")
FAILED = probe.SourceFailed("DriverNotLoaded", "The driver is not loaded.")
SICK = probe.DeviceHealth(
    vocabulary.Health.UNHEALTHY, "XidCritical", 79, "fallen off the bus", vocabulary.Recovery.RESET
)
SICKER = probe.DeviceHealth(vocabulary.Health.UNHEALTHY, "RowRemapFailed", message="no spare rows")


def with_health(health: probe.DeviceHealth, *, minor: int = 1) -> probe.Sample:
    """Return the pair of cards with one of them in this health."""
    cards = tuple(
        dataclasses.replace(card, health=health) if card.minor == minor else card
        for card in PAIR.answering_cards()
    )
    return dataclasses.replace(PAIR, cards=cards)


def without(minor: int, *, uuid: str = "") -> probe.Sample:
    """Return the pair of cards with one of them silent."""
    lost = probe.LostCard(minor, "GpuIsLost", "it does not answer", uuid)
    cards = tuple(lost if card.minor == minor else card for card in PAIR.answering_cards())
    return dataclasses.replace(PAIR, cards=cards)


def status(
    outcome: probe.Outcome, before: wire.DeviceStatus = NOTHING, *, now: dt.datetime = NOON
) -> wire.DeviceStatus:
    """Describe the status of the pair, which is known already."""
    said = device_spec.spec("n1", outcome, device_spec.spec("n1", PAIR, None))
    return nodes.status(outcome, said, before, now=now)


# ---------------------------------------------------------------- spec


def test_spec_tells_what_the_probe_gave() -> None:
    """Every reading of a card stands in the Device under its own name."""
    [reading, _] = PAIR.answering_cards()
    spec = device_spec.spec("n1", PAIR, None)

    card = spec.devices[0]
    assert (spec.node, spec.boot_id, spec.driver) == ("n1", PAIR.boot_id, wire.Driver("simulated"))
    assert (card.uuid, card.minor, card.index, card.model) == (reading.uuid, 0, 0, "NVIDIA A100-SXM4-80GB")
    assert (card.memory, card.compute_capability, card.module_id) == (85_198_045_184, "8.0", 1)
    assert card.topology == wire.Topology(0, "pci0000:00", "0000:01:00.0")
    assert [(link.peer, link.kind, link.count) for link in card.links] == [
        (spec.devices[1].uuid, vocabulary.LinkKind.NVLINK, 12)
    ]
    assert card.mig == wire.Mig(enabled=False)


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


def test_zero_and_false_are_written() -> None:
    """Minor 0, index 0, NUMA node 0 and MIG off reach the API as such, not as absence."""
    card = msgspec.to_builtins(device_spec.spec("n1", PAIR, None))["devices"][0]

    assert (card["minor"], card["index"], card["topology"]["numaNode"]) == (0, 0, 0)
    assert card["mig"] == {"enabled": False}


def test_mig_instances_are_described() -> None:
    """An instance stands with its ids and its slices, the first of which is zero."""
    instance = wire.MigInstance(
        "MIG-1", "1g.10gb", 10_468_982_784, gi=7, ci=0, placement=wire.MigPlacement(0, 1)
    )
    card = dataclasses.replace(
        next(PAIR.answering_cards()), mig=wire.Mig(enabled=True, instances=(instance,))
    )

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


def test_cordon_is_never_written() -> None:
    """What people cordoned is not taken over, not even from the Device that an agent finds at its start."""
    known = msgspec.structs.replace(device_spec.spec("n1", PAIR, None), cordon=("GPU-1",))

    for outcome in (PAIR, without(1), FAILED):
        assert "cordon" not in msgspec.to_builtins(device_spec.spec("n1", outcome, known))


SHARED = wire.Sharing(vocabulary.SharingStrategy.TIME_SLICING, 4)


def test_shared_cards_say_so_and_those_cut_into_instances_do_not(place: nodes.Place) -> None:
    """What people say of the device plugin stands with each whole card, and in the summary."""
    shared = device_spec.spec("n1", PAIR, None, SHARED)
    assert [card.sharing for card in shared.devices] == [SHARED, SHARED]
    assert shared.summary == wire.SpecSummary("A100-SXM4-80GB x2", 2, "time-slicing x4")

    cut = device_spec.spec("n1", nodes.look(place(presets.MIG).start()), None, SHARED)
    assert cut.devices[0].mig is not None
    assert cut.devices[0].sharing is None
    assert cut.summary is not None
    assert cut.summary.sharing.startswith("mig ")

    hurt = device_spec.spec("n1", without(1), shared)
    assert [card.sharing for card in hurt.devices] == [None, None], "it is said no more, of none of them"
    assert device_spec.spec("n1", FAILED, shared) == shared


# ---------------------------------------------------------------- what fails


def test_failed_source_changes_no_card() -> None:
    """When the source fails, the cards stand as they were last known, and the condition says so."""
    known, ill = device_spec.spec("n1", PAIR, None), status(with_health(SICK))

    assert device_spec.spec("n1", FAILED, known) == known
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


@pytest.mark.parametrize("by_uuid", [pytest.param(True, id="by uuid"), pytest.param(False, id="by index")])
def test_lost_card_stays_as_last_known(*, by_uuid: bool) -> None:
    """A card that stops answering stays in the list with a bad verdict, and the node stays open."""
    known = device_spec.spec("n1", PAIR, None)
    outcome = without(1, uuid=known.devices[1].uuid if by_uuid else "")

    assert device_spec.spec("n1", outcome, known).devices == known.devices
    after = status(outcome)
    assert [(each.uuid, each.health, each.reason) for each in after.devices] == [
        (known.devices[1].uuid, "Unhealthy", "GpuIsLost")
    ]
    assert [(each.status, each.reason) for each in after.conditions] == [("True", "CardsLost")]
    assert "1 of 2 cards answered" in after.conditions[0].message


def test_card_lost_before_it_was_known_leaves_no_dangling_link() -> None:
    """A lost card that was never seen is not listed, nor does any link lead to it; the condition names it."""
    spec = device_spec.spec("n1", without(1), None)

    assert [(card.minor, card.links) for card in spec.devices] == [(0, ())]
    assert spec.summary == wire.SpecSummary("A100-SXM4-80GB x1", 1)
    after = nodes.status(without(1), spec, now=NOON)
    assert after.devices == ()
    assert "Card 1: it does not answer" in after.conditions[0].message


def test_card_that_is_lost_twice_is_listed_once() -> None:
    """Whether told by its uuid, its address or its place in the list: it is one card, and one entry."""
    known = device_spec.spec("n1", PAIR, None)
    first, second = known.devices
    where = second.topology.bus_id if second.topology else ""
    lost = (
        probe.LostCard(5, "GpuIsLost", "by uuid", second.uuid),
        probe.LostCard(6, "GpuIsLost", "by address", "", where),
        probe.LostCard(1, "GpuIsLost", "by index"),
    )
    cards = (next(iter(PAIR.answering_cards())), *lost)

    found = device_spec.spec("n1", dataclasses.replace(PAIR, cards=cards), known)

    assert [each.uuid for each in found.devices] == [first.uuid, second.uuid]


def test_lost_card_whose_minor_is_taken_is_not_listed() -> None:
    """When another card has the minor of a lost one, only the one that answers is listed."""
    known = device_spec.spec("n1", PAIR, None)
    other = dataclasses.replace(next(PAIR.answering_cards()), uuid="GPU-other", minor=1, index=0, links=())
    outcome = dataclasses.replace(PAIR, cards=(other, probe.LostCard(1, "GpuIsLost", "silent")))

    assert [card.uuid for card in device_spec.spec("n1", outcome, known).devices] == ["GPU-other"]


# ---------------------------------------------------------------- verdicts and moments


def test_plainly_healthy_cards_have_no_entry() -> None:
    """Only cards with something to say have a verdict in the status."""
    after = status(with_health(SICK))

    assert status(PAIR).devices == ()
    assert after.devices == (
        wire.CardStatus(
            uuid=list(PAIR.answering_cards())[1].uuid,
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


def test_nothing_changed_gives_an_equal_status() -> None:
    """The same look a little later gives the very same status, so that nothing is written."""
    for outcome in (PAIR, with_health(SICK), without(1), FAILED):
        first = status(outcome)

        assert status(outcome, first, now=LATER) == first


def test_transition_time_moves_with_the_status() -> None:
    """The condition is dated anew when it turns, and others' conditions play no part."""
    ready = wire.Condition(type="Ready", status="False", last_transition_time="2020-01-01T00:00:00Z")
    first = status(PAIR, wire.DeviceStatus(conditions=(ready,)))
    second = status(FAILED, first, now=LATER)

    assert [each.last_transition_time for each in first.conditions] == ["2026-01-01T12:00:00Z"]
    assert [each.last_transition_time for each in second.conditions] == ["2026-01-01T12:05:00Z"]


def test_changes_are_told_once() -> None:
    """What is new is told, what stays is not, and a card that heals is named."""
    well, ill = status(PAIR), status(with_health(SICK))
    uuid = ill.devices[0].uuid

    assert device_status.changes(well, ill) == (f"{uuid} is Unhealthy (XidCritical): fallen off the bus",)
    assert device_status.changes(ill, ill) == ()
    assert device_status.changes(ill, well) == (f"{uuid} is healthy again",)


def test_what_is_wrong_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Who looks for warnings finds a source that failed and a card that is ill, not that they mend."""
    well = wire.DeviceStatus(conditions=(wire.Condition("NVMLReady", "True", "CardsRead"),))
    ill = wire.DeviceStatus(
        devices=(wire.CardStatus("GPU-1", "Unhealthy", reason="TooHot"),),
        conditions=(wire.Condition("NVMLReady", "False", "FaultsUnreadable"),),
    )
    caplog.set_level(logging.INFO)

    loop.log_changes("n1", well, ill)
    loop.log_changes("n1", ill, well)

    assert [one.levelname for one in caplog.records] == ["WARNING", "WARNING", "INFO", "INFO"]
