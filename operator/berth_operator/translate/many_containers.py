"""Bound pods of very many containers, few of which request devices: only those are read in detail.

A bound pod cannot be refused, and reading each of twenty thousand containers again and again
would block the loop while other pods wait.
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
    """Return a pod of very many containers without those that request no device and that no key names."""
    spec = pod.spec
    if len(spec.containers) + len(spec.init_containers or ()) <= pod_limits.MAX_ASKS:
        return pod
    served, named = aliases.all_served(pod_limits.resource_names(spec)), _perhaps_named(pod)
    only = {
        "containers": tuple(_some_of(spec.containers, served, named)),
        "init_containers": tuple(_some_of(spec.init_containers or (), served, named)),
    }
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, **only))


def _perhaps_named(pod: raw.Pod) -> frozenset[str]:
    """Return all words in the keys for whole pods, among them the names of containers."""
    texts = {**pod.metadata.labels, **pod.metadata.annotations}
    keys = resources.POD_KEYS & texts.keys()
    if not keys:
        return frozenset()
    words = itertools.chain.from_iterable(WORD.findall(texts[key]) for key in keys)
    first = pod.spec.containers[0].name if pod.spec.containers else ""
    return frozenset({first, texts.get(aliases.KAI_CONTAINER, ""), *words})


def _some_of(
    containers: Iterable[raw.Container], served: Collection[str], named: frozenset[str]
) -> Iterator[raw.Container]:
    """Yield the containers that are named or request a served resource with a non-zero amount."""
    for container in containers if served or named else ():
        asks = any(name in served and amount not in NONE for name, amount in resources.pairs(container))
        if asks or container.name in named:
            yield container
