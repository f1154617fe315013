"""What each error means for a card, and what people may choose about that."""

import dataclasses

import pytest

from berth_agent import xid_choices
from berth_agent.health import health_rules, xid_table
from berth_crds import vocabulary
from support.clinic import RULES, Clinic, is_well

Consequence = xid_table.Consequence
Recovery = vocabulary.Recovery


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
    """The verdict names the error, what it is in words, and what it takes to mend it."""
    found = Clinic().look(number)

    assert (found.state, found.reason, found.xid) == (vocabulary.Health.UNHEALTHY, "XidCritical", number)
    assert found.recovery is recovery
    assert found.message.startswith(f"XID {number}: {xid_table.meaning(number).text}")


# ---------------------------------------------------------------- what people may choose


def chosen(ignored: str, critical: str) -> health_rules.HealthRules:
    """Read choices as people write them."""
    return dataclasses.replace(
        RULES, ignored=xid_choices.parse(ignored), critical=xid_choices.parse(critical)
    )


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
    with pytest.raises(ValueError, match="neither the number of an XID nor the word all"):
        xid_choices.parse(f"79,{text}")
