"""Parts of cards, of which the kubelet counts each percent: what is left, and what may be given. Pure."""

import collections
from collections.abc import Collection, Iterable, Mapping, Sequence

from berth_agent.delivery import part_choice, topology_choice
from berth_agent.delivery.containers import GivenCard, Part
from berth_agent.device_plugin import claims, offers
from berth_agent.device_plugin.claims import Claim, PodKey
from berth_agent.gpupods import watched_pod
from berth_agent.kubelet.device_ids import uuid_of
from berth_agent.kubelet.plugin_messages import Preference
from berth_crds import card_part, names, wire

Specs = Mapping[PodKey, watched_pod.PodSpec]


def withdrawn(
    claimed: Sequence[Claim], specs: Specs, given: Collection[str], countable: Iterable[offers.Countable]
) -> frozenset[str]:
    """Return the devices that the kubelet may give to nobody, though they are well.

    They stand for what pods hold without having asked the kubelet for it. What it has given stays.
    """
    unasked = [one for one in claimed if not one.resource]
    found: set[str] = set()
    for meaning in {one.meaning for one in unasked}:
        held = _held((one for one in unasked if one.meaning == meaning), specs)
        for one in countable:
            if one.meaning == meaning and (count := held[one.uuid]):
                free = [device for device in one.ids if device not in given]
                found.update(free[max(0, len(free) - count) :])
    return frozenset(found)


def left(claimed: Sequence[Claim], specs: Specs, uuids: Iterable[str]) -> Mapping[str, int]:
    """Return how many percent of each of these cards nobody claims; none of one that is claimed otherwise."""
    otherwise = {one.uuid for one in claimed if one.meaning != names.GPU}
    held = _held((one for one in claimed if one.meaning == names.GPU), specs)
    return {uuid: 0 if uuid in otherwise else max(0, card_part.WHOLE - held[uuid]) for uuid in uuids}


def _held(claimed: Iterable[Claim], specs: Specs) -> collections.Counter[str]:
    """Return how much of each card all pods together hold: of compute or of memory, whichever is more."""
    by_pod: dict[PodKey, list[Claim]] = {}
    for one in claimed:
        by_pod.setdefault(one.pod, []).append(one)
    amounts, memory = collections.Counter[str](), collections.Counter[str]()
    for pod, its_claims in by_pod.items():
        spec = specs.get(pod, watched_pod.PodSpec())
        amounts += _most_at_one_time({one: one.amount for one in its_claims}, spec)
        memory += _most_at_one_time({one: one.memory for one in its_claims}, spec)
    percents = {uuid: -(-units // claims.PERCENT_OF_MEMORY) for uuid, units in memory.items()}
    return amounts | collections.Counter(percents)


def _most_at_one_time(claimed: Mapping[Claim, int], spec: watched_pod.PodSpec) -> collections.Counter[str]:
    """Return how much of each card a pod has at one time; what was promised and given counts once."""
    amounts: dict[tuple[str, str], int] = {}
    for one, amount in claimed.items():
        place = one.container, one.uuid
        amounts[place] = max(amount, amounts.get(place, 0))
    found = collections.Counter[str]()
    for running in watched_pod.at_one_time(spec, {container for container, _ in amounts}):
        now = collections.Counter[str]()
        for (container, uuid), amount in amounts.items():
            now[uuid] += amount if container in running else 0
        found |= now
    return found


def of_cards(ids: Iterable[str], given: Iterable[GivenCard]) -> list[Part]:
    """Return how much of each card a container has with these percents."""
    percents = collections.Counter(map(uuid_of, ids))
    return [
        Part(one, percents[one.uuid], _memory(one) * percents[one.uuid] // card_part.WHOLE) for one in given
    ]


def whole(given: GivenCard) -> Part:
    """Return all of a card as the part that a container has of it."""
    return Part(given, card_part.WHOLE, _memory(given))


def _memory(given: GivenCard) -> int:
    return given.card.memory or 0


def best(
    preference: Preference,
    left: Mapping[str, int],
    cards: Sequence[wire.Card],
    partitions: Iterable[wire.Partition],
) -> Sequence[str]:
    """Return the best percents for a pod that Berth has not bound: whole cards, or all of one card."""
    if preference.size % card_part.WHOLE:
        return part_choice.best_part(
            preference.available, preference.must_include, preference.size, left, card_of=uuid_of
        )
    available = collections.Counter(map(uuid_of, preference.available))
    free = {uuid for uuid in left if min(left[uuid], available[uuid]) == card_part.WHOLE}
    must = dict.fromkeys(map(uuid_of, preference.must_include))
    chosen = topology_choice.best_set(cards, partitions, free, [*must], preference.size // card_part.WHOLE)
    return [device for uuid in chosen for device in offers.percents(uuid)]


def objection(chosen: Sequence[str], left: Mapping[str, int]) -> str:
    """Return why a pod that Berth has not bound cannot have these percents; empty if it can."""
    counts, size = collections.Counter(map(uuid_of, chosen)), len(chosen)
    whole, rest = divmod(size, card_part.WHOLE)
    if whole and rest:
        amounts = f"{whole * card_part.WHOLE} or {(whole + 1) * card_part.WHOLE}"
        return f"{size} of {names.GPU} is neither a part of a card nor a number of cards: ask for {amounts}"
    if len(counts) != (whole or 1):
        return f"the kubelet chose parts of {len(counts)} cards: {', '.join(sorted(counts))}"
    for uuid, count in counts.items():
        if count > left.get(uuid, 0):
            return f"{count} % of {uuid} were asked for, and {left.get(uuid, 0)} % are free"
    return ""
