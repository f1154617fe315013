"""What a pod asks of the cards, container by container.

Today that is whole cards, with a condition on their model. `translate` reads the pod's
resource names and annotations; this module holds the value, and the rule by which init
containers and running containers use the same cards.
"""

import dataclasses
from typing import Final

from berth_operator.scheduling import decisions


@dataclasses.dataclass(frozen=True, slots=True)
class ContainerRequest:
    """Whole cards for one container; `runs` is false for an init container that ends before others start."""

    name: str
    cards: int
    runs: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What all containers of a pod ask, in the order of their start, and what must hold for each card."""

    containers: tuple[ContainerRequest, ...] = ()
    models: frozenset[str] = frozenset()

    @property
    def cards(self) -> int:
        """The most in use at once: all that run, or an init container beside the sidecars before it."""
        running = most = 0
        for one in self.containers:
            most = max(most, running + one.cards)
            running += one.cards if one.runs else 0
        return most


NO_CARDS: Final = Request()


def deal(request: Request, cards: tuple[decisions.Share, ...]) -> tuple[decisions.Grant, ...]:
    """Hand the pod's cards to its containers: running ones keep theirs, init ones borrow what is free."""
    grants, taken = [], 0
    for container in request.containers:
        grants.append(decisions.Grant(container.name, cards[taken : taken + container.cards]))
        taken += container.cards if container.runs else 0
    return tuple(grants)
