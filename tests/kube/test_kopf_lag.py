"""Kopf has stopped when it does not deliver what the informers know, and not sooner."""

import pytest

from berth_crds import names
from berth_operator import metrics
from berth_operator.kube import kopf_lag

DEVICE, POLICY = names.DEVICES, names.POLICIES


def known(*, restores: int = 0, policies: dict[str, str] | None = None, **devices: str) -> kopf_lag.Revisions:
    """Say what the informers know."""
    return kopf_lag.Revisions({DEVICE: devices, POLICY: policies or {}}, restores)


def looks(
    one: kopf_lag.KopfLag, revisions: kopf_lag.Revisions, count: int
) -> list[kopf_lag.KopfFault | None]:
    """Look again and again."""
    return [one.check(revisions) for _ in range(count)]


def test_a_run_that_delivers_nothing_has_stopped() -> None:
    """What is known and never comes shows it after a while, and the sentence names it."""
    one = kopf_lag.KopfLag()

    early = looks(one, known(n1="5"), kopf_lag.QUIET_CHECKS)
    found = one.check(known(n1="5"))

    assert early == [None] * kopf_lag.QUIET_CHECKS
    assert found is not None
    assert found.cause is metrics.KopfEnd.LIFELESS
    assert "revision 5 of n1 (devices) has not come for 20 s" in found.text


@pytest.mark.parametrize(
    "delivered",
    [
        pytest.param("5", id="that very revision"),
        pytest.param("12", id="a later one, for Kopf may be ahead"),
    ],
)
def test_who_delivered_it_has_not_stopped(delivered: str) -> None:
    """What was delivered once need not come again, however long nothing happens."""
    one = kopf_lag.KopfLag()
    one.delivered(DEVICE, "n1", delivered)

    found = looks(one, known(n1="5"), 1000)

    assert not any(found)
    assert one.behind == 0


def test_one_watcher_can_stop_beside_another() -> None:
    """Policies that come do not speak for Devices that do not."""
    one = kopf_lag.KopfLag()
    one.delivered(DEVICE, "n1", "5")
    found = None

    for version in range(100, 100 + 2 * kopf_lag.QUIET_CHECKS):
        one.delivered(POLICY, "default", str(version))
        found = found or one.check(known(n1="6", policies={"default": str(version)}))

    assert found is not None
    assert "(devices)" in found.text


def test_an_object_that_changes_all_the_while_is_not_behind() -> None:
    """Kopf may always be one revision late: each of them comes in its time."""
    one = kopf_lag.KopfLag()
    found: list[kopf_lag.KopfFault | None] = []

    for version in range(1000):
        found.append(one.check(known(n1=str(version + 1))))
        one.delivered(DEVICE, "n1", str(version))

    assert not any(found)


def test_one_object_that_never_comes_is_found_among_many_that_do() -> None:
    """A worker can stop alone; it is given more time, for a long list takes some."""
    one = kopf_lag.KopfLag()
    found: list[kopf_lag.KopfFault | None] = []

    for version in range(kopf_lag.BEHIND_CHECKS + 1):
        one.delivered(DEVICE, "n2", str(version))
        found.append(one.check(known(n1="5", n2=str(version))))

    assert not any(found[:-1])
    assert (last := found[-1]) is not None and "of n1 (devices)" in last.text


def test_a_list_may_take_its_time() -> None:
    """Thousands of objects on a busy machine come one after the other: the last one is not overdue."""
    one, count = kopf_lag.KopfLag(), 10 * kopf_lag.BEHIND_CHECKS
    there = kopf_lag.Revisions({DEVICE: {f"n{at}": "5" for at in range(count)}})
    found: list[kopf_lag.KopfFault | None] = []

    for at in range(count):
        one.delivered(DEVICE, f"n{at}", "5")
        found.append(one.check(there))

    assert not any(found)


def test_what_is_gone_is_not_awaited() -> None:
    """An object that was deleted before Kopf saw it, and one that both saw going, show nothing."""
    one = kopf_lag.KopfLag()
    one.delivered(DEVICE, "n2", "7")

    looks(one, known(n1="5", n2="7"), kopf_lag.QUIET_CHECKS)
    one.gone(DEVICE, "n2")

    assert not any(looks(one, known(), 1000))


def test_a_kind_without_objects_shows_nothing() -> None:
    """Where there is nothing to deliver, nobody can tell, and nobody misses anything."""
    assert not any(looks(kopf_lag.KopfLag(), known(), 1000))


def test_an_object_made_again_is_awaited_anew() -> None:
    """A name that comes back is another object, of a later revision."""
    one = kopf_lag.KopfLag()
    one.delivered(DEVICE, "n1", "5")

    found = looks(one, known(n1="9"), kopf_lag.QUIET_CHECKS + 1)

    assert found[-1] is not None


def test_a_restore_ends_a_run_at_once() -> None:
    """Its watches stand at revisions of a lost future; a run that began after the restore is well."""
    one, later = kopf_lag.KopfLag(), kopf_lag.KopfLag()
    one.delivered(DEVICE, "n1", "50")

    before, after = one.check(known(n1="50")), one.check(known(restores=1, n1="30"))

    assert before is None
    assert after is not None and after.cause is metrics.KopfEnd.RESTORED
    later.delivered(DEVICE, "n1", "30")
    assert not any(looks(later, known(restores=1, n1="30"), 100))


def test_revisions_that_are_no_numbers_are_compared_as_they_are() -> None:
    """Nothing else can be said of them than whether they are the same."""
    one = kopf_lag.KopfLag()
    one.delivered(DEVICE, "n1", "abc")

    same, other = looks(one, known(n1="abc"), 100), looks(one, known(n1="abd"), kopf_lag.QUIET_CHECKS + 1)

    assert not any(same)
    assert other[-1] is not None
