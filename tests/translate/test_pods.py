"""What a pod is to Berth: one that waits with a request, one that holds, or one that is over."""

from typing import Any

import pytest

from berth_crds import aliases, names
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.requests import ContainerRequest
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import device_requests, pods, raw
from support import builders
from translate import pod_requests

ON_NODE: dict[str, Any] = {"nodeName": "n1"}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("pod", "kind"),
    [
        pytest.param(builders.pod(), pods.WaitingPod, id="new"),
        pytest.param(builders.pod(schedulingGates=[{"name": "g"}]), pods.WaitingPod, id="gated"),
        pytest.param(builders.pod(**ON_NODE), pods.BoundPod, id="bound"),
        pytest.param(builders.pod(**ON_NODE, phase="Running"), pods.BoundPod, id="running"),
        pytest.param(builders.pod(**ON_NODE, meta=LEAVING), pods.BoundPod, id="bound and being deleted"),
        pytest.param(
            builders.pod(**ON_NODE, schedulerName="other"), pods.BoundPod, id="bound by somebody else"
        ),
        pytest.param(builders.pod(**ON_NODE, phase="Unknown"), pods.BoundPod, id="bound and lost from sight"),
        pytest.param(builders.pod(**ON_NODE, phase="Succeeded"), pods.IgnoredPod, id="done"),
        pytest.param(builders.pod(**ON_NODE, phase="Failed"), pods.IgnoredPod, id="failed"),
        pytest.param(builders.pod(phase="Failed"), pods.IgnoredPod, id="failed before it was bound"),
        pytest.param(builders.pod(meta=LEAVING), pods.IgnoredPod, id="deleted before it was bound"),
        pytest.param(builders.pod(schedulerName="other"), pods.IgnoredPod, id="of another scheduler"),
        pytest.param(builders.pod(schedulerName=""), pods.IgnoredPod, id="of no scheduler"),
    ],
)
def test_view(pod: raw.Pod, kind: type) -> None:
    """Every pod waits for us, holds something, or is none of our business (any more)."""
    found = pods.classify(pod)

    assert type(found) is kind
    assert getattr(found, "gated", False) is bool(pod.spec.scheduling_gates)


ZONED = facts.NodeSelection(selector=(("zone", "a"),))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(builders.pod(**ON_NODE, nodeSelector={"zone": "a"}), ZONED, id="it waits for it"),
        pytest.param(builders.pod(**ON_NODE, phase=""), facts.ANYWHERE, id="without a phase"),
        pytest.param(builders.admitted(builders.pod(**ON_NODE)), None, id="it was admitted"),
        pytest.param(builders.pod(**ON_NODE, phase="Running"), None, id="it runs"),
        pytest.param(builders.pod(**ON_NODE, phase="Unknown"), None, id="its node is lost from sight"),
        pytest.param(builders.pod(**ON_NODE, annotations={names.TERM: "1/2"}), None, id="Berth bound it"),
        pytest.param(
            builders.pod(**ON_NODE, annotations=builders.record(main=[0])), None, id="Berth gave it cards"
        ),
        pytest.param(
            builders.pod(**ON_NODE, nodeSelector={f"label-{number}": "a" for number in range(100)}),
            facts.NOWHERE,
            id="it says too much",
        ),
    ],
)
def test_whether_a_bound_pod_depends_on_its_kubelet(
    pod: raw.Pod, expected: facts.NodeSelection | None
) -> None:
    """What Berth bound and what a kubelet has admitted is certain; of others their conditions are kept."""
    assert pod_requests.bound(pod).unadmitted_selection == expected


def test_waiting_pod_is_read_whole() -> None:
    """All that the core needs of a waiting pod arrives there."""
    meta = {"creationTimestamp": "2026-01-01T00:00:00Z"}

    found = pods.pod_info(builders.pod("p", gpus=2, meta=meta, priority=7, nodeSelector={"zone": "a"}))

    assert (found.uid, found.title, found.faults) == ("uid-p", "ml/p", ())
    assert (found.priority, found.created) == (7, "2026-01-01T00:00:00Z")
    assert found.request.need.whole_cards == 2
    assert (found.demand.device_resources, found.demand.node_selection) == (((names.NVIDIA_GPU, 2),), ZONED)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"annotations": builders.record("n1", main=[0])}, id="a record before its bind (I9)"),
        pytest.param({"annotations": {"note": "x"}}, id="an annotation of no meaning"),
        pytest.param({"meta": {"resourceVersion": "7", "labels": {"a": "b"}}}, id="another revision"),
    ],
)
def test_what_asks_for_nothing_does_not_change_the_pod(changed: dict[str, Any]) -> None:
    """Such a change is no edited request, and promises nothing."""
    assert pods.pod_info(builders.pod(gpus=1, **changed)) == pods.pod_info(builders.pod(gpus=1))


# ---------------------------------------------------------------- the request


def test_init_containers_come_first_and_say_whether_they_stay() -> None:
    """The request lists containers in the order in which they start; a sidecar is one that runs."""
    pod = builders.pod(
        initContainers=[
            builders.container("i", gpus=2),
            builders.container("s", gpus=1, restartPolicy="Always"),
            builders.container("o", gpus=1, restartPolicy="OnFailure"),
        ],
        containers=[
            builders.container("a", gpus=1),
            builders.container("idle"),
            builders.container("b", gpus=1),
        ],
    )

    request = pod_requests.request(pod)

    one, two = (requests.cards(1),), (requests.cards(2),)
    assert request.containers == (
        ContainerRequest("i", two, runs=False),
        ContainerRequest("s", one, runs=True),
        ContainerRequest("o", one, runs=False),
        ContainerRequest("a", one),
        ContainerRequest("b", one),
    )
    assert request.need.whole_cards == 3


def test_a_limit_alone_is_the_request() -> None:
    """What is limited is asked for, and where both are given the request counts."""
    pod = builders.pod(
        containers=[
            builders.container("a", resources={"limits": {names.GPU: 50}}),
            builders.container("b", resources={"limits": {names.GPU: 50}, "requests": {names.GPU: 20}}),
        ]
    )

    request = pod_requests.request(pod)

    assert [one.asks[0] for one in request.containers] == [
        requests.Gpus(1, core=50, ratio=50),
        requests.Gpus(1, core=20, ratio=20),
    ]


@pytest.mark.parametrize(
    ("priority", "class_", "label", "expected"),
    [
        pytest.param(None, None, None, (0, 0), id="none"),
        pytest.param(7, "batch", None, (7, 0), id="of a class"),
        pytest.param(None, None, "5", (0, 5), id="of the label"),
        pytest.param(0, None, "-5", (0, -5), id="of the label, beside the default"),
        pytest.param(7, "batch", "5", (7, 0), id="of a class, whatever the label"),
        pytest.param(0, "least", "5", (0, 0), id="of a class of 0, whatever the label"),
        pytest.param(0, None, "high", (0, 0), id="of a label that is none"),
        pytest.param(0, None, "1000000001", (0, 0), id="of a label beyond what people may give"),
    ],
)
def test_priority(
    priority: int | None, class_: str | None, label: str | None, expected: tuple[int, int]
) -> None:
    """What a PriorityClass gives and what the author calls it are two things; there the label is mute."""
    labels = {} if label is None else {aliases.GENIUS_PRIORITY: label}
    pod = builders.pod(labels=labels, priority=priority, priorityClassName=class_)

    assert (device_requests.priority(pod), device_requests.label_priority(pod)) == expected


def test_refusals_carry_no_node() -> None:
    """A fault of the request is nobody's but the request's."""
    (fault,) = pods.pod_info(pod_requests.asking({names.NVIDIA_GPU: "x"})).faults

    assert (fault.node, fault.device) == ("", "")
    assert fault.reason not in decisions.LIFTED_BY
