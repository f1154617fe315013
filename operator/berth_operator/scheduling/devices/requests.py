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
    """Whole cards for one container; `runs` is false for an init container that ends before the others."""

    name: str
    cards: int
    runs: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What all containers of a pod ask, and what must hold for each card."""

    containers: tuple[ContainerRequest, ...] = ()
    models: frozenset[str] = frozenset()

    @property
    def cards(self) -> int:
        """The cards that the pod holds: the running containers together, or the largest init container."""
        together = sum(one.cards for one in self.containers if one.runs)
        alone = max((one.cards for one in self.containers if not one.runs), default=0)
        return max(together, alone)


NO_CARDS: Final = Request()


def deal(request: Request, cards: tuple[decisions.Share, ...]) -> tuple[decisions.Grant, ...]:
    """Hand the pod's cards to its containers: running ones get cards of their own, init ones borrow."""
    grants, taken = [], 0
    for container in request.containers:
        if container.runs:
            share = cards[taken : taken + container.cards]
            taken += container.cards
        else:
            share = cards[: container.cards]
        grants.append(decisions.Grant(container.name, share))
    return tuple(grants)
