"""Which devices a bound pod may have been given for the resources of its containers, which nobody can edit.

They count where nothing that can be read says which devices it has: `held_devices`.
"""

import collections
import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from berth_crds import aliases, names, schema_limits
from berth_operator.scheduling import container_peaks, foreign_allocations, holds
from berth_operator.scheduling.devices import requests
from berth_operator.translate import device_requests, quantities, raw, resources, unknown_keys

# Resources of which one unit is one device.
COUNTED_RESOURCES: Final = (names.NVIDIA_GPU, names.NVIDIA_MIG_PREFIX)
MOST_DIFFERENT: Final = 256  # Containers that ask for different amounts: reading each takes 10 to 50 us.

Serving = tuple[dict[str, raw.Quantity], bool]


def serving(spec: raw.PodSpec) -> list[Serving]:
    """Return the amounts of served resources of each container, and whether it keeps running."""
    return [(_served(container), runs) for container, runs in resources.each_serving(spec)]


def _served(container: raw.Container) -> dict[str, raw.Quantity]:
    return {name: amount for name, amount in resources.pairs(container) if aliases.is_served(name)}


def max_cards(serving: Iterable[Serving]) -> int:
    """Return how many cards a pod may have for its resources, in all containers that run at one time."""
    return _peak((_container_max_cards(amounts), runs) for amounts, runs in serving)


def max_cards_of_many(spec: raw.PodSpec) -> int:
    """Return how many cards a pod of very many containers may have: all if too many of them differ."""
    read: dict[tuple[tuple[str, raw.Quantity], ...], int] = {(): 0}
    cards: list[tuple[int, bool]] = []
    for container, runs in resources.each_asking(spec):
        served = _served(container)
        if (amounts := tuple(served.items())) not in read:
            if len(read) > MOST_DIFFERENT:
                return holds.ALL_CARDS
            read[amounts] = _container_max_cards(served)
        cards.append((read[amounts], runs))
    return min(_peak(cards), holds.ALL_CARDS)


def _peak(cards: Iterable[tuple[int, bool]]) -> int:
    """Return the most that containers have at one time, each with its cards and whether it keeps running."""
    return container_peaks.peaks(([("cards", count)], runs) for count, runs in cards).get("cards", 0)


def is_of_plugins(name: str) -> bool:
    """Whether a device plugin may serve a resource.

    Of Berth's own names only berth.dev/gpu is served by one, the agent's: otherwise nodes just list them.
    """
    return name == names.GPU or not name.startswith(unknown_keys.PREFIX)


def max_cards_by_resource(serving: Iterable[Serving]) -> Mapping[str, int]:
    """Return how many cards a device plugin may give a pod for each resource, in containers of one moment.

    If too many of their amounts differ, each unit of the others counts as a card.
    """
    read: dict[tuple[str, raw.Quantity], int] = {}

    def cards(name: str, amount: raw.Quantity) -> int:
        if (found := read.get((name, amount))) is None:
            if len(read) >= MOST_DIFFERENT:
                return _most_units(amount)
            found = read[name, amount] = _container_max_cards({name: amount})
        return found

    return container_peaks.peaks(
        ([(name, cards(name, amount)) for name, amount in amounts.items() if is_of_plugins(name)], runs)
        for amounts, runs in serving
    )


def serving_of_many(spec: raw.PodSpec, served: Collection[str]) -> Iterator[Serving]:
    """Yield the same as `serving` of a pod of very many containers, of which these resources are served."""
    for container, runs in resources.each_asking(spec):
        yield {name: amount for name, amount in resources.pairs(container) if name in served}, runs


def asked_types(
    serving: Iterable[Serving], request: requests.DeviceRequest | None, *, ours: bool
) -> Iterator[foreign_allocations.AskedType]:
    """Yield the types of devices other than cards that a pod may have for its resources.

    What another scheduler has bound has none for Berth's own names: nodes just list them.
    """
    found = [name for amounts, _ in serving for name, amount in amounts.items() if _is_some(amount)]
    core = _most_of_others(request) if request is not None else {}
    for kind, those in by_type(found):
        given = (
            those if ours else frozenset(name for name in those if not name.startswith(unknown_keys.PREFIX))
        )
        if given:
            yield foreign_allocations.AskedType(kind, core.get(kind, 0), given)


def _is_some(amount: raw.Quantity) -> bool:
    return quantities.supply(amount, unreadable=1, thousandths=True) > 0


def by_type(resource_names: Iterable[str]) -> list[tuple[str, frozenset[str]]]:
    """Return the types of devices other than cards for which resources ask, and by which names."""
    found: dict[str, set[str]] = {}
    for name in resource_names:
        if kind := aliases.type_of(name):
            found.setdefault(kind, set()).add(name)
    return sorted((kind, frozenset(those)) for kind, those in found.items())


def _most_of_others(request: requests.DeviceRequest) -> Mapping[str, int]:
    """Return how much of each type of device other than cards is asked for, in percent, at any one time."""
    most = collections.Counter[str]()
    for phase in container_peaks.phases(request.containers):
        together = collections.Counter[str]()
        for ask in itertools.chain.from_iterable(one.asks for one in phase):
            if isinstance(ask, requests.OtherDevices):
                together[ask.type] += ask.count * ask.share
        most |= together
    return most


def max_named(serving: Iterable[Serving]) -> int:
    """Return how many cards a GpuPod may name for the resources of a pod, in all its containers.

    A device plugin allocates a device for each unit of its resource, on any cards.
    """
    return sum(_units(name, amount) for amounts, _ in serving for name, amount in amounts.items())


def _units(name: str, amount: raw.Quantity) -> int:
    """Return on how many cards an amount of a resource may lie: one for each unit, up to all of a node."""
    return _most_units(amount) if _container_max_cards({name: amount}) else 0


def _most_units(amount: raw.Quantity) -> int:
    """Return how many units an amount has, up to all cards of a node; any amount has one at least."""
    most = schema_limits.MOST_DEVICES
    return max(1, min(quantities.supply(amount, unreadable=most), most))


def _container_max_cards(served: dict[str, raw.Quantity]) -> int:
    """Return how many cards a container may have for these resources."""
    if len(served) == 1:
        return _resource_max_cards(*next(iter(served.items())))
    return _uncached_max_cards(served)


@functools.lru_cache(maxsize=1024)
def _resource_max_cards(name: str, amount: raw.Quantity) -> int:
    return _uncached_max_cards({name: amount})


def _uncached_max_cards(served: dict[str, raw.Quantity]) -> int:
    found = device_requests.container_asks_of(
        raw.Container(name="main", resources=raw.ContainerResources(limits=served))
    )
    if found is None:
        return quantities.sum_up_to(schema_limits.MOST_DEVICES, itertools.starmap(_pieces, served.items()))
    return sum(map(_cards, found))


def _pieces(name: str, amount: raw.Quantity) -> int:
    """Return how many devices a device plugin allocates; for other resources at most one is certain."""
    count = min(quantities.supply(amount, unreadable=1), schema_limits.MOST_DEVICES)
    return count if name.startswith(COUNTED_RESOURCES) else min(count, 1)


def fewest_cards(request: requests.DeviceRequest) -> int:
    """Return how many cards an allocation of the pod names at least: shares may lie on the same card.

    That is the largest count over the sets of containers that run at one time.
    """
    return max(
        _distinct([ask for one in phase for ask in one.asks])
        for phase in container_peaks.phases(request.containers)
    )


def _cards(ask: requests.Ask) -> int:
    return 0 if isinstance(ask, requests.OtherDevices) else ask.count


def _distinct(asks: list[requests.Ask]) -> int:
    alone = sum(
        ask.count
        for ask in asks
        if isinstance(ask, requests.Instances) or (isinstance(ask, requests.Gpus) and ask.is_whole)
    )
    shares = [ask.count for ask in asks if isinstance(ask, requests.Gpus) and not ask.is_whole]
    replicas = [1 for ask in asks if isinstance(ask, requests.Replicas)]
    return alone + max([0, *shares, *replicas])
