"""What waiting pods say together has limits, and what goes beyond them waits for room."""

from collections.abc import Callable
from typing import Any, Final
from unittest import mock

import pytest

from berth_operator.engine import pod_memory
from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from support import builders

WEIGHT: Final = pod_memory.NAMESPACE_BYTES // 4
OF_NAMESPACE: Final = (
    "the pending pods of this namespace together exceed Berth's limit of 32 MiB for stored requests; "
)
OF_ALL: Final = (
    "the pending pods of all namespaces together exceed Berth's limit of 128 MiB for stored requests; "
)
AGAIN: Final = "this pod is retried when others are scheduled or deleted"


def pod(name: str, *, namespace: str = "ml", says: str = "") -> queued_pods.PodInfo:
    """Return a pod that says something of its own, unless told what."""
    conditions = requests.Conditions(uuids=frozenset({says or name}))
    return builders.pod_info(name, namespace=namespace, request=requests.DeviceRequest(conditions=conditions))


class Memory(pod_memory.WaitingPodMemory):
    """A memory of which these namespaces have spent all, each with four pods."""

    def __init__(self, *namespaces: str) -> None:
        super().__init__()
        for namespace in namespaces:
            assert not any(self.faults(f"{namespace}-{at}", namespace=namespace) for at in range(4))

    def faults(self, name: str, weight: int = WEIGHT, **says: str) -> list[str]:
        """Admit a pod; return why it is not kept."""
        found = self.admit(pod(name, **says), weight)
        assert {fault.reason for fault in found.faults} <= {Reason.TOO_MUCH_TOGETHER}
        return [fault.detail for fault in found.faults]

    def release_all(self, *names: str) -> None:
        """Forget these pods."""
        for name in names:
            self.release(f"uid-{name}")


def test_what_goes_beyond_a_namespaces_share_is_not_kept() -> None:
    """Only the pod itself is, with a fault that names the limit; other namespaces have their share."""
    memory = Memory("ml")

    found = memory.admit(pod("more"), WEIGHT)

    assert (found.request, found.demand) == (requests.NO_DEVICES, facts.NO_DEMAND)
    assert memory.faults("more") == [OF_NAMESPACE + AGAIN]
    assert memory.faults("other", namespace="web") == []


def test_all_namespaces_together_have_a_limit() -> None:
    """Many namespaces do not get more than all pods may have, and a usual pod waits as ever."""
    memory, usual = Memory("a", "b", "c", "d"), pod("usual", namespace="e")

    assert memory.faults("more", namespace="e") == [OF_ALL + AGAIN]
    assert memory.admit(usual, pod_memory.FREE_BYTES) is usual
    assert usual.uid not in memory._kept_by_uid


def test_pods_that_ask_for_the_same_share_one_copy() -> None:
    """However many they are, they are charged once, and for as long as one of them waits."""
    memory = Memory()
    first, *others = (memory.admit(pod(f"p{at}", says="same"), 3 * WEIGHT) for at in range(100))

    assert all(other.request is first.request for other in others)
    memory.release_all(*(f"p{at}" for at in range(99)))
    assert memory.faults("more", 2 * WEIGHT)
    memory.release_all("p99")
    assert not memory.faults("more", 2 * WEIGHT)


def test_what_only_chooses_between_nodes_stays_each_pods_own() -> None:
    """Their demands are equal, but one has another image, and one another controller."""
    memory = Memory()
    own: list[dict[str, Any]] = [{}, {"images": ("cuda:12",)}, {"controller": "ml/rs"}]
    pods = [builders.pod_info(f"p{at}", demand=builders.demand(cpu=1, **one)) for at, one in enumerate(own)]

    found = [memory.admit(one, WEIGHT).demand for one in pods]

    assert [(one.images, one.controller) for one in found] == [
        (one.demand.images, one.demand.controller) for one in pods
    ]


def test_a_pod_that_is_seen_again_keeps_what_it_has() -> None:
    """It is not charged twice, nor refused when there is no room for another one."""
    memory = Memory("ml")

    assert not any(memory.faults(f"ml-{at}") for at in range(4))
    assert memory.faults("more")


ROOM: dict[str, Callable[[Memory], object]] = {
    "gone": lambda memory: memory.release_all("ml-0"),
    "edited": lambda memory: memory.admit(pod("ml-0"), 100),
}


@pytest.mark.parametrize("happen", ROOM.values(), ids=ROOM.keys())
def test_room_is_made_by_pods_that_go_or_say_less(happen: Callable[[Memory], object]) -> None:
    """Then a pod that was not kept is worth reading again, and is served; before that it is not."""
    memory = Memory("ml")
    memory.faults("more")
    before = memory.next_unkept()

    happen(memory)

    assert (before, memory.next_unkept()) == (None, ("ml", "more"))
    assert not memory.faults("more")
    assert memory.next_unkept() is None, "nobody is left to be read again"


def test_the_oldest_is_read_again_first_and_namespaces_take_turns() -> None:
    """Of those for whom there is room; who is seen again keeps the place, and who was read comes last."""
    memory = Memory("a", "b", "c", "d")
    for name in ("a1", "a2", "a3", "b1", "c1", "a1"):
        memory.faults(name, 2 * WEIGHT if name == "a2" else WEIGHT, namespace=name[0])
    memory.release_all("a-0", "b-0")

    found = [memory.next_unkept() for _ in range(5)]

    assert found == [("a", "a1"), ("b", "b1"), ("a", "a3"), ("b", "b1"), ("a", "a1")]


def test_of_a_namespace_without_room_no_pod_is_examined() -> None:
    """However many of them were not kept, to find that out costs nothing."""
    memory = Memory("ml")
    for at in range(1000):
        memory.faults(f"more-{at}")
    fits = mock.Mock(return_value=False)

    assert memory._unkept.next(fits) is None
    fits.assert_called_once_with("ml", pod_memory.FREE_BYTES)


def test_nothing_is_left_of_pods_that_are_gone() -> None:
    """All that is counted comes down to nothing again."""
    memory = Memory("ml", "web")
    memory.faults("more")

    memory.release_all(*(f"{namespace}-{at}" for namespace in ("ml", "web") for at in range(4)), "more")

    assert repr(memory) == "<WaitingPodMemory: 0 bytes of 0 pods, 0 pods not kept>"
    assert not any((memory._kept, memory._spent))
