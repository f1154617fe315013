"""When a card is ill and when it is well again: problems, incidents, the cool-down, what people choose."""

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_agent import device_status, flag_values, probe
from berth_agent.health import cooldown, health_rules, problems, verdicts, xid_table
from berth_crds import vocabulary, wire
from support import nodes
from support.clinic import CARD, FIRST, GONE, PAIR, PEER, RULES, SECOND, TICK, Clinic, is_well

Recovery = vocabulary.Recovery
Consequence = xid_table.Consequence


# ---------------------------------------------------------------- signs in what a card measures


@pytest.mark.parametrize(
    ("measured", "reason", "recovery"),
    [
        pytest.param({"recovery": Recovery.RESET}, "RecoveryNeeded", Recovery.RESET, id="reset asked for"),
        pytest.param({"recovery": Recovery.REBOOT}, "RecoveryNeeded", Recovery.REBOOT, id="reboot asked for"),
        pytest.param({"recovery": Recovery.DRAIN}, "RecoveryNeeded", Recovery.DRAIN, id="drain asked for"),
        pytest.param(
            {"remapped_rows": probe.RemappedRows(0, 1, pending=False, failed=True)},
            "RowRemapFailed",
            Recovery.REPLACE,
            id="no rows left",
        ),
        pytest.param({"temperature": 95, "slowdown_temperature": 95}, "TooHot", Recovery.NONE, id="too hot"),
        pytest.param({"lost": True}, "GpuIsLost", Recovery.REBOOT, id="lost"),
    ],
)
def test_standing_signs_condemn(measured: Mapping[str, Any], reason: str, recovery: Recovery) -> None:
    """What a card measures just now may condemn it, for as long as it lasts, and then for the cool-down."""
    clinic = Clinic()
    for _ in range(20):
        found = clinic.look(**measured)
        assert (found.state, found.reason, found.recovery) == ("Unhealthy", reason, recovery)
    assert clinic.seconds_until_well() == 60


WAITS: Final = ("ResetPending", Recovery.RESET)


@pytest.mark.parametrize(
    ("measured", "remark"),
    [
        pytest.param({}, ("", None), id="nothing reported"),
        pytest.param({"recovery": Recovery.NONE}, ("", None), id="nothing asked for"),
        pytest.param({"temperature": 94, "slowdown_temperature": 95}, ("", None), id="warm"),
        pytest.param({"temperature": 120}, ("", None), id="hot, and nobody says what is too hot"),
        pytest.param(
            {"remapped_rows": probe.RemappedRows(5, 1, pending=False, failed=False)},
            ("", None),
            id="rows replaced",
        ),
        pytest.param({"errors_uncorrected": 7}, ("", None), id="errors of before the first look"),
        pytest.param(
            {"remapped_rows": probe.RemappedRows(3, 1, pending=True, failed=False)}, WAITS, id="a row waits"
        ),
        pytest.param({"retirement_pending": True}, WAITS, id="a page waits"),
    ],
)
def test_what_does_not_condemn(measured: Mapping[str, Any], remark: tuple[str, Recovery | None]) -> None:
    """A card is well whatever it does not say or is past; one that a reset mends says that it waits."""
    found = Clinic().look(**measured)

    assert (found.state, found.reason, found.recovery) == ("Healthy", *remark)


def test_errors_in_memory_count_when_they_grow() -> None:
    """An old card tells such errors by its count; one that begins anew is no error, nor is none."""
    clinic = Clinic()
    for count in (2, 2, 0, None):
        assert is_well(clinic.look(errors_uncorrected=count))

    assert clinic.look(errors_uncorrected=1).reason == "EccUncorrected"


# ---------------------------------------------------------------- the way back


def test_card_is_well_after_seconds_and_looks() -> None:
    """After the last error so many seconds must pass, and so many looks in a row find nothing."""
    clinic = Clinic()
    clinic.look(48)
    assert clinic.seconds_until_well() == 60

    hasty = Clinic(health_rules.HealthRules(cool_down=0, clean_probes=3))
    hasty.look(48)
    assert hasty.seconds_until_well() == 3 * TICK


def test_one_trouble_reads_as_one() -> None:
    """While a case is open its words stay, unless something worse is found; then they are of that."""
    clinic = Clinic()
    first = clinic.look(48)
    assert clinic.look() == clinic.look(119) == first

    worse = clinic.look(79)
    assert worse.xid == 79
    assert clinic.look(lost=True) == clinic.look(48) == worse


def test_card_that_comes_and_goes_comes_less_often() -> None:
    """Each relapse soon after a recovery doubles the wait, up to a day; a quiet time forgives."""
    clinic = Clinic()
    waits = []
    for _ in range(14):
        clinic.look(48)
        waits.append(clinic.seconds_until_well(200_000))
    assert waits[:4] == [60, 120, 240, 480]
    assert waits[-1] == waits[-2] == 86_400

    quiet = Clinic()
    quiet.look(48)
    quiet.seconds_until_well()
    for _ in range(10 * 60 // TICK):
        assert is_well(quiet.look())
    quiet.look(48)
    assert quiet.seconds_until_well() == 60


def test_person_who_repaired_a_card_need_not_wait() -> None:
    """The word closes the case at once, and no relapse is counted; what still stands, stands."""
    clinic = Clinic()
    clinic.look(48)
    assert is_well(clinic.look(repaired=[CARD]))
    clinic.look(48)
    assert clinic.seconds_until_well() == 60

    clinic.look(lost=True)
    assert not is_well(clinic.look(lost=True, repaired=[CARD]))
    assert not is_well(clinic.look(recovery=Recovery.RESET, repaired=[CARD]))
    assert not is_well(clinic.look(repaired=[PEER]))


# ---------------------------------------------------------------- an agent that is started anew


@pytest.mark.parametrize(
    ("rebooted", "looks"),
    [pytest.param(False, 6, id="its seconds begin anew"), pytest.param(True, 3, id="no seconds to wait")],
)
def test_agent_started_anew_heals_nobody(*, rebooted: bool, looks: int) -> None:
    """The case is taken up with the very words that stand there; after a reboot a card must be seen well."""
    ill = Clinic().look(48)
    found = {CARD: ill, PEER: verdicts.HEALTHY}
    status = device_status.status(PAIR, found, wire.DeviceStatus(), now=nodes.NOON)
    clinic = Clinic(history=cooldown.from_status(status, rebooted=rebooted, now=0.0))

    assert [clinic.look() for _ in range(looks)] == [ill] * (looks - 1) + [verdicts.HEALTHY]


# ---------------------------------------------------------------- whatever happens


STEPS = st.lists(
    st.one_of(
        st.just({}),
        st.just({"lost": True}),
        st.just({"recovery": Recovery.RESET}),
        st.just({"temperature": 99, "slowdown_temperature": 95}),
        st.sampled_from([13, 48, 63, 79]).map(lambda number: {"told": number}),
    ),
    max_size=60,
)


@hypothesis.given(STEPS)
def test_no_card_is_given_out_with_a_sign_on_it(steps: list[dict[str, Any]]) -> None:
    """Whatever comes in whatever order: ill with each sign, well only after the wait, and well at last."""
    clinic = Clinic()
    clean: int | None = None  # Looks in a row that found nothing, since there was anything to find.
    for step in steps:
        told = [step["told"]] if "told" in step else []
        found = clinic.look(*told, **{key: value for key, value in step.items() if key != "told"})
        bad = step.keys() & {"lost", "recovery", "temperature"} or step.get("told") in {48, 79}
        clean = 0 if bad else None if clean is None else clean + 1
        assert not (is_well(found) and clean is not None and clean * TICK < 60)
    assert clinic.seconds_until_well(200_000) <= 86_400


def test_severity_ranks_every_recovery() -> None:
    """Each thing that may be needed has its place among the others."""
    assert set(problems.SEVERITY) == {None, *Recovery}


def test_card_that_does_not_answer_is_worse_than_a_hot_one() -> None:
    """Nobody knows what brings it back; that it cools down is not what it waits for."""
    hot = Clinic().look(temperature=95, slowdown_temperature=95)
    silent = problems.of_lost(probe.LostCard(0, "UnknownError", "it does not answer", CARD))

    assert problems.worst((hot, silent)) == silent


# ---------------------------------------------------------------- cards that a look does not show


def test_card_that_was_taken_out_comes_back_as_ill_as_it_was() -> None:
    """A case outlives looks without the card; what the driver told of it meanwhile counts."""
    clinic = Clinic()
    clinic.look(48)
    clinic.judge(SECOND)
    assert not is_well(clinic.look())

    clinic.judge(SECOND, xids=[probe.XidEvent(CARD, 79)])
    assert clinic.look().xid == 79


def test_card_that_is_gone_for_good_is_forgotten() -> None:
    """Nothing is kept for ever of cards that do not come back."""
    clinic = Clinic()
    clinic.look(48)
    for _ in range(cooldown.REMEMBERED * 60 // TICK + 1):
        clinic.judge(SECOND)

    assert clinic.history.incidents == {}


def test_no_error_is_no_error() -> None:
    """Zero is the driver's word for none; a number beyond the schema's bounds condemns and is not listed."""
    assert is_well(Clinic().look(0))
    assert (Clinic().look(70_000).reason, Clinic().look(70_000).xid) == ("XidCritical", None)


def test_error_that_names_no_card_condemns_none() -> None:
    """Who does not answer is seen by looking; the others are not taken away on suspicion."""
    clinic = Clinic()

    found = clinic.judge(FIRST, SECOND, xids=[probe.XidEvent("", 79)])

    assert (set(found.values()), clinic.history.incidents) == ({verdicts.HEALTHY}, {})


ILL = probe.DeviceHealth(vocabulary.Health.UNHEALTHY, "Overheated", message="too hot")


@pytest.mark.parametrize(
    ("card", "health"),
    [
        pytest.param(dataclasses.replace(FIRST, health=ILL), ILL, id="a verdict of its own"),
        pytest.param(
            dataclasses.replace(GONE, judged_by_source=True), problems.of_lost(GONE), id="a lost card"
        ),
    ],
)
def test_source_that_judges_by_itself_is_believed(
    card: probe.Card | probe.LostCard, health: probe.DeviceHealth
) -> None:
    """Simulated cards heal as people say, at once: no wait is promised that nobody keeps."""
    clinic = Clinic()

    assert clinic.judge(card, SECOND) == {CARD: health, PEER: verdicts.HEALTHY}
    assert clinic.history.incidents == {}


# ---------------------------------------------------------------- the table


def test_every_error_has_a_consequence_and_words() -> None:
    """The table covers NVIDIA's numbers up to the newest, in words that fit into a sentence."""
    assert set(xid_table.TABLE) <= set(range(1, 200))
    assert all(each.text and not each.text.endswith(".") for each in xid_table.TABLE.values())
    assert {each.consequence for each in xid_table.TABLE.values()} == set(Consequence)


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 94, 109])
def test_program_errors_leave_the_card_alone(number: int) -> None:
    """What a program did wrong, or alone pays for, is no verdict on the card."""
    assert xid_table.meaning(number).consequence is Consequence.PROGRAM
    assert is_well(Clinic().look(number))


@pytest.mark.parametrize(
    ("number", "recovery"),
    [
        pytest.param(48, Recovery.RESET, id="double-bit error"),
        pytest.param(64, Recovery.RESET, id="row that cannot be replaced"),
        pytest.param(74, Recovery.RESET, id="NVLink"),
        pytest.param(79, Recovery.REBOOT, id="fallen off the bus"),
        pytest.param(95, Recovery.RESET, id="uncontained error"),
        pytest.param(119, Recovery.RESET, id="GSP"),
        pytest.param(999, Recovery.RESET, id="an error that nobody knows yet"),
    ],
)
def test_hardware_errors_condemn(number: int, recovery: Recovery) -> None:
    """The verdict names the error, what it is in words, what it takes to mend it, and what is waited for."""
    found = Clinic().look(number)

    words = f"XID {number}: {xid_table.meaning(number).text}"
    waits = "healthy again once 60 s and 3 checks in a row find nothing wrong"
    assert found == probe.DeviceHealth(
        vocabulary.Health.UNHEALTHY, "XidCritical", number, f"{words}; {waits}", recovery
    )


# ---------------------------------------------------------------- what people may choose


def chosen(ignored: str, critical: str) -> health_rules.HealthRules:
    """Read choices as people write them."""
    return dataclasses.replace(RULES, ignored=flag_values.xids(ignored), critical=flag_values.xids(critical))


@pytest.mark.parametrize(
    ("ignored", "critical", "condemning"),
    [
        pytest.param("", "", {48, 79}, id="the table"),
        pytest.param("48", "", {79}, id="one ignored"),
        pytest.param("all", "", set(), id="all ignored"),
        pytest.param("xids", "", set(), id="all ignored, as the device plugin may say"),
        pytest.param("all", "79", {79}, id="all ignored but one"),
        pytest.param("79", "79", {48, 79}, id="one both ignored and critical"),
        pytest.param("", "13", {13, 48, 79}, id="one of a program made critical"),
        pytest.param("", "all", {13, 48, 63, 79}, id="all critical"),
        pytest.param("79", "all", {13, 48, 63}, id="all critical but one"),
        pytest.param(" 48 , 79 ,", "", set(), id="spaces and a comma too many"),
    ],
)
def test_lists_of_errors_mean_what_they_say(ignored: str, critical: str, condemning: set[int]) -> None:
    """A number wins over `all`, and to condemn wins over to ignore."""
    found = {
        number for number in (13, 48, 63, 79) if not is_well(Clinic(chosen(ignored, critical)).look(number))
    }

    assert found == condemning


@pytest.mark.parametrize("text", ["7 9", "79x", "-1", "1.5", "every", "99999999999", "٣"])
def test_lists_that_cannot_be_read_are_refused(text: str) -> None:
    """One bad word is told; nothing of the list is used."""
    with pytest.raises(argparse.ArgumentTypeError, match="neither the number of an XID nor the word all"):
        flag_values.xids(f"79,{text}")
