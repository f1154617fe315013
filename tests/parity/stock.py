"""Kube-scheduler as an oracle: which nodes pass all its filters for a pod.

It calls our extender with these nodes. Where there are none it makes no call, and says so in the pod's
condition. The extender refuses them all, so no pod is bound and the next one finds the same cluster. Nothing
else is in its way: no preemption, no retries, no answer that it remembers from an equal pod.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

from parity import extender, requests, resource_drawing, scenes
from parity.requests import InvalidObject, Requests
from parity.scenes import Answer, Object
from testbed import cluster as clusters
from testbed import processes, stock_scheduler

# A new node is tainted until its kubelet is ready, and a pod needs an account: neither is there.
# Tolerations with Lt and Gt, and user namespaces in the network of the host.
MORE: Final = "TaintTolerationComparisonOperators=true,UserNamespacesHostNetworkSupport=true"
APISERVER: Final = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,RuntimeClass",
    f"--feature-gates={MORE}",
)
GATES: Final = f"--feature-gates=OpportunisticBatching=false,SchedulerPopFromBackoffQ=false,{MORE}"
NODES: Final = "/api/v1/nodes"
WAITING: Final = "/api/v1/pods?fieldSelector=spec.nodeName%3D"
SERIAL: Final = (
    "parity/serial"  # Labels of nodes, by which a probe finds out whether the scheduler knows them.
)
LAST: Final = "parity/last"
# What a node that is known may say to the probe: it has no room, or pods on it keep others away.
KNOWN_NODE_SAYS: Final = ("Too many pods", "existing pods anti-affinity")
KNOWN_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A pod as the API server returned it, and the answer to it."""

    pod: Object
    answer: Answer


class Answers:
    """The answers of kube-scheduler, by the uid of the pod; the first one counts."""

    def __init__(self) -> None:
        self._found: dict[str, asyncio.Future[Answer]] = {}

    def passed(self, uid: str, nodes: frozenset[str]) -> None:
        """Record the nodes that passed, as the extender was told."""
        self._record(uid, Answer(nodes))

    def seen(self, pod: Object) -> None:
        """Record what the condition of a pod says: without a call of the extender, no node has passed."""
        for condition in pod["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled":
                words = condition.get("message", "")
                match condition.get("reason"):
                    case "Unschedulable":
                        self._record(pod["metadata"]["uid"], Answer(words=words))
                    case "SchedulingGated":
                        self._record(pod["metadata"]["uid"], Answer(gated=True))
                    case other:
                        failed = f"kube-scheduler failed: {other}: {words}"
                        self._record(pod["metadata"]["uid"], Answer(left_out=(failed,)))

    async def of(self, uid: str) -> Answer:
        """Return the answer to a pod once it has come."""
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._future(uid)

    def forget(self) -> None:
        """Forget all answers: their pods are gone."""
        self._found.clear()

    def _record(self, uid: str, answer: Answer) -> None:
        if not (future := self._future(uid)).done():
            future.set_result(answer)

    def _future(self, uid: str) -> asyncio.Future[Answer]:
        return self._found.setdefault(uid, asyncio.get_running_loop().create_future())


class Stock:
    """A cluster that has kube-scheduler as its only scheduler."""

    def __init__(self, requests_: Requests, answers: Answers) -> None:
        self._requests = requests_
        self._answers = answers
        self._serials = itertools.count(1)

    async def load(self, cluster: scenes.Cluster) -> scenes.Cluster:
        """Make the cluster what was drawn, without what the API server refuses; return its objects."""
        everywhere = [requests.pods_of(name) for name in scenes.NAMESPACES]
        await self._requests.delete_all(NODES, *everywhere)
        self._answers.forget()
        serial = f"{next(self._serials)}"
        nodes = await self._create_nodes(cluster.nodes, serial)
        # Kube-scheduler does not count the pods that have a host port: one that finishes frees it for all.
        # These come first, so that what it knows follows from what there is, not from how it came about.
        finished = [pod for pod in cluster.pods if _is_finished(pod)]
        running = [pod for pod in cluster.pods if not _is_finished(pod)]
        pods = [*await self._bind_all(finished), *await self._bind_all(running)]
        loaded = scenes.Cluster(tuple(nodes), tuple(pods))
        if loaded.nodes:
            await self._until_known(serial)
        return loaded

    async def ask(self, pods: Iterable[Object]) -> list[Asked | None]:
        """Return the answer to each pod; None if the API server refuses it."""
        return await asyncio.gather(*map(self._ask, pods))

    async def _ask(self, pod: Object) -> Asked | None:
        try:
            created = await self._requests.create(requests.pods_of(pod["metadata"]["namespace"]), pod)
        except InvalidObject:
            return None
        return Asked(created, await self._answers.of(created["metadata"]["uid"]))

    async def _create_nodes(self, nodes: Sequence[Object], serial: str) -> list[Object]:
        marked = [_labelled(node, {SERIAL: serial}) for node in nodes[:-1]]
        found = await asyncio.gather(*(self._requests.create(NODES, node) for node in marked))
        # The last one comes after all others, so that the scheduler knows them when it knows this one.
        last = [_labelled(node, {SERIAL: serial, LAST: ""}) for node in nodes[-1:]]
        return [*found, *[await self._requests.create(NODES, node) for node in last]]

    async def _bind_all(self, pods: Iterable[Object]) -> list[Object]:
        """Create pods on their nodes; return those that the API server takes."""
        return [pod for pod in await asyncio.gather(*map(self._bind, pods)) if pod is not None]

    async def _bind(self, pod: Object) -> Object | None:
        """Create a pod on its node, with the status and the end that were drawn; None if it is refused."""
        path = requests.pods_of(pod["metadata"]["namespace"])
        try:
            found = await self._requests.create(path, {key: pod[key] for key in pod if key != "status"})
            if "status" in pod:
                found = await self._requests.set_status(found, pod["status"])
        except InvalidObject:
            return None
        if not _is_finished(found) and scenes.TERMINATING in found["metadata"].get("annotations", {}):
            return await self._requests.terminate(found)
        return found

    async def _until_known(self, serial: str) -> None:
        """Wait until the scheduler knows the last node, and so all others and the pods."""
        spec = {
            "schedulerName": scenes.SCHEDULER,
            "nodeSelector": {SERIAL: serial, LAST: ""},
            "tolerations": [{"operator": "Exists"}],
            "containers": [resource_drawing.container("c0")],
        }
        deadline = time.monotonic() + KNOWN_SECONDS
        for at in itertools.count():
            metadata = {"name": f"probe-{serial}-{at}", "namespace": next(iter(scenes.NAMESPACES))}
            (probe,) = await self.ask([{"metadata": metadata, "spec": spec}])
            assert probe is not None
            if probe.answer.nodes or any(one in probe.answer.words for one in KNOWN_NODE_SAYS):
                return
            assert time.monotonic() < deadline, "kube-scheduler does not get to know the nodes"
            await asyncio.sleep(0.01)


def _is_finished(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}


def _labelled(node: Object, more: dict[str, str]) -> Object:
    metadata = node["metadata"]
    return {**node, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **more}}}


# ---------------------------------------------------------------- its life


def _settings(port: int) -> dict[str, Any]:
    """Return the configuration of a scheduler that looks at all nodes and asks our extender about them."""
    plugins = {"postFilter": {"disabled": [{"name": "*"}]}}
    return {
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": 300,
        "podMaxBackoffSeconds": 300,
        "profiles": [{"schedulerName": scenes.SCHEDULER, "plugins": plugins}],
        "extenders": [
            {
                "urlPrefix": f"http://127.0.0.1:{port}",
                "filterVerb": extender.VERB,
                "weight": 1,
                "nodeCacheCapable": True,
                "httpTimeout": "30s",
            }
        ],
    }


def control_plane() -> clusters.Cluster:
    """Return a cluster, not yet started, in which objects stay as they are created."""
    return clusters.Cluster(controller_manager=False, apiserver_args=APISERVER)


@contextlib.asynccontextmanager
async def started(testbed: clusters.Cluster) -> AsyncIterator[Stock]:
    """Yield the oracle of a cluster that runs, of which it is the only user."""
    answers = Answers()
    async with Requests(testbed) as mine, extender.serving(answers.passed) as port:
        await _create_namespaces(mine)
        command = stock_scheduler.command(testbed, settings=_settings(port), qps=5000, burst=5000)
        program = processes.start(
            "kube-scheduler", [*command, GATES], log=testbed.directory / "kube-scheduler.log"
        )
        watch = asyncio.create_task(_watch(mine, answers))
        try:
            yield Stock(mine, answers)
        except TimeoutError as error:
            end = processes.tail(program.log)
            raise processes.CannotStart(
                f"kube-scheduler gave no answer; the end of its log:\n{end}"
            ) from error
        finally:
            watch.cancel()
            await asyncio.wait([watch])
            program.stop(grace=2.0)


async def _create_namespaces(mine: Requests) -> None:
    for name, labels in scenes.NAMESPACES.items():
        await mine.ensure("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})


async def _watch(mine: Requests, answers: Answers) -> None:
    async for pod in mine.events(WAITING):
        answers.seen(pod)
