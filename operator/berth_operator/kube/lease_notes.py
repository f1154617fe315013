"""What a leader leaves to the next one, in annotations of its Lease.

They ride on the renewals. The declaration says for which pods binds may be under way
(`engine.bind_declarer`). The stale revision says up to which revision no Lease is of an agent that is ready
(`scheduling.liveness`): the next leader may see all of these Leases for the first time, and that one is old
does not show.
"""

from collections.abc import Mapping
from typing import Final

from berth_crds import names, wire
from berth_crds.client import history

OWN: Final = frozenset({names.IN_FLIGHT, names.UNRENEWED})


def annotations(others: Mapping[str, str], declaration: str | None, stale_revision: int) -> dict[str, str]:
    """Return the annotations to write: those of others, and what we leave."""
    kept = {key: text for key, text in others.items() if key not in OWN}
    if declaration is not None:
        kept[names.IN_FLIGHT] = declaration
    if stale_revision:
        kept[names.UNRENEWED] = f"{stale_revision}"
    return kept


def declaration(meta: wire.Meta) -> str | None:
    """Return for which pods binds may be under way, as text; None where nothing says so."""
    return meta.annotations.get(names.IN_FLIGHT)


def stale_revision(meta: wire.Meta) -> int:
    """Return up to which revision no Lease was of a ready agent; 0 where nothing says so.

    It is older than the Lease that says so. Anything else was not written by a leader of this cluster, or
    before its data were restored, and says nothing.
    """
    text = meta.annotations.get(names.UNRENEWED, "")
    stale, newest = history.revision(text) or 0, history.revision(meta.resource_version) or 0
    return stale if stale <= newest else 0
