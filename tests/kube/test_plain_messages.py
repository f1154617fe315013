"""Conditions and Events are plain lines of a length that the server takes, whoever's words they quote."""

from typing import Any, Final

import msgspec

from berth_operator.engine import rate_limiter
from berth_operator.kube import events, kind_statuses, pod_status
from berth_operator.translate import raw
from support import builders, clock

NASTY: Final = "a\x1b[2J\r\n2026 forged\u202e\u200b\x9b" + "!" * 10_000
SHOWN: Final = r"a\x1b[2J 2026 forged\u202e\u200b\x9b!!"
CANDIDATE = builders.candidate()


def status_writer() -> pod_status.PodStatusWriter:
    """Make a status writer that has nobody to write to."""
    nobody: Any = None
    time = clock.Clock()
    notes = events.EventRecorder(nobody, rate_limiter.unlimited(), wall=time.wall, instance="test")
    return pod_status.PodStatusWriter(nobody, notes, rate_limiter.unlimited(), wall=time.wall)


def test_why_a_pod_waits_is_a_plain_line() -> None:
    """What the condition will say is clean before it is compared with what is shown."""
    made = status_writer()

    made.unschedulable(CANDIDATE, NASTY)

    said = made.shown_message(CANDIDATE.uid)
    assert said.startswith(SHOWN)
    assert said.isprintable()
    assert len(said) == pod_status.LONGEST_MESSAGE


def test_why_a_bind_failed_is_a_plain_line() -> None:
    """The server's own words for it are clean as well."""
    made = status_writer()

    made.bind_failed(CANDIDATE, NASTY)

    ((_, condition),) = made._due.values()
    assert condition.message.startswith(f"The bind failed: {SHOWN}")
    assert condition.message.isprintable()


def test_of_what_a_pod_shows_no_more_is_kept_than_could_be_ours() -> None:
    """A condition of a megabyte is as different from our words as its beginning."""
    long = {"type": "PodScheduled", "status": "False", "reason": "x" * 10_000, "message": "y" * 1_000_000}
    pod = msgspec.convert({"metadata": {"name": "p"}, "status": {"conditions": [long]}}, raw.Pod)

    shown = pod_status.observed_condition(pod)

    assert shown is not None
    assert len(shown.reason) == len(shown.message) == pod_status.LONGEST_MESSAGE + 1


def test_an_event_is_a_plain_line() -> None:
    """`kubectl describe` prints it as it is."""
    note = events.Event(events.InvolvedObject("ml", "p", "uid-p"), "FailedScheduling", NASTY)

    said = events.manifest(note, "p.1", moment="now", instance="test")["message"]

    assert said.startswith(SHOWN)
    assert said.isprintable()
    assert len(said) == events.LONGEST_MESSAGE


def test_what_is_wrong_with_a_policy_is_a_plain_line() -> None:
    """The condition of a policy quotes what people wrote into it."""
    body = {"metadata": {"name": "default"}}

    for spec in ({"strategy": NASTY}, {NASTY: 1, "agents": {"graceSeconds": NASTY}}, {"models": {NASTY: 1}}):
        (condition,) = kind_statuses.policy_status(body | {"spec": spec}, moment="now")["conditions"]
        assert condition["message"].isprintable()
        assert len(condition["message"]) <= 1024
