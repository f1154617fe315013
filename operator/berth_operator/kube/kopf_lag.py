"""The objects that the informers know in a revision that Kopf has not delivered yet.

Kopf can stop silently: a watcher that waits for ever, a loop that hangs, a start that never comes
to the first list. So its own state proves nothing. The informers watch the same objects over
connections of their own, so a revision that they know and Kopf does not deliver shows that Kopf
has stopped.

Time is counted in checks, not in seconds. A process that slept or was starved made no checks
meanwhile, and finds nothing overdue when it goes on. An object that changes all the time is not
behind: what counts is how long one revision of it has been awaited.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Final

from berth_crds import names
from berth_crds.client import history
from berth_operator import metrics

CHECK_SECONDS: Final = 1.0
MOST_NEWEST: Final = 1000  # Of a kind with very many objects, so many are compared.
# An object has waited for so long, and nothing of its kind came meanwhile: the watcher has stopped.
QUIET_CHECKS: Final = 20
# An object has waited for so long though known objects of its kind came: no list is going on.
BEHIND_CHECKS: Final = 45


@dataclasses.dataclass(frozen=True, slots=True)
class Revisions:
    """The revision of each object by kind and name, and how often the server's data were restored.

    Of GpuPods there are the uids in place of the revisions, and of the newest ones only: Kopf's handler
    needs none of their changes, and there are too many of them to compare all each second.
    """

    known: Mapping[str, Mapping[str, str]]
    restores: int = 0


class Newest:
    """The identities of the objects of a kind that came last."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}

    def put(self, name: str, uid: str) -> None:
        """Record an object that is new, or was changed."""
        if self._uids.get(name) != uid:
            self._uids.pop(name, None)
            self._uids[name] = uid
            if len(self._uids) > MOST_NEWEST:
                del self._uids[next(iter(self._uids))]

    def drop(self, name: str) -> None:
        """Forget an object that is gone."""
        self._uids.pop(name, None)

    def copy(self) -> dict[str, str]:
        """Return them by name."""
        return dict(self._uids)


@dataclasses.dataclass(frozen=True, slots=True)
class KopfFault:
    """Why a run of Kopf is to be ended."""

    cause: metrics.KopfEnd
    text: str


@dataclasses.dataclass(slots=True)
class _Awaited:
    version: str
    checks: int = 0


@dataclasses.dataclass(slots=True)
class _Kind:
    delivered: dict[str, str] = dataclasses.field(default_factory=dict)
    awaited: dict[str, _Awaited] = dataclasses.field(default_factory=dict)
    quiet: int = 0  # Checks since anything came.
    listed: int = 0  # Checks since an object came for the first time.


class KopfLag:
    """The objects by which one run of Kopf is behind the informers."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._restores: int | None = None
        self.checks = 0

    @property
    def behind(self) -> int:
        """How many objects Kopf has not delivered in the revision that was known at the last check."""
        return sum(len(one.awaited) for one in self._kinds.values())

    def delivered(self, kind: str, name: str, version: str) -> None:
        """Record that Kopf delivered an object in this revision."""
        one = self._kinds.setdefault(kind, _Kind())
        one.quiet = 0
        if name not in one.delivered:
            one.listed = 0
        one.delivered[name] = version

    def gone(self, kind: str, name: str, version: str = "") -> None:
        """Record that Kopf delivered the deletion of an object; with a version, if that came last."""
        one = self._kinds.setdefault(kind, _Kind())
        one.quiet = 0
        if version in {"", one.delivered.get(name)}:
            one.delivered.pop(name, None)

    def names(self, kind: str) -> Collection[str]:
        """Return the names of the objects that Kopf has delivered and that are not gone."""
        return self._kinds[kind].delivered.keys() if kind in self._kinds else ()

    def check(self, revisions: Revisions) -> KopfFault | None:
        """Compare with what the informers know now; return why Kopf is to be ended, if so."""
        self.checks += 1
        restores_before, self._restores = self._restores, revisions.restores
        if restores_before not in {None, self._restores}:
            return KopfFault(
                metrics.KopfEnd.RESTORED, "the API server's data were restored from an older copy"
            )
        for kind, known in revisions.known.items():
            self._compare(self._kinds.setdefault(kind, _Kind()), known)
        found = filter(None, (_lifeless(kind, self._kinds[kind]) for kind in revisions.known))
        return next((KopfFault(metrics.KopfEnd.LIFELESS, one) for one in found), None)

    def _compare(self, one: _Kind, known: Mapping[str, str]) -> None:
        one.quiet += 1
        one.listed += 1
        one.awaited = {
            name: _awaited(one.awaited.get(name), one.delivered.get(name), version)
            for name, version in known.items()
            if not _is_delivered(one.delivered.get(name), version)
        }


def _is_delivered(delivered: str | None, version: str) -> bool:
    """Whether a delivered revision is the awaited one, or a later one."""
    return delivered == version or (delivered is not None and history.is_earlier(version, delivered))


def _awaited(awaited: _Awaited | None, delivered: str | None, version: str) -> _Awaited:
    """Go on waiting for the awaited revision; if it has come, wait for this one."""
    if awaited is None or _is_delivered(delivered, awaited.version):
        return _Awaited(version)
    awaited.checks += 1
    return awaited


def _lifeless(kind: str, one: _Kind) -> str:
    if not one.awaited:
        return ""
    name, longest = max(one.awaited.items(), key=lambda item: item[1].checks)
    if min(longest.checks, one.listed) < BEHIND_CHECKS and min(longest.checks, one.quiet) < QUIET_CHECKS:
        return ""
    word = "uid" if kind == names.GPU_PODS else "revision"
    return (
        f"it shows no life: {word} {longest.version} of {name} ({kind}) has not come for "
        f"{longest.checks * CHECK_SECONDS:g} s, nor anything of {kind} for {one.quiet * CHECK_SECONDS:g} s"
    )
