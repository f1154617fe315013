"""What is known of the workload: how much, and in which sizes, pods ask.

Placement that wants to leave usable rests must know what will be asked of them. It
learns that from the pods now known, waiting and bound, from what the nodes have, and
from a fixed prior, and from nothing else: neither order nor time nor what was learned
before. So a restarted operator learns the same again. Pods with scheduling gates teach
nothing: perhaps they are never meant to run, and they cost their author nothing. What is
counted here is turned into a WorkloadModel by `workload_model`.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from berth_crds import catalog
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts

GRID: Final = 100  # Space on a card is counted in percent.
MOST_CARDS: Final = 64  # Of a node.
# A request for bytes alone says nothing of the card it will meet; this card is assumed.
ASSUMED_CARD_BYTES: Final = 48 << 30

Models = tuple[str, ...]  # In order.


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """What one pod asks: cpu and memory of the node, and how many pieces of which size of its cards."""

    cpu: int
    memory: int
    sizes: tuple[tuple[int, int], ...] = ()  # Percent of a card, and how many; none: it asks for no card.
    models: Models = ()  # Keys of the models that will do; none: any.

    @property
    def percent(self) -> int:
        """All that is asked of cards, in percent of one."""
        return sum(size * count for size, count in self.sizes)


def sample(request: requests.DeviceRequest, demand: facts.NodeDemand) -> Sample | None:
    """See what a pod teaches; one without cards teaches how much cpu and memory go elsewhere.

    One that asks for more cards than any node has will never run, and teaches nothing.
    """
    amounts = dict(demand.amounts)
    cpu, memory = amounts.get(facts.CPU, 0), amounts.get(facts.MEMORY, 0)
    if sizes := tuple(_sizes(request.need)):
        if sum(size * count for size, count in sizes) > MOST_CARDS * GRID:
            return None
        return Sample(cpu, memory, sizes, _keys(request.conditions.models))
    return _without_cards(cpu, memory) if cpu or memory else None


@functools.lru_cache(maxsize=1024)
def _without_cards(cpu: int, memory: int) -> Sample:
    """Return one sample for all pods that ask alike: there may be very many."""
    return Sample(cpu, memory)


@functools.lru_cache(maxsize=256)
def _keys(models: frozenset[str]) -> Models:
    return tuple(sorted({catalog.model_key(model) for model in models}))


def _sizes(need: requests.Need) -> Iterator[tuple[int, int]]:
    if need.whole_cards:
        yield GRID, need.whole_cards
    for ask in need.shares:
        by_bytes = -(-ask.memory * GRID // ASSUMED_CARD_BYTES)
        yield max(1, min(GRID, max(ask.percent, by_bytes))), ask.count


class Workload:
    """Counts what the pods now known ask: sums of whole numbers, so that their order cannot matter."""

    def __init__(self) -> None:
        self.version = 0
        self.sizes: npt.NDArray[np.int64] = np.zeros(GRID + 1, dtype=np.int64)
        self.count = self.cpu = self.memory = self.percent = 0  # Of pods with cards; `count` of all sizes.
        self.cpu_elsewhere = self.memory_elsewhere = 0  # Of pods without cards.
        self.by_models: dict[Models, int] = {}
        self._known: dict[str, Sample] = {}
        self._other_names: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._known)

    @property
    def samples(self) -> Mapping[str, Sample]:
        """What each pod was seen to ask, by uid."""
        return self._known

    def call(self, other_names: dict[str, str]) -> None:
        """Record what pods call models, by key, and what the drivers call these."""
        keys = {name: catalog.model_key(model) for name, model in other_names.items()}
        if keys != self._other_names:
            self._other_names = keys
            self.version += 1

    def known_as(self, models: Models) -> Models:
        """Return models with their other names."""
        if not self._other_names:
            return models
        return tuple(sorted({*models, *(self._other_names.get(one, one) for one in models)}))

    def see(self, uid: str, one: Sample | None) -> None:
        """Count a pod, or count it anew when what it asks has changed."""
        known = self._known.get(uid)
        if known != one:
            self.forget(uid)
            if one is not None:
                self._known[uid] = one
                self._add(one, 1)

    def forget(self, uid: str) -> None:
        """Count a pod no more."""
        if (known := self._known.pop(uid, None)) is not None:
            self._add(known, -1)

    def _add(self, one: Sample, sign: int) -> None:
        self.version += 1
        if not one.sizes:
            self.cpu_elsewhere += sign * one.cpu
            self.memory_elsewhere += sign * one.memory
            return
        for size, count in one.sizes:
            self.sizes[size] += sign * count
            self.count += sign * count
        self.cpu += sign * one.cpu
        self.memory += sign * one.memory
        self.percent += sign * one.percent
        left = self.by_models.get(one.models, 0) + sign * one.percent
        if left:
            self.by_models[one.models] = left
        else:
            self.by_models.pop(one.models, None)
