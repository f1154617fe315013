"""The order in which waiting pods are tried: their sort keys, and what labels change within a namespace.

In this order `backlog` yields the pods that may be tried now, those that were demoted last, and `rotation`
those that the time of a round does not reach. What a label adds to a priority is in `queued_pods`
(`PodInfo.order`, `Entry.extra`).

First comes the higher priority, then the older pod, then the first by name.

Every user may write the label genius/priority on a pod, so it must not move a pod ahead of those of
another namespace: between namespaces a label counts only as far as the policy allows. Within a
namespace it decides. So a namespace keeps the positions in the queue that its pods have without
labels, and the pods with higher labels take the earlier ones of these.
"""

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

Order = tuple[int, str, str, str]
LocalOrder = tuple[int, str, str]


def order(priority: int, created: str, namespace: str, name: str) -> Order:
    """Return the sort key of a pod among those of all namespaces."""
    return -priority, created, namespace, name


def local_order(extra: int, created: str, name: str) -> LocalOrder:
    """Return the sort key within a namespace and priority; `extra` is what a label counts for there alone."""
    return -extra, created, name


class Group(NamedTuple):
    """Pods that may exchange positions: those of one namespace with the same priority between namespaces."""

    demoted: bool
    priority: int
    namespace: str


class Queued(Protocol):
    """A pod in a queue."""

    @property
    def group(self) -> Group:
        """The pods with which it may exchange positions."""

    @property
    def local(self) -> LocalOrder:
        """Sort key within its group."""

    @property
    def raised(self) -> bool:
        """Whether its label ranks it higher in its namespace than between namespaces."""


S = TypeVar("S", bound=Queued)


def reordered(entries: Sequence[S], first: Callable[[Group, int], Iterable[S]]) -> list[S]:
    """Return these pods with each group in the order of its labels, in the positions that the group has.

    `first` returns the first raised pods of a group that are in the queue, at most so many, whether they
    are among the given ones or not: they replace pods of their group that come later.
    """
    groups: dict[Group, list[int]] = collections.defaultdict(list)
    for at, entry in enumerate(entries):
        groups[entry.group].append(at)
    found = list(entries)
    for group, positions in groups.items():
        own = [entries[at] for at in positions]
        known = set(map(id, own))
        own += [one for one in first(group, len(positions)) if id(one) not in known]
        for at, entry in zip(positions, sorted(own, key=lambda one: one.local), strict=False):
            found[at] = entry
    return found
