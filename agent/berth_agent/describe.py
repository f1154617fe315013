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
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from berth_agent import probe
from berth_crds import catalog, vocabulary, wire
from berth_crds.client import lease

NVML_READY: Final = vocabulary.DeviceCondition.NVML_READY
LONGEST_MESSAGE: Final = 1024  # The schema refuses more.


# ---------------------------------------------------------------- spec


def spec(node: str, outcome: probe.Outcome, known: wire.DeviceSpec | None) -> wire.DeviceSpec:
    """Say what the node has; `known` is what was said before, if anything was."""
    if isinstance(outcome, probe.SourceFailed):
        # Without anything known the list is empty, and NVMLReady tells that it is not the truth.
        # What is known may have been read from the API, with the cordon that people wrote.
        return _without_cordon(known) if known else wire.DeviceSpec(node=node, summary=_summary(()))
    cards = (*map(card, outcome.read()), *_remembered(outcome, known.devices if known else ()))
    listed = frozenset(each.uuid for each in cards)
    return wire.DeviceSpec(
        node=node,
        boot_id=outcome.boot_id,
        driver=wire.Driver(version=outcome.driver.version, cuda=outcome.driver.cuda),
        devices=tuple(_among(each, listed) for each in cards),
        partitions=tuple(
            _partition(group) for group in outcome.partitions if listed.issuperset(group.members)
        ),
        summary=_summary(cards),
    )


def _without_cordon(spec: wire.DeviceSpec) -> wire.DeviceSpec:
    return msgspec.structs.replace(spec, cordon=())


def card(reading: probe.Card) -> wire.Card:
    """Say what one card is."""
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
        topology=None
        if place == probe.Place()
        else wire.Topology(place.numa_node, place.pcie_root, place.bus_id),
        links=tuple(wire.Link(link.peer, link.kind, link.count) for link in reading.links),
        mig=None if reading.mig is None else _mig(reading.mig),
    )


def _mig(reading: probe.Mig) -> wire.Mig:
    return wire.Mig(reading.enabled, tuple(map(_instance, reading.instances)))


def _instance(reading: probe.MigInstance) -> wire.MigInstance:
    return wire.MigInstance(
        uuid=reading.uuid,
        profile=reading.profile,
        memory=reading.memory,
        gi=reading.gi,
        ci=reading.ci,
        placement=wire.MigPlacement(reading.start, reading.size),
    )


def _partition(group: probe.Partition) -> wire.Partition:
    return wire.Partition(members=group.members, link=group.link or "", score=group.score)


def _remembered(sample: probe.Sample, known: Iterable[wire.Card]) -> tuple[wire.Card, ...]:
    """Give the cards that are lost now as they were last known."""
    cards = tuple(sample.read())
    uuids, minors = {each.uuid for each in cards}, {each.minor for each in cards}
    found = (_last_known(lost, known) for lost in sample.lost())
    # Two cards of one minor would make the server refuse the whole list, good cards included.
    return tuple(each for each in found if each and each.uuid not in uuids and each.minor not in minors)


def _last_known(lost: probe.Lost, known: Iterable[wire.Card]) -> wire.Card | None:
    if lost.uuid:
        return next((each for each in known if each.uuid == lost.uuid), None)
    return next((each for each in known if each.index == lost.index), None)


def _among(one: wire.Card, listed: frozenset[str]) -> wire.Card:
    """Leave out links to cards that are not listed, which the server would refuse."""
    links = tuple(link for link in one.links if link.peer in listed)
    return one if links == one.links else msgspec.structs.replace(one, links=links)


def _summary(cards: Iterable[wire.Card]) -> wire.SpecSummary:
    gpus = [each for each in cards if each.type == vocabulary.DeviceType.GPU]
    counts = collections.Counter(catalog.normal_model(each.model) for each in gpus)
    models = ", ".join(f"{model} x{count}" for model, count in counts.items())
    return wire.SpecSummary(models=models, gpus=len(gpus))


# ---------------------------------------------------------------- status


def status(
    outcome: probe.Outcome, said: wire.DeviceSpec, before: wire.DeviceStatus, *, now: dt.datetime
) -> wire.DeviceStatus:
    """Say how the cards of `said` fare; `before` is the status so far, for its moments."""
    return wire.DeviceStatus(
        devices=_verdicts(outcome, said, before, now=now),
        conditions=(_nvml_ready(outcome, before, now=now),),
    )


def _verdicts(
    outcome: probe.Outcome, said: wire.DeviceSpec, before: wire.DeviceStatus, *, now: dt.datetime
) -> tuple[wire.CardStatus, ...]:
    if isinstance(outcome, probe.SourceFailed):
        return before.devices
    earlier = {each.uuid: each for each in before.devices}
    bad = (each for each in outcome.read() if each.health != probe.Health())
    found = [_verdict(each.uuid, each.health) for each in bad]
    found += [_verdict(uuid, _health_of(lost)) for uuid, lost in _lost_by_uuid(outcome, said).items()]
    return tuple(_dated(each, earlier.get(each.uuid), now=now) for each in found)


def _verdict(uuid: str, health: probe.Health) -> wire.CardStatus:
    return wire.CardStatus(
        uuid=uuid,
        health=health.verdict,
        reason=health.reason,
        xid=health.xid,
        message=health.message[:LONGEST_MESSAGE],
        recovery=health.recovery or "",
    )


def _health_of(lost: probe.Lost) -> probe.Health:
    return probe.Health(vocabulary.Health.UNHEALTHY, reason=lost.reason, message=lost.message)


def _lost_by_uuid(sample: probe.Sample, said: wire.DeviceSpec) -> Mapping[str, probe.Lost]:
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
        message=failure.message[:LONGEST_MESSAGE],
    )


def _answered(sample: probe.Sample) -> wire.Condition:
    lost = tuple(sample.lost())
    silent = "".join(f" Card {each.index}: {each.message}." for each in lost)
    return wire.Condition(
        type=NVML_READY,
        # One silent card is a verdict on that card; it does not close the node.
        status=vocabulary.Truth.TRUE,
        reason="CardsLost" if lost else "CardsRead",
        message=f"{len(sample.cards) - len(lost)} of {len(sample.cards)} cards answered.{silent}"[
            :LONGEST_MESSAGE
        ],
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
    """Say in lines for a log how two statuses differ."""
    told = {*map(_condition, before.conditions), *map(_card_status, before.devices)}
    lines = (*map(_condition, after.conditions), *map(_card_status, after.devices))
    bad = {each.uuid for each in after.devices}
    healed = (f"{each.uuid} is well again" for each in before.devices if each.uuid not in bad)
    return (*(line for line in lines if line not in told), *healed)


def _condition(each: wire.Condition) -> str:
    return f"{each.type} is {each.status} ({each.reason}): {each.message}"


def _card_status(each: wire.CardStatus) -> str:
    return f"{each.uuid} is {each.health} ({each.reason}): {each.message}"
