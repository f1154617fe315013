"""The verdict on each card of a sample, and the history to keep for the next one. Pure.

Which problems a card has just now, `problems` finds out; how long they count, `cooldown` says. A
source that judges its cards by itself, such as the simulated one, is believed as it is.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from berth_agent import probe
from berth_agent.health import cooldown, problems
from berth_agent.health.cooldown import HealthHistory, Incident
from berth_agent.health.health_rules import HealthRules

HEALTHY: Final = probe.DeviceHealth()

Problems = Mapping[str, tuple[probe.DeviceHealth, ...]]  # By uuid, of the cards that are judged here.


@dataclasses.dataclass(frozen=True, slots=True)
class HealthInput:
    """A sample to judge, its lost cards by uuid, and the cards that people call repaired.

    `now` is in seconds of a monotonic clock: setting the time of day must not end or prolong a wait.
    """

    sample: probe.Sample
    lost: Mapping[str, probe.LostCard]
    now: float
    repaired: frozenset[str] = frozenset()


def judge(
    given: HealthInput, history: HealthHistory, rules: HealthRules
) -> tuple[Mapping[str, probe.DeviceHealth], HealthHistory]:
    """Return the verdict on every card and extra device of a sample, and the history to keep."""
    reported = _reported(given)
    found = _problems(given, history, rules)
    incidents = {
        uuid: incident
        for uuid, seen in found.items()
        if (incident := _incident(uuid, seen, history, given, rules)) is not None
    }
    incidents |= _absent(given, history, rules, but=found.keys() | reported.keys())
    judged = {uuid: _verdict(incidents.get(uuid), seen, rules) for uuid, seen in found.items()}
    answering = (card for card in given.sample.answering_cards() if card.uuid in found)
    measured = {**history.measurements, **{card.uuid: _measured(card, history) for card in answering}}
    kept = {uuid: each for uuid, each in measured.items() if uuid in found or uuid in incidents}
    return reported | judged, HealthHistory(incidents, kept)


def _reported(given: HealthInput) -> dict[str, probe.DeviceHealth]:
    """Return the health of what its source judges by itself."""
    lost = {uuid: problems.of_lost(card) for uuid, card in given.lost.items() if card.judged_by_source}
    cards = {card.uuid: card.health for card in given.sample.answering_cards() if card.health is not None}
    extra = {device.entry.uuid: device.health for device in given.sample.devices if device.health is not None}
    return lost | cards | extra


def _problems(given: HealthInput, history: HealthHistory, rules: HealthRules) -> Problems:
    """Return the problems of every other card and extra device."""
    cards = {card.uuid: card for card in given.sample.answering_cards() if card.health is None}
    uuids = cards.keys() | {uuid for uuid, card in given.lost.items() if not card.judged_by_source}
    found = {uuid: _of_card(uuid, given, cards, history, rules) for uuid in sorted(uuids)}
    extra = (device for device in given.sample.devices if device.health is None)
    return found | {device.entry.uuid: (device.problem,) if device.problem else () for device in extra}


def _of_card(
    uuid: str,
    given: HealthInput,
    cards: Mapping[str, probe.Card],
    history: HealthHistory,
    rules: HealthRules,
) -> tuple[probe.DeviceHealth, ...]:
    xids = problems.of_xids((xid.number for xid in given.sample.xids if xid.uuid == uuid), rules)
    if uuid in cards:
        return (*xids, *problems.of_card(cards[uuid], history.measurements.get(uuid)))
    return (*xids, problems.of_lost(given.lost[uuid]))


def _incident(
    uuid: str,
    seen: Iterable[probe.DeviceHealth],
    history: HealthHistory,
    given: HealthInput,
    rules: HealthRules,
) -> Incident | None:
    before, problem = history.incidents.get(uuid), problems.worst(filter(problems.is_unhealthy, seen))
    if problem is not None:
        return cooldown.with_problem(problem, before, given.now)
    return cooldown.without_problem(before, given.now, rules, repaired=uuid in given.repaired)


def _absent(
    given: HealthInput, history: HealthHistory, rules: HealthRules, *, but: Iterable[str]
) -> cooldown.Incidents:
    """Return the incidents of cards that the sample does not show: they may come back. Their XIDs count."""
    xids: dict[str, list[int]] = {}
    for xid in given.sample.xids:
        xids.setdefault(xid.uuid, []).append(xid.number)
    found: dict[str, Incident] = {}
    for uuid in (history.incidents.keys() | (xids.keys() - {""})) - set(but):
        before = history.incidents.get(uuid)
        problem = problems.worst(problems.of_xids(xids.get(uuid, ()), rules))
        incident = cooldown.with_problem(problem, before, given.now) if problem else before
        if incident is not None and not cooldown.is_forgotten(incident, given.now, rules):
            found[uuid] = incident
    return found


def _measured(card: probe.Card, history: HealthHistory) -> probe.Measurements:
    """Return what a card measured, with the last known count of errors where it reports none."""
    now, before = card.measurements, history.measurements.get(card.uuid)
    if now.errors_uncorrected is not None or before is None:
        return now
    return dataclasses.replace(now, errors_uncorrected=before.errors_uncorrected)


def _verdict(
    incident: Incident | None, seen: Iterable[probe.DeviceHealth], rules: HealthRules
) -> probe.DeviceHealth:
    """Return the health of a card: that of its open incident, or healthy, perhaps with a remark."""
    if incident is None or incident.closed_at is not None:
        return problems.worst(seen) or HEALTHY
    seconds, looks = cooldown.cool_down_seconds(incident, rules), rules.clean_probes
    hint = f"{cooldown.RECOVERY_HINT} {seconds:g} s and {looks} checks in a row find nothing wrong"
    return dataclasses.replace(incident.problem, message=f"{incident.problem.message}{hint}")
