"""Kopf event handlers of our own kinds: thin, level-based, and each returns None.

Nothing here handles pods or nodes: those reach the ledger through the informers.
"""

from typing import Any, Final, Protocol

import kopf

from berth_crds import names
from berth_operator.kube import kind_statuses

WATCHED: Final = (names.DEVICES, names.POLICIES)


class KopfSink(Protocol):
    """What receives the events of Kopf, in Kopf's own thread."""

    def device_seen(self, name: str, status: dict[str, Any], version: str) -> None:
        """Record the status of a Device, and its revision."""

    def device_gone(self, name: str) -> None:
        """Forget a Device that was deleted."""

    def policy_seen(self, body: dict[str, Any]) -> None:
        """Record a policy."""

    def policy_gone(self, name: str) -> None:
        """Forget a policy that was deleted."""


def register(registry: kopf.OperatorRegistry, sink: KopfSink) -> None:
    """Register all handlers."""

    @kopf.on.event(names.GROUP, names.VERSION, names.DEVICES, id="device", registry=registry)
    async def device(*, type: str, name: str, meta: Any, status: Any, **_: Any) -> None:  # noqa: A002  Kopf's word
        if type == "DELETED":
            sink.device_gone(name)
        else:
            sink.device_seen(name, plain(status, *kind_statuses.OWN_FIELDS), meta.get("resourceVersion", ""))

    @kopf.on.event(names.GROUP, names.VERSION, names.POLICIES, id="policy", registry=registry)
    async def policy(*, type: str, name: str, body: Any, **_: Any) -> None:  # noqa: A002  Kopf's word
        if type == "DELETED":
            sink.policy_gone(name)
        else:
            sink.policy_seen(plain(body))


def plain(view: Any, *wanted: str) -> dict[str, Any]:
    """Copy one of Kopf's read-only views into a dict, or only some of its keys, so that the rest can go."""
    return {key: view[key] for key in wanted or view if key in view}
