"""The watcher of `make bench SCENARIO=answers`: what it makes of the changes that it sees."""

from typing import Any

import pytest

from bench import pod_watch
from berth_crds import allocation, names


def pod(name: str, *, minor: int | None = None, phase: str = "Pending", message: str = "") -> dict[str, Any]:
    """Make a pod as a watch shows it: bound to one card, or told something."""
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    made: dict[str, Any] = {
        "metadata": {"namespace": "here", "name": name},
        "spec": {},
        "status": {"phase": phase, "conditions": [told] if message else []},
    }
    if minor is not None:
        record = allocation.of("node-a", {"main": {"gpu": [allocation.Share(f"GPU-{minor}", minor, 100, 1)]}})
        made["spec"]["nodeName"] = "node-a"
        made["metadata"]["annotations"] = {names.ALLOCATION: allocation.encode(record)}
    return made


@pytest.mark.parametrize(
    ("change", "phase"),
    [("DELETED", "Running"), ("MODIFIED", "Succeeded")],
    ids=["deleted", "succeeded"],
)
def test_a_card_is_timed_from_its_pods_end_to_the_next_bind(change: str, phase: str) -> None:
    """The time counts to the bind on the very card, not to any bind."""
    seen = pod_watch.PodWatch()
    seen.saw(0.0, "ADDED", pod("old", minor=3))

    seen.saw(10.0, change, pod("old", minor=3, phase=phase))
    seen.saw(10.5, "MODIFIED", pod("elsewhere", minor=4))
    seen.saw(12.0, "MODIFIED", pod("new", minor=3))
    seen.saw(13.0, "MODIFIED", pod("new", minor=3, phase="Running"))

    assert seen.taken == {pod_watch.PodName("here", "old"): 2.0}
    assert not seen.twice


def test_a_card_that_is_given_while_somebody_has_it_is_noticed() -> None:
    """It is named with both pods."""
    seen = pod_watch.PodWatch()

    seen.saw(0.0, "ADDED", pod("one", minor=3))
    seen.saw(1.0, "MODIFIED", pod("one", minor=3, phase="Running"))
    seen.saw(2.0, "MODIFIED", pod("two", minor=3))

    assert seen.twice == ["card 3 of node-a of here/one was given to here/two"]


def test_a_pod_is_told_when_it_first_says_that_it_fits_nowhere() -> None:
    """A pod that says nothing, or something else, is not told yet; a later wording does not count anew."""
    seen = pod_watch.PodWatch()

    seen.saw(1.0, "ADDED", pod("one"))
    seen.saw(2.0, "MODIFIED", pod("one", message="patience"))
    seen.saw(3.0, "MODIFIED", pod("one", message="0/8 nodes are available"))
    seen.saw(4.0, "MODIFIED", pod("one", message="0/9 nodes are available"))

    assert seen.told == {pod_watch.PodName("here", "one"): 3.0}
