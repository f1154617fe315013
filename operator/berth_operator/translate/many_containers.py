"""Bound pods of very many containers, of which few ask for devices: only those are read closely.

A bound pod cannot be refused, and to look at each of twenty thousand containers again and
again would hold the loop for as long as the pods of others wait.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from berth_crds import aliases
from berth_operator.translate import pod_limits, raw, resources

WORD: Final = re.compile(r"[a-z0-9-]+", re.ASCII)
NONE: Final = frozenset({"0", 0})


def without_others(pod: raw.Pod) -> raw.Pod:
    """Leave out the containers that ask for no device and that no key on the pod means, of very many."""
    spec = pod.spec
    if len(spec.containers) + len(spec.init_containers or ()) <= pod_limits.ASKS:
        return pod
    served, meant = aliases.all_served(pod_limits.named(spec)), _perhaps_meant(pod)
    only = {
        "containers": tuple(_some_of(spec.containers, served, meant)),
        "init_containers": tuple(_some_of(spec.init_containers or (), served, meant)),
    }
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, **only))


def _perhaps_meant(pod: raw.Pod) -> frozenset[str]:
    """Return all words of the keys that stand on a pod, among them the names of the containers they mean."""
    said = {**pod.metadata.labels, **pod.metadata.annotations}
    keys = resources.POD_KEYS & said.keys()
    if not keys:
        return frozenset()
    words = itertools.chain.from_iterable(WORD.findall(said[key]) for key in keys)
    first = pod.spec.containers[0].name if pod.spec.containers else ""
    return frozenset({first, said.get(aliases.KAI_CONTAINER, ""), *words})


def _some_of(
    containers: Iterable[raw.Container], served: Collection[str], meant: frozenset[str]
) -> Iterator[raw.Container]:
    """Yield the containers that are meant, or ask for some of what is served and not for none of it."""
    for container in containers if served or meant else ():
        asks = any(name in served and amount not in NONE for name, amount in resources.pairs(container))
        if asks or container.name in meant:
            yield container
