"""The agent's part of the status that the Device of a node should have. Pure.

A verdict says how one card fares, the conditions how the sources of the agent do. A time
(`since`, `lastTransitionTime`) moves only when what it dates has changed. The last part of the
module puts what changed between two statuses into lines for a log.
"""

import datetime as dt
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from berth_agent import card_modes, probe
from berth_crds import schema_limits, text, vocabulary, wire
from berth_crds.client import lease

log = logging.getLogger(__name__)

NVML_READY: Final = vocabulary.DeviceCondition.NVML_READY


Verdicts = Mapping[str, probe.DeviceHealth]
Occupants = Mapping[str, tuple[wire.Occupant, ...]]  # By uuid of the card.


def listed_occupants(spec: wire.DeviceSpec, occupants: Occupants) -> Occupants:
    """Return the occupants of the cards that are listed: the server refuses those of others."""
    listed = {each.uuid for each in spec.devices}
    return {uuid: held for uuid, held in occupants.items() if uuid in listed}


def status(
    outcome: probe.Outcome,
    verdicts: Verdicts,
    before: wire.DeviceStatus,
    *,
    occupants: Occupants = MappingProxyType({}),
    others: Iterable[wire.Condition | None] = (),
    now: dt.datetime,
) -> wire.DeviceStatus:
    """Return the status with these verdicts; unchanged entries keep the times that they have in `before`.

    A source that failed has no verdicts: those published before stand. `occupants` are the
    unauthorized processes by card. The other conditions have no time yet, and what is None is not
    published.
    """
    devices = (
        before.devices if isinstance(outcome, probe.SourceFailed) else _devices(verdicts, before, now=now)
    )
    found = filter(None, (_nvml_ready(outcome), *others))
    return wire.DeviceStatus(
        devices=occupied(devices, occupants),
        conditions=tuple(transition(each, before.conditions, now=now) for each in found),
    )


def occupied(verdicts: Iterable[wire.CardStatus], occupants: Occupants) -> tuple[wire.CardStatus, ...]:
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


def _nvml_ready(outcome: probe.Outcome) -> wire.Condition:
    """Return the condition NVMLReady, which has no time yet."""
    if isinstance(outcome, probe.SourceFailed):
        truth, reason, message = vocabulary.Truth.FALSE, outcome.reason, outcome.message
    else:
        lost = tuple(outcome.lost_cards())
        # One lost card is a verdict on that card; the source as a whole has answered.
        truth, reason = vocabulary.Truth.TRUE, "CardsLost" if lost else "CardsRead"
        sentences = "".join(f" Card {each.index}: {each.message}." for each in lost)
        answered = len(outcome.cards) - len(lost)
        message = f"{answered} of {len(outcome.cards)} cards answered.{sentences}"
    return wire.Condition(NVML_READY, truth, reason, text.line(message, most=schema_limits.LONGEST_MESSAGE))


def mig_ready(cards: Sequence[wire.Card], modes: card_modes.CardModes) -> wire.Condition | None:
    """Return whether the cards in MIG mode can be given out as they should; None where there are none."""
    cut = [card for card in cards if card_modes.is_cut(card)]
    if not cut:
        return None
    count = sum(len(card.mig.instances) for card in cut if card.mig)
    return ready_or_not(
        vocabulary.DeviceCondition.MIG_READY,
        card_modes.fault(cards, modes),
        failed="WrongLayout",
        fine="InstancesRead",
        message=f"{count} MIG instances on {len(cut)} cards are given out.",
    )


def ready_or_not(
    kind: vocabulary.DeviceCondition, failure: str, *, failed: str, fine: str, message: str
) -> wire.Condition:
    """Return a condition with one of two reasons, `failed` where there is a failure; it has no time yet."""
    truth, reason = (vocabulary.Truth.FALSE, failed) if failure else (vocabulary.Truth.TRUE, fine)
    return wire.Condition(
        kind, truth, reason, text.line(failure or message, most=schema_limits.LONGEST_MESSAGE)
    )


def of_kind(kind: str, conditions: Iterable[wire.Condition]) -> wire.Condition | None:
    """Return the condition of a kind, if there is one."""
    return next((each for each in conditions if each.type == kind), None)


def transition(
    found: wire.Condition, before: Iterable[wire.Condition], *, now: dt.datetime
) -> wire.Condition:
    """Return a condition with the time of its last transition: now if its status changed."""
    earlier = of_kind(found.type, before)
    same = earlier is not None and earlier.status == found.status and earlier.last_transition_time
    return msgspec.structs.replace(
        found, last_transition_time=earlier.last_transition_time if earlier and same else lease.rfc3339(now)
    )


# ---------------------------------------------------------------- lines for a log


def log_changes(
    node: str,
    before: wire.DeviceStatus,
    now: wire.DeviceStatus,
    *,
    listed: Iterable[wire.Card],
    repaired: Collection[str] = (),
) -> None:
    """Log once what changed between two statuses; what is wrong as a warning."""
    for line, level in changes(before, now, listed=listed, repaired=repaired).items():
        log.log(level, "node %s: %s", node, line)


def changes(
    before: wire.DeviceStatus,
    after: wire.DeviceStatus,
    *,
    listed: Iterable[wire.Card],
    repaired: Collection[str] = (),
) -> Mapping[str, int]:
    """Return lines for a log that say how two statuses differ, each with its level.

    `listed` are the cards that the node has, `repaired` the uuids of those that people call that.
    """
    there = {card.uuid for card in listed}
    known, lines = _lines(before), _lines(after)
    unhealthy = set(_unhealthy(after))
    healed = (_healed_line(uuid, there, repaired) for uuid in _unhealthy(before) if uuid not in unhealthy)
    ended = (f"over: {line}" for line in _occupant_lines(before) if line not in lines)
    new = {line: level for line, level in lines.items() if line not in known}
    return new | dict.fromkeys((*healed, *ended), logging.INFO)


def _healed_line(uuid: str, there: Collection[str], repaired: Collection[str]) -> str:
    """Return what became of a card that is not published as unhealthy any more."""
    if uuid not in there:
        return f"{uuid} is no longer one of the node's"
    return f"{uuid} is healthy again{': it is taken as repaired' if uuid in repaired else ''}"


def _lines(status: wire.DeviceStatus) -> dict[str, int]:
    """Return the lines of a status; failed conditions and unhealthy cards are warnings."""
    conditions = {
        f"{each.type} is {each.status} ({each.reason}): {each.message}": each.status == vocabulary.Truth.FALSE
        for each in status.conditions
    }
    cards = {
        f"{each.uuid} is {each.health} ({each.reason}): {each.message}": _is_unhealthy(each)
        for each in status.devices
        if each.reason or _is_unhealthy(each)
    }
    wrong = conditions | cards | dict.fromkeys(_occupant_lines(status), False)
    return {line: logging.WARNING if is_wrong else logging.INFO for line, is_wrong in wrong.items()}


def _is_unhealthy(card: wire.CardStatus) -> bool:
    return card.health != vocabulary.Health.HEALTHY


def _unhealthy(status: wire.DeviceStatus) -> list[str]:
    return [each.uuid for each in status.devices if _is_unhealthy(each)]


def _occupant_lines(status: wire.DeviceStatus) -> Iterator[str]:
    """Yield a line for each unauthorized process, without the memory that changes all the time."""
    for card in status.devices:
        for occupant in card.occupants:
            pod = f"pod {occupant.namespace}/{occupant.pod}" if occupant.pod else "no pod"
            command = f" ({occupant.command})" if occupant.command else ""
            small = ", which uses too little to matter" if occupant.small else ""
            yield (
                f"{card.uuid}: process {occupant.pid}{command} of {pod} is on it without having been given"
                f" it{small}"
            )
