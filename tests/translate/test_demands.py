"""What a pod demands of its node is what Kubernetes' own scheduler would reckon."""

from collections.abc import Mapping, Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import names
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import demands, pod_limits, pods, raw
from support import builders
from translate import pod_requests

Container = dict[str, Any]


def asking(name: str, *, sidecar: bool = False, **requests: object) -> Container:
    """Return a container with these requests, which may be a sidecar."""
    lasting = {"restartPolicy": "Always"} if sidecar else {}
    return builders.asking(name, requests, **lasting)


def amounts(init: Sequence[Container] = (), **spec: Any) -> dict[str, int]:
    """Read what a pod of these containers demands, but for its own place among the pods."""
    found = dict(demands.amounts(builders.pod(initContainers=list(init), **spec).spec))
    assert found.pop(facts.PODS) == 1
    return found


def limited(name: str, **resources: Mapping[str, object]) -> Container:
    """Return a container with these limits and requests."""
    return builders.container(name, resources=resources)


def starting(main: Sequence[object], *init: Container) -> dict[str, Any]:
    """Return a pod whose containers request so many cpus, and what runs before them."""
    return {"containers": [asking(f"a{at}", cpu=cpu) for at, cpu in enumerate(main)], "init": init}


def as_a_whole(**resources: Mapping[str, object]) -> dict[str, Any]:
    """Return a pod that sets amounts for itself; its container requests a cpu and a GiB."""
    return {"containers": [asking("a", cpu=1, memory="1Gi")], "resources": resources}


GIB = 2**30
SIDECAR = asking("s", cpu=1, sidecar=True)
AMOUNTS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "containers run together": (
        {"containers": [asking("a", cpu="100m", memory="1Gi"), asking("b", cpu=1)]},
        {"cpu": 1100, "memory": GIB},
    ),
    "a limit is the request where there is none": (
        {
            "containers": [
                limited("a", limits={"cpu": 2, "memory": "1Gi"}),
                limited("b", limits={"cpu": 2}, requests={"cpu": 1}),
            ]
        },
        {"cpu": 3000, "memory": GIB},
    ),
    "a small init container": (starting([2], asking("i", cpu=1)), {"cpu": 2000}),
    "a large init container": (starting([2], asking("i", cpu=3)), {"cpu": 3000}),
    "init containers take turns": (starting([1], asking("i", cpu=3), asking("j", cpu=2)), {"cpu": 3000}),
    "a sidecar stays beside the others": (starting([2], SIDECAR), {"cpu": 3000}),
    "an init container beside an earlier sidecar": (
        starting([2], SIDECAR, asking("i", cpu=3)),
        {"cpu": 4000},
    ),
    "an init container before the sidecar": (starting([1], asking("i", cpu=3), SIDECAR), {"cpu": 3000}),
    "two sidecars": (
        starting([1], SIDECAR, asking("t", cpu=2, sidecar=True), asking("i", cpu=2)),
        {"cpu": 5000},
    ),
    "each resource has its own peak": (
        {"containers": [asking("a", cpu=1, memory="2Gi")], "init": [asking("i", cpu=2, memory="1Gi")]},
        {"cpu": 2000, "memory": 2 * GIB},
    ),
    "overhead comes on top, also of what no container asks for": (
        starting([1]) | {"overhead": {"cpu": "250m", "memory": "120Mi"}},
        {"cpu": 1250, "memory": 120 * 2**20},
    ),
    "of the whole, more than the containers": (
        as_a_whole(requests={"cpu": 5}),
        {"cpu": 5000, "memory": GIB},
    ),
    "of the whole, less than the containers": (
        as_a_whole(requests={"cpu": "500m"}),
        {"cpu": 500, "memory": GIB},
    ),
    "of the whole, nothing, but said so": (as_a_whole(requests={"cpu": 0}), {"memory": GIB}),
    "of the whole, a limit where containers ask": (
        as_a_whole(limits={"cpu": 5}),
        {"cpu": 1000, "memory": GIB},
    ),
    "of the whole, a limit where no container asks": (
        as_a_whole(limits={"hugepages-2Mi": "4Mi"}),
        {"cpu": 1000, "memory": GIB, "hugepages-2Mi": 2**22},
    ),
    "of the whole, requests go before limits": (
        as_a_whole(limits={"cpu": 5, "memory": "8Gi"}, requests={"cpu": 4}),
        {"cpu": 4000, "memory": GIB},
    ),
    "of the whole, a resource that cannot be set": (
        as_a_whole(requests={"ephemeral-storage": 7, "example.com/licence": 7}),
        {"cpu": 1000, "memory": GIB},
    ),
    "of the whole, nothing set": (as_a_whole(), {"cpu": 1000, "memory": GIB}),
    "of the whole, with overhead": (
        as_a_whole(requests={"cpu": 2}) | {"overhead": {"cpu": "250m"}},
        {"cpu": 2250, "memory": GIB},
    ),
    "a word": (starting(["much"]), {"cpu": facts.LARGEST}),
    "an empty word": (starting([""]), {"cpu": facts.LARGEST}),
    "more than any node has": (
        starting(["9E"] * 5) | {"overhead": {"cpu": "9E"}},
        {"cpu": facts.LARGEST},
    ),
    "less than nothing": (starting(["-5"]), {}),
    "nothing": ({"containers": [{"name": "a"}]}, {}),
}


@pytest.mark.parametrize(("spec", "expected"), AMOUNTS.values(), ids=AMOUNTS.keys())
def test_the_most_that_is_needed_at_any_moment_is_demanded(
    spec: dict[str, Any], expected: dict[str, int]
) -> None:
    """Of each resource; what cannot be read is more than any node has, and sums stay within bounds."""
    assert amounts(**spec) == expected


CPUS = st.integers(0, 4000)


@pod_requests.PROPERTY
@hypothesis.given(
    init=st.lists(st.tuples(CPUS, st.booleans()), max_size=4),
    main=st.lists(CPUS, min_size=1, max_size=3),
    overhead=CPUS,
)
def test_second_opinion(init: list[tuple[int, bool]], main: list[int], overhead: int) -> None:
    """Walking through the pod's life moment by moment comes to the same peak."""
    early = [asking(f"i{at}", cpu=f"{cpu}m", sidecar=stays) for at, (cpu, stays) in enumerate(init)]

    found = amounts(**starting([f"{cpu}m" for cpu in main], *early), overhead={"cpu": f"{overhead}m"})

    moments = [sum(cpu for cpu, stays in init[:at] if stays) + cpu for at, (cpu, _) in enumerate(init)]
    moments.append(sum(cpu for cpu, stays in init if stays) + sum(main))
    assert found.get("cpu", 0) == max(moments) + overhead


SERVED: dict[str, tuple[raw.Pod, facts.Amounts, facts.Amounts]] = {
    "Berth's own": (
        builders.pod(
            gpus=2, initContainers=[builders.asking("i", {names.GPU: 100, "nvidia.com/mig-1g.5gb": 1})]
        ),
        ((facts.PODS, 1),),
        ((names.GPU, 100), (names.NVIDIA_GPU, 2), ("nvidia.com/mig-1g.5gb", 1)),
    ),
    "of other projects": (
        pod_requests.asking(
            {
                "nvidia.com/gpumem": 3000,
                "koordinator.sh/gpu-core": 5,
                "nvidia.com/priority": 1,
                "amd.com/gpu": 1,
            }
        ),
        (("amd.com/gpu", 1), (facts.PODS, 1)),
        (("koordinator.sh/gpu-core", 5), ("nvidia.com/gpumem", 3000), ("nvidia.com/priority", 1)),
    ),
    **{
        f"KubeGPU's word for the best joined cards, {key}": (
            pod_requests.asking({"alpha.gpu/numgpu": 2, key: 1}),
            ((facts.PODS, 1),),
            tuple(sorted({"alpha.gpu/numgpu": 2, key: 1}.items())),
        )
        for key in ("alpha.gpu/gpu-generate-topology", "gpu/gpu-generate-topology")
    },
}


@pytest.mark.parametrize(("pod", "own", "served"), SERVED.values(), ids=SERVED.keys())
def test_names_that_berth_serves_are_kept_apart(
    pod: raw.Pod, own: facts.Amounts, served: facts.Amounts
) -> None:
    """What the Device answers for is asked of the node only where it advertises it, whoever named it."""
    found = demands.demand(pod.spec)

    assert (found.amounts, found.device_resources) == (own, served)


OS = "kubernetes.io/os"
LINUX, WINDOWS = {"os": {"name": "linux"}}, {"os": {"name": "windows"}}


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        (WINDOWS, ((OS, "windows"),)),
        (LINUX | {"nodeSelector": {"zone": "a", OS: "linux"}}, ((OS, "linux"), ("zone", "a"))),
        (LINUX | {"nodeSelector": {OS: "windows"}}, ((OS, "linux"), (OS, "windows"))),
        ({}, ()),
    ],
)
def test_the_operating_system_is_asked_of_the_node(spec: dict[str, Any], selector: object) -> None:
    """A kubelet of another system would not admit the pod; who names it twice says it once."""
    assert demands.node_selection(builders.pod(**spec).spec).selector == selector


def test_host_ports_are_those_of_what_keeps_running() -> None:
    """An init container ends before its port matters; every address is written in several ways."""
    spec = builders.pod(
        initContainers=[
            builders.container("i", ports=[{"hostPort": 1}]),
            builders.container("s", restartPolicy="Always", ports=[{"hostPort": 2, "hostIP": "0.0.0.0"}]),
        ],
        containers=[
            builders.container(
                ports=[
                    {"containerPort": 3},
                    {"hostPort": 4, "protocol": "UDP", "hostIP": "10.0.0.1"},
                ]
            )
        ],
    ).spec

    assert demands.demand(spec).host_ports == (
        facts.HostPort(2),
        facts.HostPort(4, "UDP", "10.0.0.1"),
    )


def preferring(*terms: tuple[int, dict[str, Any]]) -> tuple[facts.PreferredTerm, ...]:
    """Read the preferred node affinity of a pod: weights and terms."""
    written = [{"weight": weight, "preference": term} for weight, term in terms]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": written}}
    return demands.demand(builders.pod(affinity=affinity).spec).preferred


def test_what_is_preferred_is_read() -> None:
    """Terms with their weights, in order; those that no node can meet are left out."""
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["n9"]}

    found = preferring((7, {"matchExpressions": [expression]}), (5, {}), (9, {"matchFields": [field]}))

    zone = facts.LabelExpression("zone", "In", ("a", "b"))
    name = facts.LabelExpression("metadata.name", "In", ("n9",))
    assert found == (
        facts.PreferredTerm(7, facts.Term((zone,))),
        facts.PreferredTerm(9, facts.Term(fields=(name,))),
    )


EXISTS = {"key": "a", "operator": "Exists"}


@pytest.mark.parametrize(
    ("term", "count"),
    [
        pytest.param({"matchExpressions": [EXISTS]}, 64, id="terms"),
        pytest.param({"matchExpressions": [EXISTS] * 100}, 2, id="expressions"),
        pytest.param({"matchExpressions": [EXISTS | {"values": ["a"] * 500}]}, 2, id="values"),
        pytest.param({"matchExpressions": [EXISTS | {"values": ["a" * 9000]}]}, 3, id="characters"),
    ],
)
def test_what_is_preferred_beyond_the_limits_is_passed_over(term: dict[str, Any], count: int) -> None:
    """The first terms count, as far as the limits of required ones reach; the pod is not refused."""
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}] * 99}

    found = pods.pod_info(builders.pod(gpus=1, affinity={"nodeAffinity": affinity}))

    assert (len(found.demand.preferred), found.faults) == (count, ())


def test_what_is_required_leaves_the_rest_of_the_limits_to_what_is_preferred() -> None:
    """Terms of both kinds count together."""
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    required = {"nodeSelectorTerms": [term] * (pod_limits.MAX_TERMS - 2)}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}] * 5,
    }

    found = demands.demand(builders.pod(affinity={"nodeAffinity": affinity}).spec)

    assert len(found.preferred) == 2


def test_where_is_read_whole() -> None:
    """Selector, required affinity and tolerations arrive in the core as they were written."""
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}
    term = {"matchExpressions": [expression], "matchFields": [field]}
    pod = builders.pod(
        nodeSelector={"b": "2", "a": "1"},
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, {}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
            }
        },
        tolerations=[
            {"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5},
            {},
        ],
    )

    found = demands.node_selection(pod.spec)

    zone = facts.LabelExpression("zone", "In", ("a", "b"))
    name = facts.LabelExpression("metadata.name", "NotIn", ("n9",))
    assert found == facts.NodeSelection(
        selector=(("a", "1"), ("b", "2")),
        affinity=(facts.Term((zone,), (name,)), facts.Term()),
        tolerations=(facts.Toleration("gpu", "Exists", "", "NoSchedule"), facts.Toleration(operator="")),
    )


@pytest.mark.parametrize(
    ("affinity", "found"),
    [
        pytest.param(None, None, id="no affinity"),
        pytest.param({}, None, id="an empty affinity"),
        pytest.param({"nodeAffinity": {}}, None, id="no requirement"),
        pytest.param(
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
            (),
            id="a requirement without terms, which nothing meets",
        ),
    ],
)
def test_absent_affinity(affinity: Any, found: object) -> None:
    """No requirement accepts every node; one without terms accepts none."""
    pod = builders.pod(affinity=affinity)

    assert demands.node_selection(pod.spec).affinity == found
