"""The operator on a cluster of any size, without a server: what it reads comes as JSON, as from a watch.

Codecs, sinks, ledger, loop, binder, the writers of Bindings, Events and statuses are the
operator's own. Its requests are answered at once, so what is measured is what it computes itself,
without the connection.
"""

import asyncio
import collections
import contextlib
import datetime as dt
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from bench import bench_cluster, stopwatch
from berth_agent import device_spec, device_status, simulated
from berth_agent.gpupods import desired, watched_pod
from berth_crds import allocation, names, wire
from berth_crds.client import api, lease, watch
from berth_operator.engine import (
    bind_sender,
    decision_reporter,
    inventory_metrics,
    loop,
    node_summaries,
    waiting_reasons,
)
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.rate_limiter import UNLIMITED, RateLimiter
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import binding_writer, events, kind_statuses, pod_status, sinks
from berth_operator.scheduling import cycle, decisions
from berth_operator.translate import device_cache, devices, gpupods, long_pods, nodes, pods, raw
from support import builders, kubelet, writers

NOW: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NAMESPACE: Final = "team"
OTHER_SCHEDULER: Final = "default-scheduler"
BURST: Final = 50  # Pods that come at once, as many as binds are under way in a cluster that is filled.
ROUND_SECONDS: Final = 0.05

Thing = dict[str, Any]

# What the server adds to a pod and to its containers.
ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
STORED_CONTAINER: Final = {
    "volumeMounts": [{"name": "kube-api-access", "readOnly": True, "mountPath": ACCOUNT}],
    "terminationMessagePath": "/dev/termination-log",
    "imagePullPolicy": "Always",
}
TOKEN: Final = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
STORED_SPEC: Final = {
    "volumes": [{"name": "kube-api-access", "projected": {"sources": [TOKEN], "defaultMode": 420}}],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "securityContext": {},
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "tolerations": [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    ],
}


class Server(api.Api):
    """Answers every request at once, and carries none out."""

    def __init__(self) -> None:
        """Be nowhere."""
        self.bindings: dict[str, Thing] = {}  # Of pods, by name.
        self.statuses: dict[str, Thing] = {}  # Of Devices, by name.

    async def send(self, method: str, path: str, **sent: Any) -> bytes:
        """Keep a Binding, or the status of a Device."""
        del method
        *_, name, subresource = path.split("/")
        if subresource == "binding":
            self.bindings[name] = msgspec.json.decode(sent["body"])
        elif subresource == "status":
            self.statuses[name] = msgspec.json.decode(sent["body"])["status"]
        return b"{}"


class GrownCluster:
    """An operator, and objects that it reads one by one."""

    def __init__(self) -> None:
        self.stopwatch = stopwatch.Stopwatch()
        self._ahead = 0.0
        clock = self._clock
        self.ledger = Ledger(clock)
        watchdog = Watchdog(self.ledger, clock=clock)
        self._server = Server()
        limiter = RateLimiter(clock, lambda: UNLIMITED)
        self._events = events.EventRecorder(self._server, limiter, wall=_wall, instance="bench")
        writer = pod_status.PodStatusWriter(self._server, self._events, limiter, wall=_wall)
        limiters = kind_statuses.Limiters(limiter, limiter)
        self.statuses = kind_statuses.KindStatuses(self._server, limiters, wall=_wall, clock=clock)
        log = logging.getLogger(__name__)
        self._sinks: Mapping[str, tuple[watch.Codec[Any], Any]] = {
            "node": (watch.Codec(raw.Node), sinks.NodeSink(self.ledger, log)),
            "Device": (watch.Codec(wire.Device), sinks.DeviceSink(self.ledger, watchdog, log)),
            "GpuPod": (watch.Codec(wire.GpuPod), sinks.GpuPodSink(self.ledger, log)),
            "pod": (watch.Codec(long_pods.Pod), sinks.PodSink(self.ledger, writer, log)),
        }
        leader = binding_writer.Leader(
            lambda: True, lambda: None, _at_once, writers.Lead().permit, writers.Lead().touch
        )
        self.loop = loop.Loop(
            self.ledger,
            binding_writer.BindingWriter(self._server, self.ledger, leader, term="bench/1", clock=clock),
            decision_reporter.DecisionReporter(self.ledger, writer, clock=clock, cpu_clock=time.thread_time),
            clock=clock,
            bind_limits=bind_sender.Limits(),
            records=writers.discarded_records(),
        )
        self._written: dict[str, Thing] = {}  # The summaries of Devices, by name.
        self._pods: dict[str, Thing] = {}  # That wait, by name.
        self._revision = 0
        self.changes = self.ledger.changes.reader()

    def _clock(self) -> float:
        return time.thread_time() + self._ahead

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure by part what is done in the block."""
        timed = self.stopwatch.patched
        with contextlib.ExitStack() as stack:
            for part, owner, attribute in (
                ("decode", watch.Codec, "decode_object"),
                ("translate", pods, "adopt"),
                ("translate", pods, "classify"),
                ("translate", nodes, "excess"),
                ("translate", nodes, "read"),
                ("translate", device_cache.DeviceCache, "read"),
                ("translate", devices, "read_record"),
                ("translate", gpupods, "read"),
                ("decide", cycle, "place_or_count_reasons"),
                ("explain", waiting_reasons.WaitingReasons, "message"),
                ("encode", binding_writer, "binding"),
            ):
                stack.enter_context(timed(part, owner, attribute))
            yield

    # ------------------------------------------------------------ what is read

    def read(self, kind: str, thing: Thing) -> None:
        """Have the watch show an object."""
        self._revision += 1
        meta = thing["metadata"] | {"resourceVersion": f"{self._revision}"}
        body = msgspec.Raw(msgspec.json.encode(thing | {"metadata": meta}))
        codec, sink = self._sinks[kind]
        seen = codec.decode_object(body)
        assert not isinstance(seen, watch.Undecodable), seen
        with self.stopwatch.part("ledger"):
            sink.upserted(seen)

    def put_node(self, name: str) -> None:
        """Have a node come."""
        node = kubelet.FakeNode(name, extended={names.NVIDIA_GPU: bench_cluster.CARDS})
        self.read("node", _named(node.manifest(lease.rfc3339(NOW)), name))

    def put_device(self, name: str) -> None:
        """Have its cards be published, and its agent show a first sign of life."""
        device = self._device(name)
        self.statuses.seen(names.DEVICES, name, device["status"])
        self.read("Device", device)
        self.ledger.agent_silent(name, silent=False)

    def _device(self, name: str) -> Thing:
        """Return the Device of a node, with the summary that was written last."""
        sample = simulated.machine(name, bench_cluster.SHAPE)
        status = msgspec.to_builtins(device_status.status(sample, {}, wire.DeviceStatus(), now=NOW))
        spec = msgspec.to_builtins(device_spec.spec(name, sample, None))
        return _named({"spec": spec, "status": status | self._written.get(name, {})}, name)

    def bound_pod(self, number: int, node: str, minor: int | None) -> Thing:
        """Return a running pod that holds this card of its node, or none."""
        body = pod(
            number, names.SCHEDULER_NAME if minor is not None else OTHER_SCHEDULER, card=minor is not None
        )
        if minor is not None:
            card = tuple(simulated.machine(node, bench_cluster.SHAPE).answering_cards())[minor]
            share = decisions.Share(card.uuid, minor, bench_cluster.WHOLE, card.memory)
            grants = (decisions.Grant("main", (share,)),)
            body["metadata"]["annotations"] = builders.answered(decisions.Placement(node, grants))
        return _running(body, node)

    def put_bound_pod(self, number: int, node: str, minor: int | None) -> None:
        """Have such a pod come."""
        self.read("pod", self.bound_pod(number, node, minor))

    def put_gpupod(self, body: Thing) -> None:
        """Have the agent of its node record a bound pod."""
        bound, node = msgspec.convert(body, watched_pod.Pod), body["spec"]["nodeName"]
        allocated = desired.decode_allocation(bound, node)
        assert isinstance(allocated, allocation.Allocation), allocated
        spec = msgspec.to_builtins(desired.spec(bound, allocated, desired.NodeCards(node)))
        self.read("GpuPod", _named({"spec": spec}, bound.metadata.name, namespace=NAMESPACE))

    # ------------------------------------------------------------ pods that come and are bound

    async def bind(self, first: int, count: int) -> None:
        """Have pods of one card each come, be bound, be recorded and run."""
        for start in range(first, first + count, BURST):
            for number in range(start, min(start + BURST, first + count)):
                self._arrive(pod(number, names.SCHEDULER_NAME))
            for _ in range(BURST):
                await self._round()
                if not self._pods:
                    break
            assert not self._pods, "each pod has room"
            await self._summarize()

    def _arrive(self, body: Thing) -> None:
        self._pods[body["metadata"]["name"]] = body
        self.read("pod", body)

    async def _round(self) -> None:
        """Make a round, and have the watch show its binds, and what kubelets and agents make of them."""
        self._ahead += ROUND_SECONDS
        with self.stopwatch.part("round"):
            self.loop.round()
        with self.stopwatch.part("follow"):
            while self.loop.binder.busy:  # noqa: ASYNC110  it is nobody's event
                await asyncio.sleep(0)
        for name, sent in self._server.bindings.items():
            body = self._pods.pop(name)
            body["metadata"] |= {"annotations": sent["metadata"]["annotations"]}
            body["spec"]["nodeName"] = sent["target"]["name"]
            self.read("pod", body)
            self.put_gpupod(body)
            self.read("pod", _running(body, body["spec"]["nodeName"]))
        self._server.bindings.clear()
        with self.stopwatch.part("events"):
            await self._events.drain(60.0)

    async def _summarize(self) -> None:
        """Have the nodes that have changed summed up, and written, and the watch show that."""
        with self.stopwatch.part("summaries"):
            inventory, changed = self.ledger.inventory, self.changes.read()
            changed = set(inventory.index) if changed is None else changed
            for portion in node_summaries.portions(inventory, changed, self._clock):
                self.statuses.update(portion)
            await self.statuses.flush()
        for name, status in self._server.statuses.items():
            self._written[name] = status
            device = self._device(name)
            self.statuses.seen(names.DEVICES, name, device["status"])
            self.read("Device", device)
        self._server.statuses.clear()

    # ------------------------------------------------------------ what is asked now and then

    def explain(self, number: int) -> None:
        """Have a pod come that fits nowhere, and go."""
        body = pod(number, names.SCHEDULER_NAME, cpu="4096")
        self.read("pod", body)
        self._ahead += ROUND_SECONDS
        with self.stopwatch.part("round"):
            self.loop.round()
        _, sink = self._sinks["pod"]
        sink.deleted(wire.Meta(uid=body["metadata"]["uid"]))

    def collect_metrics(self) -> None:
        """Count what the metrics show."""
        with self.stopwatch.part("metrics"):
            collections.deque(inventory_metrics.InventoryCollector(self.ledger, self._clock).collect(), 0)


async def _at_once() -> None:
    """Return."""


def _wall() -> dt.datetime:
    return NOW


def _running(body: Thing, node: str) -> Thing:
    """Return a pod as it is once it runs on a node."""
    status = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    return body | {"spec": body["spec"] | {"nodeName": node}, "status": status}


def _named(thing: Thing, name: str, **more: str) -> Thing:
    """Return an object with the metadata that the server adds."""
    meta = {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": lease.rfc3339(NOW), **more}
    return thing | {"metadata": thing.get("metadata", {}) | meta}


def pod(number: int, scheduler: str, *, card: bool = True, cpu: str = "100m") -> Thing:
    """Return a pod of a ReplicaSet as the server stores it, with or without a card."""
    made, owner = bench_cluster.pod(number, scheduler), f"set-{number // BURST}"
    [container] = made["spec"]["containers"]
    container["resources"]["requests"] = {"cpu": cpu, "memory": "1Gi"}
    if not card:
        container["resources"]["limits"] = {"memory": "1Gi"}
    container |= STORED_CONTAINER
    made["spec"] |= STORED_SPEC
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-of-{owner}"}
    made["metadata"] |= {
        "labels": {"app": owner},
        "ownerReferences": [reference | {"controller": True, "blockOwnerDeletion": True}],
        "namespace": NAMESPACE,
    }
    return _named(made, made["metadata"]["name"]) | {"status": {"phase": "Pending"}}
