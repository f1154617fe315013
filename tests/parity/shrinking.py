"""Shrinks a question as long as a difference stays: nodes, pods and fields are left out, one at a time."""

import copy
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from parity.scenes import Cluster, Object, Question

Path = tuple[str | int, ...]
# Without these an object is none, or is not the one that was asked about.
KEPT: Final = frozenset({"apiVersion", "kind", "name", "namespace", "image", "nodeName", "schedulerName"})
PARTS: Final = ("metadata", "spec", "status")


async def shrink(question: Question, differs: Callable[[Question], Awaitable[bool]]) -> Question:
    """Return the smallest question found that still differs; every smaller step of it does not."""
    while True:
        for smaller in steps(question):
            if await differs(smaller):
                question = smaller
                break
        else:
            return question


def steps(question: Question) -> Iterator[Question]:
    """Yield questions that are a step smaller, those that are much smaller first."""
    cluster, pod = question.cluster, question.pod
    yield from (Question(smaller, pod) for smaller in _fewer(cluster))
    yield from (Question(cluster, smaller) for smaller in _smaller(pod))
    for pods in _each_smaller(cluster.pods):
        yield Question(Cluster(cluster.nodes, pods), pod)
    for nodes in _each_smaller(cluster.nodes):
        yield Question(Cluster(nodes, cluster.pods), pod)


def _fewer(cluster: Cluster) -> Iterator[Cluster]:
    """Yield the cluster with fewer pods, and with fewer nodes and the pods on these."""
    yield from (Cluster(cluster.nodes, pods) for pods in _shorter(cluster.pods))
    for nodes in filter(None, _shorter(cluster.nodes)):
        names = {node["metadata"]["name"] for node in nodes}
        yield Cluster(nodes, tuple(pod for pod in cluster.pods if pod["spec"]["nodeName"] in names))


def _shorter(listed: Sequence[Object]) -> Iterator[tuple[Object, ...]]:
    """Yield the list without a half, a quarter and so on, down to a single object."""
    length = len(listed)
    while length:
        length = (length + 1) // 2 if length > 1 else 1
        for start in range(0, len(listed), length):
            yield (*listed[:start], *listed[start + length :])
        if length == 1:
            return


def _each_smaller(listed: Sequence[Object]) -> Iterator[tuple[Object, ...]]:
    """Yield the list with one of its objects smaller."""
    for at, one in enumerate(listed):
        yield from ((*listed[:at], smaller, *listed[at + 1 :]) for smaller in _smaller(one))


def _smaller(thing: Object) -> Iterator[Object]:
    """Yield an object without each of its fields and items, the outer ones first."""
    for path in sorted(_paths(thing), key=len):
        found = copy.deepcopy(thing)
        holder: Any = found
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        yield found


def _paths(thing: Object) -> Iterator[Path]:
    for part in PARTS:
        for path in _within(thing.get(part, {})):
            yield (part, *path)


def _within(thing: Any) -> Iterator[Path]:
    """Yield the paths of all fields and items that may be left out."""
    fields = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in fields:
        if key not in KEPT:
            yield (key,)
        for path in _within(value):
            yield (key, *path)
