"""The agent's part of the status that the Device of a node should have. Pure.

A verdict says how one card fares, the conditions how the sources of the agent do. A time
(`since`, `lastTransitionTime`) moves only when what it dates has changed. The last part of the
module puts what changed between two statuses into lines for a log.
"""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from berth_agent import probe
from berth_crds import schema_limits, text, vocabulary, wire
from berth_crds.client import lease

NVML_READY: Final = vocabulary.DeviceCondition.NVML_READY


@dataclasses.dataclass(frozen=True, slots=True)
class OtherSources:
    """What other sources add to the status: unauthorized processes by card, and the kubelet's condition.

    The condition has no time yet. Without one, none is published.
    """

    occupants: Mapping[str, tuple[wire.Occupant, ...]] = dataclasses.field(default_factory=dict)
    kubelet: wire.Condition | None = None


NO_OTHER_SOURCES: Final = OtherSources()


def other_sources(
    spec: wire.DeviceSpec,
    occupants: Mapping[str, tuple[wire.Occupant, ...]],
    kubelet: wire.Condition | None = None,
) -> OtherSources:
    """Return what other sources add, without cards that are not listed: the server refuses those."""
    listed = {each.uuid for each in spec.devices}
    return OtherSources({uuid: held for uuid, held in occupants.items() if uuid in listed}, kubelet)


Verdicts = Mapping[str, probe.DeviceHealth]


def status(
    outcome: probe.Outcome,
    verdicts: Verdicts,
    before: wire.DeviceStatus,
    other_sources: OtherSources = NO_OTHER_SOURCES,
    *,
    now: dt.datetime,
) -> wire.DeviceStatus:
    """Return the status with these verdicts; unchanged entries keep the times that they have in `before`.

    A source that failed has no verdicts: those published before stand.
    """
    devices = (
        before.devices if isinstance(outcome, probe.SourceFailed) else _devices(verdicts, before, now=now)
    )
    other = (transition(other_sources.kubelet, before.conditions, now=now),) if other_sources.kubelet else ()
    return wire.DeviceStatus(
        devices=occupied(devices, other_sources.occupants),
        conditions=(_nvml_ready(outcome, before, now=now), *other),
    )


def occupied(
    verdicts: Iterable[wire.CardStatus], occupants: Mapping[str, tuple[wire.Occupant, ...]]
) -> tuple[wire.CardStatus, ...]:
    """Return the verdicts with the unauthorized processes; a healthy card gets an entry only for those."""
    healthy = vocabulary.Health.HEALTHY
    without_occupants = [msgspec.structs.replace(each, occupants=()) for each in verdicts]
    found = {each.uuid: each for each in without_occupants if each != wire.CardStatus(each.uuid, healthy)}
    for uuid, held in occupants.items():
        entry = found.get(uuid, wire.CardStatus(uuid, healthy))
        found[uuid] = msgspec.structs.replace(entry, occupants=held)
    return tuple(found.values())


def _devices(
    verdicts: Verdicts, before: wire.DeviceStatus, *, now: dt.datetime
) -> tuple[wire.CardStatus, ...]:
    earlier = {each.uuid: each for each in before.devices}
    found = (_verdict(uuid, health) for uuid, health in verdicts.items() if health != probe.DeviceHealth())
    return tuple(_dated(each, earlier.get(each.uuid), now=now) for each in found)


def _verdict(uuid: str, health: probe.DeviceHealth) -> wire.CardStatus:
    return wire.CardStatus(
        uuid=uuid,
        health=health.state,
        reason=health.reason,
        xid=health.xid,
        message=text.line(health.message, most=schema_limits.LONGEST_MESSAGE),
        recovery=health.recovery or "",
    )


def _dated(verdict: wire.CardStatus, before: wire.CardStatus | None, *, now: dt.datetime) -> wire.CardStatus:
    """Return a verdict with the time since when the card has this health."""
    same = before is not None and before.health == verdict.health and before.since
    return msgspec.structs.replace(verdict, since=before.since if before and same else lease.rfc3339(now))


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
    lost = tuple(sample.lost_cards())
    sentences = "".join(f" Card {each.index}: {each.message}." for each in lost)
    return wire.Condition(
        type=NVML_READY,
        # One lost card is a verdict on that card; the source as a whole has answered.
        status=vocabulary.Truth.TRUE,
        reason="CardsLost" if lost else "CardsRead",
        message=text.line(
            f"{len(sample.cards) - len(lost)} of {len(sample.cards)} cards answered.{sentences}",
            most=schema_limits.LONGEST_MESSAGE,
        ),
    )


def transition(
    found: wire.Condition, before: Iterable[wire.Condition], *, now: dt.datetime
) -> wire.Condition:
    """Return a condition with the time of its last transition: now if its status changed."""
    earlier = next((each for each in before if each.type == found.type), None)
    same = earlier is not None and earlier.status == found.status and earlier.last_transition_time
    return msgspec.structs.replace(
        found, last_transition_time=earlier.last_transition_time if earlier and same else lease.rfc3339(now)
    )


# ---------------------------------------------------------------- lines for a log


def changes(before: wire.DeviceStatus, after: wire.DeviceStatus) -> tuple[str, ...]:
    """Return lines for a log that say how two statuses differ."""
    known, lines = set(_lines(before)), tuple(_lines(after))
    unhealthy = set(_unhealthy(after))
    healed = (f"{uuid} is healthy again" for uuid in _unhealthy(before) if uuid not in unhealthy)
    ended = (f"over: {line}" for line in _occupant_lines(before) if line not in lines)
    return (*(line for line in lines if line not in known), *healed, *ended)


def warnings(status: wire.DeviceStatus) -> frozenset[str]:
    """Return the lines of a status that are warnings: failed conditions and unhealthy cards."""
    failed = (each for each in status.conditions if each.status == vocabulary.Truth.FALSE)
    unhealthy = (each for each in status.devices if _is_unhealthy(each))
    return frozenset((*map(_condition_line, failed), *map(_card_line, unhealthy)))


def _lines(status: wire.DeviceStatus) -> Iterator[str]:
    yield from map(_condition_line, status.conditions)
    yield from (_card_line(each) for each in status.devices if each.reason or _is_unhealthy(each))
    yield from _occupant_lines(status)


def _is_unhealthy(card: wire.CardStatus) -> bool:
    return card.health != vocabulary.Health.HEALTHY


def _unhealthy(status: wire.DeviceStatus) -> list[str]:
    return [each.uuid for each in status.devices if _is_unhealthy(each)]


def _occupant_lines(status: wire.DeviceStatus) -> Iterator[str]:
    """Yield a line for each unauthorized process, without the memory that changes all the time."""
    for card in status.devices:
        for occupant in card.occupants:
            pod = f"pod {occupant.namespace}/{occupant.pod}" if occupant.pod else "no pod"
            yield f"{card.uuid}: process {occupant.pid} of {pod} is on it without having been given it"


def _condition_line(condition: wire.Condition) -> str:
    return f"{condition.type} is {condition.status} ({condition.reason}): {condition.message}"


def _card_line(card: wire.CardStatus) -> str:
    return f"{card.uuid} is {card.health} ({card.reason}): {card.message}"
