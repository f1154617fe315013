"""A long pod is read as a short one is, and no value is made of what in it is not read."""

from collections.abc import Sequence
from typing import Any, Final
from unittest import mock

import msgspec
import pytest

from berth_crds import aliases, names
from berth_crds.client import decoding, watch
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import long_pods, pod_limits, pods, raw, resources
from support import builders

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
CARD: Final[dict[str, object]] = {names.NVIDIA_GPU: 1}
ELSEWHERE: Final = {"schedulerName": "another", "nodeName": "n1"}
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
EXISTS: Final = {"key": "zone", "operator": "Exists"}
WISH: Final = {"weight": 3, "preference": {"matchFields": [EXISTS]}}
MANY: Final = 40_000


def whole(spec: dict[str, Any], meta: dict[str, Any] | None = None) -> dict[str, Any]:
    """Write a pod that asks for a card."""
    usual = {"schedulerName": names.SCHEDULER_NAME, "containers": [builders.asking("c", CARD)]}
    named = {"name": "p", "namespace": "ml", "uid": "u", "resourceVersion": "7", "creationTimestamp": "now"}
    return {"metadata": named | (meta or {}), "spec": usual | spec, "status": {}}


def come(
    spec: dict[str, Any], meta: dict[str, Any] | None = None, kind: type[raw.Pod] = long_pods.Pod
) -> raw.Pod:
    """Read such a pod as a list shows it."""
    found = watch.Codec(kind).decode_object(msgspec.Raw(msgspec.json.encode(whole(spec, meta))))
    assert isinstance(found, raw.Pod), found
    return found


def required(terms: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Write an affinity to nodes."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}, **more}}


def ports(*numbers: int) -> list[dict[str, Any]]:
    """Write the ports of a container, of which some are ports of the node."""
    usual = {"containerPort": 1, "protocol": "UDP"}
    return [usual | ({"hostPort": number} if number else {}) for number in numbers]


SPECS: Final[dict[str, dict[str, Any]]] = {
    "nothing more": {},
    "a selector": {"nodeSelector": {"zone": "a"}},
    "an affinity": required([{"matchExpressions": [EXISTS]}, {"matchFields": [EXISTS]}]),
    "an affinity without terms": required([]),
    "preferences alone": {"affinity": {"nodeAffinity": {"preferred": []}, "podAffinity": {}}},
    "an affinity that is a wish": {"affinity": {"nodeAffinity": {PREFERRED: [WISH]}}},
    "a wish beside an affinity": {
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchFields": [EXISTS]}]},
                PREFERRED: [WISH],
            }
        }
    },
    "an image": {"containers": [builders.container(image="a:1")]},
    "an affinity to pods": {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "a"}]}}},
    "an affinity against pods": {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "a"}]}}},
    "an affinity to no pod": {"affinity": {"podAntiAffinity": {REQUIRED: []}}},
    "tolerations": {"tolerations": [{"operator": "Exists"}, {"key": "a", "effect": "NoExecute"}]},
    "volumes": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b"}]},
    "a claim": {"volumes": [{"name": "a"}, {"name": "b", "persistentVolumeClaim": {"claimName": "c"}}]},
    "a volume of its own": {"volumes": [{"name": "a", "ephemeral": {}}]},
    "the words for a claim": {
        "volumes": [{"name": "a", "csi": {"volumeAttributes": {"persistentVolumeClaim": "b"}}}]
    },
    "a spread": {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
    "a spread that is a wish": {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
    "restart rules": {
        "containers": [builders.container(restartPolicyRules=[{"action": "RestartAllContainers"}])]
    },
    "users of its own in the host's network": {"hostNetwork": True, "hostUsers": False},
    "a gate": {"schedulingGates": [{"name": "wait"}]},
    "no gate": {"schedulingGates": []},
    "a group": {"schedulingGroup": {"podGroupName": "g"}},
    "a workload": {"workloadRef": {"name": "w", "podGroup": "g"}},
    "claims of resources": {"resourceClaims": [{"name": "a"}]},
    "lists that are null": {"volumes": None, "tolerations": None, "schedulingGates": None},
    "an operating system": {"os": {"name": "windows"}},
    "a priority": {"priority": 5, "priorityClassName": "high"},
    "amounts of its own": {"resources": {"requests": {"cpu": "3"}}, "overhead": {"memory": "1Gi"}},
    "an init container": {
        "initContainers": [{**builders.asking("i", {"cpu": 1}), "restartPolicy": "Always"}]
    },
    "ports": {
        "containers": [
            {**builders.asking("c", CARD), "ports": ports(0, 80, 0)},
            {"name": "d", "ports": ports(81)},
        ]
    },
}
METAS: Final[dict[str, dict[str, Any]]] = {
    "labels": {"labels": {"a": "b", "genius/priority": "3"}},
    "annotations": {"annotations": {"a": "b", names.MODEL: "T4"}},
    "an unknown key of ours": {"annotations": {f"{names.GROUP}/modle": "T4"}},
    "a label of ours": {"labels": {"a": "b", names.MODEL: "T4", "genius/priority": "3"}},
    "an answer": {"annotations": {names.container_key("c", "uuids"): "GPU-1"}},
    "an end": {"deletionTimestamp": "now"},
    "null": {"labels": None, "annotations": None},
}
PODS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    **{name: (spec, {}) for name, spec in SPECS.items()},
    **{name: ({}, meta) for name, meta in METAS.items()},
}


@pytest.mark.parametrize(("spec", "meta"), PODS.values(), ids=PODS.keys())
@pytest.mark.parametrize("where", [{}, ELSEWHERE, {"nodeName": "n1"}], ids=["waits", "foreign", "bound"])
def test_a_long_pod_is_read_as_a_short_one(
    spec: dict[str, Any], meta: dict[str, Any], where: dict[str, Any]
) -> None:
    """Whatever it says within the limits means the same, however much else stands there that nobody reads."""
    short = come(spec | where, meta, raw.Pod)
    long = come(spec | where | {"hostname": "x" * decoding.LONG_BYTES}, meta)

    assert (short.length, long.length > decoding.LONG_BYTES) == (0, True)
    assert pods.classify(long) == pods.classify(short)
    assert [one.image for one in long.spec.containers] == [one.image for one in short.spec.containers]


TOO_LONG: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "terms": (required([{}] * 3 * MANY), "node affinity"),
    "expressions": (required([{"matchExpressions": [EXISTS] * MANY}]), "node affinity"),
    "tolerations": ({"tolerations": [{"key": "a"}] * MANY}, "tolerations"),
    "terms about pods to be near": (
        {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "a"}] * MANY}}},
        "pod affinity",
    ),
    "terms about pods to be far from": (
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "a"}] * MANY}}},
        "pod anti-affinity",
    ),
    "spread": (
        {"topologySpreadConstraints": [{"topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}] * MANY},
        "topology spread constraints",
    ),
    "labels of nodes": ({"nodeSelector": {f"key{at}": "" for at in range(MANY)}}, "node selector"),
}


NOTHING_READ: Final = {
    None,
    raw.Affinity(raw.NodeAffinity(raw.NodeSelector())),
    raw.Affinity(pod_affinity=raw.PodAffinity()),
    raw.Affinity(pod_anti_affinity=raw.PodAffinity((raw.PodAffinityTerm(raw.LabelSelector()),))),
}


@pytest.mark.parametrize(
    ("field", "selector"),
    [
        ({}, facts.PodSelector(("ml",), ())),
        (
            {"labelSelector": {"matchLabels": {"namespaces": "a", "namespaceSelector": "b"}}},
            facts.PodSelector(("ml",), ()),
        ),
        ({"namespaces": ["a"]}, facts.PodSelector((), (), ())),
        ({"namespaceSelector": {}}, facts.PodSelector((), (), ())),
    ],
    ids=["its own namespace", "labels called alike", "another by name", "others by labels"],
)
def test_a_very_long_anti_affinity_concerns_the_namespaces_that_it_may(
    field: dict[str, Any], selector: facts.PodSelector
) -> None:
    """None of its terms is read, but whether one names a namespace."""
    terms = [{"topologyKey": "a", "labelSelector": {}}] * MANY + [{"topologyKey": "a", **field}]

    found = come({"affinity": {"podAntiAffinity": {REQUIRED: terms}}} | ELSEWHERE)

    assert pods.read_bound(found).hold.anti_affinity == (facts.PodTerm(selector, ""),)


@pytest.mark.parametrize(("spec", "what"), TOO_LONG.values(), ids=TOO_LONG.keys())
def test_a_list_longer_than_any_within_the_limits(spec: dict[str, Any], what: str) -> None:
    """No value is made of it; a pod that waits is refused for it, and a foreign one is not yet charged."""
    waits, foreign = come(spec), come(spec | ELSEWHERE)

    assert [one.spec.unread_list for one in (waits, foreign)] == [what] * 2
    assert not waits.spec.node_selector
    assert not waits.spec.tolerations
    assert waits.spec.affinity in NOTHING_READ
    (fault,) = pods.pod_info(waits).faults
    assert fault.detail in {
        f"the pod says more in its {what} than Berth reads",
        f"the pod has more than {pod_limits.MAX_BYTES} bytes as an object; Berth binds none that has",
    }
    assert pods.read_bound(foreign).unadmitted_selection == facts.NOWHERE
    assert pods.read_bound(foreign).hold.withheld == 1


def test_lists_within_the_limits_are_short_enough_to_be_read() -> None:
    """Where each character takes as many bytes as it can, everything is still read."""
    each = (pod_limits.MAX_WHERE_TEXT - 8 * pod_limits.MAX_EXPRESSIONS) // pod_limits.MAX_VALUES
    values = ["<" * each] * (pod_limits.MAX_VALUES // pod_limits.MAX_EXPRESSIONS)
    terms = [
        {"matchExpressions": [{"key": "k", "operator": "In", "values": values}] * 4}
    ] * pod_limits.MAX_TERMS
    pod = msgspec.json.encode(whole({**ELSEWHERE, **required(terms)})).replace(b"<", rb"\u003c")

    found = watch.Codec(long_pods.Pod).decode_object(msgspec.Raw(pod))

    assert len(pod) > decoding.LONG_BYTES
    assert isinstance(found, raw.Pod)
    assert pod_limits.exceeded(found.spec) is None
    assert len(pods.read_bound(found).unadmitted_selection.affinity or ()) == pod_limits.MAX_TERMS  # type: ignore[union-attr]


def test_what_only_counts_as_there_or_not() -> None:
    """One of many is enough."""
    spec = {
        "schedulingGates": [{"name": f"g{at}"} for at in range(MANY)],
        "resourceClaims": [{"name": f"r{at}"} for at in range(MANY)],
        "volumes": [{"name": f"v{at}", "emptyDir": {}} for at in range(MANY)],
        "topologySpreadConstraints": [{"topologyKey": f"t{at}"} for at in range(MANY)],
    }

    found = come(spec).spec

    assert [len(one or ()) for one in (found.scheduling_gates, found.resource_claims)] == [1, 1]
    assert (found.volumes, found.topology_spread_constraints) == (None, None)


def test_ports_of_a_node_among_many_of_containers() -> None:
    """Only those of the node are read, and of very many the first."""
    some = {**builders.asking("c", CARD), "ports": ports(*[0] * MANY, 80, *[0] * MANY, 81)}
    many = {**builders.asking("c", CARD), "ports": ports(*range(1, MANY))}

    found = pods.read_bound(come(ELSEWHERE | {"containers": [some]}))
    first = pods.read_bound(come(ELSEWHERE | {"containers": [many]}))

    assert found.hold.host_ports == (facts.HostPort(80, "UDP"), facts.HostPort(81, "UDP"))
    assert [one.number for one in first.hold.host_ports] == list(range(1, pod_limits.MAX_BOUND_PORTS + 1))
    assert first.unadmitted_selection == facts.NOWHERE


@pytest.mark.parametrize("address", ["}", "{", "}{", '"hostPort":', '\\"', "]", ""])
def test_an_address_may_have_any_text(address: str) -> None:
    """The API server takes any, and a pod that cannot be read would withhold all cards of its node."""
    port = {"hostPort": 80, "containerPort": 1, "hostIP": address, "protocol": "TCP"}
    one = {**builders.asking("c", CARD), "ports": [*ports(*[0] * MANY), port]}

    found = come(ELSEWHERE | {"containers": [one]})

    assert [(one.host_port, one.host_ip) for one in found.spec.containers[0].ports or ()] == [(80, address)]


def test_labels_and_annotations_among_very_many() -> None:
    """Of annotations those that mean something are found; all labels are there, though too many."""
    key = next(one.key for one in aliases.OPTIONS if one.where is aliases.Where.LABEL)
    crowd = {f"key{at}": "" for at in range(MANY // 2)}
    meta = {"labels": {key: "3"}, "annotations": {names.MODEL: "T4"}}

    found = come({}, {name: crowd | some for name, some in meta.items()})

    assert found.metadata.labels == crowd | meta["labels"]
    noted = come({}, meta | {"annotations": crowd | meta["annotations"]})
    assert pods.classify(noted) == pods.classify(come({}, meta))


def test_only_containers_that_ask_for_devices_are_asked_for_them() -> None:
    """What thousands of others ask for is added up once, and not read as a request."""
    others = [builders.asking(f"o{at}", {"cpu": f"{at}m"}) for at in range(pod_limits.MAX_AMOUNTS // 2 - 1)]
    containers = [*others, builders.asking("c", CARD)]

    with mock.patch.object(resources, "of_container", wraps=resources.of_container) as read:
        found = pods.read_bound(come(ELSEWHERE | {"containers": containers}))

    asked = [call.args[0].name for call in read.call_args_list]
    assert found.hold.withheld == 1
    assert set(asked) <= {"c", "main"}
    assert len(asked) <= 3
