"""Whether a pod was bound twice or a card given out twice, as the API server tells it.

Its audit log has every Binding that it carried out, and each bound pod names its cards. So no scheduler is
asked about itself.
"""

import asyncio
import collections
from collections.abc import Iterable, Iterator
from typing import Any, Final

from bench import bench_cluster
from berth_crds import allocation, names
from testbed import audit

LOG_SECONDS: Final = 1.0  # The server writes a line of the audit log just after its answer.
OVER: Final = {"Succeeded", "Failed"}

Thing = dict[str, Any]


async def require_none(
    place: bench_cluster.BenchCluster, *, start: int = 0, seen: Iterable[str] = ()
) -> list[audit.AuditEvent]:
    """Return what the audit log has from a byte on; end the program if something was given twice.

    That may be `seen` by a watcher, or show in the log or in the pods that are there.
    """
    await asyncio.sleep(LOG_SECONDS)
    written = audit.read(place.log, start=start)
    pods = [pod async for some in place.bound_pods() for pod in some]
    if twice := [*seen, *bound_twice(written), *given_twice(pods)]:
        raise SystemExit("\n".join(twice))
    return written


def bound_twice(written: Iterable[audit.AuditEvent]) -> Iterator[str]:
    """Yield a sentence for each pod of which the server carried out more than one Binding."""
    binds = audit.accepted(audit.writes_to(written, "pods", subresource="binding"))
    for (namespace, name), count in collections.Counter((one.namespace, one.name) for one in binds).items():
        if count > 1:
            yield f"pod {namespace}/{name} was bound {count} times"


def given_twice(pods: Iterable[Thing]) -> Iterator[str]:
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
