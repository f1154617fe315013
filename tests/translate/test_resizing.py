"""A bound pod that is being resized counts with the larger of what it asks for and what it has."""

from typing import Any

import msgspec
import pytest

from berth_crds import names
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pod_cache, pods, raw, resizing
from support import builders
from translate import pod_requests

Container = dict[str, Any]


def given(name: str, requests: dict[str, object], allocated: dict[str, object] | None = None) -> Container:
    """Return the status of a container."""
    return {
        "name": name,
        "resources": {"requests": requests},
        **({"allocatedResources": allocated} if allocated else {}),
    }


def running(*containers: Container, init: Any = (), whole: Any = None, **status: Any) -> raw.Pod:
    """Return a pod that runs on a node, with these containers and this status."""
    spec = {"containers": [*containers], "initContainers": [*init], "resources": whole}
    found = msgspec.convert({"phase": "Running", "startTime": "x", **status}, raw.PodStatus)
    return msgspec.structs.replace(builders.pod(**spec, nodeName="n1"), status=found)


def amounts(pod: raw.Pod) -> dict[str, int]:
    """Return what a bound pod takes of its node, but for its place among the pods."""
    found = dict(pod_requests.bound(pod).hold.amounts)
    assert found.pop(facts.PODS) == 1
    return found


ASKED = builders.asking("a", {"cpu": 1, "memory": "1Gi"})
INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
GIB = 2**30
CASES: dict[str, tuple[raw.Pod, dict[str, int]]] = {
    "a container that is to grow": (
        running(ASKED, containerStatuses=[given("a", {"cpu": "500m", "memory": "1Gi"})]),
        {"cpu": 1000, "memory": GIB},
    ),
    "a container that is to shrink": (
        running(ASKED, containerStatuses=[given("a", {"cpu": 1, "memory": "3Gi"})]),
        {"cpu": 1000, "memory": 3 * GIB},
    ),
    "more is allocated than it has": (
        running(ASKED, containerStatuses=[given("a", {"cpu": 1}, {"cpu": 2})]),
        {"cpu": 2000, "memory": GIB},
    ),
    "each resource has its own largest amount": (
        running(ASKED, containerStatuses=[given("a", {"cpu": 2, "memory": "1Mi"}, {"memory": "2Gi"})]),
        {"cpu": 2000, "memory": 2 * GIB},
    ),
    "a resize that can never be": (
        running(
            ASKED, containerStatuses=[given("a", {"cpu": "100m"}, {"cpu": "300m"})], conditions=INFEASIBLE
        ),
        {"cpu": 300},
    ),
    "only what is allocated is told": (
        running(ASKED, containerStatuses=[{"name": "a", "allocatedResources": {"cpu": 9}}]),
        {"cpu": 1000, "memory": GIB},
    ),
    "a sidecar": (
        running(
            ASKED,
            init=[builders.asking("s", {"cpu": 1}, restartPolicy="Always")],
            initContainerStatuses=[given("s", {"cpu": 4})],
        ),
        {"cpu": 5000, "memory": GIB},
    ),
    "an init container is not resized": (
        running(
            ASKED,
            init=[builders.asking("i", {"cpu": 1})],
            initContainerStatuses=[given("i", {"cpu": 4})],
        ),
        {"cpu": 1000, "memory": GIB},
    ),
    "a status of no container of the pod": (
        running(ASKED, containerStatuses=[given("b", {"cpu": 9})]),
        {"cpu": 1000, "memory": GIB},
    ),
    "the pod as a whole": (
        running(
            ASKED,
            whole={"requests": {"cpu": 2}},
            resources={"requests": {"cpu": 3, "memory": "9Gi"}},
            allocatedResources={"cpu": 4},
        ),
        {"cpu": 4000, "memory": GIB},
    ),
    "the pod as a whole, and nothing that it has is told": (
        running(ASKED, whole={"requests": {"cpu": 2}}, allocatedResources={"cpu": 4}),
        {"cpu": 2000, "memory": GIB},
    ),
}


@pytest.mark.parametrize(("pod", "expected"), CASES.values(), ids=CASES)
def test_the_larger_of_what_is_asked_and_given_counts(pod: raw.Pod, expected: dict[str, int]) -> None:
    """The amounts of a bound pod are those that kube-scheduler counts."""
    assert amounts(pod) == expected


def test_a_status_that_agrees_changes_nothing() -> None:
    """Pods whose status agrees with their spec share one value with those that have none."""
    pod = running(
        ASKED, containerStatuses=[given("a", {"cpu": 1, "memory": "1Gi"}, {"cpu": 1, "memory": "1Gi"})]
    )
    bare = running(ASKED)

    assert resizing.effective_spec(pod) is pod.spec
    assert pod_cache.bound_key(pod) == pod_cache.bound_key(bare)


def test_the_next_status_counts() -> None:
    """A pod is charged anew once its kubelet has resized it."""
    before = running(ASKED, containerStatuses=[given("a", {"cpu": 2, "memory": "1Gi"})])
    after = running(ASKED, containerStatuses=[given("a", {"cpu": 1, "memory": "1Gi"})])

    found = [amounts(one)["cpu"] for one in (before, after, before)]

    assert found == [2000, 1000, 2000]


def test_cards_are_not_resized() -> None:
    """Whatever a status says, a pod holds the cards that it asked for, and no more."""
    asking = builders.asking("a", {names.NVIDIA_GPU: 1, "cpu": 1})
    status = given("a", {names.NVIDIA_GPU: 8, "cpu": 3})
    pod = running(asking, containerStatuses=[status])

    found = pods.read_bound_request(pod)

    assert dict(found.amounts) == {names.NVIDIA_GPU: 1, "cpu": 3000, facts.PODS: 1}


def test_an_unreadable_amount_is_more_than_any_node_has() -> None:
    """A status that no kubelet writes keeps nothing open by mistake."""
    pod = running(ASKED, containerStatuses=[given("a", {"cpu": "much"})])

    assert amounts(pod)["cpu"] == facts.LARGEST
