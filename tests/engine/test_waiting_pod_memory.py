"""What waiting pods say together has limits, and what goes beyond them waits for room."""

from typing import Final

import pytest

from berth_operator.engine import waiting_pod_memory
from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts

WEIGHT: Final = waiting_pod_memory.NAMESPACE_BYTES // 4
OF_NAMESPACE: Final = (
    "the requests of the waiting pods of this namespace are too long together: Berth keeps 32 MiB of them; "
)
OF_ALL: Final = "the requests of all waiting pods are too long together: Berth keeps 128 MiB of them; "
AGAIN: Final = "this pod is read again when others are placed or deleted"


def pod(uid: str, *, namespace: str = "ml", says: str = "") -> queued_pods.Candidate:
    """Make a pod that says something of its own, unless told what."""
    request = requests.Request(conditions=requests.Conditions(uuids=frozenset({says or uid})))
    return queued_pods.Candidate(uid, namespace, uid, request)


def filled(*namespaces: str) -> waiting_pod_memory.WaitingPodMemory:
    """Return a budget of which these namespaces have spent all."""
    made = waiting_pod_memory.WaitingPodMemory()
    for namespace in namespaces:
        for at in range(4):
            found = made.admit(pod(f"{namespace}-{at}", namespace=namespace), WEIGHT)
            assert not found.faults
    return made


def test_what_goes_beyond_a_namespaces_share_is_not_kept() -> None:
    """Only the pod itself is, with a fault that names the limit; other namespaces have their share."""
    made = filled("ml")

    found = made.admit(pod("more"), WEIGHT)
    other = made.admit(pod("other", namespace="web"), WEIGHT)

    assert (found.request, found.demand) == (requests.NO_DEVICES, facts.NO_DEMAND)
    assert [(one.reason, one.detail) for one in found.faults] == [
        (Reason.TOO_MUCH_TOGETHER, OF_NAMESPACE + AGAIN)
    ]
    assert not other.faults


def test_all_namespaces_together_have_a_limit() -> None:
    """Many namespaces do not get more than all pods may have, and a usual pod waits as ever."""
    made = filled("a", "b", "c", "d")

    assert made.admit(pod("more", namespace="e"), WEIGHT).faults[0].detail == OF_ALL + AGAIN
    assert not made.admit(pod("usual", namespace="e"), waiting_pod_memory.FREE_BYTES).faults


def test_usual_pods_cost_nothing() -> None:
    """A pod that says little is passed on as it is, and nothing of it is kept here."""
    made, one = filled("ml"), pod("usual")

    assert made.admit(one, waiting_pod_memory.FREE_BYTES) is one
    assert "usual" not in made._kept_by_uid


def test_pods_that_ask_for_the_same_share_one_copy() -> None:
    """However many they are, they are charged once, and for as long as one of them waits."""
    made = waiting_pod_memory.WaitingPodMemory()
    first, *others = (made.admit(pod(f"u{at}", says="same"), 3 * WEIGHT) for at in range(100))

    assert all(other.request is first.request for other in others)
    for at in range(99):
        made.release(f"u{at}")
    assert made.admit(pod("more"), 2 * WEIGHT).faults
    made.release("u99")
    assert not made.admit(pod("more"), 2 * WEIGHT).faults


def test_a_pod_that_is_told_again_keeps_what_it_has() -> None:
    """It is not charged twice, nor refused when there is no room for another one."""
    made = filled("ml")

    found = [made.admit(pod(f"ml-{at}"), WEIGHT) for at in range(4)]

    assert not any(one.faults for one in found)
    assert made.admit(pod("more"), WEIGHT).faults


@pytest.mark.parametrize("edited", [pytest.param(False, id="gone"), pytest.param(True, id="edited")])
def test_room_is_made_by_pods_that_go_or_say_less(edited: bool) -> None:  # noqa: FBT001
    """Then a pod that was not kept is worth reading again, and is served; before that it is not."""
    made = filled("ml")
    made.admit(pod("more"), WEIGHT)
    before = made.next_unkept()
    if edited:
        made.admit(pod("ml-0"), 100)
    else:
        made.release("ml-0")

    assert (before, made.next_unkept()) == (None, ("ml", "more"))
    assert not made.admit(pod("more"), WEIGHT).faults
    assert made.next_unkept() is None, "nobody is left to be read again"


def test_the_oldest_is_read_again_first_and_namespaces_take_turns() -> None:
    """Of those for whom there is room; who is told again keeps the place, and who was read comes last."""
    made = filled("a", "b", "c", "d")
    for uid in ("a1", "a2", "a3", "b1", "c1", "a1"):
        made.admit(pod(uid, namespace=uid[0]), 2 * WEIGHT if uid == "a2" else WEIGHT)
    for uid in ("a-0", "b-0"):
        made.release(uid)

    found = [made.next_unkept() for _ in range(5)]

    assert found == [("a", "a1"), ("b", "b1"), ("a", "a3"), ("b", "b1"), ("a", "a1")]


def test_of_a_namespace_without_room_no_pod_is_looked_at() -> None:
    """However many of them were not kept, to find that out costs nothing."""
    made = filled("ml")
    for at in range(1000):
        made.admit(pod(f"more-{at}"), WEIGHT)
    asked: list[int] = []

    found = made._unkept.next(lambda _, weight: asked.append(weight) or False)  # type: ignore[func-returns-value]

    assert (found, asked) == (None, [waiting_pod_memory.FREE_BYTES])


def test_nothing_is_left_of_pods_that_are_gone() -> None:
    """All that is counted comes down to nothing again."""
    made = filled("ml", "web")
    made.admit(pod("more"), WEIGHT)
    for uid in (*(f"{namespace}-{at}" for namespace in ("ml", "web") for at in range(4)), "more"):
        made.release(uid)

    assert repr(made) == "<WaitingPodMemory: 0 bytes of 0 pods, 0 pods not kept>"
    assert not made._kept
    assert not made._spent
