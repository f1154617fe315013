"""One pod that uses most of what Kubernetes and Berth know, with real objects."""

from typing import Any, Final

import pytest

from e2e import provisioner
from e2e.kubernetes_bed import PREFERRED, REQUIRED, near, on_nodes, plain, spread, within
from e2e.provisioner import HOST, Storage
from e2e.stage import Pod, Stage, pod
from support import kubelet, storage

pytestmark = pytest.mark.usefixtures("leader")

POOL: Final = "example.com/pool"
RACK: Final = "example.com/rack"
SHELF: Final = "example.com/storage"
DISK: Final = "example.com/disk"
OURS: Final = {"key": "team", "value": "a", "effect": "NoSchedule"}
OTHERS: Final = {"key": "team", "value": "b", "effect": "NoSchedule"}
TOLERANT: Final[dict[str, Any]] = {"tolerations": [OURS | {"operator": "Equal"}]}
PORT: Final = 7777

# What all nodes have, and in what each of them differs. Each lacks one thing that the pod needs, and the last
# two have it once a pod of the cache is in their rack.
USUAL: Final = {POOL: "train", storage.ZONE: "a", RACK: "r1", SHELF: "yes", DISK: "slow"}
NODES: Final[dict[str, dict[str, str]]] = {
    "unselected": {POOL: "serve"},
    "zone-c": {storage.ZONE: "c"},
    "of-others": {},
    "zone-b": {storage.ZONE: "b"},
    "rack-2": {RACK: "r2"},
    "noisy": {},
    "listening": {},
    "unshelved": {SHELF: "no"},
    "cardless": {},
    "good": {RACK: "r3"},
    "preferred": {RACK: "r3", DISK: "fast"},
}
LACKS: Final = (
    "3 didn't match pod affinity rules (example.com/rack)",
    "2 do not match the node selector or affinity",
    "1 has the untolerated taint team",
    "1 didn't match pod topology spread constraints (topology.kubernetes.io/zone: skew 2, maxSkew 1)",
    "1 didn't match pod anti-affinity rules (kubernetes.io/hostname)",
    "1 has host port 7777/TCP in use",
    "1 has no free card",
    "claim data",
)


def asking() -> Pod:
    """Return the pod: it selects, tolerates, keeps near, apart and spread, listens, stores and prefers."""
    wishes = {PREFERRED: [{"weight": 50, "preference": {"matchExpressions": [within(DISK, "fast")]}}]}
    made = pod(
        "trainer",
        meta={"labels": {"app": "train"}},
        volumes=storage.using("data"),
        nodeSelector={POOL: "train"},
        topologySpreadConstraints=spread("train", storage.ZONE),
        affinity={
            "nodeAffinity": on_nodes(storage.ZONE, "a", "b")["nodeAffinity"] | wishes,
            "podAffinity": {REQUIRED: [near("cache", RACK)]},
            "podAntiAffinity": {REQUIRED: [near("noise")]},
        },
        **TOLERANT,
    )
    return listening(made)


def listening(made: Pod) -> Pod:
    """Return a pod with the host port."""
    made["spec"]["containers"][0]["ports"] = [{"containerPort": PORT, "hostPort": PORT}]
    return made


def beside(name: str, app: str, node: str, **more: Any) -> Pod:
    """Return a pod of an application that is on a certain node."""
    return plain(name, labels={"app": app}, nodeSelector={HOST: node}, **TOLERANT, **more)


async def surroundings(stage: Stage) -> None:
    """Make the nodes, and the pods that are there before."""
    await stage.machines(
        *(
            kubelet.FakeNode(name, USUAL | labels, taints=(OTHERS if name == "of-others" else OURS,))
            for name, labels in NODES.items()
        )
    )
    await stage.agent(**dict.fromkeys(NODES, "1xT4"))
    await stage.until_ready(*NODES)
    await stage.placed(
        beside("cache", "cache", "cardless"),
        beside("there", "train", "zone-b"),
        beside("noise", "noise", "noisy"),
        listening(beside("web", "web", "listening")),
        pod("holder", nodeSelector={HOST: "cardless"}, **TOLERANT),
    )


async def test_a_pod_that_uses_most_features_is_placed_where_it_must_be(stage: Stage) -> None:
    """It waits while each node lacks something, says so of each, and then gets the node that it prefers."""
    async with provisioner.lent(stage) as late:
        await surroundings(stage)
        await start(late)
        told = await stage.waiting_pod(asking(), "0/11 nodes are available")
        assert [word for word in LACKS if word not in told["message"]] == [], told["message"]

        await stage.placed(beside("cache-3", "cache", "good"))
        assert await late.provide() == "preferred"
        bound = await stage.until_bound("trainer")
        await late.bound()

        assert bound["trainer"] == "preferred"
        await stage.assert_sound("trainer", "cache", "cache-3", "there", "noise", "web", "holder")


async def start(late: Storage) -> None:
    """Make a class whose volumes can be made for some nodes alone, and a claim of it."""
    allowed = {"matchLabelExpressions": [{"key": SHELF, "values": ["yes"]}]}
    await late.start(allowedTopologies=[allowed])
    await late.claim()
