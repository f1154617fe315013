"""Conditions and Events are plain lines of a length that the server takes, whoever's words they quote."""

from typing import Any, Final

import msgspec
import pytest

from berth_operator.kube import events, kind_statuses, pod_status
from berth_operator.translate import raw
from kube import servers
from support import builders

NASTY: Final = "a\x1b[2J\r\n2026 forged\u202e\u200b\x9b" + "!" * 10_000
SHOWN: Final = r"a\x1b[2J 2026 forged\u202e\u200b\x9b!!"
CANDIDATE = builders.pod_info()


@pytest.mark.parametrize("report", ["unschedulable", "not_bound"])
def test_a_condition_of_a_pod_is_a_plain_line(report: str) -> None:
    """It is clean before it is compared with what is shown; the server's own words are clean as well."""
    writer = servers.StatusWriting()

    getattr(writer, report)(CANDIDATE, NASTY)

    ((_, condition),) = writer._due.values()
    assert condition.message.startswith(SHOWN)
    assert condition.message.isprintable()
    assert len(condition.message) == pod_status.LONGEST_MESSAGE


MOST: Final = pod_status.LONGEST_MESSAGE + 1


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        pytest.param(
            {"reason": "x" * 10_000, "message": "y" * 1_000_000}, ("x" * MOST, "y" * MOST), id="long"
        ),
        pytest.param({}, ("", ""), id="left null"),
    ],
)
def test_of_what_a_pod_shows_no_more_is_kept_than_could_be_ours(
    words: dict[str, str], kept: tuple[str, str]
) -> None:
    """A condition of a megabyte is as different from our words as its beginning, and one without words."""
    conditions = [{"type": "PodScheduled", "status": "False"} | words]
    pod = msgspec.convert({"metadata": {"name": "p"}, "status": {"conditions": conditions}}, raw.Pod)

    assert pod_status.observed_condition(pod) == pod_status.PodCondition(*kept)


def test_an_event_is_a_plain_line() -> None:
    """`kubectl describe` prints it as it is."""
    event = events.Event(events.InvolvedObject("ml", "p", "uid-p"), "FailedScheduling", NASTY)

    message = events.manifest(event, "p.1", moment="now", instance="test")["message"]

    assert message.startswith(SHOWN)
    assert message.isprintable()
    assert len(message) == events.LONGEST_MESSAGE


@pytest.mark.parametrize(
    "spec",
    [{"strategy": NASTY}, {NASTY: 1, "agents": {"graceSeconds": NASTY}}, {"models": {NASTY: 1}}],
    ids=["a word", "a field", "a key"],
)
def test_what_is_wrong_with_a_policy_is_a_plain_line(spec: dict[str, Any]) -> None:
    """The condition of a policy quotes what people wrote into it."""
    body = {"metadata": {"name": "default"}, "spec": spec}

    (condition,) = kind_statuses.policy_status(body, moment="now")["conditions"]

    assert condition["message"].isprintable()
    assert len(condition["message"]) <= 1024
