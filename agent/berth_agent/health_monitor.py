"""The health of the cards of one node over time: each sample is judged with the history of those before.

The rules are in `health`; here is only the history. It begins with the published Device, so a
restart of the agent makes no card healthy, and ends with the process: how often a card failed
before is forgotten then.
"""

import collections
import dataclasses
import logging

from berth_agent import device_spec, device_status, probe
from berth_agent.health import cooldown, health_rules, verdicts, xid_table
from berth_crds import wire

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class HealthContext:
    """The published Device, the rules of health in force, and the cards that people call repaired."""

    spec: wire.DeviceSpec | None
    status: wire.DeviceStatus
    rules: health_rules.HealthRules = health_rules.DEFAULT
    repaired: frozenset[str] = frozenset()


class HealthMonitor:
    """Judges the cards of one node."""

    def __init__(self) -> None:
        self._history: cooldown.HealthHistory | None = None
        self._sampled_at = 0.0  # When a sample last showed cards.
        self._has_gap = False  # Whether the source has failed since then.

    def judge(
        self, outcome: probe.Outcome, spec: wire.DeviceSpec, context: HealthContext, *, now: float
    ) -> device_status.Verdicts:
        """Return the verdicts on the cards that the spec lists; none for a source that failed."""
        if isinstance(outcome, probe.SourceFailed):
            self._has_gap = True
            return {}
        history = self._history
        if history is None:
            history = cooldown.from_status(context.status, rebooted=_rebooted(outcome, context.spec), now=now)
        elif self._has_gap:
            history = cooldown.without_gap(history, now - self._sampled_at)
        self._has_gap, self._sampled_at = False, now
        given = verdicts.HealthInput(outcome, device_spec.lost_by_uuid(outcome, spec), now, context.repaired)
        judgement = verdicts.judge(given, history, context.rules)
        self._history = judgement.history
        _log_xids(outcome)
        found = judgement.verdicts
        return {each.uuid: found[each.uuid] for each in spec.devices if each.uuid in found}


def _log_xids(sample: probe.Sample) -> None:
    """Log all errors that the driver reported; the verdicts that follow from them are logged elsewhere."""
    for each, count in collections.Counter(sample.xids).items():
        card = each.uuid or "a card that cannot be named"
        times = f" ({count} times)" if count > 1 else ""
        log.info("%s: XID %d%s: %s", card, each.number, times, xid_table.meaning(each.number).text)


def _rebooted(sample: probe.Sample, spec: wire.DeviceSpec | None) -> bool:
    return spec is not None and bool(spec.boot_id) and spec.boot_id != sample.boot_id
