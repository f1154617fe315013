"""Pods in which every field of a pod's spec is used somewhere, and the schema's list of those fields.

Fields that exclude each other (the four kinds of handler, the sources of a variable) are
spread over several containers. What no pod can say, though the schema has a place for it,
is named in NOT_SAID with the reason.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simulation import every_container, every_volume

Body = dict[str, Any]

NOT_SAID: Final = {
    # The API server refuses these, though the schema has a place for them.
    ".volumes.ephemeral.volumeClaimTemplate.metadata.": "a template is given labels and annotations alone",
    ".ephemeralContainers.lifecycle.": "a debugging container has no lifecycle",
    ".ephemeralContainers.livenessProbe.": "nor probes",
    ".ephemeralContainers.readinessProbe.": "nor probes",
    ".ephemeralContainers.startupProbe.": "nor probes",
    ".ephemeralContainers.ports.": "nor ports",
    ".ephemeralContainers.resources.": "nor resources",
    ".ephemeralContainers.resizePolicy.": "nor resources that could be changed",
    ".ephemeralContainers.restartPolicy": "nor is it ever restarted",
    ".ephemeralContainers.volumeMounts.subPath": "it mounts whole volumes",
    ".containers.readinessProbe.terminationGracePeriodSeconds": "a failed readiness probe ends nothing",
    ".initContainers.readinessProbe.terminationGracePeriodSeconds": "nor does a sidecar's",
    ".resources.claims.": "claims of a whole pod are not taken yet",
}


def said(name: str) -> bool:
    """Whether a pod can say a field."""
    exceptions = (".metadata.labels", ".metadata.annotations")
    return name.endswith(exceptions) or not any(name.startswith(one) for one in NOT_SAID)


def fields(
    schemas: Mapping[str, Body], kind: str, at: str = "", within: tuple[str, ...] = ()
) -> Iterator[str]:
    """Return the fields of a kind with all that are inside them, but for what contains itself."""
    for name, property_ in schemas[kind].get("properties", {}).items():
        inner = _kind_of(property_.get("items", property_))
        if inner and schemas[inner].get("properties"):
            if inner not in within:
                yield from fields(schemas, inner, f"{at}.{name}", (*within, kind))
        else:
            yield f"{at}.{name}"


def _kind_of(property_: Body) -> str:
    named = [one["$ref"] for one in (property_, *property_.get("allOf", ())) if "$ref" in one]
    return str(named[0]).rpartition("/")[2] if named else ""


def used(value: Any, at: str = "") -> Iterator[str]:
    """Return the fields that an object uses."""
    if isinstance(value, list):
        for one in value:
            yield from used(one, at)
    elif isinstance(value, dict):
        yield at
        for name, one in value.items():
            yield from used(one, f"{at}.{name}")
    else:
        yield at


# ---------------------------------------------------------------- pods

TERM: Final[Body] = {
    "labelSelector": every_volume.SELECTOR,
    "matchLabelKeys": ["version"],
    "mismatchLabelKeys": ["tenant"],
    "namespaceSelector": every_volume.SELECTOR,
    "namespaces": ["default"],
    "topologyKey": "kubernetes.io/hostname",
}
NEAR: Final[Body] = {
    "requiredDuringSchedulingIgnoredDuringExecution": [TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}],
}


SECURITY: Final[Body] = {
    "appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"},
    "fsGroup": 1000,
    "fsGroupChangePolicy": "OnRootMismatch",
    "runAsGroup": 1000,
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seLinuxChangePolicy": "MountOption",
    "seLinuxOptions": {"level": "s0", "role": "r", "type": "t", "user": "u"},
    "seccompProfile": {"type": "Localhost", "localhostProfile": "mine.json"},
    "supplementalGroups": [1001],
    "supplementalGroupsPolicy": "Merge",
    "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}],
    "windowsOptions": every_container.WINDOWS,
}
TOLERATION: Final[Body] = {
    "key": "k",
    "operator": "Equal",
    "value": "v",
    "effect": "NoExecute",
    "tolerationSeconds": 60,
}
SPREAD: Final[Body] = {
    "labelSelector": every_volume.SELECTOR,
    "matchLabelKeys": ["version"],
    "maxSkew": 1,
    "minDomains": 2,
    "nodeAffinityPolicy": "Honor",
    "nodeTaintsPolicy": "Ignore",
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
}
VOLUMES: Final[list[Body]] = [
    {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    {"name": "settings", "configMap": {"name": "map", "optional": True}},
    {"name": "claimed", "persistentVolumeClaim": {"claimName": "claim", "readOnly": True}},
    *({"name": f"v{at}", **source} for at, source in enumerate(every_volume.ALL)),
]


def _affinity() -> Body:
    expressions = [{"key": "zone", "operator": "In", "values": ["a"]}]
    fields_ = [{"key": "metadata.name", "operator": "NotIn", "values": ["nowhere"]}]
    term = {"matchExpressions": expressions, "matchFields": fields_}
    nodes = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
    }
    return {"nodeAffinity": nodes, "podAffinity": NEAR, "podAntiAffinity": NEAR}


def everything() -> Body:
    """Return the spec of a pod that says all that one pod can."""
    return {
        "activeDeadlineSeconds": 86400,
        "affinity": _affinity(),
        "automountServiceAccountToken": False,
        "containers": [every_container.lively(f"c{at}", at) for at in range(4)],
        "initContainers": [
            *(every_container.lively(f"s{at}", at, sidecar=True) for at in range(4)),
            every_container.passing("first"),
        ],
        "dnsConfig": {
            "nameservers": ["10.0.0.10"],
            "options": [{"name": "ndots", "value": "2"}],
            "searches": ["example.org"],
        },
        "dnsPolicy": "None",
        "enableServiceLinks": False,
        "hostAliases": [{"hostnames": ["me"], "ip": "10.0.0.9"}],
        "hostname": "me",
        "imagePullSecrets": [every_volume.NAMED],
        "nodeSelector": {"zone": "a"},
        "overhead": {"cpu": "100m"},
        "preemptionPolicy": "Never",
        "priorityClassName": "every",
        "readinessGates": [{"conditionType": "example.org/ready"}],
        "resourceClaims": [
            {"name": "named", "resourceClaimName": "claim"},
            {"name": "made", "resourceClaimTemplateName": "template"},
        ],
        "resources": {"limits": {"cpu": "8"}, "requests": {"cpu": "6"}},
        "restartPolicy": "Never",
        "runtimeClassName": "every",
        "schedulerName": "berth-scheduler",
        "securityContext": SECURITY,
        "serviceAccountName": "every",
        "setHostnameAsFQDN": False,
        "shareProcessNamespace": True,
        "subdomain": "example",
        "terminationGracePeriodSeconds": 3,
        "tolerations": [TOLERATION],
        "topologySpreadConstraints": [SPREAD],
        "volumes": VOLUMES,
    }


def exclusive() -> Iterator[Body]:
    """Return the specs of pods that say what excludes something of `everything`."""
    main: Body = {"name": "main", "image": "example.org/none"}
    bare = {"schedulerName": "berth-scheduler", "containers": [main]}
    stopped = main | {"lifecycle": {"stopSignal": "SIGTERM"}}
    yield bare | {"hostNetwork": True, "hostPID": True, "hostIPC": True}
    yield bare | {"hostUsers": False}
    yield bare | {"hostnameOverride": "somebody"}
    sidecar = stopped | {"name": "beside", "restartPolicy": "Always"}
    yield bare | {"os": {"name": "linux"}, "containers": [stopped], "initContainers": [sidecar]}
    yield bare | {"schedulingGates": [{"name": "example.org/gate"}]}
    yield bare | {"schedulingGroup": {"podGroupName": "group"}}
    # Of ours none may say so.
    yield bare | {"nodeName": "nowhere", "schedulerName": "default-scheduler"}
