"""What Kopf has not delivered yet of what the informers know.

Kopf can stop without a word: a watcher that waits for ever, a loop that does not turn, a
start that never came to the first list. Its own word is therefore not asked. The informers
follow the same objects by a way of their own, so whatever they know in a revision that Kopf
does not deliver shows that it has stopped.

Time is counted in looks, not in seconds. A process that slept or was starved made no look
meanwhile, and finds nothing overdue when it goes on. An object that changes all the while is
not behind: what counts is how long one revision of it has been awaited.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Final

from berth_crds.client import history
from berth_operator import metrics

LOOK_SECONDS: Final = 1.0
# An object waits for so long, and nothing at all of its kind came meanwhile: the watcher has stopped.
QUIET_LOOKS: Final = 20
# An object waits for so long though others of its kind come, none of them for the first time as in a list.
BEHIND_LOOKS: Final = 45


@dataclasses.dataclass(frozen=True, slots=True)
class Revisions:
    """The revision of each object by kind and name, and how often the server's data were restored."""

    known: Mapping[str, Mapping[str, str]]
    restores: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What shows that a run of Kopf is to be ended."""

    cause: metrics.KopfEnd
    text: str


@dataclasses.dataclass(slots=True)
class _Awaited:
    version: str
    looks: int = 0


@dataclasses.dataclass(slots=True)
class _Kind:
    delivered: dict[str, str] = dataclasses.field(default_factory=dict)
    awaited: dict[str, _Awaited] = dataclasses.field(default_factory=dict)
    quiet: int = 0  # Looks since anything came.
    listed: int = 0  # Looks since an object came for the first time.


class Lag:
    """How far one run of Kopf is behind the informers."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._restores: int | None = None
        self.looks = 0

    def __repr__(self) -> str:
        """Show the state in words."""
        return f"<Lag: {self.behind} objects behind after {self.looks} looks>"

    @property
    def behind(self) -> int:
        """How many objects Kopf has not delivered in the revision that was known at the last look."""
        return sum(len(one.awaited) for one in self._kinds.values())

    def delivered(self, kind: str, name: str, version: str) -> None:
        """Record that Kopf delivered an object in this revision."""
        one = self._kinds.setdefault(kind, _Kind())
        one.quiet = 0
        if name not in one.delivered:
            one.listed = 0
        one.delivered[name] = version

    def gone(self, kind: str, name: str) -> None:
        """Record that Kopf delivered the deletion of an object."""
        one = self._kinds.setdefault(kind, _Kind())
        one.quiet = 0
        one.delivered.pop(name, None)

    def names(self, kind: str) -> Collection[str]:
        """Return the names of the objects that Kopf has delivered and that are not gone."""
        return self._kinds[kind].delivered.keys() if kind in self._kinds else ()

    def look(self, revisions: Revisions) -> Finding | None:
        """Compare with what the informers know now; return why Kopf is to be ended, if it is."""
        self.looks += 1
        before, self._restores = self._restores, revisions.restores
        if before not in {None, self._restores}:
            return Finding(metrics.KopfEnd.RESTORED, "the API server's data were restored from an older copy")
        for kind, known in revisions.known.items():
            self._compare(self._kinds.setdefault(kind, _Kind()), known)
        found = filter(None, (_stopped(kind, self._kinds[kind]) for kind in revisions.known))
        return next((Finding(metrics.KopfEnd.LIFELESS, one) for one in found), None)

    def _compare(self, one: _Kind, known: Mapping[str, str]) -> None:
        one.quiet += 1
        one.listed += 1
        one.awaited = {
            name: _still(one.awaited.get(name), one.delivered.get(name), version)
            for name, version in known.items()
            if not _covers(one.delivered.get(name), version)
        }


def _covers(delivered: str | None, version: str) -> bool:
    """Whether a delivered revision is the one that was awaited, or a later one."""
    return delivered == version or (delivered is not None and history.earlier(version, delivered))


def _still(awaited: _Awaited | None, delivered: str | None, version: str) -> _Awaited:
    """Go on waiting for the revision that was awaited, or begin with this one where that has come."""
    if awaited is None or _covers(delivered, awaited.version):
        return _Awaited(version)
    awaited.looks += 1
    return awaited


def _stopped(kind: str, one: _Kind) -> str:
    if not one.awaited:
        return ""
    name, longest = max(one.awaited.items(), key=lambda item: item[1].looks)
    if min(longest.looks, one.listed) < BEHIND_LOOKS and min(longest.looks, one.quiet) < QUIET_LOOKS:
        return ""
    return (
        f"it shows no life: revision {longest.version} of {name} ({kind}) has not come for "
        f"{longest.looks * LOOK_SECONDS:g} s, nor anything of {kind} for {one.quiet * LOOK_SECONDS:g} s"
    )
