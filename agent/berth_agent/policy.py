"""The rules of health in force: those of the PlacementPolicy `default`, and those of this node.

The policy is followed live. While it cannot be read, what was last read stays in force, and
before that what Berth does by itself. Which errors to ignore and which not may be added to for
one node by the agent's own settings.
"""

import logging

from berth_agent import choices
from berth_agent.health import rules
from berth_crds import names, wire
from berth_crds.client import api, informer, resources

log = logging.getLogger(__name__)


class Policy:
    """Follows the policy in force, and says what it means for health."""

    def __init__(self, own: rules.Rules = rules.DEFAULT) -> None:
        self._own = own
        self.rules = own

    def upserted(self, thing: wire.PlacementPolicy) -> None:
        """Take what people wrote."""
        told = thing.spec.health
        self._take(
            rules.Rules(
                ignored=self._own.ignored | choices.Xids(frozenset(told.ignored_xids)),
                critical=self._own.critical | choices.Xids(frozenset(told.critical_xids)),
                cool_down=told.cool_down_seconds,
                clean_looks=told.clean_probes,
            )
        )

    def deleted(self, _: wire.Meta) -> None:
        """Go back to what Berth does by itself."""
        self._take(self._own)

    def _take(self, chosen: rules.Rules) -> None:
        if chosen != self.rules:
            log.info("rules of health: %s", chosen)
            self.rules = chosen


def follow(session: api.Api, policy: Policy) -> informer.Informer[wire.PlacementPolicy]:
    """Make what has a policy follow the API."""
    scope = informer.Scope(fields=f"metadata.name={names.DEFAULT_POLICY}")
    return informer.Informer(session, resources.POLICIES, wire.PlacementPolicy, policy, scope=scope)
