"""What a status writer knows of what a waiting pod shows: that is how a new leader repeats no work."""

import json
from typing import Any

import msgspec

from berth_crds.client import watch
from berth_operator.engine import rate_limiter
from berth_operator.kube import events, pod_status
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import raw
from support import builders, clock, manifests

CANDIDATE = builders.candidate()


def status_writer(*conditions: dict[str, str]) -> pod_status.PodStatusWriter:
    """Make a status writer that saw a pod with these conditions, and that has nobody to write to."""
    nobody: Any = None
    time = clock.Clock()
    notes = events.EventRecorder(nobody, rate_limiter.unlimited(), wall=time.wall, instance="test")
    made = pod_status.PodStatusWriter(nobody, notes, rate_limiter.unlimited(), wall=time.wall)
    pod = manifests.pod("p") | {"status": {"conditions": conditions}}
    pod["metadata"] |= {"uid": CANDIDATE.uid, "resourceVersion": "5"}
    seen = watch.Codec(raw.Pod).decode_object(msgspec.Raw(json.dumps(pod).encode()))
    assert isinstance(seen, raw.Pod)
    made.pod_waiting(seen)
    return made


def refusal(reason: str) -> dict[str, str]:
    """Make the condition of a pod that waits."""
    return {"type": pod_status.SCHEDULED, "status": "False", "reason": reason, "message": "no room"}


def test_what_was_seen_is_shown() -> None:
    """Whoever wrote it."""
    assert status_writer(refusal(pod_status.UNSCHEDULABLE)).shown_message(CANDIDATE.uid) == "no room"


def test_what_is_due_is_as_good_as_shown() -> None:
    """It will be written, unless something newer comes."""
    made = status_writer(refusal(pod_status.UNSCHEDULABLE))
    made.unschedulable(CANDIDATE, "all full")
    assert made.shown_message(CANDIDATE.uid) == "all full"


def test_what_is_no_sentence_about_nodes_is_not_shown() -> None:
    """No condition, a fault of the request, a pod that nobody has seen."""
    assert status_writer().shown_message(CANDIDATE.uid) == ""
    assert status_writer(refusal(Reason.INVALID_REQUEST)).shown_message(CANDIDATE.uid) == ""
    assert status_writer().shown_message("other") == ""
