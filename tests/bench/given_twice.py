"""Whether Berth has given a card out twice, by what is written in the pods: it is not asked about itself."""

import collections
from collections.abc import Iterable, Iterator
from typing import Any, Final

from bench import bench_cluster
from berth_crds import allocation, names

OVER: Final = {"Succeeded", "Failed"}

Thing = dict[str, Any]


async def require_none(place: bench_cluster.BenchCluster, *, seen: Iterable[str] = ()) -> None:
    """End the program if a watcher has `seen` a card given twice, or the pods that are there share one."""
    pods = [pod async for some in place.bound_pods() for pod in some]
    if twice := [*seen, *overfull_cards(pods)]:
        raise SystemExit("\n".join(twice))


def overfull_cards(pods: Iterable[Thing]) -> Iterator[str]:
    """Yield a sentence for each card of which these pods hold more than there is."""
    held = collections.Counter[tuple[str, str]]()
    for pod in pods:
        for node, share in shares(pod):
            held[node, share.uuid] += share.core
    for (node, uuid), percent in held.items():
        if percent > bench_cluster.WHOLE:
            yield f"{percent} % of card {uuid} of {node} are given out"


def shares(pod: Thing) -> Iterator[tuple[str, allocation.Share]]:
    """Yield what a pod holds until it is over, each share with its node, by the record of its Binding."""
    record = allocation.decode((pod["metadata"].get("annotations") or {}).get(names.ALLOCATION, ""))
    if isinstance(record, allocation.Unreadable) or pod["status"].get("phase") in OVER:
        return
    for entry in record.entries():
        yield record.node, entry.share
