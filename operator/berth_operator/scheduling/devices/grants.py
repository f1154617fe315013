"""From solved packing problems to the grants of a pod, and from these to what the pod holds.

A container lists each device once: two replicas of one card, or two asks that met on it,
become one share. Virtual functions are picked here, the lowest bus id first; an init
container takes one that its pod has anyway, where it is not in use at the same time.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import container_peaks
from berth_operator.scheduling.decisions import Grant, Share
from berth_operator.scheduling.devices import packing, packing_problems, requests, verdicts

WHOLE: Final = requests.WHOLE


class Solved(NamedTuple):
    """A packing problem, its solution, and the scope that its cards are in."""

    problem: packing.PackingProblem
    state: packing.State
    scope: Scope = Scope.NODE


@dataclasses.dataclass(frozen=True, slots=True)
class _Pick:
    """One spot given to one ask of one container, and the function that came with it."""

    item: packing.Item
    spot: packing.Spot
    function: str = ""


def grants_of(problem: packing_problems.NodeProblem, solved: Iterable[Solved]) -> tuple[Grant, ...]:
    """Return what each container gets, in the order of the containers, asks and minors."""
    picks = [pick for one in solved for pick in _with_functions(problem, list(_picks(one)))]
    picks.sort(key=_place_in_answer)
    left = _memory_left(problem, picks)
    grants = (
        Grant(
            container.name,
            _merged(_share(problem, pick, left) for pick in picks if pick.item.container_number == number),
            container.runs,
        )
        for number, container in enumerate(problem.request.containers)
    )
    return tuple(grant for grant in grants if grant.shares)


def _place_in_answer(pick: _Pick) -> tuple[object, ...]:
    one = pick.spot.instance
    return (
        pick.item.container_number,
        pick.item.ask_number,
        pick.spot.device,
        (one.start, one.uuid) if one else (),
    )


def _picks(solved: Solved) -> Iterator[_Pick]:
    for item, chosen in zip(solved.problem.items, solved.state.chosen, strict=True):
        yield from (_Pick(item, solved.problem.spots[at]) for at in sorted(chosen))


def _with_functions(problem: packing_problems.NodeProblem, picks: list[_Pick]) -> Iterator[_Pick]:
    """Assign a virtual function to each share that comes with one; the search counted that they suffice."""
    given: list[_Pick] = []
    for pick in picks:
        ask = problem.ask_of(pick.item)
        if isinstance(ask, requests.OtherDevices) and verdicts.takes_function(
            pick.spot.card, ask, problem.request.grouping
        ):
            given.append(dataclasses.replace(pick, function=_function(problem, pick, given)))
            yield given[-1]
        else:
            yield pick


def _function(problem: packing_problems.NodeProblem, pick: _Pick, given: list[_Pick]) -> str:
    here = [one for one in given if one.spot.device == pick.spot.device]
    held = {one.function for one in here}
    busy = {one.function for one in here if set(one.item.phases) & set(pick.item.phases)}
    free = verdicts.free_functions(problem.view, pick.spot.card, problem.request.grouping)
    return min((one.bus not in held, one.bus) for one in free if one.bus not in busy)[1]


# What is left of a card's memory in one phase, by device and phase.
Left = dict[tuple[int, int], int]


def _memory_left(problem: packing_problems.NodeProblem, picks: list[_Pick]) -> Left:
    """Return how much of each card's memory the search has left, phase by phase."""
    left: Left = {}
    for pick in picks:
        ask, card, slot = problem.ask_of(pick.item), pick.spot.card, pick.spot.device
        if not isinstance(ask, requests.Gpus):
            continue
        for phase in pick.item.phases:
            before = left.get((slot, phase), problem.view.free_memory(card))
            left[slot, phase] = before - ask.least_of(card.memory)
    return left


def _memory(pick: _Pick, ask: requests.Gpus, left: Left) -> int:
    """Return the bytes of a share, rounded up where the card has them."""
    card, places = pick.spot.card, [(pick.spot.device, phase) for phase in pick.item.phases]
    least = ask.least_of(card.memory)
    more = min(ask.bytes_of(card.memory) - least, *(left[at] for at in places))
    for at in places:
        left[at] -= more
    return least + more


def _share(problem: packing_problems.NodeProblem, pick: _Pick, left: Left) -> Share:
    card, instance = pick.spot.card, pick.spot.instance
    if instance is not None:
        # An instance is given whole, so its core is 100 percent of the instance, not of the card.
        return Share(instance.uuid, card.minor, WHOLE, instance.memory, profile=instance.profile)
    ask = problem.ask_of(pick.item)
    core, memory, _ = verdicts.need(card, ask)
    limit = 0
    if isinstance(ask, requests.Gpus):
        memory = _memory(pick, ask, left)
        limit = problem.view.recorded_limit(core, whole=ask.is_whole)
    return Share(
        card.uuid,
        card.minor,
        core,
        memory,
        type=card.type,
        function=pick.function,
        card_memory=card.memory,
        replicas=int(isinstance(ask, requests.Replicas)),
        core_limit=limit,
    )


def _merged(shares: Iterable[Share]) -> tuple[Share, ...]:
    """Add up the shares of the same device, in the order of their first."""
    merged: dict[tuple[str, str], Share] = {}
    for share in shares:
        key = share.uuid, share.function
        before = merged.get(key)
        merged[key] = share if before is None else _sum(before, share)
    return tuple(merged.values())


def _sum(one: Share, other: Share) -> Share:
    return dataclasses.replace(
        one,
        core=one.core + other.core,
        memory=one.memory + other.memory,
        replicas=one.replicas + other.replicas,
    )


# ---------------------------------------------------------------- what a pod holds


def peak_shares(grants: tuple[Grant, ...]) -> tuple[Share, ...]:
    """Return what a pod holds of each device for all its life: the most that runs at any one time.

    Each device appears once, and so does each virtual function: where a pod has several
    functions of one device, the first carries the amounts and the others carry none.
    """
    if len(grants) == 1 and len({share.uuid for share in grants[0].shares}) == len(grants[0].shares):
        return grants[0].shares  # As nearly always: one container, and nothing to sum up.
    peaks = container_peaks.peaks((_amounts(grant).items(), grant.runs) for grant in grants)
    named: dict[tuple[str, str], Share] = {}
    for grant in grants:
        for share in grant.shares:
            if (share.uuid, share.function) not in named:
                core, memory = (peaks.pop((share.uuid, what), 0) for what in ("core", "memory"))
                named[share.uuid, share.function] = dataclasses.replace(share, core=core, memory=memory)
    return tuple(named.values())


def _amounts(grant: Grant) -> collections.Counter[tuple[str, str]]:
    amounts: collections.Counter[tuple[str, str]] = collections.Counter()
    for share in grant.shares:
        amounts[share.uuid, "core"] += share.core
        amounts[share.uuid, "memory"] += share.memory
    return amounts
