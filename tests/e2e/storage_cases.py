"""What Kubernetes' tests of storage ask of a scheduler: where pods with claims go."""

import functools
from typing import Any, Final

from berth_crds.client import resources
from e2e.kubernetes_bed import REQUIRED, Bed, Case, Missed, near, on_nodes, plain
from e2e.provisioner import CLAIMS, HOST
from e2e.stage import Pod, Thing
from support import storage

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
STATEFUL_SETS: Final = resources.Resource("apps", "v1", "statefulsets", "StatefulSet")
ZONES: Final = {"a": "a", "b": "b", "c": "c"}


def using(name: str, *claims: str, **spec: Any) -> Pod:
    """Return a pod without cards that uses these claims."""
    return plain(name, volumes=storage.using(*claims or ("data",)), **spec)


async def bound_claim(bed: Bed, labels: dict[str, str], name: str = "data", **fields: Any) -> None:
    """Make a volume that nodes with these labels can reach, and a claim that is bound to it."""
    volume = await bed.storage.volume(labels)
    await bed.storage.claim(name, volume=volume, **fields)
    await bed.storage.bound(name)


# ---------------------------------------------------------------- volumes that are there


async def volume_elsewhere(bed: Bed, *, by_selector: bool = False) -> None:
    """The volume is on one node, and the pod asks for the other."""
    first, second = await bed.nodes("a", "b")
    await bed.storage.start(NO_PROVISIONER, volumeBindingMode="Immediate")
    await bound_claim(bed, {HOST: first})

    where: Thing = {"nodeSelector": {HOST: second}} if by_selector else {"affinity": on_nodes(HOST, second)}
    await bed.waits(using("p", **where), "node affinity of the volume")


async def volume_of_missing_nodes(bed: Bed) -> None:
    """The volume names three nodes, of which one exists."""
    _, node = await bed.nodes("a", "b")
    await bed.storage.start(NO_PROVISIONER)
    body = storage.volume(f"{bed.storage.name}-v", bed.storage.name, {})
    body["spec"]["nodeAffinity"] = on_nodes(HOST, node, "ghost-1", "ghost-2")["nodeAffinity"]
    required = body["spec"]["nodeAffinity"].pop(REQUIRED)
    body["spec"]["nodeAffinity"] = {"required": required}
    await bed.shared(resources.VOLUMES, body)
    await bed.storage.claim(volume=body["metadata"]["name"])

    await bed.goes_to(using("p"), node)


async def shared_volume(bed: Bed) -> None:
    """Five pods use one claim, and all are where its volume is."""
    _, node = await bed.nodes("a", "b")
    await bed.storage.start(NO_PROVISIONER)
    await bed.storage.volume({HOST: node})
    await bed.storage.claim()

    nodes = await bed.placed(*(using(f"p{at}") for at in range(5)))
    if set(nodes.values()) != {node}:
        raise Missed(f"pods are not where their volume is: {nodes}")


async def zones_of_volumes(bed: Bed) -> None:
    """Each pod goes to the zone of its volume."""
    names = dict(zip("abc", await bed.nodes(*"abc", zones=ZONES), strict=True))
    await bed.storage.start(NO_PROVISIONER, volumeBindingMode="Immediate")

    for at, zone in enumerate("cabbc"):
        await bound_claim(bed, {storage.ZONE: zone}, f"data-{at}")
        await bed.goes_to(using(f"p{at}", f"data-{at}"), names[zone])


async def one_pod_at_a_time(bed: Bed) -> None:
    """A second pod waits for a claim that may have one pod alone, on the same node as elsewhere."""
    await bed.nodes("a", "b")
    await alone(bed)

    await bed.placed(using("first"))
    await bed.waits(using("second"), "ReadWriteOncePod")
    await bed.stage.delete("first")
    await bed.bound("second")


async def alone(bed: Bed) -> None:
    """Make a claim that one pod may use at a time, and its volume."""
    await bed.storage.start(NO_PROVISIONER, volumeBindingMode="Immediate")
    modes = ("ReadWriteOncePod",)
    body = storage.volume(f"{bed.storage.name}-v", bed.storage.name, {"kubernetes.io/os": "linux"})
    body["spec"]["accessModes"] = list(modes)
    await bed.shared(resources.VOLUMES, body)
    await bed.storage.claim(volume=body["metadata"]["name"], modes=modes)
    await bed.storage.bound()


async def claim_that_goes(bed: Bed) -> None:
    """A claim is deleted while a pod uses it, and a second pod does not get it."""
    [node] = await bed.nodes("a")
    await bed.storage.start(NO_PROVISIONER, volumeBindingMode="Immediate")
    await bound_claim(bed, {HOST: node})
    await bed.goes_to(using("first"), node)
    await bed.stage.admin.delete(CLAIMS, "data", namespace=bed.stage.namespace)
    assert "deletionTimestamp" in (await bed.storage.read())["metadata"]

    await bed.waits(using("second"), "is being deleted")


async def attach_limit(bed: Bed) -> None:
    """A driver attaches two volumes to a node, and the pod with a third one waits."""
    [node] = await bed.nodes("a")
    driver = await bed.shared(resources.CSI_DRIVERS, {"metadata": {}, "spec": {}})
    limits = {"name": driver, "nodeID": node, "topologyKeys": [], "allocatable": {"count": 2}}
    await bed.shared(resources.CSI_NODES, {"metadata": {"name": node}, "spec": {"drivers": [limits]}})
    await bed.storage.start(driver, volumeBindingMode="Immediate")
    for at in range(3):
        body = storage.volume(f"{bed.storage.name}-{at}", bed.storage.name, {HOST: node})
        del body["spec"]["local"]
        body["spec"]["csi"] = {"driver": driver, "volumeHandle": f"handle-{at}"}
        await bed.shared(resources.VOLUMES, body)
        await bed.storage.claim(f"data-{at}", volume=body["metadata"]["name"])
        await bed.storage.bound(f"data-{at}")

    await bed.placed(using("p0", "data-0"), using("p1", "data-1"))
    await bed.waits(using("p2", "data-2"), "volume")
    await bed.stage.delete("p0")
    await bed.bound("p2")


# ---------------------------------------------------------------- volumes that are made


async def made_for_first_pod(bed: Bed) -> None:
    """Two claims of one pod get a node when the pod is there, the same, and the pod goes there."""
    await bed.nodes("a", "b", zones=ZONES)
    await bed.storage.start()
    for claim in ("data", "logs"):
        await bed.storage.claim(claim)
    await bed.stage.create(using("p", "data", "logs"))

    nodes = [await bed.storage.provide(claim) for claim in ("data", "logs")]
    found = await bed.bound("p")
    if nodes != [found["p"]] * 2:
        raise Missed(f"the pod is on {found}, its volumes were made for {nodes}")


async def ephemeral_claim(bed: Bed) -> None:
    """The claim is made for the pod, and its volume on the pod's node."""
    await bed.nodes("a", "b")
    await bed.storage.start()
    template = {"spec": storage.claim("x", bed.storage.name)["spec"]}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    await bed.stage.create(plain("p", volumes=volumes))

    async def made() -> bool:
        path = CLAIMS.path(namespace=bed.stage.namespace)
        return b"p-scratch" in await bed.stage.admin.send("GET", path)

    await bed.stage.until("the claim to be made", made)
    node = await bed.storage.provide("p-scratch")
    assert await bed.bound("p") == {"p": node}


async def allowed_topologies(bed: Bed) -> None:
    """The class allows one zone, and the pod goes there."""
    _, node = await bed.nodes("a", "b", zones=ZONES)
    await only_in_zone_b(bed)
    await bed.stage.create(using("p"))

    assert await bed.storage.provide() == node
    assert await bed.bound("p") == {"p": node}


async def other_topologies(bed: Bed) -> None:
    """The class allows one zone, and the pod asks for another."""
    await bed.nodes("a", "b", zones=ZONES)
    await only_in_zone_b(bed)

    await bed.waits(using("p", nodeSelector={storage.ZONE: "a"}), "data")


async def only_in_zone_b(bed: Bed) -> None:
    """Make a claim of a class whose volumes can be made in one zone."""
    allowed = {"matchLabelExpressions": [{"key": storage.ZONE, "values": ["b"]}]}
    await bed.storage.start(allowedTopologies=[allowed])
    await bed.storage.claim()


async def capacity(bed: Bed, *, counts: bool, reported: str = "", enough: bool = True) -> None:
    """A driver says, or does not, how much it can make; the claim asks for 1Gi."""
    [node] = await bed.nodes("a")
    driver = await bed.shared(resources.CSI_DRIVERS, {"metadata": {}, "spec": {"storageCapacity": counts}})
    await bed.storage.start(driver)
    await bed.storage.claim()
    if reported:
        where = {"storageClassName": bed.storage.name, "nodeTopology": {"matchLabels": {HOST: node}}}
        await bed.own(resources.CAPACITIES, {"metadata": {"name": "c"}, "capacity": reported} | where)

    if enough:
        await bed.stage.create(using("p"))
        await bed.storage.provide()
        assert await bed.bound("p") == {"p": node}
    else:
        await bed.waits(using("p"), "storage")


# ---------------------------------------------------------------- StatefulSets with local volumes


async def stateful_set(bed: Bed, *, kind: str, policy: str) -> None:
    """Three pods with two claims each, together or apart; each node has volumes for all."""
    nodes = await bed.nodes(*"abc")
    await bed.storage.start(NO_PROVISIONER)
    for node in nodes:
        for _ in range(6):
            await bed.storage.volume({HOST: node})
    templates = [storage.claim(name, bed.storage.name) for name in ("one", "two")]
    pod = plain("unused", affinity={kind: {REQUIRED: [near("db")]}})
    body = {
        "serviceName": "db",
        "replicas": 3,
        "podManagementPolicy": policy,
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": pod["spec"]},
        "volumeClaimTemplates": templates,
    }
    await bed.own(STATEFUL_SETS, {"metadata": {"name": "db"}, "spec": body})

    found = await all_of_set(bed)
    if len(set(found.values())) != {"podAffinity": 1, "podAntiAffinity": 3}[kind]:
        raise Missed(f"pods are on {found}")


async def all_of_set(bed: Bed) -> dict[str, str]:
    """Wait until the three pods have a node, and return their nodes."""

    async def there() -> dict[str, str] | None:
        found = await bed.stage.bound()
        return found if len(found) == 3 else None

    return await bed.stage.until("the three pods to be bound", there)


together = functools.partial(stateful_set, kind="podAffinity")
apart = functools.partial(stateful_set, kind="podAntiAffinity")

CASES: Final[dict[str, Case]] = {
    "a volume for nodes of which some do not exist": volume_of_missing_nodes,
    "node affinity other than that of the volume": volume_elsewhere,
    "a node selector other than the affinity of the volume": functools.partial(
        volume_elsewhere, by_selector=True
    ),
    "several pods that share a local volume": shared_volume,
    "a StatefulSet with local volumes, its pods apart": functools.partial(apart, policy="OrderedReady"),
    "a StatefulSet with local volumes, its pods together": functools.partial(together, policy="OrderedReady"),
    "the same at once, its pods apart": functools.partial(apart, policy="Parallel"),
    "the same at once, its pods together": functools.partial(together, policy="Parallel"),
    "volumes of several zones": zones_of_volumes,
    "a claim for one pod at a time": one_pod_at_a_time,
    "a claim that is being deleted": claim_that_goes,
    "more volumes than a driver attaches to a node": attach_limit,
    "claims that wait for their first pod": made_for_first_pod,
    "an ephemeral claim": ephemeral_claim,
    "zones in which a class allows volumes": allowed_topologies,
    "a pod for another zone than the class allows": other_topologies,
    "storage capacity that the driver does not report": functools.partial(capacity, counts=False),
    "storage capacity, of which there is none": functools.partial(capacity, counts=True, enough=False),
    "storage capacity that is too small": functools.partial(
        capacity, counts=True, reported="1Mi", enough=False
    ),
    "storage capacity that is enough": functools.partial(capacity, counts=True, reported="100Gi"),
}
