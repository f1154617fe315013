"""What a pod requires of its node or its neighbours and Berth does not serve is refused, not passed over."""

import json
from typing import Any, Final

import pytest

from berth_crds import aliases, requirements
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import device_requests, pods
from support import builders
from translate import pod_requests

UNSUPPORTED: Final = Reason.UNSUPPORTED_CONSTRAINT

# ---------------------------------------------------------------- what Kubernetes offers and Berth does not

CONSTRAINTS: dict[str, tuple[dict[str, Any], str]] = {
    "a resource claim": ({"resourceClaims": [{"name": "c"}]}, "resource claims"),
}


@pytest.mark.parametrize(("spec", "what"), CONSTRAINTS.values(), ids=CONSTRAINTS.keys())
def test_constraint_that_is_not_honoured(spec: dict[str, Any], what: str) -> None:
    """To ignore a constraint would put the pod where it must not be; it is refused instead."""
    found = pod_requests.faults(builders.pod(**spec))

    assert found == [(UNSUPPORTED, f"the pod uses {what}, which Berth does not honour yet")]


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
            {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
            id="spread that is kept",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            id="pod affinity that is kept",
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


# ---------------------------------------------------------------- what other projects' words require

SCHEDULING: Final = "scheduling.koordinator.sh"
NUMA: Final = f"{SCHEDULING}/numa-topology-spec"
CPUS: Final = f"{SCHEDULING}/resource-spec"
RESERVED: Final = f"{SCHEDULING}/reservation-affinity"
NOT_SERVED: Final = "is required, which Berth does not serve"

# The key, what people write there, and what of it the sentence names.
REQUIRED: Final = [
    (RESERVED, '{"reservationSelector":{"a":"b"}}', "reservationSelector"),
    (RESERVED, '{"name":"r"}', "name r"),
    (RESERVED, '{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{}]}}', "req"),
    (NUMA, '{"numaTopologyPolicy":"SingleNUMANode"}', "numaTopologyPolicy SingleNUMANode"),
    (NUMA, '{"numaTopologyPolicy":"Restricted"}', "numaTopologyPolicy Restricted"),
    (NUMA, '{"singleNUMANodeExclusive":"Required"}', "singleNUMANodeExclusive Required"),
    (CPUS, '{"requiredCPUBindPolicy":"FullPCPUs"}', "requiredCPUBindPolicy FullPCPUs"),
    (CPUS, '{"somethingNew":7}', "somethingNew"),
    ("pod.koordinator.sh/replace-resources", "a.b/g:koordinator.sh/gpu,c:", "a.b/g:koordinator.sh/gpu,c:"),
    ("volcano.sh/numa-topology-policy", "single-numa-node", "single-numa-node"),
    ("volcano.sh/numa-topology-policy", "restricted", "restricted"),
    ("volcano.sh/network-topology-mode", "hard", "hard"),
    ("volcano.sh/card.name", "NVIDIA-A100", "NVIDIA-A100"),
    ("kai.scheduler/topology-required-placement", "rack", "rack"),
]


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize(("key", "text", "what"), REQUIRED)
def test_what_is_required_is_refused(key: str, text: str, what: str, gpus: int) -> None:
    """The sentence names the key and what it requires, whether the pod asks for a card or not."""
    ((reason, sentence),) = pod_requests.faults(builders.pod(gpus=gpus, annotations={key: text}))

    assert reason is UNSUPPORTED
    assert sentence.startswith(f"annotation {key}: {what}")
    assert NOT_SERVED in sentence


@pytest.mark.parametrize("key", ["kai.scheduler/node-pool", "koordinator.sh/gpu-isolation-provider"])
def test_what_is_required_by_a_label_is_refused_where_it_stands_as_one(key: str) -> None:
    """KAI reads its pool there alone, and Koordinator who keeps shares apart."""
    ((_, sentence),) = pod_requests.faults(builders.pod(gpus=1, labels={key: "a"}, annotations={key: "a"}))

    assert sentence.startswith(f"label {key}: a {NOT_SERVED}")


PREFERRED: Final = [
    (RESERVED, "{}"),
    (RESERVED, '{"tolerations":[{"key":"a"}],"name":"","reservationSelector":{}}'),
    (RESERVED, '{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}]}'),
    (NUMA, '{"numaTopologyPolicy":"BestEffort","singleNUMANodeExclusive":"Preferred"}'),
    (NUMA, '{"numaTopologyPolicy":""}'),
    (CPUS, '{"preferredCPUBindPolicy":"FullPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}'),
    (CPUS, '{"requiredCPUBindPolicy":"Default"}'),
    ("volcano.sh/numa-topology-policy", "best-effort"),
    ("volcano.sh/numa-topology-policy", "none"),
    ("pod.koordinator.sh/replace-resources", ""),
    ("volcano.sh/network-topology-mode", "soft"),
    ("kai.scheduler/topology-preferred-placement", "rack"),
    ("kai.scheduler/topology-required-placement", " "),
    ("kueue.x-k8s.io/podset-required-topology", "rack"),
]


@pytest.mark.parametrize(("key", "text"), PREFERRED)
def test_what_is_preferred_is_passed_over(key: str, text: str) -> None:
    """A preference, and a word that requires nothing, refuse no pod."""
    assert pod_requests.faults(builders.pod(gpus=1, annotations={key: text})) == []


@pytest.mark.parametrize("text", ["", "[]", '"rack"', "{", json.dumps({"numaTopologyPolicy": [["a"]]})])
def test_what_cannot_be_read_has_one_sentence_or_none(text: str) -> None:
    """Nothing that people may write there makes the pod unreadable."""
    assert len(pod_requests.faults(builders.pod(gpus=1, annotations={NUMA: text}))) == (1 if text else 0)


ROWS: Final = {
    **{row.key: (row.where, '{"a":"b"}' if row.fields else "a") for row in requirements.REQUIREMENTS},
    "scheduling.x-k8s.io/pod-group": ("label", "train"),
}


@pytest.mark.parametrize("key", ROWS)
def test_two_pods_that_differ_in_a_requirement_alone_are_read_apart(key: str) -> None:
    """What is remembered of one pod is not taken for the other."""
    where, text = ROWS[key]
    about: dict[str, Any] = {f"{where}s": {key: text}}

    found = [pods.pod_info(builders.pod(gpus=1, **keys)).faults for keys in ({}, about, {})]

    assert [len(faults) for faults in found] == [0, 1, 0]


# ---------------------------------------------------------------- pods that start together with others

KOORDINATOR: Final = "gang.scheduling.koordinator.sh"
LIGHTWEIGHT: Final = "pod-group.scheduling.sigs.k8s.io"
VOLCANO: Final = "scheduling.volcano.sh"
WHY: Final = (
    "makes the pod one of a group that starts as a whole, but Berth binds pods one by one and does not wait "
    "for a whole group; leave it out if the pods may start one by one"
)

Annotations = dict[str, str]

# What people write for each project, and the key that the sentence names.
GROUPS: dict[str, tuple[Annotations, str]] = {
    "Koordinator": (
        {
            f"{KOORDINATOR}/name": "train",
            f"{KOORDINATOR}/min-available": "4",
            f"{KOORDINATOR}/mode": "Strict",
        },
        f"{KOORDINATOR}/name",
    ),
    "Koordinator without a number": ({f"{KOORDINATOR}/name": "train"}, f"{KOORDINATOR}/name"),
    "Koordinator's number alone": ({f"{KOORDINATOR}/min-available": "4"}, f"{KOORDINATOR}/min-available"),
    "Koordinator's total": ({f"{KOORDINATOR}/total-number": "4"}, f"{KOORDINATOR}/total-number"),
    "several gangs of Koordinator": (
        {
            f"{KOORDINATOR}/name": "a",
            f"{KOORDINATOR}/min-available": "1",
            f"{KOORDINATOR}/groups": '["ml/a", "ml/b"]',
        },
        f"{KOORDINATOR}/groups",
    ),
    "coscheduling": ({"scheduling.x-k8s.io/pod-group": "train"}, "scheduling.x-k8s.io/pod-group"),
    "coscheduling before that": ({LIGHTWEIGHT: "train"}, LIGHTWEIGHT),
    "lightweight coscheduling": (
        {f"{LIGHTWEIGHT}/name": "train", f"{LIGHTWEIGHT}/min-available": "3"},
        f"{LIGHTWEIGHT}/name",
    ),
    "Volcano": ({"scheduling.k8s.io/group-name": "train"}, "scheduling.k8s.io/group-name"),
    "Volcano's other name": ({f"{VOLCANO}/group-name": "train"}, f"{VOLCANO}/group-name"),
    "Volcano's number": ({f"{VOLCANO}/group-min-member": "2"}, f"{VOLCANO}/group-min-member"),
    "KAI": ({"pod-group-name": "train"}, "pod-group-name"),
    "KAI's part of a group": ({"kai.scheduler/subgroup-name": "a"}, "kai.scheduler/subgroup-name"),
    "KAI's number": ({"kai.scheduler/batch-min-member": "4"}, "kai.scheduler/batch-min-member"),
    "a number that is none": (
        {f"{LIGHTWEIGHT}/name": "train", f"{LIGHTWEIGHT}/min-available": "one"},
        f"{LIGHTWEIGHT}/name",
    ),
}
GROUPS |= {f"{key} by itself": ({key: "4"}, key) for key in sorted(aliases.GANG_KEYS)}


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("place", ["annotation", "label"])
@pytest.mark.parametrize(("keys", "key"), GROUPS.values(), ids=GROUPS.keys())
def test_a_pod_of_a_group_is_refused(keys: Annotations, key: str, place: str, gpus: int) -> None:
    """The sentence names the key and where it stands, and says why; no node is asked."""
    about: dict[str, Any] = {f"{place}s": keys}

    assert pod_requests.faults(builders.pod(gpus=gpus, **about)) == [(UNSUPPORTED, f"{place} {key} {WHY}")]


@pytest.mark.parametrize("field", ["schedulingGroup", "workloadRef"])
def test_a_group_of_kubernetes_is_refused(field: str) -> None:
    """Its size stands in another object, so there is no telling whether it matters."""
    spec: dict[str, Any] = {field: {"podGroupName": "a", "more": {"b": [1]}}}

    assert pod_requests.faults(builders.pod(gpus=1, **spec)) == [(UNSUPPORTED, f"spec.{field} {WHY}")]


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({f"{KOORDINATOR}/name": "a", f"{KOORDINATOR}/min-available": "1"}, id="Koordinator"),
        pytest.param({f"{LIGHTWEIGHT}/name": "a", f"{LIGHTWEIGHT}/min-available": " 1 "}, id="coscheduling"),
        pytest.param({"scheduling.k8s.io/group-name": "a", f"{VOLCANO}/group-min-member": "1"}, id="Volcano"),
        pytest.param({"pod-group-name": "a", "kai.scheduler/batch-min-member": "1"}, id="KAI"),
        pytest.param({f"{VOLCANO}/group-min-member": "1"}, id="a number alone"),
        pytest.param({"scheduling.k8s.io/group-name": ""}, id="no name"),
        pytest.param({f"{VOLCANO}/queue-name": "q", "kai.scheduler/queue": "q"}, id="queues"),
        pytest.param(
            {
                "kueue.x-k8s.io/queue-name": "q",
                "kueue.x-k8s.io/managed": "true",
                "kueue.x-k8s.io/pod-group-name": "train",
                "kueue.x-k8s.io/pod-group-total-count": "4",
            },
            id="Kueue",
        ),
    ],
)
def test_a_pod_that_starts_alone_is_served(keys: Annotations) -> None:
    """A group of one is none, a queue is no group, and Kueue opens a group's gates when all may start."""
    assert pod_requests.faults(builders.pod(gpus=1, annotations=keys)) == []
    assert pod_requests.faults(builders.pod(gpus=1, labels=keys)) == []


def test_a_bound_pod_of_a_group_is_charged_as_any_other() -> None:
    """Somebody else bound it, or Berth did before: what it holds counts."""
    group: dict[str, Any] = {
        "annotations": {"pod-group-name": "train"},
        "schedulingGroup": {"podGroupName": "a"},
    }

    grouped, alone = (
        device_requests.amounts_request(builders.pod(gpus=1, nodeName="n1", **about)) for about in (group, {})
    )

    assert grouped == alone is not None
