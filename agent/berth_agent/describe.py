"""What the Device of a node should say, given one look at its cards. Pure.

In goes what the probe gave, what was said before, and the time; out comes the spec and
the agent's own part of the status, ready to be made so by `publish`. Three rules are
kept here and nowhere else. A card that stops answering stays in the list, as it was last
known, with a bad verdict. A source that fails changes no card: what was last known
stands, and the condition NVMLReady tells that it is not current. And a moment (`since`,
`lastTransitionTime`) moves only when what it dates has changed.

`spec.cordon` belongs to people; no function here gives it a value.
"""

import collections
import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from berth_agent import probe
from berth_crds import catalog, schema_limits, text, vocabulary, wire
from berth_crds.client import lease

NVML_READY: Final = vocabulary.DeviceCondition.NVML_READY
# Whether two cards share a NUMA node or a root complex their places tell, too, so these links go first.
LEAST_TELLING: Final = (
    vocabulary.LinkKind.SYSTEM,
    vocabulary.LinkKind.NUMA,
    vocabulary.LinkKind.PCIE_HOST,
    vocabulary.LinkKind.PCIE_SWITCH,
    vocabulary.LinkKind.NVLINK,
)


# ---------------------------------------------------------------- spec


def spec(
    node: str,
    outcome: probe.Outcome,
    known: wire.DeviceSpec | None,
    sharing: wire.Sharing | None = None,
) -> wire.DeviceSpec:
    """Return what the node has; `known` is what was said before, `sharing` what people chose, if anything."""
    if isinstance(outcome, probe.SourceFailed):
        # Without anything known the list is empty, and NVMLReady tells that it is not the truth.
        # What is known may have been read from the API, with the cordon that people wrote.
        return _without_cordon(known) if known else wire.DeviceSpec(node=node, summary=_summary(()))
    remembered = _remembered(outcome, known.devices if known else ())
    # A card keeps its place in the list while it is lost, so that nothing but its verdict changes.
    found = (_shared(each, sharing) for each in (*map(card, outcome.read()), *remembered))
    cards = sorted(found, key=lambda each: each.index or 0)
    listed = frozenset(each.uuid for each in cards)
    # A lost card keeps its uuid and its minor, whoever else claims them meanwhile.
    minors = {(each.type, each.minor) for each in cards}
    beside = map(device, outcome.devices)
    others = tuple(
        each for each in beside if each.uuid not in listed and (each.type, each.minor) not in minors
    )
    return wire.DeviceSpec(
        node=node,
        boot_id=outcome.boot_id,
        driver=wire.Driver(version=outcome.driver.version, cuda=outcome.driver.cuda),
        devices=_few_links((*(_among(each, listed) for each in cards), *others)),
        partitions=tuple(
            _partition(group) for group in outcome.partitions if listed.issuperset(group.members)
        ),
        summary=_summary((*cards, *others)),
    )


def _without_cordon(spec: wire.DeviceSpec) -> wire.DeviceSpec:
    return msgspec.structs.replace(spec, cordon=())


def card(reading: probe.Card) -> wire.Card:
    """Describe one card."""
    place = reading.place
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
        topology=_topology(place),
        links=tuple(wire.Link(link.peer, link.kind, link.count) for link in reading.links),
        mig=None if reading.mig is None else _mig(reading.mig),
    )


def _shared(one: wire.Card, sharing: wire.Sharing | None) -> wire.Card:
    """Return how a card is shared; one that is cut into instances is not shared as a whole."""
    return msgspec.structs.replace(one, sharing=None if one.mig is not None and one.mig.enabled else sharing)


def device(reading: probe.Device) -> wire.Card:
    """Return what one device beside the cards is."""
    return wire.Card(
        uuid=reading.uuid,
        type=reading.type,
        minor=reading.minor,
        vendor=reading.vendor,
        model=reading.model,
        memory=reading.memory,
        topology=_topology(reading.place),
        labels=dict(reading.labels),
        vf_groups=tuple(map(_vf_group, reading.vf_groups)),
    )


def _topology(place: probe.Place) -> wire.Topology | None:
    if place == probe.Place():
        return None
    return wire.Topology(place.numa_node, place.pcie_root, place.bus_id)


def _vf_group(group: probe.VfGroup) -> wire.VfGroup:
    return wire.VfGroup(vfs=tuple(wire.Vf(each.minor, each.bus_id) for each in group.vfs))


def _mig(reading: probe.Mig) -> wire.Mig:
    return wire.Mig(reading.enabled, tuple(map(_instance, reading.instances)))


def _instance(reading: probe.MigInstance) -> wire.MigInstance:
    where = reading.placement
    return wire.MigInstance(
        uuid=reading.uuid,
        profile=reading.profile,
        memory=reading.memory,
        gi=reading.gi,
        ci=reading.ci,
        placement=wire.MigPlacement(where.start, where.size) if where else None,
    )


def _partition(group: probe.Partition) -> wire.Partition:
    return wire.Partition(members=group.members, link=group.link or "", score=group.score)


def _remembered(sample: probe.Sample, known: Iterable[wire.Card]) -> tuple[wire.Card, ...]:
    """Return the cards that are lost now as they were last known."""
    cards = tuple(sample.read())
    uuids, minors = {each.uuid for each in cards}, {each.minor for each in cards}
    others = tuple(each for each in known if each.uuid not in uuids)
    found = (_last_known(lost, others) for lost in sample.lost())
    # Two cards of one uuid or minor would make the server refuse the whole list, good cards included.
    return tuple({each.uuid: each for each in found if each and each.minor not in minors}.values())


def _last_known(lost: probe.Lost, known: Iterable[wire.Card]) -> wire.Card | None:
    if lost.uuid:
        return next((each for each in known if each.uuid == lost.uuid), None)
    if lost.bus_id:
        return next((each for each in known if each.topology and each.topology.bus_id == lost.bus_id), None)
    return next((each for each in known if each.index == lost.index), None)


def _among(one: wire.Card, listed: frozenset[str]) -> wire.Card:
    """Leave out links to cards that are not listed, which the server would refuse."""
    links = tuple(link for link in one.links if link.peer in listed)
    return one if links == one.links else msgspec.structs.replace(one, links=links)


def _few_links(cards: tuple[wire.Card, ...]) -> tuple[wire.Card, ...]:
    """Leave out the kinds of links that tell least, where the server would refuse so many."""
    for kind in LEAST_TELLING:
        if sum(len(card.links) for card in cards) <= schema_limits.TOTAL_LINKS:
            break
        cards = tuple(_without(card, kind) for card in cards)
    return cards


def _without(one: wire.Card, kind: vocabulary.LinkKind) -> wire.Card:
    return msgspec.structs.replace(one, links=tuple(link for link in one.links if link.kind != kind))


def _summary(cards: Iterable[wire.Card]) -> wire.SpecSummary:
    gpus = [each for each in cards if each.type == vocabulary.DeviceType.GPU]
    counts = collections.Counter(catalog.normal_model(each.model) for each in gpus)
    models = ", ".join(f"{model} x{count}" for model, count in counts.items())
    told = ", ".join(filter(None, (_shares(gpus), _cuts(gpus))))
    return wire.SpecSummary(
        models=text.line(models, most=schema_limits.LONGEST_SUMMARY),
        gpus=len(gpus),
        sharing=text.line(told, most=schema_limits.LONGEST_SUMMARY),
    )


def _shares(gpus: Iterable[wire.Card]) -> str:
    """Return how the cards are shared as a whole."""
    ways = {f"{card.sharing.strategy} x{card.sharing.replicas}" for card in gpus if card.sharing}
    return ", ".join(sorted(ways))


def _cuts(gpus: Iterable[wire.Card]) -> str:
    """Return into which MIG instances the cards are cut; a card in MIG mode may have none yet."""
    cut = [card.mig for card in gpus if card.mig is not None and card.mig.enabled]
    profiles = collections.Counter(one.profile for mig in cut for one in mig.instances)
    told = ", ".join(f"{profile} x{count}" for profile, count in sorted(profiles.items()))
    return f"mig {told}".rstrip() if cut else ""


# ---------------------------------------------------------------- status


@dataclasses.dataclass(frozen=True, slots=True)
class Beside:
    """What is known of a node beside its cards: who is on them though nobody gave it, and its other source.

    The condition is not dated; without one, what was said of the source stands.
    """

    occupants: Mapping[str, tuple[wire.Occupant, ...]] = dataclasses.field(default_factory=dict)
    kubelet: wire.Condition | None = None


ALONE: Final = Beside()


def beside(
    said: wire.DeviceSpec,
    occupants: Mapping[str, tuple[wire.Occupant, ...]],
    kubelet: wire.Condition | None = None,
) -> Beside:
    """Join what is known beside the cards; the server refuses an entry for a card that is not listed."""
    listed = {each.uuid for each in said.devices}
    return Beside({uuid: held for uuid, held in occupants.items() if uuid in listed}, kubelet)


Verdicts = Mapping[str, probe.Health]


def status(
    outcome: probe.Outcome,
    verdicts: Verdicts,
    before: wire.DeviceStatus,
    beside: Beside = ALONE,
    *,
    now: dt.datetime,
) -> wire.DeviceStatus:
    """Return how each card fares that has a verdict; `before` is the status so far, for its moments.

    A source that failed has no verdicts: what was said stands.
    """
    devices = (
        before.devices if isinstance(outcome, probe.SourceFailed) else _devices(verdicts, before, now=now)
    )
    other = (transition(beside.kubelet, before.conditions, now=now),) if beside.kubelet else ()
    return wire.DeviceStatus(
        devices=occupied(devices, beside.occupants),
        conditions=(_nvml_ready(outcome, before, now=now), *other),
    )


def occupied(
    verdicts: Iterable[wire.CardStatus], occupants: Mapping[str, tuple[wire.Occupant, ...]]
) -> tuple[wire.CardStatus, ...]:
    """Enter who is on a card that nobody gave it; a card that is well gets an entry for that alone."""
    healthy = vocabulary.Health.HEALTHY
    bare = [msgspec.structs.replace(each, occupants=()) for each in verdicts]
    found = {each.uuid: each for each in bare if each != wire.CardStatus(each.uuid, healthy)}
    for uuid, held in occupants.items():
        entry = found.get(uuid, wire.CardStatus(uuid, healthy))
        found[uuid] = msgspec.structs.replace(entry, occupants=held)
    return tuple(found.values())


def _devices(
    verdicts: Verdicts, before: wire.DeviceStatus, *, now: dt.datetime
) -> tuple[wire.CardStatus, ...]:
    earlier = {each.uuid: each for each in before.devices}
    found = (_verdict(uuid, health) for uuid, health in verdicts.items() if health != probe.Health())
    return tuple(_dated(each, earlier.get(each.uuid), now=now) for each in found)


def _verdict(uuid: str, health: probe.Health) -> wire.CardStatus:
    return wire.CardStatus(
        uuid=uuid,
        health=health.verdict,
        reason=health.reason,
        xid=health.xid,
        message=text.line(health.message, most=schema_limits.LONGEST_MESSAGE),
        recovery=health.recovery or "",
    )


def lost_by_uuid(sample: probe.Sample, said: wire.DeviceSpec) -> Mapping[str, probe.Lost]:
    """Find the lost cards that the spec still lists."""
    read = {each.uuid for each in sample.read()}
    kept = tuple(each for each in said.devices if each.uuid not in read)
    found = ((_last_known(lost, kept), lost) for lost in sample.lost())
    return {each.uuid: lost for each, lost in found if each}


def _dated(verdict: wire.CardStatus, before: wire.CardStatus | None, *, now: dt.datetime) -> wire.CardStatus:
    """Date a verdict from when the card came to have this health."""
    same = before is not None and before.health == verdict.health and before.since
    return msgspec.structs.replace(verdict, since=before.since if before and same else lease.second(now))


def _nvml_ready(outcome: probe.Outcome, before: wire.DeviceStatus, *, now: dt.datetime) -> wire.Condition:
    found = _failed(outcome) if isinstance(outcome, probe.SourceFailed) else _answered(outcome)
    return transition(found, before.conditions, now=now)


def _failed(failure: probe.SourceFailed) -> wire.Condition:
    return wire.Condition(
        type=NVML_READY,
        status=vocabulary.Truth.FALSE,
        reason=failure.reason,
        message=text.line(failure.message, most=schema_limits.LONGEST_MESSAGE),
    )


def _answered(sample: probe.Sample) -> wire.Condition:
    lost = tuple(sample.lost())
    silent = "".join(f" Card {each.index}: {each.message}." for each in lost)
    return wire.Condition(
        type=NVML_READY,
        # One silent card is a verdict on that card; it does not close the node.
        status=vocabulary.Truth.TRUE,
        reason="CardsLost" if lost else "CardsRead",
        message=text.line(
            f"{len(sample.cards) - len(lost)} of {len(sample.cards)} cards answered.{silent}",
            most=schema_limits.LONGEST_MESSAGE,
        ),
    )


def transition(
    found: wire.Condition, before: Iterable[wire.Condition], *, now: dt.datetime
) -> wire.Condition:
    """Date a condition: from now if its status changed, else from when it last did."""
    earlier = next((each for each in before if each.type == found.type), None)
    same = earlier is not None and earlier.status == found.status and earlier.last_transition_time
    since = earlier.last_transition_time if earlier and same else lease.second(now)
    return msgspec.structs.replace(found, last_transition_time=since)


# ---------------------------------------------------------------- words


def changes(before: wire.DeviceStatus, after: wire.DeviceStatus) -> tuple[str, ...]:
    """Return in lines for a log how two statuses differ."""
    told, lines = set(_lines(before)), tuple(_lines(after))
    bad = set(_unwell(after))
    healed = (f"{uuid} is well again" for uuid in _unwell(before) if uuid not in bad)
    left = (f"over: {line}" for line in _strangers(before) if line not in lines)
    return (*(line for line in lines if line not in told), *healed, *left)


def troubles(status: wire.DeviceStatus) -> frozenset[str]:
    """Return those lines of a status that tell of something wrong."""
    failed = (each for each in status.conditions if each.status == vocabulary.Truth.FALSE)
    ill = (each for each in status.devices if _is_unwell(each))
    return frozenset((*map(_condition, failed), *map(_card_status, ill)))


def _lines(status: wire.DeviceStatus) -> Iterator[str]:
    yield from map(_condition, status.conditions)
    yield from (_card_status(each) for each in status.devices if each.reason or _is_unwell(each))
    yield from _strangers(status)


def _is_unwell(each: wire.CardStatus) -> bool:
    return each.health != vocabulary.Health.HEALTHY


def _unwell(status: wire.DeviceStatus) -> list[str]:
    return [each.uuid for each in status.devices if _is_unwell(each)]


def _strangers(status: wire.DeviceStatus) -> Iterator[str]:
    """Name who is on a card that nobody gave it, without what changes from look to look."""
    for each in status.devices:
        for one in each.occupants:
            whose = f"pod {one.namespace}/{one.pod}" if one.pod else "no pod"
            yield f"{each.uuid}: process {one.pid} of {whose} is on it, and nobody gave it the card"


def _condition(each: wire.Condition) -> str:
    return f"{each.type} is {each.status} ({each.reason}): {each.message}"


def _card_status(each: wire.CardStatus) -> str:
    return f"{each.uuid} is {each.health} ({each.reason}): {each.message}"
