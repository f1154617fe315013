"""What a pod demands of its node is what Kubernetes' own scheduler would reckon."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import names
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import demands, raw
from support import builders
from translate import pod_requests

Container = dict[str, Any]


def asking(name: str, *, sidecar: bool = False, **requests: object) -> Container:
    """Return a container with these requests, which may be a sidecar."""
    lasting = {"restartPolicy": "Always"} if sidecar else {}
    return builders.asking(name, requests, **lasting)


def amounts(*containers: Container, init: tuple[Container, ...] = (), **spec: Any) -> dict[str, int]:
    """Read what a pod of these containers demands, but for its own place among the pods."""
    pod = builders.pod(containers=list(containers), initContainers=list(init), **spec)
    found = dict(demands.amounts(pod.spec))
    assert found.pop(facts.PODS) == 1
    return found


def test_containers_run_together() -> None:
    """The requests of all containers add up."""
    found = amounts(asking("a", cpu="100m", memory="1Gi"), asking("b", cpu=1))

    assert found == {"cpu": 1100, "memory": 2**30}


def test_limit_is_the_request_where_there_is_none() -> None:
    """A container that sets a limit alone requests as much; one that sets both requests what it says."""
    alone = builders.container("a", resources={"limits": {"cpu": 2, "memory": "1Gi"}})
    both = builders.container("b", resources={"limits": {"cpu": 2}, "requests": {"cpu": 1}})

    found = amounts(alone, both)

    assert found == {"cpu": 3000, "memory": 2**30}


@pytest.mark.parametrize(
    ("init", "containers", "cpu"),
    [
        pytest.param((asking("i", cpu=1),), (asking("a", cpu=2),), 2000, id="a small init container"),
        pytest.param((asking("i", cpu=3),), (asking("a", cpu=2),), 3000, id="a large init container"),
        pytest.param(
            (asking("i", cpu=3), asking("j", cpu=2)),
            (asking("a", cpu=1),),
            3000,
            id="init containers take turns",
        ),
        pytest.param(
            (asking("s", cpu=1, sidecar=True),),
            (asking("a", cpu=2),),
            3000,
            id="a sidecar stays beside the others",
        ),
        pytest.param(
            (asking("s", cpu=1, sidecar=True), asking("i", cpu=3)),
            (asking("a", cpu=2),),
            4000,
            id="an init container beside an earlier sidecar",
        ),
        pytest.param(
            (asking("i", cpu=3), asking("s", cpu=1, sidecar=True)),
            (asking("a", cpu=1),),
            3000,
            id="an init container before the sidecar",
        ),
        pytest.param(
            (asking("s", cpu=1, sidecar=True), asking("t", cpu=2, sidecar=True), asking("i", cpu=2)),
            (asking("a", cpu=1),),
            5000,
            id="two sidecars",
        ),
    ],
)
def test_init_containers_and_sidecars(
    init: tuple[Container, ...], containers: tuple[Container, ...], cpu: int
) -> None:
    """The most that is needed at any moment of the start and afterwards is demanded."""
    found = amounts(*containers, init=init)

    assert found == {"cpu": cpu}


def test_each_resource_has_its_own_peak() -> None:
    """Cpu may peak in an init container and memory in the others."""
    found = amounts(asking("a", cpu=1, memory="2Gi"), init=(asking("i", cpu=2, memory="1Gi"),))

    assert found == {"cpu": 2000, "memory": 2**31}


def test_overhead_comes_on_top() -> None:
    """What the sandbox costs is added to the containers, also to a resource they do not ask for."""
    found = amounts(asking("a", cpu=1), overhead={"cpu": "250m", "memory": "120Mi"})

    assert found == {"cpu": 1250, "memory": 120 * 2**20}


@pytest.mark.parametrize(
    ("whole", "found"),
    [
        pytest.param({"requests": {"cpu": 5}}, {"cpu": 5000, "memory": 2**30}, id="more than the containers"),
        pytest.param(
            {"requests": {"cpu": "500m"}}, {"cpu": 500, "memory": 2**30}, id="less than the containers"
        ),
        pytest.param({"requests": {"cpu": 0}}, {"memory": 2**30}, id="nothing, but said so"),
        pytest.param(
            {"limits": {"cpu": 5}}, {"cpu": 1000, "memory": 2**30}, id="a limit where containers ask"
        ),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"cpu": 1000, "memory": 2**30, "hugepages-2Mi": 2**22},
            id="a limit where no container asks",
        ),
        pytest.param(
            {"limits": {"cpu": 5, "memory": "8Gi"}, "requests": {"cpu": 4}},
            {"cpu": 4000, "memory": 2**30},
            id="requests go before limits",
        ),
        pytest.param(
            {"requests": {"ephemeral-storage": 7, "example.com/licence": 7}},
            {"cpu": 1000, "memory": 2**30},
            id="a resource that cannot be set for the whole",
        ),
        pytest.param({}, {"cpu": 1000, "memory": 2**30}, id="nothing set"),
    ],
)
def test_amounts_for_the_pod_as_a_whole(whole: dict[str, Any], found: dict[str, int]) -> None:
    """Cpu, memory and huge pages set for the pod take the place of the containers' sum."""
    assert amounts(asking("a", cpu=1, memory="1Gi"), resources=whole) == found


def test_overhead_comes_on_top_of_the_whole() -> None:
    """The pod's own amounts do not include the sandbox."""
    found = amounts(asking("a", cpu=1), resources={"requests": {"cpu": 2}}, overhead={"cpu": "250m"})

    assert found == {"cpu": 2250}


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        pytest.param("much", facts.LARGEST, id="a word"),
        pytest.param("", facts.LARGEST, id="nothing"),
        pytest.param("9E", facts.LARGEST, id="more than any node has"),
        pytest.param("-5", 0, id="less than nothing"),
    ],
)
def test_odd_amounts_are_never_in_the_pods_favour(value: str, amount: int) -> None:
    """What cannot be read is more than any node has; what is negative gives nothing back."""
    found = amounts(asking("a", memory=value))

    assert found.get("memory", 0) == amount


def test_sums_stay_within_bounds() -> None:
    """However many containers ask for the moon, the sum is a number that can be reckoned with."""
    greedy = [asking(f"c{at}", cpu="9E") for at in range(5)]

    found = amounts(*greedy, overhead={"cpu": "9E"})

    assert found == {"cpu": facts.LARGEST}


def test_names_that_berth_serves_are_kept_apart() -> None:
    """What the Device answers for is asked of the node only where it advertises it."""
    pod = builders.pod(
        gpus=2, initContainers=[builders.asking("i", {names.GPU: 100, "nvidia.com/mig-1g.5gb": 1})]
    )

    found = demands.demand(pod.spec)

    assert found.amounts == ((facts.PODS, 1),)
    assert found.served == ((names.GPU, 100), (names.NVIDIA_GPU, 2), ("nvidia.com/mig-1g.5gb", 1))


def test_names_of_other_projects_are_served_too() -> None:
    """A resource that stands for one of Berth's is the Device's to judge, whoever gave it its name."""
    pod = pod_requests.asking(
        {"nvidia.com/gpumem": 3000, "koordinator.sh/gpu-core": 5, "nvidia.com/priority": 1, "amd.com/gpu": 1}
    )

    found = demands.demand(pod.spec)

    assert found.amounts == (("amd.com/gpu", 1), (facts.PODS, 1))
    assert found.served == (
        ("koordinator.sh/gpu-core", 5),
        ("nvidia.com/gpumem", 3000),
        ("nvidia.com/priority", 1),
    )


def test_the_operating_system_is_asked_of_the_node() -> None:
    """A kubelet of another system would not admit the pod; who names it twice says it once."""
    label = "kubernetes.io/os"
    windows, linux = {"name": "windows"}, {"name": "linux"}

    def selector(**spec: Any) -> object:
        return demands.where(builders.pod(**spec).spec).selector

    assert selector(os=windows) == ((label, "windows"),)
    assert selector(os=linux, nodeSelector={"zone": "a", label: "linux"}) == ((label, "linux"), ("zone", "a"))
    assert selector(os=linux, nodeSelector={label: "windows"}) == ((label, "linux"), (label, "windows"))
    assert selector() == ()


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

    found = demands.where(pod.spec)

    zone = facts.LabelExpression("zone", "In", ("a", "b"))
    name = facts.LabelExpression("metadata.name", "NotIn", ("n9",))
    assert found == facts.Where(
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

    assert demands.where(pod.spec).affinity == found


CPUS = st.integers(0, 4000)


@pod_requests.PROPERTY
@hypothesis.given(
    init=st.lists(st.tuples(CPUS, st.booleans()), max_size=4),
    main=st.lists(CPUS, min_size=1, max_size=3),
    overhead=CPUS,
)
def test_second_opinion(init: list[tuple[int, bool]], main: list[int], overhead: int) -> None:
    """Walking through the pod's life moment by moment comes to the same peak."""
    containers = [asking(f"c{at}", cpu=f"{cpu}m") for at, cpu in enumerate(main)]
    early = tuple(asking(f"i{at}", cpu=f"{cpu}m", sidecar=stays) for at, (cpu, stays) in enumerate(init))

    found = amounts(*containers, init=early, overhead={"cpu": f"{overhead}m"})

    moments = [sum(cpu for cpu, stays in init[:at] if stays) + cpu for at, (cpu, _) in enumerate(init)]
    moments.append(sum(cpu for cpu, stays in init if stays) + sum(main))
    assert found.get("cpu", 0) == max(moments) + overhead


def test_resources_may_be_missing_everywhere() -> None:
    """A pod that asks for nothing demands its place among the pods alone."""
    assert demands.amounts(raw.PodSpec(containers=(raw.Container("a"),))) == ((facts.PODS, 1),)
