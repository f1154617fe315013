"""Cases that are kept as YAML: a small cluster, a pod, and what kube-scheduler answered.

Objects are as the API server returned them, without what is the same in every object and read by no
scheduler. So they can be replayed without a server, and created again on one.
"""

import dataclasses
from pathlib import Path
from typing import Any, Final

import yaml

from parity.scenes import Answer, Cluster, Object, Question

FOLDER: Final = Path(__file__).with_name("corpus")
# Written by the API server into every object or pod.
OF_METADATA: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
OF_SPEC: Final = (
    "dnsPolicy",
    "enableServiceLinks",
    "preemptionPolicy",
    "priority",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
)
OF_CONTAINERS: Final = ("imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy")
OF_STATUS: Final = ("qosClass", "daemonEndpoints", "nodeInfo", "observedGeneration")
OWN_LABEL: Final = "parity/"
UNTIL_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A question, what kube-scheduler answered, and what the case is about."""

    title: str
    question: Question
    stock: Answer


def files(folder: Path = FOLDER) -> list[Path]:
    """Return the files of all cases in a folder."""
    return sorted(folder.glob("*.yaml"))


def write(path: Path, case: Case) -> None:
    """Write a case."""
    answer: Any = "gated" if case.stock.gated else sorted(case.stock.nodes)
    content = {
        "title": case.title,
        "feasible": answer,
        "asking": case.question.pod,
        "nodes": list(case.question.cluster.nodes),
        "pods": list(case.question.cluster.pods),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False, width=110))


def read(path: Path) -> Case:
    """Return a case."""
    content = yaml.safe_load(path.read_text())
    feasible = content["feasible"]
    answer = Answer(gated=True) if feasible == "gated" else Answer(frozenset(feasible))
    cluster = Cluster(tuple(content["nodes"]), tuple(content["pods"]))
    return Case(content["title"], Question(cluster, content["asking"]), answer)


def with_identities(question: Question) -> Question:
    """Return the question with a uid for each object, as the API server gives them."""
    nodes, pods = question.cluster.nodes, question.cluster.pods
    return Question(
        Cluster(tuple(map(_identified, nodes)), tuple(map(_identified, pods))), _identified(question.pod)
    )


def _identified(thing: Object) -> Object:
    metadata = thing["metadata"]
    uid = f"uid-{metadata.get('namespace', '')}-{metadata['name']}"
    return {**thing, "metadata": {"uid": uid, "resourceVersion": "1", **metadata}}


# ---------------------------------------------------------------- what is left of an object


def pruned(question: Question) -> Question:
    """Return the question without what the API server writes into every object."""
    cluster = question.cluster
    pruned_cluster = Cluster(tuple(map(_pruned, cluster.nodes)), tuple(map(_pruned, cluster.pods)))
    return Question(pruned_cluster, _pruned(question.pod))


def _pruned(thing: Object) -> Object:
    """Return an object as it would be written by hand, with the defaults that matter to schedulers."""
    found = {key: thing[key] for key in ("metadata", "spec", "status") if key in thing}
    found["metadata"] = _without(thing["metadata"], OF_METADATA)
    # A pod that is being deleted is so by our annotation when it is created again.
    found["metadata"] = _without(found["metadata"], ("deletionTimestamp", "deletionGracePeriodSeconds"))
    if "labels" in found["metadata"]:
        labels = found["metadata"]["labels"]
        found["metadata"]["labels"] = {k: v for k, v in labels.items() if not k.startswith(OWN_LABEL)}
    found["metadata"] = _without_empty(found["metadata"])
    found["spec"] = _pruned_spec(thing.get("spec", {}))
    status = _without_empty(_without(thing.get("status", {}), OF_STATUS))
    is_waiting = "containers" in found["spec"] and "nodeName" not in found["spec"]
    found["status"] = {} if is_waiting else status
    return {key: value for key, value in found.items() if value}


def _pruned_spec(spec: Object) -> Object:
    found = _without(spec, OF_SPEC)
    for listed in ("containers", "initContainers"):
        if listed in found:
            found[listed] = [_without(one, OF_CONTAINERS) for one in found[listed]]
            found[listed] = [{k: v for k, v in one.items() if v != {}} for one in found[listed]]
    lists = {
        "tolerations": [one for one in found.pop("tolerations", ()) if one.get("key") not in UNTIL_READY],
        "volumes": [one for one in found.pop("volumes", ()) if "projected" not in one],  # Not the token's.
    }
    return found | {name: some for name, some in lists.items() if some}


def _without_empty(thing: Any) -> Any:
    """Return a thing without its empty objects: these say nothing, except where something is selected."""
    if isinstance(thing, list):
        return [_without_empty(one) for one in thing]
    return (
        {key: _without_empty(value) for key, value in thing.items() if value != {}}
        if isinstance(thing, dict)
        else thing
    )


def _without(thing: Object, names: tuple[str, ...]) -> Object:
    return {key: value for key, value in thing.items() if key not in names}
