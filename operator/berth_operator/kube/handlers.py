"""Kopf handlers for our own kinds: thin, level-based, and each returns None.

They are registered by a function that closes over what they need. Nothing here touches
pods or nodes: those feed the ledger through the informers.
"""

from typing import Any, Final, Protocol

import kopf

from berth_crds import names
from berth_operator.kube import kind_statuses

WATCHED: Final = (names.DEVICES, names.POLICIES)


class Desk(Protocol):
    """Who is told what Kopf sees, in Kopf's own thread."""

    def saw_device(self, name: str, status: dict[str, Any], version: str) -> None:
        """Record the status of a Device, and its revision."""

    def lost_device(self, name: str) -> None:
        """Forget a Device that was deleted."""

    def saw_policy(self, body: dict[str, Any]) -> None:
        """Record a policy."""

    def lost_policy(self, name: str) -> None:
        """Forget a policy that was deleted."""


def register(registry: kopf.OperatorRegistry, desk: Desk) -> None:
    """Register all handlers."""

    @kopf.on.event(names.GROUP, names.VERSION, names.DEVICES, id="device", registry=registry)
    async def device(*, type: str, name: str, meta: Any, status: Any, **_: Any) -> None:  # noqa: A002  Kopf's word
        if type == "DELETED":
            desk.lost_device(name)
        else:
            desk.saw_device(name, plain(status, *kind_statuses.OURS), meta.get("resourceVersion", ""))

    @kopf.on.event(names.GROUP, names.VERSION, names.POLICIES, id="policy", registry=registry)
    async def policy(*, type: str, name: str, body: Any, **_: Any) -> None:  # noqa: A002  Kopf's word
        if type == "DELETED":
            desk.lost_policy(name)
        else:
            desk.saw_policy(plain(body))


def plain(view: Any, *wanted: str) -> dict[str, Any]:
    """Copy one of Kopf's read-only views into a dict, or only some of it, so that the rest can go."""
    return {key: view[key] for key in wanted or view if key in view}
