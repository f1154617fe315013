"""What somebody with the operator's token may try, and what he is refused with.

The pod `waiting` waits for a node and `bound` has one; the Device, the GpuPod and the PlacementPolicy
are called `mine`. The Lease `leader` is the operator's own. What no role of the operator's has is refused by
the server's own authorization.
"""

from collections.abc import Mapping
from typing import Any, Final

from berth_crds import names
from berth_crds.client import api, resources
from e2e.attempts import APPLY, JSON_PATCH, NVML, READY, SUMMARY, Attempt, named, owned, replaced
from support import storage

P, D, G, L = resources.PODS, resources.DEVICES, resources.GPU_PODS, resources.LEASES
N = resources.NODES
C, V = resources.CLAIMS, resources.VOLUMES
POLICIES, EVENTS = resources.POLICIES, resources.EVENTS
SECRETS: Final = resources.Resource("", "v1", "secrets", "Secret")

NO_RIGHT: Final = "cannot"
META: Final = "may not change the metadata of a pod"
STATUS: Final = "of a pod's status the operator may write only the condition PodScheduled"
CONDITIONS: Final = "of a pod's conditions the operator may write only PodScheduled"
BOUND: Final = "is its kubelet's"
VERDICTS: Final = (
    "of a Device's status the operator may write only "
    "the condition Ready, summary, claims, disputed and origins"
)
THEIRS: Final = "of a Device's conditions the operator may write only Ready"
OF_NODE: Final = "of a Node's status the operator may write only capacity and allocatable"
LISTED: Final = "of what a Node lists the operator may write only the names of devices that Berth serves"
OF_META: Final = "the operator may not change the metadata of a Node"
TAINTS: Final = "of a Node the operator may write only the taint berth.dev/agent-silent:NoSchedule"
CLAIM: Final = "of a claim the operator may write only the annotation volume.kubernetes.io/selected-node"
NOTES: Final = "of the annotations of a claim the operator may add only volume.kubernetes.io/selected-node"
VOLUME: Final = "of a PersistentVolume the operator may write only spec.claimRef"
MEANT: Final = "a PersistentVolume that is meant for a claim stays so"
BY_UID: Final = "only by its uid, and with the pod's own grace period"
LEASE: Final = "may write only its own Lease"
BARE: Final = "may add no labels, finalizers or owners"

VERDICT: Final = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
GATE: Final = {"type": "example.com/gate", "status": "True"}
MOMENT: Final = "2026-01-01T00:00:00Z"
STATE: Final = {"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0}


def told(*conditions: dict[str, str], **status: object) -> dict[str, object]:
    """Write a change of a status; conditions stand where they are by their type."""
    return {"status": status | ({"conditions": conditions} if conditions else {})}


def on_pod(change: object, words: str, *, which: str = "waiting") -> Attempt:
    """Make an attempt by a strategic merge, as the operator writes."""
    return Attempt(P, which, change, api.STRATEGIC_PATCH, "status", words=words)


def lease(name: str = names.LEADER_LEASE, **metadata: object) -> dict[str, Any]:
    """Make a Lease."""
    return {"apiVersion": L.api_version, "kind": L.kind, "metadata": {"name": name} | metadata}


def tainted(key: str = names.AGENT_SILENT_TAINT, effect: str = "NoSchedule") -> list[Mapping[str, object]]:
    """Write a JSON Patch that adds a taint to those that there are."""
    return [*replaced("/spec/taints/-", {"key": key, "effect": effect})]


def selected(node: str | None) -> dict[str, object]:
    """Write the node for which a claim gets its volume."""
    return {"metadata": {"annotations": {storage.SELECTED: node}}}


def meant(**reference: str) -> dict[str, object]:
    """Write for which claim a volume is meant."""
    kind = {"apiVersion": "v1", "kind": C.kind, "namespace": "ns", "name": "c", "uid": "u"}
    return {"spec": {"claimRef": kind | reference}}


def evicted(uid: str = "", **options: object) -> dict[str, object]:
    """Make an Eviction of the pod `bound`."""
    options |= {"preconditions": {"uid": uid}} if uid else {}
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "bound"},
        "deleteOptions": options,
    }


# An example of each field of a pod's status, in which the server itself finds no fault; the other
# fields it fills in by itself or keeps back from whoever writes them here.
STATUS_FIELDS: Final[dict[str, object]] = {
    "phase": "Failed",
    "message": "x",
    "reason": "Evicted",
    "nominatedNodeName": "n",
    "hostIP": "10.0.0.1",
    "hostIPs": [{"ip": "10.0.0.1"}],
    "podIP": "10.0.0.2",
    "podIPs": [{"ip": "10.0.0.2"}],
    "startTime": MOMENT,
    "initContainerStatuses": [STATE],
    "containerStatuses": [STATE],
    "ephemeralContainerStatuses": [STATE],
    "qosClass": "Guaranteed",
    "resize": "Infeasible",
    "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}],
    "extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": "x"},
    "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "x"}],
    "allocatedResources": {"cpu": "1"},
    "resources": {"limits": {"cpu": "1"}},
    "observedGeneration": 7,
}

ALLOWED: Final = {
    "why a pod waits": on_pod(told(VERDICT), ""),
    "why a pod waits, in other words": on_pod(told(VERDICT | {"lastTransitionTime": MOMENT}), ""),
    "whether an agent is alive, by apply": Attempt(
        D, "mine", named("Device", "mine", **told(READY | {"status": "False"})), APPLY, "status"
    ),
    "what is free, by apply": Attempt(
        D, "mine", named("Device", "mine", **told(READY, summary=SUMMARY | {"free": 0})), APPLY, "status"
    ),
    "whether a policy is taken, by apply": Attempt(
        POLICIES,
        "mine",
        named("PlacementPolicy", "mine", **told(READY | {"type": "Accepted"}, observedGeneration=1)),
        APPLY,
        "status",
    ),
    "what a node has of our devices": Attempt(
        N,
        "machine",
        told(capacity={names.GPU: "400"}, allocatable={"kubernetes.io/gpu": "400"}),
        sub="status",
    ),
    "the taint of a silent agent": Attempt(N, "machine", tainted(), JSON_PATCH),
    "for which node a claim gets its volume": Attempt(C, "claim", selected("n1")),
    "for which claim a volume is meant": Attempt(V, "volume", meant()),
    "for which very claim a volume is meant": Attempt(V, "expected", meant()),
    "to renew its Lease": Attempt(L, "leader", lease() | {"spec": {"holderIdentity": "me"}}, verb="PUT"),
    "to note something on its Lease": Attempt(L, "leader", lease(annotations={"a": "b"}), verb="PUT"),
    "to delete a GpuPod": Attempt(G, "mine", verb="DELETE"),
}

REFUSED: Final = {
    # Statuses of pods: the operator's own right, with more in it than it writes.
    **{
        f"{field} of a pod": on_pod(told(**{field: STATUS_FIELDS[field]}), STATUS)
        for field in ("phase", "message", "reason", "nominatedNodeName", "podIP", "startTime")
    },
    "containers of a pod": on_pod(told(containerStatuses=[STATE]), STATUS),
    "a verdict and a phase": on_pod(told(VERDICT, phase="Failed"), STATUS),
    "a phase by JSON Patch": Attempt(
        P, "waiting", replaced("/status/phase", "Failed"), JSON_PATCH, "status", words=STATUS
    ),
    "no phase": on_pod(told(phase=None), STATUS),
    "a phase by apply": Attempt(
        P,
        "waiting",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "<waiting>"}} | told(phase="Failed"),
        APPLY,
        "status",
        words=STATUS,
    ),
    "another condition": on_pod(told(GATE | {"status": "False"}), CONDITIONS),
    "a new condition": on_pod(told(GATE | {"type": "Ready"}), CONDITIONS),
    "no condition at all": on_pod({"status": {"conditions": [{"$patch": "replace"}]}}, CONDITIONS),
    "that a bound pod is not": on_pod(told(VERDICT), BOUND, which="bound"),
    "that a bound pod is, in other words": on_pod(
        told(VERDICT | {"status": "True", "reason": "x"}), BOUND, which="bound"
    ),
    "a label of a pod": on_pod({"metadata": {"labels": {"team": "b"}}}, META),
    "no label of a pod": on_pod({"metadata": {"labels": {"team": None}}}, META),
    "an annotation of a pod": on_pod({"metadata": {"annotations": {"k": "x"}}}, META),
    "no annotation of a pod": on_pod({"metadata": {"annotations": None}}, META),
    "a finalizer of a pod": on_pod({"metadata": {"finalizers": ["example.com/f"]}}, META),
    "a label beside a verdict": on_pod({"metadata": {"labels": {"team": "b"}}, **told(VERDICT)}, META),
    # Devices: what agents and people say.
    "a verdict on a card": Attempt(
        D, "mine", told(devices=[{"uuid": "GPU-<mine>", "health": "Healthy"}]), sub="status", words=VERDICTS
    ),
    "no verdicts": Attempt(D, "mine", told(devices=None), sub="status", words=VERDICTS),
    "a verdict by apply": Attempt(
        D,
        "mine",
        named("Device", "mine", **told(READY, devices=[{"uuid": "GPU-<mine>", "health": "Healthy"}])),
        APPLY,
        "status",
        words=VERDICTS,
    ),
    "a condition of the agent": Attempt(
        D, "mine", told(READY, NVML | {"status": "True"}), sub="status", words=THEIRS
    ),
    "no condition of the agent": Attempt(D, "mine", told(READY), sub="status", words=THEIRS),
    "a condition of the agent by apply": Attempt(
        D,
        "mine",
        named("Device", "mine", **told(READY, NVML | {"status": "True"})),
        APPLY,
        "status",
        words=THEIRS,
    ),
    "a cordon": Attempt(D, "mine", {"spec": {"cordon": ["GPU-<mine>"]}}, words=NO_RIGHT),
    "to delete a Device": Attempt(D, "mine", verb="DELETE", words=NO_RIGHT),
    "to read a Device by itself": Attempt(D, "mine", verb="GET", words=NO_RIGHT),
    # Nodes.
    "what a node has of the plugin's devices": Attempt(
        N, "machine", told(capacity={names.NVIDIA_GPU: "4"}), sub="status", words=LISTED
    ),
    "what a node has of cpu": Attempt(
        N, "machine", told(allocatable={"cpu": "999"}), sub="status", words=LISTED
    ),
    "no cpu of a node": Attempt(N, "machine", told(capacity={"cpu": None}), sub="status", words=LISTED),
    "a condition of a node": Attempt(
        N, "machine", told(READY | {"type": "Ready", "status": "True"}), sub="status", words=OF_NODE
    ),
    "an address of a node": Attempt(
        N,
        "machine",
        told(addresses=[{"type": "InternalIP", "address": "10.0.0.1"}]),
        sub="status",
        words=OF_NODE,
    ),
    "a label of a node": Attempt(N, "machine", {"metadata": {"labels": {"a": "b"}}}, words=OF_META),
    "an annotation of a node": Attempt(
        N, "machine", {"metadata": {"annotations": {"a": "b"}}}, words=OF_META
    ),
    "no taint of a node": Attempt(N, "machine", {"spec": {"taints": []}}, words=TAINTS),
    "another taint of a node": Attempt(N, "machine", tainted("example.com/a"), JSON_PATCH, words=TAINTS),
    "its taint, with another effect": Attempt(
        N, "machine", tainted(effect="NoExecute"), JSON_PATCH, words=TAINTS
    ),
    "its taint beside a cordon": Attempt(
        N, "machine", [*tainted(), *replaced("/spec/unschedulable", True)], JSON_PATCH, words=TAINTS
    ),
    "to delete a node": Attempt(N, "machine", verb="DELETE", words=NO_RIGHT),
    # Evictions.
    "to evict a pod at once": Attempt(
        P, "bound", evicted(uid="u", gracePeriodSeconds=0), sub="eviction", verb="POST", words=BY_UID
    ),
    "to evict a pod of whatever uid": Attempt(
        P, "bound", evicted(), sub="eviction", verb="POST", words=BY_UID
    ),
    # Claims and volumes.
    "another annotation of a claim": Attempt(
        C, "claim", {"metadata": {"annotations": {"a": "b"}}}, words=NOTES
    ),
    "another node for a claim": Attempt(C, "selected", selected("n2"), words=NOTES),
    "no node for a claim": Attempt(C, "selected", selected(None), words=NOTES),
    "an annotation of a claim that is there": Attempt(
        C, "selected", {"metadata": {"annotations": {"k": "x"}}}, words=NOTES
    ),
    "a label of a claim": Attempt(C, "claim", {"metadata": {"labels": {"a": "b"}}}, words=CLAIM),
    "a finalizer of a claim": Attempt(C, "claim", {"metadata": {"finalizers": ["a.b/c"]}}, words=CLAIM),
    "an owner of a claim": Attempt(
        C, "claim", owned({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}), words=CLAIM
    ),
    "the volume of a claim": Attempt(C, "claim", {"spec": {"volumeName": "v"}}, words=CLAIM),
    "a node and a label of a claim": Attempt(
        C,
        "claim",
        {"metadata": {"labels": {"a": "b"}, "annotations": {storage.SELECTED: "n1"}}},
        words=CLAIM,
    ),
    "to delete a claim": Attempt(C, "claim", verb="DELETE", words=NO_RIGHT),
    "the status of a claim": Attempt(C, "claim", told(phase="Bound"), sub="status", words=NO_RIGHT),
    "another claim of a volume": Attempt(V, "expected", meant(name="other"), words=MEANT),
    "a claim in another namespace of a volume": Attempt(V, "expected", meant(namespace="o"), words=MEANT),
    "another claim of a volume that has one": Attempt(V, "owned", meant(uid="other"), words=MEANT),
    "no claim of a volume": Attempt(V, "owned", {"spec": {"claimRef": None}}, words=VOLUME),
    "what becomes of a volume": Attempt(
        V, "volume", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, words=VOLUME
    ),
    "a label of a volume": Attempt(V, "volume", {"metadata": {"labels": {"a": "b"}}}, words=VOLUME),
    "an annotation of a volume": Attempt(
        V, "volume", {"metadata": {"annotations": {"a": "b"}}}, words=VOLUME
    ),
    "to delete a volume": Attempt(V, "volume", verb="DELETE", words=NO_RIGHT),
    # Leases.
    "another Lease": Attempt(L, "new", lease("new"), verb="POST", words=LEASE),
    "a Lease in another namespace": Attempt(
        L, "new", lease(), verb="POST", words=NO_RIGHT, namespace=names.NODES_NAMESPACE
    ),
    "a label of its Lease": Attempt(L, "leader", lease(labels={"a": "b"}), verb="PUT", words=BARE),
    "a finalizer of its Lease": Attempt(
        L, "leader", lease(finalizers=["example.com/f"]), verb="PUT", words=BARE
    ),
    "an owner of its Lease": Attempt(
        L,
        "leader",
        lease(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]),
        verb="PUT",
        words=BARE,
    ),
    "to delete its Lease": Attempt(L, "leader", verb="DELETE", words=NO_RIGHT),
    # What is the agents', and what is people's.
    "to make a GpuPod": Attempt(G, "new", verb="POST", body={"metadata": {"name": "new"}}, words=NO_RIGHT),
    "to change a GpuPod": Attempt(G, "mine", {"spec": {"node": "n"}}, words=NO_RIGHT),
    "to delete all GpuPods": Attempt(G, "", verb="DELETE", words=NO_RIGHT),
    "a GpuPod's status": Attempt(G, "mine", told(phase="Failed"), sub="status", words=NO_RIGHT),
    "to change a policy": Attempt(POLICIES, "mine", {"spec": {"strategy": "spread"}}, words=NO_RIGHT),
    "to change a pod": Attempt(P, "waiting", owned(), words=NO_RIGHT),
    "to delete a pod": Attempt(P, "waiting", verb="DELETE", words=NO_RIGHT),
    "to read a secret": Attempt(SECRETS, "any", verb="GET", words=NO_RIGHT),
    "to read Events": Attempt(EVENTS, "", verb="GET", words=NO_RIGHT),
    "to ask whose a token is": Attempt(
        resources.TOKEN_REVIEWS, "", {"spec": {"token": "x"}}, verb="POST", words=NO_RIGHT
    ),
}
