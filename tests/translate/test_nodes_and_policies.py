"""Nodes and policies as the core knows them."""

from typing import Any

import msgspec
import pytest

from berth_crds import names, wire
from berth_crds.vocabulary import MetricNames, Strategy
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Oversale, Policy, PreferenceWeights, Prometheus, Weights
from berth_operator.translate import nodes, policies, raw


def node(**body: Any) -> facts.Node:
    """Read a node."""
    return nodes.read(msgspec.convert({"metadata": {"name": "n1"}} | body, raw.Node))


def test_node_is_read_whole() -> None:
    """Labels, taints, cordon and all that it can give arrive in the core."""
    found = node(
        metadata={"name": "n1", "labels": {"zone": "a"}},
        spec={"unschedulable": True, "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
        status={"allocatable": {"pods": "110", "cpu": "7910m", "memory": "64Gi", "nvidia.com/gpu": 8}},
    )

    assert found == facts.Node(
        name="n1",
        labels={"zone": "a"},
        taints=(facts.Taint("gpu", "yes", "NoSchedule"),),
        unschedulable=True,
        allocatable=(("cpu", 7910), ("memory", 64 * 2**30), ("nvidia.com/gpu", 8), ("pods", 110)),
    )


def test_the_taint_of_a_silent_agent_is_none_of_a_nodes_taints() -> None:
    """Where it stands is kept; one of the same key with another effect is somebody else's."""
    others = [{"key": "a", "effect": "NoSchedule"}, {"key": names.AGENT_SILENT_TAINT, "effect": "NoExecute"}]
    ours = {"key": names.AGENT_SILENT_TAINT, "effect": "NoSchedule"}

    found = node(spec={"taints": [*others, ours]})
    unmarked = node(spec={"taints": others})

    assert (found.silent_taint, unmarked.silent_taint) == (2, None)
    assert found.taints == unmarked.taints
    assert [(one.key, one.effect) for one in found.taints] == [tuple(one.values()) for one in others]


def test_a_node_that_says_little() -> None:
    """One that has just come has nothing, and one that reports its conditions anew is the same."""
    noisy = {"conditions": [{"type": "Ready", "status": "True"}], "images": []}

    assert node() == node(status=noisy) == facts.Node("n1")


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        pytest.param("many", 0, id="a word"),
        pytest.param("-5", 0, id="less than nothing"),
        pytest.param("1.9", 1, id="a fraction"),
        pytest.param("9E", facts.LARGEST - 1, id="more than can be"),
    ],
)
def test_odd_supplies_promise_nothing(value: str, amount: int) -> None:
    """What a node cannot say plainly, it does not have."""
    found = node(status={"allocatable": {"pods": value}})

    assert found.allocatable == (("pods", amount),)


TOO_MUCH: dict[str, tuple[dict[str, Any], str]] = {
    "labels": ({"metadata": {"labels": dict.fromkeys(map(str, range(1025)), "")}}, "1025 labels"),
    "taints": ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 257}}, "257 taints"),
    "resources": ({"status": {"allocatable": dict.fromkeys(map(str, range(257)), 1)}}, "257 resources"),
    "text": ({"metadata": {"labels": {"a": "x" * 131_072}}}, "131073 characters in labels and taints"),
}


@pytest.mark.parametrize(("body", "what"), TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_a_node_that_says_too_much_is_told_what(body: dict[str, Any], what: str) -> None:
    """What is counted is labels, taints, resources, and the characters of it all."""
    meta = {"name": "n1"} | body.get("metadata", {})

    found = nodes.excess(msgspec.convert(body | {"metadata": meta}, raw.Node))

    assert found.startswith(f"it has {what}, and Berth reads ")
    assert nodes.excess(raw.Node(wire.Meta(name="n1"))) == ""


def prometheus(**rules: Any) -> dict[str, Any]:
    """Return the load rules of a policy that names Prometheus."""
    return {"load": {"source": "prometheus", "prometheus": rules}}


def rules(**spec: Any) -> Policy | str:
    """Read a policy."""
    body = {"metadata": {"name": "default"}, "spec": spec}
    return policies.read(msgspec.convert(body, wire.PlacementPolicy))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, policies.DEFAULT, id="nothing said, as without any policy"),
        pytest.param({"strategy": "spread"}, Policy(Strategy.SPREAD), id="a strategy"),
        pytest.param({"agents": {"graceSeconds": 5}}, Policy(grace_seconds=5.0), id="a grace period"),
        pytest.param(
            {"agents": {"unknownSeconds": 0}}, Policy(unknown_seconds=0.0), id="silence is reported at once"
        ),
        pytest.param({"agents": {"taint": True}}, Policy(taint_silent=True), id="a taint"),
        pytest.param(
            {"agents": {"evictAfterSeconds": 0}}, Policy(evict_after_seconds=0.0), id="evictions at once"
        ),
        pytest.param(
            {"agents": {"evictAfterSeconds": -1}},
            "spec.agents.evictAfterSeconds must not be negative, as -1 is",
            id="evictions before the silence",
        ),
        pytest.param(
            {"health": {"onSick": "evict"}}, Policy(evict_sick=True), id="evictions from sick cards"
        ),
        pytest.param(
            {"health": {"onSick": "kill"}},
            "spec.health.onSick 'kill' is not known (known: leave, evict)",
            id="an unknown word for sick cards",
        ),
        pytest.param({"onCordon": "drain"}, Policy(drain_cordoned=True), id="cordons that drain"),
        pytest.param(
            {"onCordon": "Drain"},
            "spec.onCordon 'Drain' is not known (known: stop, drain)",
            id="an unknown word for cordons",
        ),
        pytest.param({"weights": {"core": 3, "memory": 0}}, Policy(weights=Weights(3, 0)), id="weights"),
        pytest.param(
            {"weights": {"cards": 1, "cardMemory": 2, "utilization": 3, "encoder": 4}},
            Policy(weights=Weights(cards=1, card_memory=2, utilization=3, encoder=4)),
            id="weights of further points",
        ),
        pytest.param({"agents": {"loadSeconds": 60}}, Policy(load_seconds=60.0), id="an age of loads"),
        pytest.param(
            {"agents": {"loadSeconds": 0}},
            "spec.agents.loadSeconds must be positive, not 0",
            id="loads that never count",
        ),
        pytest.param({"load": {"source": "prometheus"}}, Policy(prometheus=Prometheus()), id="Prometheus"),
        pytest.param(
            prometheus(url="https://p:9090/x/", metrics="berth", intervalSeconds=5, maxAgeSeconds=6),
            Policy(
                prometheus=Prometheus(
                    "https://p:9090/x",
                    metrics=MetricNames.BERTH,
                    interval_seconds=5.0,
                    max_age_seconds=6.0,
                )
            ),
            id="Prometheus at an address",
        ),
        pytest.param(
            prometheus(namespace="gpu", serviceSelector="a=b"),
            Policy(prometheus=Prometheus(namespace="gpu", service_selector="a=b")),
            id="Prometheus behind a Service",
        ),
        pytest.param(
            {"load": {"prometheus": {"url": "http://p"}}}, policies.DEFAULT, id="Prometheus that is not used"
        ),
        pytest.param(
            {"load": {"source": "dcgm"}},
            "spec.load.source 'dcgm' is not known (known: agents, prometheus)",
            id="an unknown source of loads",
        ),
        pytest.param(
            prometheus(metrics="nvidia"),
            "spec.load.prometheus.metrics 'nvidia' is not known (known: dcgm, berth)",
            id="unknown names of metrics",
        ),
        pytest.param(
            prometheus(namespace="Gpu"),
            "spec.load.prometheus.namespace 'Gpu' is no name of a namespace",
            id="no namespace",
        ),
        pytest.param(
            prometheus(serviceSelector=" "),
            "spec.load.prometheus.serviceSelector must have from 1 to 256 characters, such as app=prometheus",
            id="a selector of all Services",
        ),
        pytest.param(
            prometheus(serviceSelector="a in ("),
            "spec.load.prometheus.serviceSelector 'a in (' is no selector of labels; "
            "write for instance app=prometheus",
            id="no selector",
        ),
        pytest.param(
            prometheus(intervalSeconds=60),
            "spec.load.prometheus.intervalSeconds must be positive and less than maxAgeSeconds, 60, not 60",
            id="loads that end before the next look",
        ),
        pytest.param(
            {"sharing": {"minMemoryMiB": 512}}, Policy(min_memory=512 * 2**20), id="the least memory"
        ),
        pytest.param(
            {"oversale": {"core": 150, "priorityClasses": ["batch", "spare"]}},
            Policy(oversale=Oversale(150, frozenset({"batch", "spare"}))),
            id="an oversale of core",
        ),
        pytest.param(
            {"oversale": {"core": 99, "priorityClasses": ["batch"]}},
            "spec.oversale.core must be from 100 to 1000 percent, not 99",
            id="less core than there is",
        ),
        pytest.param(
            {"oversale": {"core": 1001, "priorityClasses": ["batch"]}},
            "spec.oversale.core must be from 100 to 1000 percent, not 1001",
            id="more core than may be oversold",
        ),
        pytest.param(
            {"oversale": {"core": 150, "priorityClasses": []}},
            "spec.oversale.priorityClasses must name 1 to 16 PriorityClasses, not 0",
            id="an oversale to nobody",
        ),
        pytest.param(
            {"oversale": {"core": 150, "priorityClasses": [f"class-{at}" for at in range(17)]}},
            "spec.oversale.priorityClasses must name 1 to 16 PriorityClasses, not 17",
            id="an oversale to too many classes",
        ),
        pytest.param(
            {"oversale": {"core": 150, "priorityClasses": ["Batch!"]}},
            "spec.oversale.priorityClasses: 'Batch!' cannot be the name of a PriorityClass",
            id="an oversale to what is no class",
        ),
        pytest.param(
            {"podRecordsFrom": ["a", "b"]},
            Policy(pod_records_from=frozenset({"a", "b"})),
            id="schedulers whose records are believed",
        ),
        pytest.param(
            {"podRecordsFrom": []}, Policy(pod_records_from=frozenset()), id="no record is believed"
        ),
        pytest.param(
            {"podRecordsFrom": ["a", "b c"]},
            "spec.podRecordsFrom: 'b c' cannot be the name of a scheduler",
            id="what is no scheduler",
        ),
        pytest.param(
            {"podRecordsFrom": [f"s-{at}" for at in range(17)]},
            "spec.podRecordsFrom must name 16 schedulers at most, not 17",
            id="too many schedulers",
        ),
        pytest.param({"sharing": {"minMemoryMiB": 0}}, Policy(min_memory=0), id="any memory"),
        pytest.param(
            {"sharing": {"minMemoryMiB": 65537}},
            "spec.sharing.minMemoryMiB must be from 0 to 65536, not 65537",
            id="more memory than a policy may ask for",
        ),
        pytest.param(
            {"sharing": {"minMemoryMiB": -1}},
            "spec.sharing.minMemoryMiB must be from 0 to 65536, not -1",
            id="less memory than nothing",
        ),
        pytest.param(
            {"models": {"a100": "NVIDIA A100-SXM4-80GB", "A100": "Tesla T4"}},
            "spec.models: 'A100' and 'a100' are one name, which cannot stand for both 'Tesla T4' and "
            "'NVIDIA A100-SXM4-80GB'; keep one of them",
            id="one name of two models",
        ),
        pytest.param(
            {"models": {"big": "Tesla T4", "BIG ": "T4"}},
            Policy(models=(("big", "T4"), ("big", "Tesla T4"))),
            id="one name twice of one model",
        ),
        pytest.param(
            {"models": {" ": "z"}},
            "spec.models: ' ' for 'z': neither of the two names may be empty",
            id="no name",
        ),
        pytest.param(
            {"models": {"z": ""}},
            "spec.models: 'z' for '': neither of the two names may be empty",
            id="no model",
        ),
        pytest.param(
            {"models": {"c": "d", "d": "c"}},
            Policy(models=(("c", "d"), ("d", "c"))),
            id="two names that each stand for the other",
        ),
        pytest.param(
            {"weights": {"core": 0, "memory": 0}},
            "spec.weights must not be negative, and core or memory must be above 0",
            id="weights of nothing",
        ),
        pytest.param(
            {"weights": {"core": 0, "memory": 0, "utilization": 100}},
            "spec.weights must not be negative, and core or memory must be above 0",
            id="weights of load alone",
        ),
        pytest.param(
            {"preferences": {"nodeAffinity": 100, "strategyWithoutDevices": 0}},
            Policy(preferences=PreferenceWeights(node_affinity=100, strategy_without_devices=0)),
            id="weights of preferences",
        ),
        pytest.param(
            {"preferences": {"strategyWithoutDevices": 101}},
            "spec.preferences.strategyWithoutDevices must be from 0 to 100, not 101",
            id="a weight of a preference beyond the others",
        ),
        pytest.param(
            {"weights": {"core": -1}},
            "spec.weights must not be negative, and core or memory must be above 0",
            id="a negative weight",
        ),
        pytest.param(
            {"strategy": "magic"},
            "spec.strategy 'magic' is not known (known: fragmentation, binpack, spread, weighted)",
            id="an unknown strategy",
        ),
        pytest.param(
            {"agents": {"graceSeconds": 0}}, "spec.agents.graceSeconds must be positive, not 0", id="no grace"
        ),
        pytest.param(
            {"agents": {"graceSeconds": -1}},
            "spec.agents.graceSeconds must be positive, not -1",
            id="less than no grace",
        ),
        pytest.param(
            {"agents": {"unknownSeconds": -1}},
            "spec.agents.unknownSeconds must not be negative, as -1 is",
            id="unknown for less than no time",
        ),
    ],
)
def test_policy(spec: dict[str, Any], expected: Policy | str) -> None:
    """A policy is taken, or comes back with the reason why it cannot be in force."""
    assert rules(**spec) == expected


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "graceSeconds 1 nodes may be closed"), (15, "15"), (40, "")]
)
def test_a_grace_period_that_agents_cannot_keep_is_remarked(seconds: int, words: str) -> None:
    """Such a policy is in force as it was written, and says what comes of it."""
    warning = policies.warning(Policy(grace_seconds=seconds))

    assert words in warning
    assert bool(warning) is bool(words)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("prometheus:9090", "is no address; write for instance http://prometheus-server.monitoring.svc"),
        ("http://", "is no address; write for instance http://prometheus-server.monitoring.svc"),
        ("http://p:port", "is no address; write for instance http://prometheus-server.monitoring.svc"),
        ("http://p:0", "is no address; write for instance http://prometheus-server.monitoring.svc"),
        ("http://p/a b", "is no address; write for instance http://prometheus-server.monitoring.svc"),
        ("http://p/\n", "is no address; write for instance http://prometheus-server.monitoring.svc"),
        ("http://[::1", "is no address; write for instance http://prometheus-server.monitoring.svc"),
        ("file://host/etc/passwd", "begins with 'file'; only http:// and https:// are asked"),
        ("HTTP://p", "begins with 'HTTP'; only http:// and https:// are asked"),
        ("ftp://p", "begins with 'ftp'; only http:// and https:// are asked"),
        (
            "https://me:secret@p",
            "has credentials, which a policy would show to many; use --prometheus-token-file",
        ),
        ("http://p/?a=b", "has a query or a fragment; write only the address and the path before /api/v1"),
        ("http://p/#a", "has a query or a fragment; write only the address and the path before /api/v1"),
        ("http://" + "p" * 506, "has 513 characters; 512 are the most"),
    ],
)
def test_an_address_that_is_not_asked(url: str, why: str) -> None:
    """The sentence says what to write, and does not repeat what may be secret."""
    assert rules(**prometheus(url=url)) == f"spec.load.prometheus.url {why}"


@pytest.mark.parametrize(
    "url", ["http://p", "https://p", "http://[::1]:9090/prefix/", "http://10.0.0.1:9090"]
)
def test_an_address_that_is_asked(url: str) -> None:
    """With a path or without."""
    found = rules(**prometheus(url=url))

    assert isinstance(found, Policy)
    assert found.prometheus is not None
    assert found.prometheus.url == url.rstrip("/")
