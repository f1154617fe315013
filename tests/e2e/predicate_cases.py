"""What Kubernetes' tests ask of filters, and of the scores that choose among what passes them."""

from typing import Any, Final

from berth_crds.client import resources
from e2e.kubernetes_bed import (
    PREFERRED,
    REQUIRED,
    SCARCE,
    Bed,
    Case,
    near,
    on_node,
    on_nodes,
    plain,
    spread,
    within,
)
from e2e.provisioner import HOST
from e2e.stage import Pod, Thing

RUNTIME_CLASSES: Final = resources.Resource(
    "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False
)
LIMIT_RANGES: Final = resources.Resource("", "v1", "limitranges", "LimitRange")
REPLICA_SETS: Final = resources.Resource("apps", "v1", "replicasets", "ReplicaSet")
ZONES: Final = {"a": "a", "b": "b", "c": "c"}

# ---------------------------------------------------------------- resources


async def ephemeral_storage(bed: Bed) -> None:
    """Ten pods of a tenth each fill a node."""
    [node] = await bed.nodes("full")
    size = {"ephemeral-storage": "10Gi"}
    await bed.stage.patch(
        resources.NODES, node, {"status": {"capacity": size, "allocatable": size}}, sub="status"
    )
    tenth = {"ephemeral-storage": "1Gi"}

    await bed.placed(*(plain(f"p{at}", tenth) for at in range(10)))
    await bed.waits(plain("more", tenth), "ephemeral-storage")


async def overhead(bed: Bed) -> None:
    """700 of 1000 are used; 200 and the 250 of the class are too many, 200 alone are not."""
    await bed.nodes("only", extended={SCARCE: 1000})
    costly = await bed.shared(
        RUNTIME_CLASSES, {"metadata": {}, "handler": "h", "overhead": {"podFixed": {SCARCE: "250"}}}
    )

    await bed.placed(plain("filler", {SCARCE: 700}))
    await bed.waits(plain("heavy", {SCARCE: 200}, runtimeClassName=costly), SCARCE)
    await bed.placed(plain("light", {SCARCE: 200}))


async def cpu(bed: Bed) -> None:
    """Each node has a pod of 70 %, and one of 50 % of the largest fits nowhere."""
    for name in await bed.nodes("a", "b", cpu="10"):
        await bed.goes_to(plain(f"filler-{name}", {"cpu": "7"}, affinity=on_nodes(HOST, name)), name)

    await bed.waits(plain("more", {"cpu": "5"}), "cpu")


async def count_of_pods(bed: Bed) -> None:
    """A node that takes three pods takes no fourth."""
    await bed.nodes("small", pods=3)

    await bed.placed(*(plain(f"p{at}") for at in range(3)))
    await bed.waits(plain("more"), "pods")


async def defaults(bed: Bed) -> None:
    """Pods that say nothing ask for what a LimitRange says, and are counted by that."""
    await bed.nodes("only", cpu="1")
    amounts = {"cpu": "500m", "memory": "500Mi"}
    limit = {"type": "Container", "default": amounts, "defaultRequest": {"cpu": "400m", "memory": "200Mi"}}
    await bed.own(LIMIT_RANGES, {"metadata": {"name": "limits"}, "spec": {"limits": [limit]}})

    async def in_force() -> bool:
        dry = plain("dry", schedulingGates=[{"name": "example.com/never"}])
        await bed.stage.create(dry)
        [container] = (await bed.stage.pods())["dry"]["spec"]["containers"]
        await bed.stage.delete("dry")
        await bed.stage.until_gone("dry")
        return bool(container["resources"].get("requests"))

    await bed.stage.until("the LimitRange to be in force", in_force)
    await bed.placed(plain("p1"), plain("p2"))
    await bed.waits(plain("more"), "cpu")


# ---------------------------------------------------------------- labels and taints


async def selector_of_no_node(bed: Bed) -> None:
    """Nobody has the label."""
    await bed.nodes("a", "b")

    await bed.waits(plain("p", nodeSelector={"label": "nonempty"}), "selector")


async def selector_of_one_node(bed: Bed) -> None:
    """A node gets a label, and the pod that asks for it goes there."""
    _, second = await bed.nodes("a", "b")
    await bed.label(second, **{"example.com/case": "42"})

    await bed.goes_to(plain("p", nodeSelector={"example.com/case": "42"}), second)


async def affinity_of_no_node(bed: Bed) -> None:
    """Two terms, of which no node meets one."""
    await bed.nodes("a", "b")
    terms = [{"matchExpressions": [within(key, "x", "y")]} for key in ("foo", "other")]

    pod = plain("p", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    await bed.waits(pod, "affinity")


async def affinity_of_one_node(bed: Bed) -> None:
    """A node gets a label, and the pod whose terms name it goes there."""
    _, second = await bed.nodes("a", "b")
    await bed.label(second, **{"example.com/case": "42"})

    await bed.goes_to(plain("p", affinity=on_nodes("example.com/case", "42")), second)


async def tolerated_taint(bed: Bed) -> None:
    """A pod that tolerates the taint goes to the node that it selects."""
    node, taint = await tainted(bed)
    toleration = {key: taint[key] for key in ("key", "value", "effect")}

    await bed.goes_to(plain("p", nodeSelector={HOST: node}, tolerations=[toleration]), node)


async def other_taint(bed: Bed) -> None:
    """A pod that does not tolerate it waits until it is gone."""
    node, taint = await tainted(bed)

    await bed.waits(plain("p", nodeSelector={HOST: node}), taint["key"])
    await bed.change(node, taints=None)
    assert await bed.bound("p") == {"p": node}
    said = f"Successfully assigned {bed.stage.namespace}/p to {node}"
    await bed.event("p", "Normal", "Scheduled", said)


async def tainted(bed: Bed) -> tuple[str, Thing]:
    """Taint one of two nodes."""
    _, node = await bed.nodes("a", "b")
    taint = {"key": "example.com/case", "value": "x", "effect": "NoSchedule"}
    await bed.change(node, taints=[taint])
    return node, taint


async def runtime_class(bed: Bed) -> None:
    """The class names labels and a taint, and pods that name the class go to the node that has them."""
    _, node = await bed.nodes("a", "b")
    taint = {"key": "example.com/runtime", "value": "x", "effect": "NoSchedule"}
    await bed.change(node, taints=[taint])
    await bed.label(node, **{"example.com/runtime": "x"})
    named = {"nodeSelector": {"example.com/runtime": "x"}, "tolerations": [taint]}
    sandboxed = await bed.shared(RUNTIME_CLASSES, {"metadata": {}, "handler": "h", "scheduling": named})

    await bed.goes_to(plain("p", runtimeClassName=sandboxed), node)


async def gates(bed: Bed) -> None:
    """Three pods with two gates each: taking one away is not enough."""
    await bed.nodes("a")
    names = [f"p{at}" for at in range(3)]
    both = [{"name": "example.com/foo"}, {"name": "example.com/bar"}]
    await bed.stage.create(*(plain(name, schedulingGates=both) for name in names))

    for left in (both, both[1:]):
        for name in names:
            await bed.stage.patch(resources.PODS, name, {"spec": {"schedulingGates": left}})
        await bed.placed(plain(f"meanwhile-{len(left)}"))
        assert not set(names) & set(await bed.stage.bound())
    for name in names:
        await bed.stage.patch(resources.PODS, name, {"spec": {"schedulingGates": None}})
    await bed.bound(*names)


# ---------------------------------------------------------------- host ports


def listening(name: str, node: str, address: str = "", protocol: str = "TCP") -> Pod:
    """Return a pod that listens on a port of a node."""
    pod = plain(name, nodeSelector={HOST: node})
    port = {"containerPort": 8080, "hostPort": 54321, "protocol": protocol}
    pod["spec"]["containers"][0]["ports"] = [port | ({"hostIP": address} if address else {})]
    return pod


async def different_ports(bed: Bed) -> None:
    """One port, but another address or another protocol each time."""
    [node] = await bed.nodes("a")
    for at, (address, protocol) in enumerate(
        (("127.0.0.1", "TCP"), ("10.0.0.7", "TCP"), ("10.0.0.7", "UDP"))
    ):
        await bed.goes_to(listening(f"p{at}", node, address, protocol), node)


async def same_port(bed: Bed) -> None:
    """The first listens on all addresses."""
    [node] = await bed.nodes("a")

    await bed.goes_to(listening("all", node), node)
    await bed.waits(listening("one", node, "10.0.0.7"), "port")


# ---------------------------------------------------------------- other pods


async def even_spread(bed: Bed) -> None:
    """The ReplicaSet's controller makes the pods, and they are two and two."""
    first, second = await bed.nodes("a", "b")
    await replicas(
        bed, 4, affinity=on_nodes(HOST, first, second), topologySpreadConstraints=spread("web", HOST)
    )

    assert sorted((await four(bed)).values()) == sorted([first, first, second, second])


async def replicas(bed: Bed, count: int, **spec: Any) -> None:
    """Make a ReplicaSet of an application."""
    pod = plain("unused", labels={"app": "web"}, **spec)
    body = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]},
        },
    }
    await bed.own(REPLICA_SETS, body)
    await bed.stage.until(f"{count} pods", lambda: has_pods(bed, count))


async def has_pods(bed: Bed, count: int) -> bool:
    """Whether so many pods are there."""
    return len(await bed.stage.pods()) == count


async def four(bed: Bed) -> dict[str, str]:
    """Wait until all pods have a node, and return their nodes."""
    return await bed.bound(*await bed.stage.pods())


async def near_pods(bed: Bed) -> None:
    """A pod goes to the zone of the pod that it means; one that means nobody waits."""
    first, second, _ = await bed.nodes("a", "b", "c", zones={"a": "x", "b": "x", "c": "y"})
    await bed.goes_to(plain("db", labels={"app": "db"}, affinity=on_node(first)), first)
    key = "topology.kubernetes.io/zone"

    for at in range(3):
        pod = plain(f"p{at}", affinity={"podAffinity": {REQUIRED: [near("db", key)]}})
        await bed.goes_to(pod, first, second)
    await bed.waits(plain("lonely", affinity={"podAffinity": {REQUIRED: [near("none", key)]}}), "affinity")


async def apart_from_pods(bed: Bed) -> None:
    """Pods that keep apart from each other are one on each node, and what they mean keeps away as well."""
    await bed.nodes("a", "b")
    apart = {"podAntiAffinity": {REQUIRED: [near("web")]}}

    nodes = await bed.placed(*(plain(name, labels={"app": "web"}, affinity=apart) for name in ("p", "q")))
    assert len(set(nodes.values())) == 2
    await bed.waits(plain("more", labels={"app": "web"}, affinity=apart), "anti-affinity")
    await bed.waits(plain("meant", labels={"app": "web"}), "anti-affinity")


async def preferably_apart(bed: Bed) -> None:
    """Of nodes that are equally full the pod takes the one without the pods that it would rather avoid."""
    first, second = await bed.nodes("a", "b")
    await bed.goes_to(plain("s1", labels={"app": "s1"}, affinity=on_node(first)), first)
    await bed.goes_to(plain("other", affinity=on_node(second)), second)

    term = {"weight": 10, "podAffinityTerm": near("s1")}
    await bed.goes_to(plain("p", affinity={"podAntiAffinity": {PREFERRED: [term]}}), second)


async def preferably_even(bed: Bed) -> None:
    """Four pods of the application are on the first node, and the fifth would rather be elsewhere."""
    first, second = await bed.nodes("a", "b")
    await bed.placed(*(plain(f"p{at}", labels={"app": "web"}, affinity=on_node(first)) for at in range(4)))
    await bed.placed(*(plain(f"o{at}", affinity=on_node(second)) for at in range(4)))

    spreading = spread("web", HOST, "ScheduleAnyway")
    await bed.goes_to(plain("last", labels={"app": "web"}, topologySpreadConstraints=spreading), second)


async def preferably_tolerated(bed: Bed) -> None:
    """Ten soft taints on each node, of which the pod tolerates those of the last one."""
    nodes = await bed.nodes("a", "b", "c")
    for node in nodes:
        soft = [{"key": f"{node}-{at}", "value": "x", "effect": "PreferNoSchedule"} for at in range(10)]
        await bed.change(node, taints=soft)

    await bed.goes_to(plain("p", tolerations=soft), node)


async def spread_by_default(bed: Bed) -> None:
    """Seven pods of a ReplicaSet that says nothing are evenly in three zones, one node each."""
    names = dict(zip("abc", await bed.nodes(*"abc", zones=ZONES), strict=True))
    await replicas(bed, 7)

    nodes = list((await four(bed)).values())
    counts = sorted(nodes.count(name) for name in names.values())
    assert counts == [2, 2, 3], nodes


CASES: Final[dict[str, Case]] = {
    "ephemeral storage that is used up": ephemeral_storage,
    "the overhead of a runtime class": overhead,
    "cpu that is used up": cpu,
    "as many pods as a node takes": count_of_pods,
    "the requests that a LimitRange gives": defaults,
    "a node selector that no node meets": selector_of_no_node,
    "a node selector that a node meets": selector_of_one_node,
    "required node affinity that no node meets": affinity_of_no_node,
    "required node affinity that a node meets": affinity_of_one_node,
    "a taint that the pod tolerates": tolerated_taint,
    "a taint that the pod does not tolerate": other_taint,
    "labels and taints that a runtime class names": runtime_class,
    "one host port for different addresses and protocols": different_ports,
    "a host port that is taken on all addresses": same_port,
    "pods with scheduling gates": gates,
    "four pods with maxSkew 1 on two nodes": even_spread,
    "required affinity to pods": near_pods,
    "required anti-affinity to pods": apart_from_pods,
    "preferred anti-affinity to pods": preferably_apart,
    "soft taints that the pod tolerates": preferably_tolerated,
    "spread that is only preferred": preferably_even,
    "pods that say nothing, spread over zones": spread_by_default,
}
