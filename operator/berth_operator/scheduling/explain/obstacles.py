"""What keeps a pod away from a node's place: all of it, not only the first thing.

A node that differs in one thing alone (one pair of the selector, the affinity, one taint,
its being cordoned) can be won by one change; one that differs in two cannot. Taints that
Kubernetes itself puts on a node say that something is wrong with it, so nobody is told to
tolerate those.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final

import numpy as np

from berth_operator.scheduling import columns
from berth_operator.scheduling.explain import findings, hearing, reach
from berth_operator.scheduling.explain.findings import Condition
from berth_operator.scheduling.nodes import affinity, facts, taints

OF_KUBERNETES: Final = "node.kubernetes.io/"
MOST_JUDGED: Final = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing in the way; without a condition it is the node that is cordoned."""

    condition: Condition | None
    key: str = ""
    value: str = ""

    def __str__(self) -> str:
        """Say it as it is written in a manifest."""
        return f"{self.key}={self.value}" if self.value else self.key


CORDON: Final = Obstacle(None)
