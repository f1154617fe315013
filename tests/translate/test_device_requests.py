"""A pod's request is read container by container, in the order in which they start."""

from typing import Any

import pytest

from berth_crds import aliases, names
from berth_operator.scheduling import decisions
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.requests import ContainerRequest
from berth_operator.translate import device_requests
from support import builders
from translate import pod_requests


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
    assert request.need.whole == 3


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


# ---------------------------------------------------------------- what Kubernetes offers and Berth does not

TERM = [{"topologyKey": "zone", "labelSelector": {}}]
CONSTRAINTS: dict[str, tuple[dict[str, Any], str]] = {
    "pod affinity": (
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERM}}},
        "required pod affinity",
    ),
    "pod anti-affinity": (
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERM}}},
        "required pod anti-affinity",
    ),
    "topology spread": (
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        "a topology spread constraint with whenUnsatisfiable: DoNotSchedule",
    ),
    "a claimed volume": (
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        "persistent volume claims",
    ),
    "an ephemeral volume": (
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]},
        "persistent volume claims",
    ),
    "a resource claim": ({"resourceClaims": [{"name": "c"}]}, "resource claims"),
}


@pytest.mark.parametrize(("spec", "what"), CONSTRAINTS.values(), ids=CONSTRAINTS.keys())
def test_constraint_that_is_not_honoured(spec: dict[str, Any], what: str) -> None:
    """To ignore a constraint would put the pod where it must not be; it is refused instead."""
    found = pod_requests.faults(builders.pod(**spec))

    assert found == [(Reason.UNSUPPORTED_CONSTRAINT, f"the pod uses {what}, which Berth does not honour yet")]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []},
                }
            },
            id="preferences, and no requirement",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, id="spread if possible"
        ),
        pytest.param(
            {"containers": [builders.container(ports=[{"containerPort": 80}])]}, id="a container port"
        ),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, id="an empty volume"),
        pytest.param({"resourceClaims": []}, id="no claims"),
    ],
)
def test_harmless_neighbours_of_what_is_refused(spec: dict[str, Any]) -> None:
    """Only what must be obeyed is refused, not what merely looks like it."""
    assert pod_requests.faults(builders.pod(**spec)) == []


def test_refusals_carry_no_node() -> None:
    """A fault of the request is nobody's but the request's."""
    _, wrong = device_requests.request(pod_requests.asking({names.NVIDIA_GPU: "x"}))

    assert [(fault.node, fault.device) for fault in wrong] == [("", "")]
    assert all(fault.reason not in decisions.LIFTED_BY for fault in wrong)
