"""Berth's answer: the nodes that pass its filters, by its own translation, ledger and constraints.

It is fed with the very objects of the API server, through the sinks that its informers feed.
"""

from typing import Final

import msgspec

from berth_crds import wire
from berth_crds.client import decoding
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import auditor, namespace_sink, sinks
from berth_operator.scheduling import decisions, existing_terms, signatures
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.translate import long_pods, pods, raw
from parity.scenes import NAMESPACES, Answer, Cluster, Object

LEFT_OUT: Final = frozenset({decisions.Reason.UNSUPPORTED_CONSTRAINT, decisions.Reason.UNSUPPORTED_REQUEST})
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
ANTI_AFFINITY: Final = "required anti-affinity of pods that are there"

_encoder: Final = msgspec.json.Encoder()
_pod: Final = msgspec.json.Decoder(long_pods.Pod)
_node: Final = msgspec.json.Decoder(raw.Node)


def read_pod(pod: Object) -> raw.Pod:
    """Return a pod as the operator decodes it."""
    return decoding.decode_object(_pod, _encoder.encode(pod))


class Berth:
    """Berth's picture of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.ledger = Ledger(float)
        nodes, bound = sinks.NodeSink(self.ledger), sinks.PodSink(self.ledger, auditor.NullObserver())
        namespaces = namespace_sink.NamespaceSink(self.ledger)
        for name, labels in NAMESPACES.items():
            namespaces.upserted(raw.Namespace(wire.Meta(name=name, labels=labels)))
        for node in cluster.nodes:
            nodes.upserted(decoding.decode_object(_node, _encoder.encode(node)))
        for pod in cluster.pods:
            bound.upserted(read_pod(pod))

    def answer(self, pod: Object) -> Answer:
        """Return the nodes that pass for a pod, or what of it is not served."""
        waiting = pods.classify(read_pod(pod))
        assert isinstance(waiting, pods.WaitingPod), waiting
        if waiting.gated:
            return Answer(gated=True)
        pod_info = waiting.pod_info
        left_out = [one for one in pod_info.faults if one.reason in LEFT_OUT]
        if left_out:
            return Answer(left_out=tuple(one.detail.partition(",")[0] for one in left_out))
        if pod_info.faults:
            return Answer(words="; ".join(one.detail for one in pod_info.faults))
        inventory = self.ledger.inventory
        pod_info = existing_terms.with_terms_of_existing_pods(inventory.pods, pod_info)
        signature = signatures.of(pod_info.request, pod_info.demand)
        mask = registry.feasible(Query.for_all_nodes(inventory, signature))
        passed = (info for info, passes in zip(inventory.infos, mask.tolist(), strict=True) if passes)
        return Answer(frozenset(info.name for info in passed if info is not None))


def serves_anti_affinity() -> bool:
    """Whether Berth takes a pod with required anti-affinity, and so knows that of pods that are there."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "schedulerName": "berth-scheduler",
            "affinity": {"podAntiAffinity": {REQUIRED: [term]}},
            "containers": [{"name": "c"}],
        },
    }
    return not Berth(Cluster(())).answer(pod).left_out


def without_anti_affinity(pod: Object) -> Object:
    """Return a bound pod without the anti-affinity that keeps others away."""
    affinity = {
        kind: value for kind, value in pod["spec"].get("affinity", {}).items() if kind != "podAntiAffinity"
    }
    return {**pod, "spec": {**pod["spec"], "affinity": affinity}}
