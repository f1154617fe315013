"""Kopf has stopped when it does not deliver what the informers know, and not sooner."""

from collections.abc import Mapping

import pytest

from berth_crds import names
from berth_operator import metrics
from berth_operator.kube import kopf_lag

DEVICE, POLICY = names.DEVICES, names.POLICIES


def known(
    devices: Mapping[str, str] = {}, policies: Mapping[str, str] = {}, *, restores: int = 0
) -> kopf_lag.Revisions:
    """Return what the informers know."""
    return kopf_lag.Revisions({DEVICE: devices, POLICY: policies}, restores)


def check(
    lag: kopf_lag.KopfLag, revisions: kopf_lag.Revisions, count: int = 1
) -> list[kopf_lag.KopfFault | None]:
    """Check again and again."""
    return [lag.check(revisions) for _ in range(count)]


def found(faults: list[kopf_lag.KopfFault | None]) -> kopf_lag.KopfFault:
    """Return the fault that only the last check has found."""
    *early, last = faults
    assert not any(early)
    assert last is not None
    return last


def lag(**devices: str) -> kopf_lag.KopfLag:
    """Return the lag of a run of Kopf that has delivered Devices in these revisions."""
    made = kopf_lag.KopfLag()
    for name, version in devices.items():
        made.delivered(DEVICE, name, version)
    return made


@pytest.mark.parametrize(
    ("delivered", "awaited"),
    [
        pytest.param({}, "5", id="nothing"),
        pytest.param({"n1": "4"}, "5", id="a name that comes back is another object"),
        pytest.param({"n1": "abc"}, "abd", id="another revision that is no number"),
    ],
)
def test_a_run_that_delivers_nothing_has_stopped(delivered: dict[str, str], awaited: str) -> None:
    """What is known and never comes shows it after a while, and the sentence names it."""
    faults = check(lag(**delivered), known({"n1": awaited}), kopf_lag.QUIET_CHECKS + 1)

    assert f"revision {awaited} of n1 (devices) has not come for 20 s" in found(faults).text
    assert found(faults).cause is metrics.KopfEnd.LIFELESS


@pytest.mark.parametrize(
    ("delivered", "awaited"),
    [
        pytest.param({"n1": "5"}, {"n1": "5"}, id="that very revision"),
        pytest.param({"n1": "12"}, {"n1": "5"}, id="a later one, for Kopf may be ahead"),
        pytest.param({"n1": "abc"}, {"n1": "abc"}, id="that very one, which is no number"),
        pytest.param({}, {}, id="nothing, where there is nothing to deliver"),
    ],
)
def test_who_delivered_it_has_not_stopped(delivered: dict[str, str], awaited: dict[str, str]) -> None:
    """What was delivered once need not come again, however long nothing happens."""
    run = lag(**delivered)

    assert not any(check(run, known(awaited), 1000))
    assert run.behind == 0


def test_one_watcher_can_stop_beside_another() -> None:
    """Policies that come do not speak for Devices that do not."""
    run, faults = lag(n1="5"), []

    for version in map(str, range(100, 100 + kopf_lag.QUIET_CHECKS + 1)):
        run.delivered(POLICY, "default", version)
        faults += check(run, known({"n1": "6"}, {"default": version}))

    assert "(devices)" in found(faults).text


def test_an_object_that_changes_all_the_while_is_not_behind() -> None:
    """Kopf may always be one revision late: each of them comes in its time."""
    run, faults = lag(), []

    for version in range(1000):
        faults += check(run, known({"n1": str(version + 1)}))
        run.delivered(DEVICE, "n1", str(version))

    assert not any(faults)


def test_one_object_that_never_comes_is_found_among_many_that_do() -> None:
    """A worker can stop alone; it is given more time, for a long list takes some."""
    run, faults = lag(), []

    for version in map(str, range(kopf_lag.BEHIND_CHECKS + 1)):
        run.delivered(DEVICE, "n2", version)
        faults += check(run, known({"n1": "5", "n2": version}))

    assert "of n1 (devices)" in found(faults).text


def test_a_list_may_take_its_time() -> None:
    """Thousands of objects on a busy machine come one after the other: the last one is not overdue."""
    run, faults = lag(), []
    devices = {f"n{number}": "5" for number in range(10 * kopf_lag.BEHIND_CHECKS)}

    for name in devices:
        run.delivered(DEVICE, name, "5")
        faults += check(run, known(devices))

    assert not any(faults)


def test_what_is_gone_is_not_awaited() -> None:
    """An object that was deleted before Kopf saw it, and one that both saw going, show nothing."""
    run = lag(n2="7")

    check(run, known({"n1": "5", "n2": "7"}), kopf_lag.QUIET_CHECKS)
    run.gone(DEVICE, "n2")

    assert not any(check(run, known(), 1000))


def test_a_restore_ends_a_run_at_once() -> None:
    """Its watches stand at revisions of a lost future; a run that began after the restore is well."""
    run = lag(n1="50")

    (before,), (after,) = check(run, known({"n1": "50"})), check(run, known({"n1": "30"}, restores=1))

    assert before is None
    assert after is not None and after.cause is metrics.KopfEnd.RESTORED
    assert not any(check(lag(n1="30"), known({"n1": "30"}, restores=1), 100))


def test_a_gpupod_that_never_comes_is_awaited_by_its_uid() -> None:
    """One that was made again under its name has not come before its new uid has."""
    run = lag()
    run.delivered(names.GPU_PODS, "ml/train", "g1")
    revisions = kopf_lag.Revisions({names.GPU_PODS: {"ml/train": "g2"}})

    faults = check(run, revisions, kopf_lag.QUIET_CHECKS + 1)

    assert "uid g2 of ml/train (gpupods) has not come for 20 s" in found(faults).text


def test_the_end_of_one_that_was_made_again_comes_late() -> None:
    """Kopf delivers two objects of one name in any order; what is there by now stays delivered."""
    run = lag()
    run.delivered(names.GPU_PODS, "ml/train", "g2")
    run.gone(names.GPU_PODS, "ml/train", "g1")
    revisions = kopf_lag.Revisions({names.GPU_PODS: {"ml/train": "g2"}})

    assert not any(check(run, revisions, 1000))


def test_the_newest_of_many_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are never more than the limit; one that is gone is awaited no more, and one made again is new."""
    monkeypatch.setattr(kopf_lag, "MOST_NEWEST", 2)
    newest = kopf_lag.Newest()

    for name in ("a", "b", "c"):
        newest.put(name, f"uid of {name}")
    newest.drop("b")
    newest.put("c", "another uid")

    assert newest.copy() == {"c": "another uid"}
