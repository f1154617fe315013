"""The most that the containers of a pod have at any one time, by Kubernetes' rule.

Containers and sidecars run together. An init container runs beside the sidecars that were started
before it, and what it has is free again when the next container starts.
"""

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


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
