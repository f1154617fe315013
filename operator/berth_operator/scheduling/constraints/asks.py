"""Asks for fewer devices, or for less of each: relaxations of both constraints that count devices."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from berth_crds import names
from berth_operator.scheduling import changes
from berth_operator.scheduling.changes import ProposedChange, Scenario
from berth_operator.scheduling.constraints.constraint import FailedPlacement
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import CARDS, CORE, RATIO, REPLICAS, Deficit, Unit
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.wording import asked_for_less, noun

COUNTS_TRIED: Final = 16
# Which amount each field of a share is, and what the smaller share is a part of.
SHARES: Final = {
    "core": (CORE, Unit.PERCENT, " of the core of each card"),
    "memory": ("", Unit.BYTES, " of each card"),
    "ratio": (RATIO, Unit.PERCENT, " of the memory of each card"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """Where an ask stands in a request: the number of its container, and its own in the container."""

    container: int
    number: int

    def of(self, request: requests.DeviceRequest) -> requests.Ask:
        """Return the ask."""
        return request.containers[self.container].asks[self.number]

    def replaced(self, request: requests.DeviceRequest, ask: requests.Ask) -> requests.DeviceRequest:
        """Return the request with another ask in this position."""
        containers = list(request.containers)
        asks = list(containers[self.container].asks)
        asks[self.number] = ask
        containers[self.container] = dataclasses.replace(containers[self.container], asks=tuple(asks))
        return dataclasses.replace(request, containers=tuple(containers))


def each(request: requests.DeviceRequest) -> Iterator[tuple[Position, requests.Ask]]:
    """Yield all asks and where they stand."""
    for at, container in enumerate(request.containers):
        for number, ask in enumerate(container.asks):
            yield Position(at, number), ask


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AskLess(changes.Change):
    """The pod asks for fewer devices, or for less of each."""

    precedence: ClassVar = changes.Precedence.ASK_LESS
    position: Position
    field: str
    deficit: Deficit  # `free` is what it could have.
    of: str
    container: str = ""  # Where there are several.

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario in which the pod asks for what there is."""
        ask, demand = self.position.of(scenario.request), scenario.demand
        if self.field == "count":
            demand = _scaled(scenario, self.deficit.free, ask.count)
        smaller = dataclasses.replace(ask, **{self.field: self.deficit.free})  # type: ignore[arg-type]  # its own
        request = self.position.replaced(scenario.request, smaller)
        return dataclasses.replace(scenario, request=request, demand=demand)

    def clause(self) -> str:
        """Return how much it would ask for."""
        return asked_for_less(self.deficit, self.of) + (
            f" in container {self.container}" if self.container else ""
        )


def _scaled(scenario: Scenario, count: int, before: int) -> facts.NodeDemand:
    """Lower what is asked under the names that Berth serves, where it is surely about these devices alone."""
    if sum(len(container.asks) for container in scenario.request.containers) != 1:
        return scenario.demand
    served = tuple((name, -(-amount * count // before)) for name, amount in scenario.demand.device_resources)
    return dataclasses.replace(scenario.demand, device_resources=served)


def ask_less(request: requests.DeviceRequest, position: Position, field: str, free: int) -> AskLess:
    """Return the change by which a field of an ask is as much as is free."""
    ask, container = position.of(request), request.containers[position.container].name
    if field == "count":
        name, unit = counted(ask), Unit.PIECES
        of = f" {noun(name, ask.count)}"
    else:
        name, unit, of = SHARES[field]
    deficit = Deficit(name, unit, getattr(ask, field), free)
    several = container if len(request.containers) > 1 else ""
    return AskLess(
        position=position,
        field=field,
        deficit=deficit,
        of=of,
        container=several,
        cost=deficit.missing_fraction,
    )


def counted(ask: requests.Ask) -> str:
    """Return what an ask counts, as the counted reasons do."""
    match ask:
        case requests.Instances():
            return f"MIG {ask.profile}"
        case requests.Replicas():
            return REPLICAS
        case requests.OtherDevices():
            return ask.type
    return CARDS


def fewer(request: requests.DeviceRequest, position: Position, most: int) -> Iterator[ProposedChange]:
    """Yield that the pod asks for fewer devices, `most` of them at most.

    Fewer may not do where more would: partitions of cards have fixed variants.
    """
    ask = position.of(request)
    counts = range(min(ask.count - 1, most), 0, -1)[:COUNTS_TRIED]
    if counts and not (isinstance(ask, requests.OtherDevices) and ask.every):
        yield ProposedChange(
            [ask_less(request, position, "count", count) for count in counts], cumulative=False
        )


def smaller(failed: FailedPlacement, position: Position, ask: requests.Gpus) -> Iterator[ProposedChange]:
    """Yield that the pod asks for no larger share than some card has left, of memory or of core."""
    container = failed.request.containers[position.container].name
    found = [one for one in failed.shortfalls if one.container == container]
    verdicts = [verdict for one in found for verdict in one.verdicts]
    memory = [
        one for one in verdicts if one.free.memory < one.wanted.memory and one.free.core >= one.wanted.core
    ]
    if ask.ratio:
        yield from _shares(failed, position, "ratio", map(_ratio, memory))
    else:
        yield from _shares(failed, position, "memory", (one.free.memory for one in memory))
    cores = (one.free.core for one in verdicts if one.free.memory >= one.wanted.memory)
    yield from _shares(failed, position, "core", cores)


def _ratio(verdict: allocator.Verdict) -> int:
    return verdict.free.memory * requests.WHOLE // max(1, verdict.total.memory)


def _shares(
    failed: FailedPlacement, position: Position, field: str, free: Iterable[int]
) -> Iterator[ProposedChange]:
    wanted = getattr(position.of(failed.request), field)
    amounts = sorted({amount for amount in free if 0 < amount < wanted}, reverse=True)
    if amounts:
        yield ProposedChange([ask_less(failed.request, position, field, amount) for amount in amounts])


# ---------------------------------------------------------------- replicas in place of cards


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AskReplicas(changes.Change):
    """The pod asks for replicas of shared cards in place of cards, whole ones or parts."""

    precedence: ClassVar = changes.Precedence.ASK_REPLICAS
    position: Position
    count: int
    is_whole: bool

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario in which the pod asks for replicas."""
        request = self.position.replaced(scenario.request, requests.Replicas(self.count))
        demand = dataclasses.replace(
            scenario.demand, device_resources=((names.NVIDIA_GPU_SHARED, self.count),)
        )
        return dataclasses.replace(scenario, request=request, demand=demand)

    def clause(self) -> str:
        """Return what it would ask for."""
        now = f"{self.count} {noun(REPLICAS, self.count)} ({names.NVIDIA_GPU_SHARED})"
        cards = noun(CARDS, self.count)
        if self.is_whole:
            return f"it asked for {now} instead of {self.count} whole {cards}"
        was = "a part of a card" if self.count == 1 else f"parts of {self.count} cards"
        return f"it asked for {now} instead of {was}"


def in_replicas(failed: FailedPlacement) -> Iterator[ProposedChange]:
    """Yield that a pod with one ask for cards asks for replicas; scope and joint are about whole cards."""
    asks, grouping = list(each(failed.request)), failed.request.grouping
    if len(asks) != 1 or grouping.scope or grouping.joint or grouping.partition:
        return
    ((position, ask),) = asks
    shared = (sum(one.reason is Reason.SHARING_MODE for one in found.verdicts) for found in failed.shortfalls)
    if isinstance(ask, requests.Gpus) and max(shared, default=0) >= ask.count:
        yield ProposedChange([AskReplicas(position=position, count=ask.count, is_whole=ask.is_whole)])
