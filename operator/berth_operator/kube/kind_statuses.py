"""The status of our own kinds: what it should be, and writing it.

The operator owns a few fields of each Device (the Ready condition and the summary) and
of each PlacementPolicy (the Accepted condition). They are made from the ledger's
summaries and from the policy itself, compared with what the object shows, and applied
where they differ. This is level-based and slow on purpose: it runs beside Kopf's
thread, behind the binds and with a rate limit of its own, and a burst of changes of one node is
one write. Only a change of an agent's silence is urgent and written at once. Whose a uuid is comes
before mere counts, and faster while pods are bound: a successor knows it from nowhere else.

The server may take long for one object, or fail at it each time. So several are written at a
time, each with a deadline. One place is reserved for urgent objects, and those that failed alone
come last and one by one.
"""

import collections
import dataclasses
import datetime as dt
import logging
import time
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

import msgspec

from berth_crds import logs, names, text, vocabulary, wire
from berth_crds.client import api, errors, lease, resources
from berth_operator.engine import node_summaries, rate_limiter
from berth_operator.kube import keyed_tasks, write_failures
from berth_operator.scheduling import uuid_records
from berth_operator.translate import policies

log = logging.getLogger(__name__)

Json = dict[str, Any]
ObjectKey = tuple[str, str]  # The plural of its kind, and its name.

AT_ONCE: Final = 4
RESERVED_FOR_URGENT: Final = 1  # Of these.
WRITE_SECONDS: Final = 5.0
FIRST_WRITE_SECONDS: Final = 0.2  # For the first object: while the server is unavailable, no other is tried.

RESOURCES: Final = {names.DEVICES: resources.DEVICES, names.POLICIES: resources.POLICIES}


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """The status to write, None where the object shows it already, and what it was made of."""

    status: dict[str, Any] | None
    wanted: node_summaries.NodeSummary | None
    shown: Json | None


class Limiters(NamedTuple):
    """How many Devices are written a second: those that only count, and those that say whose a uuid is."""

    of_counts: rate_limiter.RateLimiter
    of_owners: rate_limiter.RateLimiter


class KindStatuses:
    """Keeps the operator's part of Device and PlacementPolicy status right."""

    def __init__(
        self,
        session: api.Api,
        limiters: Limiters,
        *,
        wall: Callable[[], dt.datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._limiters = limiters
        self._wall = wall
        self._wanted: dict[str, node_summaries.NodeSummary] = {}
        self._shown: dict[ObjectKey, Json] = {}  # The statuses of Devices, and policies that are due.
        self._dirty: set[ObjectKey] = set()
        self._urgent: set[ObjectKey] = set()
        self._of_owners: dict[ObjectKey, None] = {}  # The Devices that are to say anew whose a uuid is.
        self._failures = write_failures.WriteFailures[ObjectKey](clock)
        self._writes = keyed_tasks.KeyedTasks[ObjectKey]()
        self._changed = False  # Since the present flush began.
        self._stopped = False  # Whether the present flush tries no further object.
        self._outage = False
        self._last_tried: ObjectKey = ("", "")  # The object whose write met the last outage.

    # ------------------------------------------------------------ what has changed

    def update(self, changed: list[node_summaries.NodeSummary]) -> None:
        """Record the newest summaries of the ledger."""
        for one in changed:
            known = self._wanted.get(one.node)
            if known != one:
                self._wanted[one.node] = one
                self._dirty.add((names.DEVICES, one.node))
                if known is not None and known.silent != one.silent:
                    self._urgent.add((names.DEVICES, one.node))
                self._compare_owners((names.DEVICES, one.node))
        self._notify()

    def seen(self, kind: str, name: str, shown: Json) -> None:
        """Record the status of a Device, which anybody may have edited, or a whole policy."""
        self._shown[kind, name] = shown
        self._dirty.add((kind, name))
        self._compare_owners((kind, name))
        self._notify()

    def gone(self, kind: str, name: str) -> None:
        """Forget an object that is gone."""
        self._shown.pop((kind, name), None)
        self._dirty.discard((kind, name))
        self._go_first_no_more((kind, name))
        self._failures.forget((kind, name))

    def compare_all(self) -> None:
        """Have all Devices compared again: no event may have come of a write, or of an edit."""
        self._dirty |= {(names.DEVICES, name) for name in self._wanted}
        self._notify()

    def keep_only(self, existing: Collection[str]) -> None:
        """Forget all Devices but these: a delete goes unseen while Kopf does not run."""
        if max(len(self._wanted), len(self._shown)) > len(existing):
            for kind, name in list(self._shown):
                if kind == names.DEVICES and name not in existing:
                    self.gone(kind, name)
            self._wanted = {name: one for name, one in self._wanted.items() if name in existing}

    def _compare_owners(self, key: ObjectKey) -> None:
        shown, wanted = self._shown.get(key), self._wanted_of(key)
        if shown is not None and wanted is not None and not shows(shown, owners(wanted)):
            self._of_owners[key] = None

    def _notify(self) -> None:
        self._changed = True
        self._writes.notify()

    # ------------------------------------------------------------ order of writes

    async def flush(self) -> None:
        """Write what differs; failed writes stay due, and a change does not wait for slow ones."""
        for limiter in self._limiters:
            await limiter.wait_backoff()
        self._changed = self._stopped = False
        due, first = self._due(), True
        while not self._stopped:
            if (key := self._next(due)) is not None:
                if await self._start_write(key) and first:
                    await self._writes.wait_for(key, FIRST_WRITE_SECONDS)
                    first = False
            elif self._writes and (self._waits_unfailed(due) or not self._changed):
                await self._writes.wait_changed()
            else:
                self._last_tried = ("", "")
                return

    async def cancel(self) -> None:
        """Cancel all writes."""
        await self._writes.cancel()

    def _due(self) -> collections.deque[ObjectKey]:
        """Return the objects to write; those after the one that met the last outage come first."""
        ready = [one for one in self._dirty if one not in self._writes and not self._failures.in_backoff(one)]
        return collections.deque(
            sorted(ready, key=lambda one: (self._failures.backoff_until(one), one <= self._last_tried, one))
        )

    def _next(self, due: collections.deque[ObjectKey]) -> ObjectKey | None:
        """Return the object to write next, if any may be: an urgent one first."""
        free = AT_ONCE - len(self._writes)
        if free and (urgent := next(filter(self._may_write, self._urgent), None)) is not None:
            return urgent
        if free > RESERVED_FOR_URGENT and (first := next(filter(self._may_write, self._of_owners), None)):
            return first
        # Of those that failed alone, one is written at a time.
        retrying = any(map(self._failures.failed_alone, self._writes.keys()))
        if due and free > RESERVED_FOR_URGENT and not (retrying and self._failures.failed_alone(due[0])):
            return due.popleft()
        return None

    def _may_write(self, key: ObjectKey) -> bool:
        """Whether an urgent Device may be written now; one that failed alone waits for its turn."""
        return key not in self._writes and not self._failures.failed_alone(key)

    def _waits_unfailed(self, due: collections.deque[ObjectKey]) -> bool:
        """Whether an object waits for a place that has not failed alone."""
        return bool(due) and not self._failures.failed_alone(due[0])

    # ------------------------------------------------------------ one object

    async def _start_write(self, key: ObjectKey) -> bool:
        """Start the write of an object's status; return whether there was anything to write."""
        if key in self._writes:
            return False  # It stays due.
        if key not in self._dirty:
            self._go_first_no_more(key)  # Meanwhile it was written, or what it shows is right again.
            return False
        draft = self._draft(key)
        if draft.status is not None and key[0] == names.DEVICES and key not in self._urgent:
            of_owners = key in self._of_owners
            await (self._limiters.of_owners if of_owners else self._limiters.of_counts).acquire()
            draft = self._draft(key)  # Much may have happened during the wait.
        self._go_first_no_more(key)
        if draft.status is None:
            self._settle(key, draft)
            return False
        self._writes.start(key, self._write(key, draft))
        return True

    def _go_first_no_more(self, key: ObjectKey) -> None:
        self._urgent.discard(key)
        self._of_owners.pop(key, None)

    def _draft(self, key: ObjectKey) -> Draft:
        shown, wanted = self._shown.get(key), self._wanted_of(key)
        moment = lease.rfc3339(self._wall())
        if shown is not None and key[0] == names.POLICIES:
            status, present = policy_status(shown, moment=moment), shown.get("status") or {}
        elif shown is not None and wanted is not None:
            status, present = device_status(wanted, shown, moment=moment), shown
        else:
            return Draft(None, wanted, shown)
        return Draft(None if shows(present, status) else status, wanted, shown)

    def _wanted_of(self, key: ObjectKey) -> node_summaries.NodeSummary | None:
        return self._wanted.get(key[1]) if key[0] == names.DEVICES else None

    def _settle(self, key: ObjectKey, draft: Draft) -> None:
        """Record that an object is written, unless it changed again during the write."""
        if self._wanted_of(key) == draft.wanted and self._shown.get(key) is draft.shown:
            self._dirty.discard(key)
            if key[0] == names.POLICIES:
                self._shown.pop(key, None)

    async def _write(self, key: ObjectKey, draft: Draft) -> None:
        kind, name = RESOURCES[key[0]].kind, key[1]
        try:
            await self._session.apply(
                RESOURCES[key[0]],
                {"metadata": {"name": name}, "status": draft.status},
                manager=names.OPERATOR_MANAGER,
                sub="status",
                deadline=WRITE_SECONDS,
            )
        except errors.NotFound:
            log.debug("%s %s is gone", kind, name)
        except errors.ClientError as error:
            self._failed(key, error)
            return
        except Exception:
            log.exception("the status of %s %s was not written", kind, name)
            return
        self._outage = False
        self._failures.succeeded(key)
        self._settle(key, draft)

    def _failed(self, key: ObjectKey, error: errors.ClientError) -> None:
        """Handle a failed write: of this object alone, or because of an outage."""
        # A request may have got no answer because of its object.
        systemic = errors.is_systemic(error) and not isinstance(error, errors.Unreachable)
        if not systemic and not self._failures.failed(key):
            about = f"{RESOURCES[key[0]].kind} {key[1]}"
            log.warning("the status of %s was not written: %s", about, error, extra=logs.about(about))
            return
        # An outage: logged once while it lasts, and no other object is tried.
        log.log(logging.DEBUG if self._outage else logging.WARNING, "statuses wait: %s", error)
        self._outage = self._stopped = True
        self._last_tried = key
        if isinstance(error, errors.Throttled):
            for limiter in self._limiters:
                limiter.back_off(error.pause)


# ---------------------------------------------------------------- desired status


def device_status(wanted: node_summaries.NodeSummary, shown: Json, *, moment: str) -> dict[str, Any]:
    """Return the operator's part of a Device's status."""
    # An empty reason is written, too: what is left out stays if another manager owns it as well.
    return {
        "conditions": [_timed(_ready(wanted), shown, moment)],
        "summary": {
            "free": wanted.free,
            "used": wanted.used,
            "healthy": wanted.healthy,
            "inUse": wanted.in_use,
            "reason": wanted.reason,
        },
        **owners(wanted),
    }


def owners(wanted: node_summaries.NodeSummary) -> dict[str, list[Any]]:
    """Return the part of a Device's status that says whose the uuids are."""
    return {
        "claims": list(wanted.claims),
        "disputed": list(wanted.disputed),
        "origins": [_origin(uuid, one) for uuid, one in wanted.origins],
    }


def _ready(wanted: node_summaries.NodeSummary) -> dict[str, Any]:
    truth, reason = vocabulary.Truth.FALSE, vocabulary.ReadyReason.AGENT_SILENT
    if wanted.silent:
        message = (
            "The agent of this node has not renewed its Lease within the grace period; "
            "its cards get no new pod."
        )
    elif wanted.failed:
        reason = vocabulary.ReadyReason.SOURCE_FAILED
        message = text.line(f"The agent renews its Lease, but no card gets a new pod: {wanted.failed}.")
    else:
        truth, reason = vocabulary.Truth.TRUE, vocabulary.ReadyReason.AGENT_ALIVE
        message = "The agent renews its Lease."
    return _condition(vocabulary.DeviceCondition.READY, truth, reason, message)


def _origin(uuid: str, origin: uuid_records.Origin) -> dict[str, str]:
    since = None if origin.since is None else dt.datetime.fromtimestamp(origin.since, dt.UTC)
    return {"uuid": uuid, "node": origin.node} | ({"since": lease.rfc3339(since)} if since else {})


def policy_status(body: Json, *, moment: str) -> dict[str, Any]:
    """Return the status of a policy."""
    truth, reason, message = _accepted(body)
    generation = body["metadata"].get("generation", 0)
    condition = _condition(vocabulary.PolicyCondition.ACCEPTED, truth, reason, message)
    seen = {"observedGeneration": generation}
    return seen | {"conditions": [_timed(condition | seen, body.get("status") or {}, moment)]}


def _accepted(body: Json) -> tuple[vocabulary.Truth, str, str]:
    try:
        policy = policies.read(msgspec.convert(body, wire.PlacementPolicy))
    except msgspec.ValidationError as error:
        policy = str(error)
    if isinstance(policy, str):
        message = text.line(f"{policy}; the last good policy stays in force.")
        return vocabulary.Truth.FALSE, "Invalid", message
    if body["metadata"]["name"] != names.DEFAULT_POLICY:
        message = f"Only the policy named {names.DEFAULT_POLICY} is in force; this one is valid but unused."
        return vocabulary.Truth.FALSE, "NotDefault", message
    return vocabulary.Truth.TRUE, "InForce", f"This policy is in force.{policies.warning(policy)}"


def _condition(kind: str, truth: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": str(kind), "status": str(truth), "reason": reason, "message": message}


def _timed(condition: dict[str, Any], shown: Json, moment: str) -> dict[str, Any]:
    """Keep the time of the last transition while the truth stays the same."""
    old = _shown_condition(shown, condition["type"])
    same = old.get("status") == condition["status"] and old.get("lastTransitionTime")
    return condition | {"lastTransitionTime": old["lastTransitionTime"] if same else moment}


def _shown_condition(shown: Json, kind: str) -> Json:
    return next((one for one in shown.get("conditions") or () if one.get("type") == kind), {})


def shows(shown: Json, status: Json) -> bool:
    """Whether an object's status has all these values already."""
    for key, value in status.items():
        if key == "conditions":
            if any(_shown_condition(shown, one["type"]) != one for one in value):
                return False
        elif (shown.get(key) or type(value)()) != value:
            return False
    return True
