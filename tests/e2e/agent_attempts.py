"""What somebody with the token of one node's agent may try to write, and what he is refused with.

The agent is that of the node `mine`; `other` is somebody else's.
"""

from collections.abc import Mapping
from typing import Any, Final

from berth_crds import names
from berth_crds.client import resources
from e2e.attempts import (
    APPLY,
    JSON_PATCH,
    NVML,
    POD_OWNER,
    READY,
    SUMMARY,
    Attempt,
    device,
    gpupod,
    named,
    owned,
    replaced,
)

NOT_OURS: Final = "may write only the Device of its own node"
ANOTHER_POD: Final = "may write only the GpuPods of its own node"
NEVER_MOVES: Final = "a pod never moves to another node"
ONLY_LABELS: Final = "may label its own Node, and do nothing else"
OUR_LABELS: Final = "only berth.dev/gpu.* and berth.dev/cuda.*"


LEASES: Final = "coordination.k8s.io/v1"
BY_APPLY: Final = "who manages which fields of a Lease is not an agent's word"


def lease(which: str) -> dict[str, Any]:
    """Make a Lease."""
    meta = {"name": f"<{which}>", "namespace": names.NODES_NAMESPACE}
    return {"apiVersion": LEASES, "kind": "Lease", "metadata": meta}


def applied_lease(meta: Mapping[str, object], **spec: object) -> Attempt:
    """Apply a Lease as agents do."""
    whole = lease("mine")
    spec = {"renewTime": "2026-01-01T00:00:00.000000Z", **spec}
    body = {**whole, "metadata": {**whole["metadata"], **meta}, "spec": spec}
    return Attempt(resources.LEASES, "mine", body, APPLY, manager=names.AGENT_MANAGER)


D, G, L, N = resources.DEVICES, resources.GPU_PODS, resources.LEASES, resources.NODES
CORDON: Final = "belongs to people"
CONDITION: Final = "the condition Ready of a Device is the operator's"
BESIDE: Final = "named by its pod's uid and its agent's node"
UID: Final = "6cf3bbc0-7726-46d2-816f-525511292b61"
CLAIMS: Final = "status.claims of a Device is the operator's"
DISPUTED: Final = "status.disputed of a Device is the operator's"
ORIGINS: Final = "status.origins of a Device is the operator's"
COUNTS: Final = "status.summary of a Device is the operator's"
NOTES: Final = "annotations of a Device are not an agent's"
OWNER: Final = "the owner of its"
LABELS: Final = "labels, generateName and finalizers"
# On updates of our own kinds the server does not look at it, so it may be of any length.
LONG: Final = {"metadata": {"generateName": "x" * 60}}
WORDS: Final = "labels, annotations and generateName of a GpuPod are not an agent's"
UNKNOWN: Final = "the Node of the uid in the agent's token"
ONCE: Final = "and may not take that back"
FIELDS: Final = "which fields of a Device are the operator's"
ON_LEASE: Final = "labels, annotations but berth.dev/load, and generateName of a Lease are not an agent's"
LEASE: Final = "may write only the Lease of its own node"
SICK: Final = {"devices": [{"uuid": "GPU-<mine>", "health": "Unhealthy", "reason": "Test"}]}

NODE_OWNER: Final = {"apiVersion": "v1", "kind": "Node", "name": "<mine>", "uid": "u"}
RIGHT: Final = NODE_OWNER | {"uid": "<mine-uid>"}
FORGED: Final = {
    "manager": names.OPERATOR_MANAGER,
    "operation": "Apply",
    "subresource": "status",
    "apiVersion": names.API_VERSION,
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:status": {"f:devices": {}}},
}
OWN_FIELDS: Final = {
    "manager": names.AGENT_MANAGER,
    "operation": "Apply",
    "apiVersion": LEASES,
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:annotations": {f"f:x{at}": {} for at in range(100)}}},
}
MANAGERS: Final = "32 managers of fields"


def many_managers(version: str) -> dict[str, Any]:
    """Write many managers, each with fields of its own."""
    managers = [FORGED | {"manager": f"m{at}", "apiVersion": version} for at in range(40)]
    return {"metadata": {"managedFields": managers}}


MANY_MANAGERS: Final = many_managers(names.API_VERSION)

ALLOWED: Final = {
    "its Device": Attempt(D, "mine", {"spec": {"bootID": "b"}}),
    "its Device by apply": Attempt(D, "mine", device("mine", bootID="b"), APPLY),
    "a verdict": Attempt(D, "mine", {"status": SICK}, sub="status"),
    "a condition of its own by apply": Attempt(
        D, "mine", named("Device", "mine", status={"conditions": [NVML]}), APPLY, "status"
    ),
    "to heed a person's word": Attempt(D, "mine", {"metadata": {"annotations": {names.REPAIRED: None}}}),
    "to make the Node the owner of its Device": Attempt(D, "mine", owned(RIGHT)),
    "to make the Node the owner of its Lease": applied_lease({"ownerReferences": [RIGHT]}),
    "its Lease": applied_lease({}, holderIdentity="me"),
    "the load of its cards": applied_lease({"annotations": {names.LOAD: "x" * 2048}}),
    "a GpuPod of its node": Attempt(G, "mine", {"spec": {"containers": [{"name": "main"}]}}),
    "a GpuPod's status": Attempt(G, "mine", {"status": {"phase": "Running"}}, sub="status"),
    "to delete a GpuPod of its node": Attempt(G, "mine", verb="DELETE"),
    "a GpuPod named by its pod's uid and its node": Attempt(
        G, "beside", gpupod("beside", "mine", uid=UID, owner=UID), verb="POST"
    ),
    "our labels of its Node": Attempt(
        N, "mine", {"metadata": {"labels": {"berth.dev/gpu.product": "T4", "berth.dev/gpu.count": None}}}
    ),
}

REFUSED: Final = {
    # Devices of others.
    "another's Device": Attempt(D, "other", {"spec": {"bootID": "b"}}, words=NOT_OURS),
    "another's Device by apply": Attempt(D, "other", device("other"), APPLY, words=NOT_OURS),
    "another's verdicts": Attempt(D, "other", {"status": SICK}, sub="status", words=NOT_OURS),
    "a Device of nobody": Attempt(D, "nobody", device("nobody"), verb="POST", words=NOT_OURS),
    "to say of its Device that it is another's": Attempt(
        D, "mine", {"spec": {"node": "<other>"}}, words="must equal metadata.name"
    ),
    "to delete its Device": Attempt(D, "mine", verb="DELETE", words="may not delete Devices"),
    # The cordon.
    "a cordon": Attempt(D, "mine", {"spec": {"cordon": ["GPU-<mine>", "GPU-x"]}}, words=CORDON),
    "no cordon": Attempt(D, "mine", {"spec": {"cordon": None}}, words=CORDON),
    "an empty cordon": Attempt(D, "mine", replaced("/spec/cordon", []), JSON_PATCH, words=CORDON),
    "a cordon by apply": Attempt(D, "mine", device("mine", cordon=["GPU-x"]), APPLY, words=CORDON),
    # The operator's part of the status.
    "not to be ready": Attempt(
        D, "mine", {"status": {"conditions": [READY | {"status": "False"}]}}, sub="status", words=CONDITION
    ),
    "no condition at all": Attempt(
        D, "mine", {"status": {"conditions": None}}, sub="status", words=CONDITION
    ),
    "readiness by apply": Attempt(
        D,
        "mine",
        named("Device", "mine", status={"conditions": [READY | {"reason": "Me"}]}),
        APPLY,
        "status",
        words=CONDITION,
    ),
    "other counts": Attempt(
        D, "mine", {"status": {"summary": SUMMARY | {"free": 8}}}, sub="status", words=COUNTS
    ),
    "other claims": Attempt(D, "mine", {"status": {"claims": ["GPU-x"]}}, sub="status", words=CLAIMS),
    "other disputes": Attempt(D, "mine", {"status": {"disputed": ["GPU-x"]}}, sub="status", words=DISPUTED),
    "other origins": Attempt(
        D, "mine", {"status": {"origins": [{"uuid": "GPU-x", "node": "x"}]}}, sub="status", words=ORIGINS
    ),
    "claims by apply": Attempt(
        D, "mine", named("Device", "mine", status={"claims": ["GPU-x"]}), APPLY, "status", words=CLAIMS
    ),
    "no counts": Attempt(D, "mine", {"status": {"summary": None}}, sub="status", words=COUNTS),
    # What is not the agent's in metadata.
    "an annotation": Attempt(D, "mine", {"metadata": {"annotations": {"note": "x"}}}, words=NOTES),
    "to take an annotation away": Attempt(
        D, "mine", {"metadata": {"annotations": {"note": None}}}, words=NOTES
    ),
    "a label": Attempt(D, "mine", {"metadata": {"labels": {"team": "b"}}}, words=LABELS),
    "a finalizer": Attempt(D, "mine", {"metadata": {"finalizers": ["example.com/f"]}}, words=LABELS),
    "many managers of its Device": Attempt(D, "mine", MANY_MANAGERS, words=MANAGERS),
    "a long field of its Device": Attempt(D, "mine", LONG, words=LABELS),
    "another owner": Attempt(
        D,
        "mine",
        owned(NODE_OWNER | {"name": "<other>"}),
        words=OWNER,
    ),
    "an owner of another kind": Attempt(
        D, "mine", owned(NODE_OWNER | {"apiVersion": "x.io/v1"}), words=OWNER
    ),
    "a Node of another uid as the owner of its Device": Attempt(D, "mine", owned(NODE_OWNER), words=UNKNOWN),
    "another uid beside that of the Node": Attempt(D, "mine", owned(RIGHT, NODE_OWNER), words=UNKNOWN),
    "an owner that waits for its Device": Attempt(
        D, "mine", owned(RIGHT | {"blockOwnerDeletion": True}), words=ONCE
    ),
    "fields in the operator's name": Attempt(
        D, "mine", {"metadata": {"managedFields": [FORGED]}}, words=FIELDS
    ),
    "readiness by patch": Attempt(
        D, "mine", replaced("/status/conditions/0/status", "False"), JSON_PATCH, "status", words=CONDITION
    ),
    "counts by apply": Attempt(
        D,
        "mine",
        named("Device", "mine", status={"summary": SUMMARY | {"healthy": 0}}),
        APPLY,
        "status",
        words=COUNTS,
    ),
    # Leases.
    "a Lease owned by another Node": Attempt(L, "mine", owned(NODE_OWNER | {"name": "<other>"}), words=OWNER),
    "a Node of another uid as the owner of its Lease": Attempt(L, "mine", owned(NODE_OWNER), words=UNKNOWN),
    "a Lease for which its Node waits": Attempt(
        L, "mine", owned(RIGHT | {"blockOwnerDeletion": True}), words=ONCE
    ),
    "an annotation of its Lease": Attempt(
        L, "mine", {"metadata": {"annotations": {"note": "," * 1000}}}, words=ON_LEASE
    ),
    "a load that is too long": Attempt(
        L, "mine", {"metadata": {"annotations": {names.LOAD: "x" * 2049}}}, words="2048 characters"
    ),
    "its Lease otherwise than by apply": Attempt(
        L, "mine", {"spec": {"holderIdentity": "me"}}, words=BY_APPLY
    ),
    "to say who manages the fields of its Lease": Attempt(
        L, "mine", {"metadata": {"managedFields": [FORGED | {"apiVersion": LEASES}]}}, words=BY_APPLY
    ),
    "to say that of itself": Attempt(
        L, "mine", {"metadata": {"managedFields": [OWN_FIELDS]}}, words=BY_APPLY
    ),
    "to say that and to renew its Lease": Attempt(
        L,
        "mine",
        {"metadata": {"managedFields": [OWN_FIELDS]}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}},
        words=BY_APPLY,
    ),
    "its Lease as another manager": Attempt(
        L, "mine", lease("mine") | {"spec": {"holderIdentity": "me"}}, APPLY, words=BY_APPLY
    ),
    "many managers of its Lease": Attempt(L, "mine", many_managers(LEASES), words=MANAGERS),
    "a long word in its Lease": Attempt(L, "mine", {"spec": {"holderIdentity": "x" * 300}}, words="253"),
    "a long field of its Lease": Attempt(L, "mine", LONG, words=ON_LEASE),
    "a label of its Lease": Attempt(L, "mine", {"metadata": {"labels": {"note": "x"}}}, words=ON_LEASE),
    "a Lease that cannot go": Attempt(
        L, "mine", {"metadata": {"finalizers": ["example.com/f"]}}, words=OWNER
    ),
    "to delete its Lease": Attempt(L, "mine", verb="DELETE", words=LEASE),
    "another's Lease": Attempt(L, "other", {"spec": {"holderIdentity": "me"}}, words=LEASE),
    "another's Lease by apply": Attempt(L, "other", lease("other"), APPLY, words=LEASE),
    "a Lease of nobody": Attempt(L, "nobody", lease("nobody"), verb="POST", words=LEASE),
    # GpuPods.
    "another node's GpuPod": Attempt(
        G, "other", {"spec": {"containers": [{"name": "main"}]}}, words=ANOTHER_POD
    ),
    "to draw a GpuPod to its node": Attempt(G, "other", {"spec": {"node": "<mine>"}}, words=NEVER_MOVES),
    "to push a GpuPod away": Attempt(G, "mine", {"spec": {"node": "<other>"}}, words=NEVER_MOVES),
    "another's GpuPod's status": Attempt(
        G, "other", {"status": {"phase": "Failed"}}, sub="status", words=ANOTHER_POD
    ),
    "to delete another's GpuPod": Attempt(G, "other", verb="DELETE", words=ANOTHER_POD),
    "a new GpuPod of another node": Attempt(
        G, "fresh", gpupod("fresh", "other"), verb="POST", words=ANOTHER_POD
    ),
    "a GpuPod that no Pod owns": Attempt(
        G, "fresh", gpupod("fresh", "mine"), verb="POST", words="owned by its Pod"
    ),
    "a GpuPod of one pod, owned by another": Attempt(
        G, "fresh", gpupod("fresh", "mine", uid="u", owner="v"), verb="POST", words="owned by its Pod"
    ),
    "a GpuPod owned by many Pods": Attempt(
        G,
        "mine",
        owned(*(POD_OWNER | {"name": "<mine>", "uid": f"u{at}"} for at in range(2))),
        words="owned by one Pod",
    ),
    "a GpuPod for which its Pod waits": Attempt(
        G,
        "mine",
        owned(POD_OWNER | {"name": "<mine>", "uid": "u", "blockOwnerDeletion": True}),
        words="keeps its Pod from nothing",
    ),
    "a GpuPod that is said to be controlled by its Pod": Attempt(
        G,
        "mine",
        owned(POD_OWNER | {"name": "<mine>", "uid": "u", "controller": True}),
        words="is not controlled by it",
    ),
    "an annotation of its GpuPod": Attempt(
        G, "mine", {"metadata": {"annotations": {"note": "," * 1000}}}, words=WORDS
    ),
    "many managers of its GpuPod": Attempt(G, "mine", MANY_MANAGERS, words=MANAGERS),
    "a long field of its GpuPod": Attempt(G, "mine", LONG, words=WORDS),
    "a label of its GpuPod": Attempt(G, "mine", {"metadata": {"labels": {"note": "x"}}}, words=WORDS),
    "a new GpuPod with an annotation": Attempt(
        G, "fresh", gpupod("fresh", "mine", owner="u", annotations={"note": "x"}), verb="POST", words=WORDS
    ),
    "a GpuPod named by its pod's uid and another node": Attempt(
        G, "beside-other", gpupod("beside-other", "mine", uid=UID, owner=UID), verb="POST", words=BESIDE
    ),
    "a GpuPod named by its pod's uid and a node whose name ends like its own": Attempt(
        G,
        "beside-longer",
        gpupod("beside-longer", "mine", uid=f"{UID}.x", owner=f"{UID}.x"),
        verb="POST",
        words=BESIDE,
    ),
    "a GpuPod named by another pod's uid": Attempt(
        G, "beside", gpupod("beside", "mine", uid="u", owner="u"), verb="POST", words=BESIDE
    ),
    "such a GpuPod that another pod owns": Attempt(
        G, "beside", gpupod("beside", "mine", uid=UID, owner="u"), verb="POST", words=OWNER
    ),
    "a GpuPod owned by a Node": Attempt(
        G,
        "mine",
        owned(NODE_OWNER),
        words=OWNER,
    ),
    # Nodes.
    "another's label": Attempt(
        N, "other", {"metadata": {"labels": {"berth.dev/gpu.count": "9"}}}, words=ONLY_LABELS
    ),
    "a label that is not ours": Attempt(N, "mine", {"metadata": {"labels": {"zone": "b"}}}, words=OUR_LABELS),
    "to take such a label away": Attempt(
        N, "mine", {"metadata": {"labels": {"zone": None}}}, words=OUR_LABELS
    ),
    "a label of Berth that is not the agent's": Attempt(
        N, "mine", {"metadata": {"labels": {"berth.dev/fenced": "true"}}}, words=OUR_LABELS
    ),
    "a role": Attempt(
        N, "mine", {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, words=OUR_LABELS
    ),
    "a taint": Attempt(
        N, "mine", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, words=ONLY_LABELS
    ),
    "to cordon its Node": Attempt(N, "mine", {"spec": {"unschedulable": True}}, words=ONLY_LABELS),
    "an annotation of its Node": Attempt(
        N, "mine", {"metadata": {"annotations": {"k": "x"}}}, words=ONLY_LABELS
    ),
    "many managers of its Node": Attempt(N, "mine", many_managers("v1"), words=MANAGERS),
    "a long field of its Node": Attempt(N, "mine", LONG, words=ONLY_LABELS),
    "a finalizer of its Node": Attempt(
        N, "mine", {"metadata": {"finalizers": ["example.com/f"]}}, words=ONLY_LABELS
    ),
    "capacity of its Node": Attempt(
        N, "mine", {"status": {"capacity": {"nvidia.com/gpu": "64"}}}, sub="status", words=ONLY_LABELS
    ),
    "a Node by apply": Attempt(
        N,
        "nobody",
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "nobody"}},
        APPLY,
        words=ONLY_LABELS,
    ),
}
