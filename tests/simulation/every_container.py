"""Containers that say all that containers can say; what excludes each other is spread over several."""

from typing import Any, Final

Body = dict[str, Any]

HANDLERS: Final[tuple[Body, ...]] = (
    {"exec": {"command": ["true"]}},
    {
        "httpGet": {
            "host": "127.0.0.1",
            "port": 8080,
            "path": "/healthz",
            "scheme": "HTTP",
            "httpHeaders": [{"name": "X-Who", "value": "probe"}],
        }
    },
    {"tcpSocket": {"host": "127.0.0.1", "port": 8080}},
)
ASKING: Final[Body] = {"grpc": {"port": 9090, "service": "health"}}
RESTING: Final[Body] = {"sleep": {"seconds": 1}}


def _probe(handler: Body, **more: int) -> Body:
    times = {"initialDelaySeconds": 1, "periodSeconds": 7, "timeoutSeconds": 2}
    return {**handler, **times, "failureThreshold": 4, **more}


def _probed(at: int) -> Body:
    """Return the probes and the lifecycle of the container of that number."""
    probing = (*HANDLERS, ASKING)[at]
    return {
        "livenessProbe": _probe(probing, successThreshold=1, terminationGracePeriodSeconds=9),
        # A readiness probe has no grace period; the other two do.
        "readinessProbe": _probe(probing, successThreshold=2),
        "startupProbe": _probe(probing, successThreshold=1, terminationGracePeriodSeconds=9),
        "lifecycle": {
            "postStart": (*HANDLERS, RESTING)[at],
            "preStop": (*HANDLERS, RESTING)[at],
        },
    }


ENVIRONMENT: Final[list[Body]] = [
    {"name": "PLAIN", "value": "x"},
    {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "k", "optional": True}}},
    {"name": "FIELD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
    {
        "name": "FILE",
        "valueFrom": {"fileKeyRef": {"volumeName": "scratch", "path": "f", "key": "k", "optional": True}},
    },
    {
        "name": "AMOUNT",
        "valueFrom": {"resourceFieldRef": {"containerName": "c0", "resource": "limits.cpu", "divisor": "1m"}},
    },
    {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "k", "optional": True}}},
]
LINUX: Final[Body] = {
    "allowPrivilegeEscalation": False,
    "appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"},
    "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
    "privileged": False,
    "procMount": "Default",
    "readOnlyRootFilesystem": True,
    "runAsGroup": 1000,
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seLinuxOptions": {"level": "s0", "role": "r", "type": "t", "user": "u"},
    "seccompProfile": {"type": "Localhost", "localhostProfile": "mine.json"},
}
WINDOWS: Final[Body] = {
    "gmsaCredentialSpec": "spec",
    "gmsaCredentialSpecName": "name",
    "hostProcess": False,
    "runAsUserName": "ContainerUser",
}
RULES: Final[list[Body]] = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
SEEN: Final[Body] = {
    "mountPath": "/scratch",
    "name": "scratch",
    "mountPropagation": "None",
    "readOnly": False,
}


def plain(name: str) -> Body:
    """Return a container with what every kind of container may say."""
    return {
        "name": name,
        "image": "example.org/none",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep"],
        "args": ["infinity"],
        "workingDir": "/",
        "env": ENVIRONMENT,
        "envFrom": [
            {"prefix": "A_", "configMapRef": {"name": "map", "optional": True}},
            {"secretRef": {"name": "secret", "optional": True}},
        ],
        "securityContext": {**LINUX, "windowsOptions": WINDOWS},
        "stdin": True,
        "stdinOnce": True,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "tty": True,
        "volumeDevices": [{"devicePath": "/dev/block", "name": "claimed"}],
        "volumeMounts": [
            SEEN,
            {"mountPath": "/ro", "name": "settings", "readOnly": True, "recursiveReadOnly": "Disabled"},
        ],
    }


def lively(name: str, at: int, *, sidecar: bool = False) -> Body:
    """Return a container that lives and asks for something."""
    one = plain(name) | _probed(at)
    one["volumeMounts"] = [
        *one["volumeMounts"],
        {"mountPath": "/part", "name": "scratch", "subPath": "part"},
        {"mountPath": "/own", "name": "scratch", "subPathExpr": "$(PLAIN)"},
    ]
    first = 9000 if sidecar else 8000
    one["ports"] = [
        {"containerPort": first + at, "name": f"p{first + at}", "protocol": "TCP"},
        {"containerPort": first + 100 + at, "hostPort": first + 100 + at, "hostIP": "127.0.0.1"},
    ]
    one["resources"] = {
        "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1" if at == 0 and not sidecar else "0"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "claims": [{"name": "named", "request": "one"}],
    }
    one["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    one["restartPolicy"] = "Always" if sidecar else "Never"
    return one if sidecar else one | {"restartPolicyRules": RULES}


def passing(name: str) -> Body:
    """Return a container that ends before the others start."""
    return plain(name) | {"restartPolicy": "Never", "restartPolicyRules": RULES}


def debugging() -> Body:
    """Return a container that is added to a pod for debugging, through a subresource of its own."""
    return plain("debug") | {"targetContainerName": "c0"}
