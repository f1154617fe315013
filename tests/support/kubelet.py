"""Plays the kubelets of nodes that do not exist.

    async with kubelet.Kubelets(cluster) as kubelets:
        await kubelets.add(kubelet.FakeNode("gpu-1", extended={"nvidia.com/gpu": 8}))

A cluster without machines still needs someone who says that nodes are ready, that bound pods run, that
finished ones have finished, and that deleted ones are gone. It does this under a service account of its
own, with a role for just that, so that the audit log tells its writes from those of the programs under
test. Everything follows from the pod as it is now, so whatever a broken watch missed is found again by the
next list.
"""

import asyncio
import contextlib
import datetime as dt
import functools
import http
import json
import ssl
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp

from support import deep_json
from testbed import cluster as clusters
from testbed import sessions

NAMESPACE = "berth-testbed"
ACCOUNT = "kubelets"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

# What a pod may ask of its make-believe container, in seconds: to finish by itself, and to take its time
# when deleted.
RUN_SECONDS = "testbed/run-seconds"
STOP_SECONDS = "testbed/stop-seconds"

RIGHTS = f"""\
apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {ACCOUNT}, namespace: {NAMESPACE}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {NAMESPACE}-{ACCOUNT}}}
rules:
- {{apiGroups: [""], resources: [nodes], verbs: [create, patch, delete]}}
- {{apiGroups: [""], resources: [pods], verbs: [list, watch, delete]}}
- {{apiGroups: [""], resources: [pods/status], verbs: [patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {NAMESPACE}-{ACCOUNT}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {NAMESPACE}-{ACCOUNT}}}
subjects: [{{kind: ServiceAccount, name: {ACCOUNT}, namespace: {NAMESPACE}}}]
"""

BOUND_PODS = (
    "/api/v1/pods?fieldSelector=spec.nodeName!%3D"  # The selector is `spec.nodeName!=`: any node at all.
)
WATCH_SECONDS = 300
RETRY_SECONDS = 0.2
MOST_REFUSALS = 25
CONNECTIONS = 32
LONGEST_LINE = 1 << 22  # A watch event is one line, and aiohttp gives up at 64 KiB unless told otherwise.

GOODBYE_SECONDS = 10

READY_POD = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")

Raw = dict[str, Any]


class Refused(Exception):
    """The API server turned a request down for good: a mistake in a test or in this module."""


class Missed(Exception):
    """The watch broke or expired: only a new list tells what happened meanwhile."""


@dataclass(frozen=True, slots=True)
class FakeNode:
    """What a node says about itself."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    cpu: str = "64"
    memory: str = "512Gi"
    pods: int = 110
    extended: Mapping[str, int] = field(default_factory=dict)

    def manifest(self, now: str) -> Raw:
        """Return the Node object, ready to take pods."""
        names = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        extended = {resource: str(count) for resource, count in self.extended.items()}
        resources = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **extended}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": {**names, **self.labels}},
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
        }


class Kubelets:
    """The kubelets of some nodes: those that were added here, and no others."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        self._cluster = cluster
        self._nodes: set[str] = set()
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Task[None]] = {}
        self._deleting: set[str] = set()
        self._close = contextlib.AsyncExitStack()
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        """Adopt the identity and begin to watch."""
        token = await asyncio.to_thread(_token, self._cluster)
        tls = ssl.create_default_context(cafile=str(self._cluster.ca_file))
        lent = sessions.session(
            self._cluster.server,
            tls=tls,
            limit=CONNECTIONS,
            headers={"Authorization": f"Bearer {token}", "User-Agent": "testbed-kubelets"},
            read_bufsize=LONGEST_LINE,
        )
        self._session = await self._close.enter_async_context(lent)
        follower = asyncio.create_task(self._follow(), name="testbed-kubelets")
        self._close.push_async_callback(self._remove_all)
        self._close.push_async_callback(self._drop_work)
        self._close.push_async_callback(_cancel, [follower])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and take the nodes along: the cluster is shared."""
        await self._close.aclose()

    async def add(self, *nodes: FakeNode) -> None:
        """Create nodes that are ready at once, and play their kubelets from now on."""
        self._nodes.update(node.name for node in nodes)
        await asyncio.gather(*(self._add(node) for node in nodes))

    async def remove(self, *names: str) -> None:
        """Delete nodes; what still runs there is forgotten."""
        gone = list(names)
        self._nodes.difference_update(gone)
        await asyncio.gather(*(self._insist("DELETE", f"/api/v1/nodes/{name}") for name in gone))

    async def _add(self, node: FakeNode) -> None:
        manifest = node.manifest(_now())
        await self._insist("POST", "/api/v1/nodes", manifest)
        # Admission taints every new node as not ready, and the controller that would lift that does not run.
        await self._insist("PATCH", f"/api/v1/nodes/{node.name}", {"spec": manifest["spec"]})

    async def _remove_all(self) -> None:
        async with asyncio.timeout(GOODBYE_SECONDS):
            await self.remove(*self._nodes)

    async def _drop_work(self) -> None:
        await _cancel([*self._lives.values(), *self._ends.values()])

    # Watching.

    async def _follow(self) -> None:
        """List and watch for ever; any trouble leads back to the list."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, Missed, json.JSONDecodeError):
                version = await self._list()
                await self._watch(version)
            await asyncio.sleep(RETRY_SECONDS)

    async def _list(self) -> str:
        async with self._session.get(BOUND_PODS, timeout=aiohttp.ClientTimeout(total=60)) as response:
            if response.status != http.HTTPStatus.OK:
                raise Missed
            answer = deep_json.loads(await response.read())
        pods = answer["items"]
        self._forget({*self._lives, *self._ends} - {pod["metadata"]["uid"] for pod in pods})
        # What had ended before may be there again: the server's data may have been restored.
        self._forget([uid for uid, life in self._lives.items() if life.done()])
        for pod in pods:
            self._attend(pod)
        return str(answer["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> None:
        path = f"{BOUND_PODS}&watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=WATCH_SECONDS + 10)
        async with self._session.get(path, timeout=timeout) as response:
            if response.status != http.HTTPStatus.OK:
                raise Missed
            async for line in response.content:
                self._notice(deep_json.loads(line))

    def _notice(self, event: Raw) -> None:
        pod = event["object"]
        match event["type"]:
            case "ADDED" | "MODIFIED":
                self._attend(pod)
            case "DELETED":
                self._forget([pod["metadata"]["uid"]])
            case _:
                raise Missed

    # Living.

    def _attend(self, pod: Raw) -> None:
        """Begin what the pod needs now and what has not begun yet: its life, or its end."""
        if pod["spec"]["nodeName"] not in self._nodes:
            return
        uid = pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            self._cancel_life(uid)
            self._begin(self._ends, uid, self._end(pod))
        elif pod["status"].get("phase") not in {"Succeeded", "Failed"}:
            self._begin(self._lives, uid, self._live(pod))

    async def _live(self, pod: Raw) -> None:
        """Run the pod, and finish it if it is one that finishes."""
        if pod["status"].get("phase") != "Running":
            await self._report(pod, running(pod, _now()))
        seconds = pod["metadata"].get("annotations", {}).get(RUN_SECONDS)
        if seconds is not None:
            await asyncio.sleep(float(seconds))
            await self._report(pod, succeeded(pod, _now()))

    async def _end(self, pod: Raw) -> None:
        """Finish the deletion that the API server began, once the containers have stopped."""
        await asyncio.sleep(float(pod["metadata"].get("annotations", {}).get(STOP_SECONDS, 0)))
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        uid = pod["metadata"]["uid"]
        self._deleting.add(uid)
        await self._insist("DELETE", _path(pod), body)
        self._deleting.discard(uid)

    async def _report(self, pod: Raw, status: Raw) -> None:
        # The uid makes sure that a pod of the same name that came later is not meant.
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._insist("PATCH", f"{_path(pod)}/status", body)

    def _begin(self, tasks: dict[str, asyncio.Task[None]], uid: str, work: Coroutine[Any, Any, None]) -> None:
        if uid in tasks:
            work.close()
        else:
            tasks[uid] = asyncio.create_task(work)

    def _cancel_life(self, uid: str) -> None:
        if uid in self._lives:
            self._lives[uid].cancel()

    def _forget(self, uids: Iterable[str]) -> None:
        # A deletion under way is left to end: to hang up on it would be a failure in the audit log.
        for uid in set(uids) - self._deleting:
            for tasks in (self._lives, self._ends):
                if task := tasks.pop(uid, None):
                    task.cancel()

    # Asking.

    async def _insist(self, method: str, path: str, body: Raw | None = None) -> None:
        """Send a request until the server has decided on it.

        A server that has just started knows no roles yet, so a refusal counts only when it lasts.
        """
        refusals = 0
        while True:
            try:
                if await self._settled(method, path, body):
                    return
            except (aiohttp.ClientError, TimeoutError):
                pass
            except Refused:
                refusals += 1
                if refusals > MOST_REFUSALS:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def _settled(self, method: str, path: str, body: Raw | None) -> bool:
        """Send a request once; tell whether that settled it, or whether it is worth another try."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Content-Type": kind}
        timeout = aiohttp.ClientTimeout(sock_connect=5, sock_read=10)
        async with self._session.request(
            method, path, json=body, headers=headers, timeout=timeout
        ) as response:
            if response.ok or response.status == http.HTTPStatus.NOT_FOUND:
                return True
            if response.status not in _passing(method):
                raise Refused(f"{method} {path}: {response.status} {await response.text()}")
            return False


@functools.cache
def _token(cluster: clusters.Cluster) -> str:
    """Make the account, once on each cluster, and return its token."""
    cluster.apply(RIGHTS)
    return cluster.token(NAMESPACE, ACCOUNT)


def _passing(method: str) -> set[int]:
    """Return the answers that another try may change.

    A conflict is one of them, except when something is created: either the server was busy with the same
    object, or a new pod has the name, and then the watch will soon end what we do for the old one.
    """
    busy = {429, 500, 502, 503, 504}
    return busy if method == "POST" else {*busy, http.HTTPStatus.CONFLICT}


def running(pod: Raw, now: str) -> Raw:
    """Return the status of a pod all of whose containers have started."""
    started = {"state": {"running": {"startedAt": now}}, "ready": True, "started": True}
    finished = {"state": {"terminated": _exit(now)}, "ready": True}
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [_condition(kind, "True", now) for kind in READY_POD],
        "containerStatuses": [_container(one, started) for one in pod["spec"]["containers"]],
        "initContainerStatuses": [_container(one, finished) for one in pod["spec"].get("initContainers", [])],
    }


def succeeded(pod: Raw, now: str) -> Raw:
    """Return the status of a pod all of whose containers have ended well."""
    finished = {"state": {"running": None, "terminated": _exit(now)}, "ready": False, "started": False}
    return {
        "phase": "Succeeded",
        "conditions": [_condition(kind, "False", now) for kind in ("ContainersReady", "Ready")],
        "containerStatuses": [_container(one, finished) for one in pod["spec"]["containers"]],
    }


def _container(container: Raw, state: Raw) -> Raw:
    return {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0, **state}


def _exit(now: str) -> Raw:
    return {"exitCode": 0, "reason": "Completed", "finishedAt": now}


def _condition(kind: str, status: str, now: str) -> Raw:
    return {"type": kind, "status": status, "lastTransitionTime": now}


def _path(pod: Raw) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended, raising what went wrong in any of them before."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
