"""What the workload teaches: how much cpu and memory go with a card, and what a rest of one is worth.

A WorkloadModel is a pure function of the pods now known, of what the nodes have, and of the
constants below. Its inputs are rounded first, so it changes rarely, and it is worked out
from scratch for each new rounded input. It has four parts.

`cpu` and `memory` say what is asked of a node with each percent of a card. A node can
use no more of its free cards than its free cpu and memory support.

`space` says what free space on a card is worth, in 1/UNIT of a whole card. Each size of
request has a price, and a space is worth the dearest set of requests that fits into it.
The prices are those of the cutting-stock problem, the fewest cards that hold requests
in the known proportions d: they maximise d·y - MU/2 |y - s|² where no set that fits on a
card costs more than 1. The quadratic term, small, only makes them unique.

`surplus` says for each model what part of it the requests that may use it would fill;
cards that no pod would ask for anyway cost less.

`scarce` says that cpu or memory would run out before the cards do, if pods go on to come as they are
known: as much goes to pods without cards, beyond what nodes without cards have for them.
"""

import collections
import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling import workload
from berth_operator.scheduling.workload import GRID

UNIT: Final = 120  # A whole card's worth: halves to sixths and eighths are whole numbers, so ties stay ties.
MOST_SIZES: Final = 24  # The most common sizes, and the whole card, get a price.
MU: Final = 0.07  # Anything between 0.02 and 0.1 does alike; from 0.2 on it costs.
PARTS: Final = 128  # Proportions are rounded to one part in so many, coarser where few pods are known.
RATIO_STEP: Final = 0.03  # Cpu and memory for each card are rounded to this, relative.
PRIOR_PERCENT: Final = 100  # The cluster's own proportions count as requests for one card.
ENOUGH: Final = 50  # Requests; below that, space is worth its size.
DEMAND: Final = 1.0  # Demand assumed when asking what is in surplus, as part of what the nodes can serve.
MODEL_PARTS: Final = 64  # Proportions of demand by allowed models are rounded to one in so many.
SURPLUS_STEP: Final = 5  # Percent.
# Mixtures of twenty sizes take up to forty. Any pod changes the model, so the work is bounded.
MOST_STEPS: Final = 48
ENOUGH_FOR_SCARCITY: Final = 200  # Requests: a few pods say little of what goes elsewhere.
SCARCE: Final = 1.05  # So many times as much is asked as there is; up to 1.03 it costs to count on it.
TINY: Final = 1e-9
ALIKE: Final = 1e-5  # Parts that change by less are what they will be; they are rounded to percents.
NOWHERE: Final = ("\n",)  # Models of which there are none: no name has a line of its own.
NOISE: Final = 1e-12  # What floating point leaves of a zero.

Floats = npt.NDArray[np.float64]
Kind = tuple[str, int, int, int]  # A model, and percent of cards, cpu and memory of a node.
Classes = tuple[tuple[Kind, int], ...]

_SPACES: Final = np.arange(GRID + 1)
# Each space is split in two, of which the second is no larger; what would be is worth less than nothing.
_HALVES: Final = np.arange(GRID // 2 + 1)
_REST: Final = np.where(
    _HALVES[None, :] * 2 <= _SPACES[:, None], _SPACES[:, None] - _HALVES[None, :], GRID + 1
)
BY_SIZE: Final = tuple(int(value) for value in np.rint(_SPACES * UNIT / GRID))


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadModel:
    """What placement expects of the next pods; the module says what each part means."""

    cpu: float = 1.0
    memory: float = 1.0
    space: tuple[int, ...] = BY_SIZE
    surplus: tuple[tuple[str, int], ...] = ()
    scarce: bool = False

    def __hash__(self) -> int:
        """Return the hash of a part: models are looked up far more often than they differ."""
        return hash((self.cpu, self.memory))


@dataclasses.dataclass(frozen=True, slots=True)
class Supply:
    """What all nodes with cards have: cpu, memory and cards together, and how many there are of each kind.

    `cpu_elsewhere` and `memory_elsewhere` are what the nodes without cards have.
    """

    cpu: int = 0
    memory: int = 0
    percent: int = 0
    cpu_elsewhere: int = 0
    memory_elsewhere: int = 0
    classes: Classes = ()
    models: frozenset[str] = frozenset()

    def __hash__(self) -> int:
        """Hash the sums: there may be as many kinds as nodes."""
        return hash((self.cpu, self.memory, self.percent))


def supply(nodes: Iterable[Kind]) -> Supply:
    """Sum up the nodes, each given as its kind."""
    return supply_of(collections.Counter(nodes))


def supply_of(kinds: Mapping[Kind, int]) -> Supply:
    """Sum up the nodes, given as how many there are of each kind; those without cards have no percent."""
    classes = {kind: count for kind, count in kinds.items() if kind[1]}
    elsewhere = {kind: count for kind, count in kinds.items() if not kind[1]}
    return Supply(
        cpu=sum(kind[2] * count for kind, count in classes.items()),
        memory=sum(kind[3] * count for kind, count in classes.items()),
        percent=sum(kind[1] * count for kind, count in classes.items()),
        cpu_elsewhere=sum(kind[2] * count for kind, count in elsewhere.items()),
        memory_elsewhere=sum(kind[3] * count for kind, count in elsewhere.items()),
        classes=tuple(sorted(classes.items())),
        models=frozenset(kind[0] for kind in classes),
    )


def learn(known: workload.Workload, nodes: Supply) -> WorkloadModel:
    """Work the model out, or remember it from the last time the rounded inputs were the same."""
    count = known.count
    # The greatest power of two up to the root of twice their number: about as fine as so many can tell.
    parts = min(PARTS, 2 ** int(math.log2(2 * max(count, 1)) / 2))
    step = max(RATIO_STEP, 1 / parts)
    return _model(
        _ratio(known.cpu, nodes.cpu, known.percent, nodes.percent, step),
        _ratio(known.memory, nodes.memory, known.percent, nodes.percent, step),
        _proportions(known, count, parts),
        _by_models(known, count, min(MODEL_PARTS, parts), nodes),
        nodes,
        scarce=_scarce(known, nodes),
    )


def _scarce(known: workload.Workload, nodes: Supply) -> bool:
    """Whether cpu or memory would run out before the cards, if more pods came of the kinds that are known."""
    if known.count < ENOUGH_FOR_SCARCITY:
        return False
    cpu = known.cpu + max(0, known.cpu_elsewhere - nodes.cpu_elsewhere)
    memory = known.memory + max(0, known.memory_elsewhere - nodes.memory_elsewhere)
    return any(
        asked * nodes.percent > SCARCE * had * known.percent
        for asked, had in ((cpu, nodes.cpu), (memory, nodes.memory))
    )


def _ratio(asked: int, had: int, percent: int, cards: int, step: float) -> float:
    """Return what goes with a percent of a card, in steps from what nodes have: that itself without pods."""
    usual = had * PRIOR_PERCENT / max(cards, 1)
    value, base = (asked + usual) / (percent + PRIOR_PERCENT), usual / PRIOR_PERCENT or 1.0
    return base * math.exp(round(math.log(value / base) / step) * step) if value > 0 else TINY


def _proportions(known: workload.Workload, count: int, parts: int) -> bytes:
    if count < ENOUGH:
        return b""
    proportions: npt.NDArray[np.int32] = np.rint(known.sizes * (parts / count)).astype(np.int32)
    return proportions.tobytes()


def _by_models(
    known: workload.Workload, count: int, parts: int, nodes: Supply
) -> tuple[tuple[workload.Models, int], ...]:
    """Return how many parts are asked of which models; pods may name any, and those that exist are kept."""
    if count < ENOUGH or not any(known.by_models):
        return ()
    shares = [(key, round(asked * parts / known.percent)) for key, asked in known.by_models.items()]
    found = [(_existing(known.known_as(key), nodes.models), share) for key, share in shares if share]
    return tuple(sorted(found)) if any(key for key, _ in found) else ()


def _existing(models: workload.Models, there: frozenset[str]) -> workload.Models:
    return tuple(one for one in models if one in there) or NOWHERE if models else ()


@functools.lru_cache(maxsize=256)
def _model(
    cpu: float,
    memory: float,
    sizes: bytes,
    models: tuple[tuple[workload.Models, int], ...],
    nodes: Supply,
    *,
    scarce: bool,
) -> WorkloadModel:
    return WorkloadModel(
        cpu=cpu,
        memory=memory,
        space=worth_of_space(sizes) if sizes else BY_SIZE,
        surplus=in_surplus(cpu, memory, models, nodes.classes) if models and nodes.classes else (),
        scarce=scarce,
    )


# ---------------------------------------------------------------- what space is worth


@functools.lru_cache(maxsize=256)
def worth_of_space(proportions: bytes) -> tuple[int, ...]:
    """Return what each space from 0 to 100 percent is worth, in 1/UNIT of a whole card."""
    wanted = np.frombuffer(proportions, np.int32).astype(np.float64)
    wanted[GRID] = max(wanted[GRID], TINY)  # A whole card always has a price.
    common = np.argsort(-wanted, kind="stable")[: min(MOST_SIZES, np.count_nonzero(wanted))]
    sizes = np.union1d(common, [GRID])
    worth, _ = knapsack_values(sizes, prices(sizes, wanted[sizes] / wanted.sum()))
    if worth[GRID] <= 0:
        return BY_SIZE
    return tuple(int(value) for value in np.rint(worth * UNIT / worth[GRID]))


def knapsack_values(sizes: npt.NDArray[np.int64], price: Floats) -> tuple[Floats, Floats]:
    """Find for each space the dearest set of requests that fits: its price, and how many of each it holds."""
    single = np.where(sizes[None, :] <= _SPACES[:, None], price[None, :], 0.0)
    best = single.argmax(axis=1)
    worth: Floats = single[_SPACES, best]
    held: Floats = np.zeros((GRID + 1, len(price)))
    held[_SPACES, best] = worth > 0
    # One request, then up to two, four and so on: the space is split in two in the best way.
    padded = np.full(GRID + 2, -np.inf)
    for _ in range(max(0, math.ceil(math.log2(GRID / sizes[0])))):
        padded[:-1] = worth
        both = padded.take(_REST)
        both += worth[_HALVES]
        split = both.argmax(axis=1)
        worth = both[_SPACES, split]
        held = held[split] + held[_SPACES - split]
    return worth, held


def prices(sizes: npt.NDArray[np.int64], wanted: Floats) -> Floats:
    """Find the prices nearest to s + d/MU at which no set that fits on a card costs more than 1.

    A dual active-set method: from the unconstrained optimum, the most violated constraint
    is added until none is, and those whose multiplier falls to zero are dropped. Where that
    is given up, prices that are too high are lowered together.
    """
    target = sizes / GRID
    corner = _ActiveSet(target + wanted / MU)
    for _ in range(MOST_STEPS):
        if (found := _violated(sizes, corner.point)) is None or not corner.add(*found):
            break
    else:
        corner.point = corner.point / max(1.0, knapsack_values(sizes, np.maximum(0, corner.point))[0][GRID])
    price: Floats = np.maximum(0, corner.point)
    return price


def _violated(sizes: npt.NDArray[np.int64], price: Floats) -> tuple[Floats, float] | None:
    """Return the most violated constraint a·y <= b: a price below zero, or the dearest set on a card."""
    low = int(price.argmin())
    if price[low] < -TINY:
        normal: Floats = np.zeros(len(price))
        normal[low] = -1.0
        return normal, 0.0
    worth, held = knapsack_values(sizes, price)
    return (held[GRID], 1.0) if worth[GRID] >= 1 + TINY else None


class _ActiveSet:
    """The nearest point to the start on the active constraints, and their multipliers."""

    def __init__(self, start: Floats) -> None:
        self.point = start
        self._normals: Floats = np.zeros((0, len(start)))
        self._weights: Floats = np.zeros(0)

    def add(self, normal: Floats, bound: float) -> bool:
        """Make one more constraint hold; false where it contradicts those that do."""
        weight = 0.0
        while True:
            across, along = self._split(normal)
            length = float(across @ across)
            step = float(normal @ self.point - bound) / length if length > NOISE else math.inf
            limit, blocking = self._limit(along)
            taken = min(step, limit)
            if taken == math.inf:
                return False
            self.point = self.point - taken * across
            self._weights = self._weights - taken * along
            weight += taken
            if step <= limit:
                self._normals = np.vstack([self._normals, normal])
                self._weights = np.append(self._weights, weight)
                return True
            self._normals = np.delete(self._normals, blocking, axis=0)
            self._weights = np.delete(self._weights, blocking)

    def _split(self, normal: Floats) -> tuple[Floats, Floats]:
        if not len(self._normals):
            return normal, self._weights
        along: Floats = np.asarray(np.linalg.lstsq(self._normals.T, normal, rcond=None)[0], dtype=np.float64)
        return normal - self._normals.T @ along, along

    def _limit(self, along: Floats) -> tuple[float, int]:
        """Return how far a step may go until an active constraint lets go, and which."""
        falling = np.flatnonzero(along > NOISE)
        if not len(falling):
            return math.inf, -1
        limits = self._weights[falling] / along[falling]
        first = int(limits.argmin())
        return float(limits[first]), int(falling[first])


# ---------------------------------------------------------------- what is in surplus


def in_surplus(
    cpu: float, memory: float, wanted: tuple[tuple[workload.Models, int], ...], classes: Classes
) -> tuple[tuple[str, int], ...]:
    """Return the models that the requests allowed there would not fill, and the percent that they would.

    Requests are spread over the models they may use so that these fill alike.
    """
    names = sorted({kind[0] for kind, _ in classes})
    able = np.array([_usable(name, cpu, memory, classes) for name in names]) + TINY
    may = np.array([[not models or name in models for name in names] for models, _ in wanted], dtype=float)
    asked = np.array([part for _, part in wanted], dtype=float)
    asked *= DEMAND * able.sum() / asked.sum()
    filled = _spread_alike(able, may, asked)
    percents = [int(min(GRID, round(part * GRID / SURPLUS_STEP) * SURPLUS_STEP)) for part in filled]
    return tuple((name, percent) for name, percent in zip(names, percents, strict=True) if percent < GRID)


def _usable(name: str, cpu: float, memory: float, classes: Classes) -> float:
    """Sum up the cards of a model that their nodes' cpu and memory can feed."""
    return sum(
        count * min(cards, node_cpu / cpu, node_memory / memory)
        for (model, cards, node_cpu, node_memory), count in classes
        if model == name
    )


def _spread_alike(able: Floats, may: Floats, asked: Floats) -> Floats:
    pull = np.ones(len(able))
    filled: Floats = np.zeros(len(able))
    for _ in range(100):
        share = may * able * pull
        part = share / np.maximum(share.sum(axis=1), NOISE**2)[:, None]
        before, filled = filled, asked @ part / able
        if np.abs(filled - before).max() < ALIKE:
            break
        pull = pull / np.sqrt(np.clip(filled, 0.5, 2.0))
        pull = np.maximum(pull / pull.max(), 1e-6)
    return filled
