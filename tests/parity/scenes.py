"""What both schedulers are asked: a cluster, and pods that ask where they may run.

Objects are what people would write in YAML. A bound pod may have a status, and an annotation that says how it
ends: both are what its kubelet and its user would do after it was created.
"""

import dataclasses
from typing import Any, Final

Object = dict[str, Any]

SCHEDULER: Final = "berth-scheduler"
# Their labels stay as they are for a whole run, so that none of them changes while pods ask.
NAMESPACES: Final[dict[str, dict[str, str]]] = {
    "parity-a": {"team": "red", "stage": "live"},
    "parity-b": {"team": "blue", "stage": "live"},
    "parity-c": {"team": "red"},
}
TERMINATING: Final = (
    "parity/terminating"  # An annotation of bound pods: they are deleted, and take their time.
)
OS_LABEL: Final = "kubernetes.io/os"


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes, and the pods that are bound to them."""

    nodes: tuple[Object, ...]
    pods: tuple[Object, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """One pod that asks for a node of a cluster."""

    cluster: Cluster
    pod: Object


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The nodes that pass all filters, by name; `gated` pods are not tried at all.

    `words` are what the scheduler says about it. `left_out` names what one of them does not serve.
    """

    nodes: frozenset[str] = frozenset()
    gated: bool = False
    words: str = dataclasses.field(default="", compare=False)
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the answer in words."""
        if self.left_out:
            return f"left out: {'; '.join(self.left_out)}"
        return "not tried: it is gated" if self.gated else ", ".join(sorted(self.nodes)) or "no node"


def expected(stock: Answer, question: Question) -> Answer:
    """Return what Berth has to answer, given the answer of kube-scheduler.

    They differ in one thing on purpose. A kubelet refuses a pod of another operating system than its node's,
    and kube-scheduler does not ask. Berth does.
    """
    system = question.pod["spec"].get("os", {}).get("name")
    if system is None:
        return stock
    suitable = {
        node["metadata"]["name"]
        for node in question.cluster.nodes
        if node["metadata"].get("labels", {}).get(OS_LABEL) == system
    }
    return dataclasses.replace(stock, nodes=stock.nodes & suitable)


MISREAD: Final = "a namespaceSelector that needs no label, which kube-scheduler 1.36 takes for all namespaces"


def misread(pod: Object) -> tuple[str, ...]:
    """Return what of a pod kube-scheduler reads otherwise than Kubernetes documents it.

    In its own required terms a `namespaceSelector` of `NotIn` and `DoesNotExist` alone means every namespace
    there, because after the namespaces are listed it is also asked whether no labels at all meet it.
    """
    affinity = pod["spec"].get("affinity", {})
    terms = (
        term
        for kind in ("podAffinity", "podAntiAffinity")
        for term in affinity.get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
    )
    return (MISREAD,) if any(_met_by_nothing(term.get("namespaceSelector")) for term in terms) else ()


def _met_by_nothing(selector: Object | None) -> bool:
    expressions = (selector or {}).get("matchExpressions", ())
    no_labels = not (selector or {}).get("matchLabels")
    return (
        no_labels
        and bool(expressions)
        and all(one["operator"] in {"NotIn", "DoesNotExist"} for one in expressions)
    )
