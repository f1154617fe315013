"""The cards of one node under observation: each look is judged, and what it taught is kept.

What the tables say is `health`'s; here is only the memory between looks. It begins with what
stands in the Device, so that an agent that is started anew heals nobody, and ends with the
process: how often a card fell ill before is forgotten then.
"""

import collections
import dataclasses
import logging

from berth_agent import describe, probe
from berth_agent.health import judge, rules, xids
from berth_crds import wire

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """What stood in the Device before a look, and what people say: rules, and which cards are repaired."""

    spec: wire.DeviceSpec | None
    status: wire.DeviceStatus
    chosen: rules.Rules = rules.DEFAULT
    repaired: frozenset[str] = frozenset()


class HealthMonitor:
    """Remembers how the cards of a node fared."""

    def __init__(self) -> None:
        self._record: judge.Record | None = None
        self._looked = 0.0  # When a look showed cards last.
        self._blind = False  # Whether the source has failed since then.

    def __repr__(self) -> str:
        """Show the state in words."""
        return f"<HealthMonitor: {len(self._record.cases) if self._record else 0} cases>"

    def judge(
        self, outcome: probe.Outcome, spec: wire.DeviceSpec, known: Known, *, now: float
    ) -> describe.Verdicts:
        """Judge the cards of a look that the spec lists; a source that failed shows none."""
        if isinstance(outcome, probe.SourceFailed):
            self._blind = True
            return {}
        record = self._record
        if record is None:
            record = judge.recall(known.status, rebooted=_rebooted(outcome, known.spec), now=now)
        elif self._blind:
            record = judge.unseen(record, now - self._looked)
        self._blind, self._looked = False, now
        look = judge.Look(outcome, describe.lost_by_uuid(outcome, spec), now, known.repaired)
        judgement = judge.judge(look, record, known.chosen)
        self._record = judgement.record
        _tell(outcome)
        found = judgement.verdicts
        return {each.uuid: found[each.uuid] for each in spec.devices if each.uuid in found}


def _tell(sample: probe.Sample) -> None:
    """Log what the driver told, condemning or not; the verdicts that follow are told elsewhere."""
    for each, count in collections.Counter(sample.xids).items():
        card = each.uuid or "a card that cannot be named"
        times = f" ({count} times)" if count > 1 else ""
        log.info("%s: XID %d%s: %s", card, each.number, times, xids.meaning(each.number).words)


def _rebooted(sample: probe.Sample, spec: wire.DeviceSpec | None) -> bool:
    return spec is not None and bool(spec.boot_id) and spec.boot_id != sample.boot_id
