"""How long a problem counts against a card: its incident, from the first problem to the end of the cool-down.

An incident is opened by the first problem that makes a card unhealthy. It keeps the worst problem
that was seen while it was open, so that one failure reads as one. It is closed when the card was
free of problems for the cool-down and for several looks in a row: a card that answers again is not
healthy because of that alone. A closed incident is remembered for a while. If the card fails again
in that time, its next cool-down is twice as long, so a card that comes and goes comes less often.

    no incident ---problem---> open ---cool-down without a problem---> closed
                                ^                                        |
                                +------ problem: twice the cool-down ----+----time----> no incident

An incident is also closed when people say that the card was repaired, unless the problem still stands.
How long the cool-down is stands in the PlacementPolicy (`spec.health.coolDownSeconds`, whose default is in
`berth_crds.policy`); until the agent has read one, in `health_rules`. Pure.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final

from berth_agent import probe
from berth_agent.health import problems
from berth_agent.health.health_rules import HealthRules
from berth_crds import vocabulary, wire

LONGEST_COOL_DOWN_SECONDS: Final = 86400.0
REMEMBERED: Final = 10  # A closed incident is remembered for so many cool-downs.
MOST_DOUBLINGS: Final = 16
RECOVERY_HINT: Final = "; healthy again once"


@dataclasses.dataclass(frozen=True, slots=True)
class Incident:
    """What counts against one card: open while `closed_at` is None.

    `last_seen` is when the card last had a problem, None where no time has to pass. Since then,
    `clean_probes` samples in a row have shown none. `relapses` counts how often the card failed
    again before its last incident was forgotten.
    """

    problem: probe.DeviceHealth
    last_seen: float | None
    relapses: int = 0
    clean_probes: int = 0
    closed_at: float | None = None


Incidents = Mapping[str, Incident]


@dataclasses.dataclass(frozen=True, slots=True)
class HealthHistory:
    """What is remembered between samples: the incidents, and what each card measured last."""

    incidents: Incidents = dataclasses.field(default_factory=dict)
    measurements: Mapping[str, probe.Measurements] = dataclasses.field(default_factory=dict)


def cool_down_seconds(incident: Incident, rules: HealthRules) -> float:
    """Return for how many seconds a card must be free of problems."""
    return min(LONGEST_COOL_DOWN_SECONDS, rules.cool_down * 2.0 ** min(incident.relapses, MOST_DOUBLINGS))


def with_problem(problem: probe.DeviceHealth, before: Incident | None, now: float) -> Incident:
    """Return the incident of a card that has this problem now."""
    if before is None:
        return Incident(problem, now)
    if before.closed_at is not None:
        return Incident(problem, now, before.relapses + 1)
    return dataclasses.replace(
        before,
        problem=max(before.problem, problem, key=problems.severity),
        last_seen=now,
        clean_probes=0,
    )


def without_problem(
    before: Incident | None, now: float, rules: HealthRules, *, repaired: bool
) -> Incident | None:
    """Return the incident of a card that a sample shows without problems; None once it is forgotten."""
    if before is None or repaired:
        return None
    if before.closed_at is not None:
        return None if is_forgotten(before, now, rules) else before
    incident = dataclasses.replace(before, clean_probes=before.clean_probes + 1)
    return dataclasses.replace(incident, closed_at=now) if _is_over(incident, now, rules) else incident


def _is_over(incident: Incident, now: float, rules: HealthRules) -> bool:
    waited = incident.last_seen is None or now - incident.last_seen >= cool_down_seconds(incident, rules)
    return waited and incident.clean_probes >= rules.clean_probes


def is_forgotten(incident: Incident, now: float, rules: HealthRules) -> bool:
    """Whether an incident is so old that it no longer counts."""
    since = incident.last_seen if incident.closed_at is None else incident.closed_at
    return since is None or now - since >= cool_down_seconds(incident, rules) * REMEMBERED


def without_gap(history: HealthHistory, seconds: float) -> HealthHistory:
    """Return a history in which so many seconds without a sample do not count as time without problems."""
    incidents = {uuid: _moved(incident, seconds) for uuid, incident in history.incidents.items()}
    return dataclasses.replace(history, incidents=incidents)


def _moved(incident: Incident, seconds: float) -> Incident:
    last, closed = (
        None if time is None else time + seconds for time in (incident.last_seen, incident.closed_at)
    )
    return dataclasses.replace(incident, last_seen=last, closed_at=closed)


def from_status(status: wire.DeviceStatus, *, rebooted: bool, now: float) -> HealthHistory:
    """Return the history that follows from a published status, when an agent starts.

    The status does not say when and how often a card failed, so its cool-down begins again. After a
    reboot no time has to pass, but the card must still be seen without problems.
    """
    last = None if rebooted else now
    unhealthy = (card for card in status.devices if card.health != vocabulary.Health.HEALTHY)
    return HealthHistory({card.uuid: Incident(_problem(card), last) for card in unhealthy})


def _problem(card: wire.CardStatus) -> probe.DeviceHealth:
    return probe.DeviceHealth(
        vocabulary.Health(card.health),
        card.reason,
        card.xid,
        card.message.partition(RECOVERY_HINT)[0],
        vocabulary.Recovery(card.recovery) if card.recovery else None,
    )
