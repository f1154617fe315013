"""The sink of the informer of Namespaces: their labels go to the ledger.

Terms of pod affinity and anti-affinity may mean pods by the labels of their Namespaces. They are followed
always, not only where a pod has such a term: the first may come with any pod that anybody creates, and
deciding would have to wait then until all Namespaces are read.
"""

from berth_crds import wire
from berth_operator.engine.ledger import Ledger
from berth_operator.translate import raw


class NamespaceSink:
    """Namespaces and their labels."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def upserted(self, thing: raw.Namespace) -> None:
        """Record the labels of a namespace."""
        self._ledger.pod_changes.namespace_seen(thing.metadata.name, thing.metadata.labels)

    def deleted(self, meta: wire.Meta) -> None:
        """Forget a namespace that is gone."""
        self._ledger.pod_changes.namespace_seen(meta.name, None)
