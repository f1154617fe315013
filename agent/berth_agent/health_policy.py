"""The rules of health in force: those of the PlacementPolicy `default`, and those of this node.

The policy is watched. While it cannot be read, the last one stays in force; before the first one,
the defaults do. The agent's own flags add to the errors that are ignored or critical.
"""

import logging

from berth_agent import xid_choices
from berth_agent.health import health_rules
from berth_crds import names, wire
from berth_crds.client import api, informer, resources

log = logging.getLogger(__name__)


class HealthPolicy:
    """Keeps the rules of health that follow from the watched policy."""

    def __init__(self, own: health_rules.HealthRules = health_rules.DEFAULT) -> None:
        self._own = own
        self.rules = own

    def upserted(self, policy: wire.PlacementPolicy) -> None:
        """Apply the policy that people wrote."""
        health = policy.spec.health
        self._apply(
            health_rules.HealthRules(
                ignored=self._own.ignored | xid_choices.XidChoice(frozenset(health.ignored_xids)),
                critical=self._own.critical | xid_choices.XidChoice(frozenset(health.critical_xids)),
                cool_down=health.cool_down_seconds,
                clean_looks=health.clean_probes,
            )
        )

    def deleted(self, _: wire.Meta) -> None:
        """Go back to the rules of the node alone."""
        self._apply(self._own)

    def _apply(self, rules: health_rules.HealthRules) -> None:
        if rules != self.rules:
            log.info("rules of health: %s", rules)
            self.rules = rules


def follow(session: api.Api, policy: HealthPolicy) -> informer.Informer[wire.PlacementPolicy]:
    """Return the informer that keeps a policy up to date."""
    return informer.Informer(
        session,
        resources.POLICIES,
        wire.PlacementPolicy,
        policy,
        scope=informer.Scope(fields=f"metadata.name={names.DEFAULT_POLICY}"),
    )
