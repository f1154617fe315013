"""When a card is ill, and when it is well again: signs, cases, and the way back."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_agent import probe
from berth_agent.health import cooldown, health_rules, problems, verdicts
from berth_crds import vocabulary, wire
from support.clinic import CARD, PAIR, PEER, RULES, TICK, Clinic, is_well

Recovery = vocabulary.Recovery


# ---------------------------------------------------------------- signs in what a card measures


@pytest.mark.parametrize(
    ("vitals", "reason", "recovery"),
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
    ],
)
def test_standing_signs_condemn(vitals: Mapping[str, Any], reason: str, recovery: Recovery) -> None:
    """What a card measures just now may condemn it, for as long as it lasts."""
    clinic = Clinic()
    for _ in range(20):
        found = clinic.look(**vitals)
        assert (found.state, found.reason) == (vocabulary.Health.UNHEALTHY, reason)
        assert found.recovery is recovery
    assert clinic.seconds_until_well() == 60


@pytest.mark.parametrize(
    "vitals",
    [
        pytest.param({"remapped_rows": probe.RemappedRows(3, 1, pending=True, failed=False)}, id="row"),
        pytest.param({"retirement_pending": True}, id="page"),
    ],
)
def test_pending_repair_is_a_remark(vitals: Mapping[str, Any]) -> None:
    """A card that mends itself with the next reset works until then, and says that it waits for one."""
    found = Clinic().look(**vitals)

    assert (found.state, found.reason) == (vocabulary.Health.HEALTHY, "ResetPending")
    assert found.recovery is Recovery.RESET


@pytest.mark.parametrize(
    "vitals",
    [
        pytest.param({}, id="nothing told"),
        pytest.param({"recovery": Recovery.NONE}, id="nothing asked for"),
        pytest.param({"temperature": 94, "slowdown_temperature": 95}, id="warm"),
        pytest.param({"temperature": 120}, id="hot, and nobody says what is too hot"),
        pytest.param(
            {"remapped_rows": probe.RemappedRows(5, 1, pending=False, failed=False)}, id="rows replaced"
        ),
        pytest.param({"errors_uncorrected": 7}, id="errors of before the first look"),
    ],
)
def test_what_is_no_sign(vitals: Mapping[str, Any]) -> None:
    """A card is not condemned for what it does not say, or for what is past."""
    assert Clinic().look(**vitals) == verdicts.HEALTHY


def test_errors_in_memory_count_when_they_grow() -> None:
    """An old card tells such errors by its count alone; a count that begins anew is no error."""
    clinic = Clinic()
    assert is_well(clinic.look(errors_uncorrected=2))
    assert is_well(clinic.look(errors_uncorrected=2))
    assert is_well(clinic.look(errors_uncorrected=0))

    assert clinic.look(errors_uncorrected=1).reason == "EccUncorrected"


# ---------------------------------------------------------------- the way back


def test_card_is_well_after_seconds_and_looks() -> None:
    """After the last error so many seconds must pass, and so many looks in a row find nothing."""
    clinic = Clinic()
    clinic.look(48)
    assert clinic.seconds_until_well() == 60

    hasty = Clinic(health_rules.HealthRules(cool_down=0, clean_looks=3))
    hasty.look(48)
    assert hasty.seconds_until_well() == 3 * TICK


def test_another_error_begins_the_seconds_anew() -> None:
    """What counts is the last error, not the first."""
    clinic = Clinic()
    for _ in range(5):
        clinic.look(48)
        for _ in range(5):
            assert not is_well(clinic.look())

    clinic.look(48)
    assert clinic.seconds_until_well() == 60


def test_lost_card_comes_back_only_after_it_answers() -> None:
    """However long it is gone, the seconds begin when it answers again."""
    clinic = Clinic()
    for _ in range(100):
        found = clinic.look(lost=True)
        assert (found.reason, found.recovery) == ("GpuIsLost", Recovery.REBOOT)

    assert clinic.seconds_until_well() == 60


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


def test_rules_that_change_count_at_once() -> None:
    """Whoever shortens the wait does not have to wait the longer one out."""
    clinic = Clinic()
    clinic.look(48)
    clinic.rules = health_rules.HealthRules(cool_down=0, clean_looks=1)

    assert is_well(clinic.look())


def test_verdict_says_what_is_waited_for() -> None:
    """Whoever sees a card held back sees for how long, and the words do not change meanwhile."""
    clinic = Clinic()
    found = {clinic.look(48).message, clinic.look().message, clinic.look().message}

    words = "an error in memory could not be corrected"
    assert found == {f"XID 48: {words}; healthy again once 60 s and 3 looks in a row find nothing wrong"}


def test_source_that_judges_by_itself_is_believed() -> None:
    """A card with a verdict of its own gets that one, at once and without a case."""
    ill = probe.DeviceHealth(vocabulary.Health.UNHEALTHY, "Overheated")
    first, second = PAIR.answering_cards()
    sick = dataclasses.replace(PAIR, cards=(dataclasses.replace(first, health=ill), second))

    found = verdicts.judge(verdicts.HealthInput(sick, {}, 0.0), cooldown.HealthHistory(), RULES)

    assert found.verdicts == {CARD: ill, PEER: verdicts.HEALTHY}
    assert found.history == cooldown.HealthHistory()


# ---------------------------------------------------------------- an agent that is started anew


def published(health: probe.DeviceHealth) -> wire.DeviceStatus:
    """Return what stands in the Device."""
    entry = wire.CardStatus(
        CARD,
        health.state,
        reason=health.reason,
        xid=health.xid,
        message=health.message,
        recovery=health.recovery or "",
    )
    return wire.DeviceStatus(devices=(entry, wire.CardStatus(PEER, "Healthy", occupants=())))


def test_agent_started_anew_heals_nobody() -> None:
    """The case is taken up with the very words that stand there, and its seconds begin anew."""
    first = Clinic()
    said = first.look(48)

    second = Clinic(history=cooldown.from_status(published(said), rebooted=False, now=0.0))
    assert (second.look(), second.seconds_until_well()) == (said, 50)


def test_reboot_ends_the_wait_and_not_the_looking() -> None:
    """A node that was started anew has no seconds to wait, but its card must be seen well."""
    said = Clinic().look(48)
    clinic = Clinic(history=cooldown.from_status(published(said), rebooted=True, now=0.0))

    assert [is_well(clinic.look()) for _ in range(3)] == [False, False, True]


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
    clinic = Clinic()
    clinic.look(temperature=95, slowdown_temperature=95)
    silent = probe.LostCard(0, "UnknownError", "it does not answer", CARD)

    found = problems.worst((clinic.look(temperature=95, slowdown_temperature=95), problems.of_lost(silent)))

    assert found is not None
    assert found.reason == "UnknownError"


# ---------------------------------------------------------------- cards that a look does not show


def unseen(clinic: Clinic, *told: int) -> None:
    """Judge a look in which the first card is neither read nor lost: it is not there."""
    clinic.now += TICK
    cards = tuple(
        dataclasses.replace(each, health=None) for each in PAIR.answering_cards() if each.uuid != CARD
    )
    sample = dataclasses.replace(
        PAIR, cards=cards, xids=tuple(probe.XidEvent(CARD, number) for number in told)
    )
    clinic.history = verdicts.judge(
        verdicts.HealthInput(sample, {}, clinic.now), clinic.history, clinic.rules
    ).history


def test_card_that_was_taken_out_comes_back_as_ill_as_it_was() -> None:
    """A case outlives looks without the card; what the driver told of it meanwhile counts."""
    clinic = Clinic()
    clinic.look(48)
    unseen(clinic)
    assert not is_well(clinic.look())

    other = Clinic()
    other.look()
    unseen(other, 79)
    assert other.look().xid == 79


def test_card_that_is_gone_for_good_is_forgotten() -> None:
    """Nothing is kept for ever of cards that do not come back."""
    clinic = Clinic()
    clinic.look(48)
    for _ in range(cooldown.REMEMBERED * 60 // TICK + 1):
        unseen(clinic)

    assert clinic.history.incidents == {}


def test_no_error_is_no_error() -> None:
    """Zero is the driver's word for none; a number beyond the schema's bounds condemns and is not listed."""
    assert is_well(Clinic().look(0))
    assert (Clinic().look(70_000).reason, Clinic().look(70_000).xid) == ("XidCritical", None)


def test_count_that_is_not_told_once_is_not_forgotten() -> None:
    """Growth of errors in memory shows across a look that told no count."""
    clinic = Clinic()
    clinic.look(errors_uncorrected=0)
    clinic.look()

    assert clinic.look(errors_uncorrected=9).reason == "EccUncorrected"


def test_error_that_names_no_card_condemns_none() -> None:
    """Who does not answer is seen by looking; the others are not taken away on suspicion."""
    cards = tuple(dataclasses.replace(each, health=None) for each in PAIR.answering_cards())
    sample = dataclasses.replace(PAIR, cards=cards, xids=(probe.XidEvent("", 79),))

    found = verdicts.judge(verdicts.HealthInput(sample, {}, 0.0), cooldown.HealthHistory(), RULES)
    assert (set(found.verdicts.values()), found.history.incidents) == ({verdicts.HEALTHY}, {})


def test_lost_card_of_a_source_that_judges_is_well_at_once_and_nothing_else_is_said() -> None:
    """Simulated cards heal as people say, so no wait is promised that nobody keeps."""
    lost = probe.LostCard(0, "GpuIsLost", "it does not answer", CARD, judged_by_source=True)
    first, second = PAIR.answering_cards()
    gone = dataclasses.replace(PAIR, cards=(lost, second))

    ill = verdicts.judge(verdicts.HealthInput(gone, {CARD: lost}, 0.0), cooldown.HealthHistory(), RULES)
    well = verdicts.judge(verdicts.HealthInput(PAIR, {}, 10.0), ill.history, RULES)

    assert (ill.verdicts[CARD].state, ill.verdicts[CARD].message) == (
        vocabulary.Health.UNHEALTHY,
        "it does not answer",
    )
    assert well.verdicts[first.uuid] == verdicts.HEALTHY
