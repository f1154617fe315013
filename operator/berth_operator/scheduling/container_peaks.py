"""The most that the containers of a pod have at any one time, by Kubernetes' rule.

Containers and sidecars run together. An init container runs beside the sidecars that were started
before it, and what it has is free again when the next container starts.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar


class Container(Protocol):
    """A container as far as it matters here."""

    @property
    def runs(self) -> bool:
        """Whether it keeps running when the next one starts."""


K = TypeVar("K", bound=Hashable)
C = TypeVar("C", bound=Container)


def peaks(containers: Iterable[tuple[Iterable[tuple[K, int]], bool]]) -> dict[K, int]:
    """Return the peak of each amount.

    The containers come in the order in which they start, each with its amounts and whether it keeps
    running. One that does not has each amount once.
    """
    running: dict[K, int] = {}
    most: dict[K, int] = {}
    for amounts, runs in containers:
        for name, amount in amounts:
            together = running.get(name, 0) + amount
            if together > most.get(name, -1):
                most[name] = together
            if runs:
                running[name] = together
    return most


def phases(containers: Sequence[C]) -> Iterator[tuple[C, ...]]:
    """Yield the sets of containers that run at the same time, of those in the order in which they start.

    First all those that keep running; then, for each init container, it and the sidecars
    that started before it. A pod needs the largest of these, not their sum.
    """
    yield tuple(one for one in containers if one.runs)
    started: tuple[C, ...] = ()
    for one in containers:
        if one.runs:
            started = (*started, one)
        else:
            yield (*started, one)
