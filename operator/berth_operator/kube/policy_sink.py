"""The sink of the policies' informer: it hands the rules in force to the ledger."""

import logging

from berth_crds import names, wire
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import policy_log
from berth_operator.translate import policies

log = logging.getLogger(__name__)


class PolicySink:
    """Policies: the default one is in force; while it is invalid, its last valid state stays."""

    def __init__(self, ledger: Ledger, logger: logging.Logger = log) -> None:
        self._ledger = ledger
        self._logger = logger
        self._log = policy_log.PolicyLog(logger)

    def upserted(self, thing: wire.PlacementPolicy) -> None:
        """Apply a policy's new state."""
        if thing.metadata.name != names.DEFAULT_POLICY:
            return
        policy = policies.read(thing)
        if isinstance(policy, str):
            self._logger.warning(
                "the default policy is not taken: %s; the last good one stays in force", policy
            )
        else:
            self._log.in_force(thing.spec)
            self._ledger.policy_seen(policy)

    def deleted(self, meta: wire.Meta) -> None:
        """Fall back to the built-in rules when the default policy is gone."""
        if meta.name == names.DEFAULT_POLICY:
            self._log.gone()
            self._ledger.policy_seen(policies.DEFAULT)
