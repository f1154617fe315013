"""The health of the cards of one node over time: the history, the rules in force, and what people say.

Each sample is judged by `health`, with the history of those before. That begins with the published
Device, so a restart of the agent makes no card healthy, and ends with the process: how often a card
failed before is forgotten then.

The rules are those of the PlacementPolicy `default` and those of this node. The policy is watched.
While it cannot be read, the last one stays in force; before the first one, the defaults do. The
agent's own flags add to the errors that are ignored or critical.

By the annotation `berth.dev/repaired` of the Device people say that cards were repaired. It names cards
by uuid or minor, separated by commas, or all of them. The agent removes the cards that it has taken as
repaired, so people see that it has; a name of no card of the node is left.
"""

import collections
import dataclasses
import logging

from berth_agent import device_spec, device_status, probe, xid_choices
from berth_agent.health import cooldown, health_rules, verdicts, xid_table
from berth_crds import named_cards, wire

log = logging.getLogger(__name__)


class HealthMonitor:
    """Judges the cards of one node by the node's own rules and those of the watched policy."""

    def __init__(self, own: health_rules.HealthRules) -> None:
        self._own = own
        self._rules = own
        self._history: cooldown.HealthHistory | None = None
        self._sampled_at = 0.0  # When a sample last showed cards.
        self._has_gap = False  # Whether the source has failed since then.

    def judge(
        self,
        outcome: probe.Outcome,
        spec: wire.DeviceSpec,
        known: wire.DeviceSpec | None,
        before: wire.DeviceStatus,
        *,
        repaired: frozenset[str] = frozenset(),
        now: float,
    ) -> device_status.Verdicts:
        """Return the verdicts on the cards that the spec lists; none for a source that failed.

        `known` and `before` are the published spec and status, `repaired` the cards that people call that.
        """
        if isinstance(outcome, probe.SourceFailed):
            self._has_gap = True
            return {}
        history = self._history
        if history is None:
            history = cooldown.from_status(before, rebooted=_rebooted(outcome, known), now=now)
        elif self._has_gap:
            history = cooldown.without_gap(history, now - self._sampled_at)
        self._has_gap, self._sampled_at = False, now
        given = verdicts.HealthInput(outcome, device_spec.lost_by_uuid(outcome, spec), now, repaired)
        found, self._history = verdicts.judge(given, history, self._rules)
        _log_xids(outcome)
        return {each.uuid: found[each.uuid] for each in spec.devices if each.uuid in found}

    # ------------------------------------------------------------ rules

    def upserted(self, policy: wire.PlacementPolicy) -> None:
        """Apply the policy that people wrote."""
        health = policy.spec.health
        self._apply(
            health_rules.HealthRules(
                ignored=self._own.ignored | xid_choices.XidChoice(frozenset(health.ignored_xids)),
                critical=self._own.critical | xid_choices.XidChoice(frozenset(health.critical_xids)),
                cool_down=health.cool_down_seconds,
                clean_probes=health.clean_probes,
            )
        )

    def deleted(self, _: wire.Meta) -> None:
        """Go back to the rules of the node alone."""
        self._apply(self._own)

    def _apply(self, rules: health_rules.HealthRules) -> None:
        if rules != self._rules:
            log.info("rules of health: %s", rules)
            self._rules = rules


def _log_xids(sample: probe.Sample) -> None:
    """Log all errors that the driver reported; the verdicts that follow from them are logged elsewhere."""
    for each, count in collections.Counter(sample.xids).items():
        card = each.uuid or "a card that cannot be named"
        times = f" ({count} times)" if count > 1 else ""
        log.info("%s: XID %d%s: %s", card, each.number, times, xid_table.meaning(each.number).text)


def _rebooted(sample: probe.Sample, spec: wire.DeviceSpec | None) -> bool:
    return spec is not None and bool(spec.boot_id) and spec.boot_id != sample.boot_id


# ---------------------------------------------------------------- repaired cards


@dataclasses.dataclass(frozen=True, slots=True)
class RepairedAnnotation:
    """The text of the annotation, the cards that it names, and the part that names no card."""

    text: str = ""
    cards: frozenset[str] = frozenset()
    unknown: str = ""


def read_annotation(text: str, spec: wire.DeviceSpec) -> RepairedAnnotation:
    """Return what an annotation means for the cards of a node."""
    words = filter(None, (part.strip() for part in text.split(",")))
    meant = {word: named_cards.uuids_named(word, spec.devices) for word in words}
    unknown = ",".join(word for word, cards in meant.items() if not cards)
    return RepairedAnnotation(text, frozenset().union(*meant.values()), unknown)
