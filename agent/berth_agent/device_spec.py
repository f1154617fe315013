"""The spec that the Device of a node should have, given one sample of its cards. Pure.

Two rules are kept here and nowhere else. A card that stops answering stays in the list as it
was last known; its verdict in the status says that it is lost. A source that fails changes no
card: the last known spec stays, and the condition NVMLReady says that it is not current.

`spec.cordon` belongs to people; no function here gives it a value.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from berth_agent import card_modes, card_resources, found_labels, probe
from berth_crds import catalog, schema_limits, text, vocabulary, wire

# The kinds that the locations of the cards imply (same NUMA node, same root complex) are dropped first.
LINK_KINDS_TO_DROP: Final = (
    vocabulary.LinkKind.SYSTEM,
    vocabulary.LinkKind.NUMA,
    vocabulary.LinkKind.PCIE_HOST,
    vocabulary.LinkKind.PCIE_SWITCH,
    vocabulary.LinkKind.NVLINK,
)


def spec(
    node: str,
    outcome: probe.Outcome,
    known: wire.DeviceSpec | None,
    modes: card_modes.CardModes = card_modes.USUAL,
) -> wire.DeviceSpec:
    """Return the spec; `known` is the last one, `modes` says how cards are given out."""
    if isinstance(outcome, probe.SourceFailed):
        # Without a known spec the list is empty, and NVMLReady says that this means nothing.
        # A known spec may have been read from the API, with the cordon that people wrote.
        if known:
            return msgspec.structs.replace(known, cordon=())
        return wire.DeviceSpec(node=node, summary=_summary(()))
    before = known.devices if known else ()
    found = _in_order(map(card, outcome.answering_cards()), _remembered(outcome, before), before)
    cards = tuple(card_modes.applied(each, modes) for each in found)
    listed = frozenset(each.uuid for each in cards)
    # A lost card keeps its uuid and its minor, even if an extra device claims them meanwhile.
    minors = {(each.type, each.minor) for each in cards}
    others = tuple(
        each
        for each in (extra.entry for extra in outcome.devices)
        if each.uuid not in listed and (each.type, each.minor) not in minors
    )
    return wire.DeviceSpec(
        node=node,
        boot_id=outcome.boot_id,
        driver=outcome.driver,
        devices=tuple(map(_with_resources, _few_links((*(_among(each, listed) for each in cards), *others)))),
        partitions=tuple(group for group in outcome.partitions if listed.issuperset(group.members)),
        gpu_stands_for=card_modes.gpu_stands_for(cards, modes),
        summary=_summary((*cards, *others)),
    )


def card(reading: probe.Card) -> wire.Card:
    """Return the entry of one card."""
    return wire.Card(
        uuid=reading.uuid,
        type=vocabulary.DeviceType.GPU,
        minor=reading.minor,
        vendor=reading.vendor,
        model=reading.model,
        index=reading.index,
        module_id=reading.module_id,
        memory=reading.memory,
        compute_capability=reading.compute_capability,
        topology=_topology(reading.location),
        links=reading.links,
        mig=reading.mig,
        labels=dict(sorted({**found_labels.of_card(reading), **dict(reading.labels)}.items())),
    )


def _topology(location: wire.Topology) -> wire.Topology | None:
    """Return a location; None where all of it is unknown."""
    return None if location == probe.UNKNOWN_LOCATION else location


def _remembered(sample: probe.Sample, known: Iterable[wire.Card]) -> tuple[wire.Card, ...]:
    """Return the cards that are lost now as they were last known."""
    minors = {each.minor for each in sample.answering_cards()}
    found = (card for card, _ in _lost(sample, known) if card.minor not in minors)
    # Two cards of one uuid or minor would make the server refuse the whole list, good cards included.
    return tuple({card.uuid: card for card in found}.values())


def _in_order(
    answering: Iterable[wire.Card], lost: Iterable[wire.Card], known: Iterable[wire.Card]
) -> list[wire.Card]:
    """Return the cards by index, each lost one after those it came after, so that only its verdict changes.

    Where the driver no longer counts a card, the index of each card after it is one less.
    """
    places = {each.uuid: place for place, each in enumerate(known)}
    cards = sorted(answering, key=lambda each: each.index or 0)
    for each in sorted(lost, key=lambda each: places[each.uuid]):
        earlier = {uuid for uuid, place in places.items() if place < places[each.uuid]}
        last = max((at for at, other in enumerate(cards) if other.uuid in earlier), default=-1)
        cards.insert(last + 1, each)
    return cards


def lost_by_uuid(sample: probe.Sample, spec: wire.DeviceSpec) -> Mapping[str, probe.LostCard]:
    """Return by uuid the lost cards that the spec still lists."""
    return {card.uuid: lost for card, lost in _lost(sample, spec.devices)}


def _lost(sample: probe.Sample, known: Iterable[wire.Card]) -> Iterator[tuple[wire.Card, probe.LostCard]]:
    """Yield the lost cards that are known, each with its last entry."""
    answering = {each.uuid for each in sample.answering_cards()}
    others = tuple(each for each in known if each.uuid not in answering)
    found = ((last_known(lost, others), lost) for lost in sample.lost_cards())
    return ((card, lost) for card, lost in found if card)


def last_known(lost: probe.LostCard, known: Iterable[wire.Card]) -> wire.Card | None:
    """Return the entry of a lost card, found by its uuid, its PCI address or else its index."""
    if lost.uuid:
        return next((each for each in known if each.uuid == lost.uuid), None)
    if lost.bus_id:
        return next((each for each in known if each.topology and each.topology.bus_id == lost.bus_id), None)
    return next((each for each in known if each.index == lost.index), None)


def _among(card: wire.Card, listed: frozenset[str]) -> wire.Card:
    """Return a card without links to cards that are not listed, which the server would refuse."""
    links = tuple(link for link in card.links if link.peer in listed)
    return card if links == card.links else msgspec.structs.replace(card, links=links)


def _with_resources(device: wire.Card) -> wire.Card:
    return msgspec.structs.replace(device, resources=card_resources.of_device(device))


def _few_links(cards: tuple[wire.Card, ...]) -> tuple[wire.Card, ...]:
    """Return the cards with no more links than the server takes: the least useful kinds are left out."""
    for kind in LINK_KINDS_TO_DROP:
        if sum(len(card.links) for card in cards) <= schema_limits.TOTAL_LINKS:
            break
        cards = tuple(_without(card, kind) for card in cards)
    return cards


def _without(card: wire.Card, kind: vocabulary.LinkKind) -> wire.Card:
    return msgspec.structs.replace(card, links=tuple(link for link in card.links if link.kind != kind))


def _summary(cards: Iterable[wire.Card]) -> wire.SpecSummary:
    gpus = [each for each in cards if each.type == vocabulary.DeviceType.GPU]
    counts = collections.Counter(catalog.normal_model(each.model) for each in gpus)
    models = ", ".join(f"{model} x{count}" for model, count in counts.items())
    sharing = ", ".join(filter(None, (_sharing_summary(gpus), _mig_summary(gpus))))
    return wire.SpecSummary(
        models=text.line(models, most=schema_limits.LONGEST_SUMMARY),
        gpus=len(gpus),
        sharing=text.line(sharing, most=schema_limits.LONGEST_SUMMARY),
    )


def _sharing_summary(gpus: Iterable[wire.Card]) -> str:
    """Return how the cards are shared as a whole, such as `mps x2`."""
    return ", ".join(
        sorted({f"{card.sharing.strategy} x{card.sharing.replicas}" for card in gpus if card.sharing})
    )


def _mig_summary(gpus: Iterable[wire.Card]) -> str:
    """Return which MIG instances the cards have; a card in MIG mode may have none yet."""
    migs = [card.mig for card in gpus if card.mig is not None and card.mig.enabled]
    profiles = collections.Counter(one.profile for mig in migs for one in mig.instances)
    counts = ", ".join(f"{profile} x{count}" for profile, count in sorted(profiles.items()))
    return f"mig {counts}".rstrip() if migs else ""
