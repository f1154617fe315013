"""The informer of policies to the ledger: which rules are in force."""

import logging

from berth_crds import names, wire
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import policy_news
from berth_operator.translate import policies

log = logging.getLogger(__name__)


class PolicySink:
    """Policies: the default one is in force, and its last good state stays so."""

    def __init__(self, ledger: Ledger, logger: logging.Logger = log) -> None:
        self._ledger = ledger
        self._logger = logger
        self._news = policy_news.PolicyNews(logger)

    def upserted(self, thing: wire.PlacementPolicy) -> None:
        """Apply a policy's new state."""
        if thing.metadata.name != names.DEFAULT_POLICY:
            return
        policy = policies.rules(thing)
        if isinstance(policy, str):
            self._logger.warning(
                "the default policy is not taken: %s; the last good one stays in force", policy
            )
        else:
            self._news.in_force(thing.spec)
            self._ledger.policy_seen(policy)

    def deleted(self, meta: wire.Meta) -> None:
        """Fall back to the built-in rules when the default policy is gone."""
        if meta.name == names.DEFAULT_POLICY:
            self._news.gone()
            self._ledger.policy_seen(policies.BUILT_IN)
