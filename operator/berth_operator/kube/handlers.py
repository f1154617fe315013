"""Kopf event handlers of our own kinds: thin, level-based, and each returns None.

Nothing here handles pods or nodes: those reach the ledger through the informers.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import kopf

from berth_crds import names
from berth_operator.kube import kind_statuses

Json = dict[str, Any]


class KopfSink(Protocol):
    """What receives the events of Kopf, in Kopf's own thread; `kind` is the plural of the object's kind."""

    def seen(self, kind: str, name: str, version: str, shown: Json) -> None:
        """Record the revision of an object, and the status of a Device or a whole policy."""

    def gone(self, kind: str, name: str) -> None:
        """Forget an object that was deleted."""


def register(registry: kopf.OperatorRegistry, sink: KopfSink) -> None:
    """Register all handlers."""
    for kind, shown in WATCHED.items():
        kopf.on.event(names.GROUP, names.VERSION, kind, id=kind, registry=registry)(
            _handler(sink, kind, shown)
        )


def _handler(sink: KopfSink, kind: str, shown: Callable[[Any], Json]) -> Any:
    async def handle(*, type: str, name: str, body: Any, **_: Any) -> None:  # noqa: A002  Kopf's word
        if type == "DELETED":
            sink.gone(kind, name)
        else:
            sink.seen(kind, name, body["metadata"].get("resourceVersion", ""), shown(body))

    return handle


def _device_status(body: Any) -> Json:
    return plain(body.get("status") or {}, *kind_statuses.OWN_FIELDS)


def plain(view: Any, *wanted: str) -> Json:
    """Copy one of Kopf's read-only views into a dict, or only some of its keys, so that the rest can go."""
    return {key: view[key] for key in wanted or view if key in view}


WATCHED: Final[Mapping[str, Callable[[Any], Json]]] = {names.DEVICES: _device_status, names.POLICIES: plain}
