"""Cards as Dynamic Resource Allocation knows them: slices that list those of a node, and claims of pods.

No driver is there, for no pod starts; kube-scheduler allocates all the same. Nor is a controller, which
would make claims from a template and free them: they are made before their pods, and removed by hand.
"""

from typing import Any, Final

from bench import bench_cluster

GROUP: Final = "/apis/resource.k8s.io/v1"
DRIVER: Final = "gpu.example.org"
WITHOUT_FINALIZERS: Final = {"metadata": {"finalizers": None}}

Thing = dict[str, Any]


async def publish(place: bench_cluster.BenchCluster) -> None:
    """Make a slice for each node, and the class that pods claim from."""
    await place.send("POST", f"{GROUP}/deviceclasses", device_class())
    await place.each(place.send("POST", f"{GROUP}/resourceslices", slice_of(node)) for node in place.nodes)


async def withdraw(place: bench_cluster.BenchCluster) -> None:
    """Remove them again."""
    await place.send("DELETE", f"{GROUP}/resourceslices", {})
    await place.send("DELETE", f"{GROUP}/deviceclasses/{DRIVER}", {})


def device_class() -> Thing:
    """Return the class of all these cards."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    return {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}


def slice_of(node: str) -> Thing:
    """Return the slice of a node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{at}"} for at in range(bench_cluster.CARDS)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-gpus"}, "spec": spec}


async def claim(place: bench_cluster.BenchCluster, namespace: str, count: int) -> None:
    """Make so many claims of a card each, numbered as their pods."""
    path = f"{GROUP}/namespaces/{namespace}/resourceclaims"
    await place.each(place.send("POST", path, claim_of(at)) for at in range(count))


def claim_of(at: int) -> Thing:
    """Return the claim of one card that the pod of this number names."""
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    return {"metadata": {"name": f"claim-{at:05}"}, "spec": {"devices": {"requests": [request]}}}


async def release(place: bench_cluster.BenchCluster, namespace: str) -> None:
    """Delete the claims of a namespace, whose pods are gone."""
    path = f"{GROUP}/namespaces/{namespace}/resourceclaims"
    names = [one["metadata"]["name"] for one in (await place.read(path))["items"]]
    # kube-scheduler has them kept until a controller frees their cards.
    await place.each(
        place.send("PATCH", f"{path}/{name}", WITHOUT_FINALIZERS, headers=bench_cluster.MERGE)
        for name in names
    )
    await place.send("DELETE", path, {})


def pod(at: int, scheduler: str) -> Thing:
    """Make a pod that has a claim where others count cards."""
    made = bench_cluster.pod(at, scheduler)
    (container,) = made["spec"]["containers"]
    container["resources"] = {"requests": container["resources"]["requests"], "claims": [{"name": "gpu"}]}
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"claim-{at:05}"}]
    return made
