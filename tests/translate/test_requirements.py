"""What other projects' words require of a node, and Berth does not serve, is refused."""

import json
from typing import Any, Final

import pytest

from berth_crds import requirements
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import pods
from support import builders
from translate import pod_requests

KOORDINATOR: Final = "scheduling.koordinator.sh"
NUMA: Final = f"{KOORDINATOR}/numa-topology-spec"
CPUS: Final = f"{KOORDINATOR}/resource-spec"
RESERVED: Final = f"{KOORDINATOR}/reservation-affinity"
WHY: Final = "is required, which Berth does not serve"

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
    ("volcano.sh/numa-topology-policy", "single-numa-node", "single-numa-node"),
    ("volcano.sh/numa-topology-policy", "restricted", "restricted"),
    ("volcano.sh/network-topology-mode", "hard", "hard"),
    ("volcano.sh/card.name", "NVIDIA-A100", "NVIDIA-A100"),
    ("kai.scheduler/topology-required-placement", "rack", "rack"),
]


@pytest.mark.parametrize(("key", "text", "what"), REQUIRED)
def test_what_is_required_is_refused(key: str, text: str, what: str) -> None:
    """The sentence names the key and what it requires, whether the pod asks for a card or not."""
    for asking in (
        builders.pod(gpus=1, annotations={key: text}),
        builders.pod(annotations={key: text}),
    ):
        [(reason, sentence)] = pod_requests.faults(asking)
        assert reason is Reason.UNSUPPORTED_CONSTRAINT
        assert sentence.startswith(f"annotation {key}: {what}")
        assert WHY in sentence


def test_a_pool_of_nodes_is_refused_where_it_stands_as_a_label() -> None:
    """KAI reads it there alone."""
    key = "kai.scheduler/node-pool"

    [sentence] = pod_requests.sentences(builders.pod(gpus=1, labels={key: "a"}))

    assert sentence.startswith(f"label {key}: a {WHY}")
    assert pod_requests.faults(builders.pod(gpus=1, annotations={key: "a"})) == []


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
    found = pod_requests.faults(builders.pod(gpus=1, annotations={NUMA: text}))

    assert len(found) == (1 if text else 0)


@pytest.mark.parametrize("row", requirements.REQUIREMENTS, ids=lambda row: row.key)
def test_two_pods_that_differ_in_a_requirement_alone_are_read_apart(row: requirements.Requirement) -> None:
    """What is remembered of one pod is not taken for the other."""
    text = '{"a":"b"}' if row.fields else "a"
    about: dict[str, Any] = {f"{row.where}s": {row.key: text}}

    plain, wishing = pods.classify(builders.pod(gpus=1)), pods.classify(builders.pod(gpus=1, **about))

    assert isinstance(plain, pods.WaitingPod)
    assert isinstance(wishing, pods.WaitingPod)
    assert (len(plain.candidate.faults), len(wishing.candidate.faults)) == (0, 1)
