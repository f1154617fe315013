"""What our own kinds should show, and making the API agree.

The operator owns a few fields of each Device (the Ready condition and the summary) and
of each PlacementPolicy (the Accepted condition). They are made from the ledger's
summaries and from the policy itself, compared with what the object shows, and applied
where they differ. This is level-based and slow on purpose: it runs in Kopf's thread,
behind the binds and at a pace of its own, and a burst of changes to one node is one
write. Only that an agent fell silent, or speaks again, is told at once.

The server may take long for one object, or fail at it each time. So several are written at a
time, each by a deadline; one is kept for what is urgent, and those that failed alone come last
and one by one.
"""

import collections
import dataclasses
import datetime as dt
import logging
import time
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from berth_crds import logs, names, text, vocabulary, wire
from berth_crds.client import api, errors, lease, resources
from berth_operator.engine import node_summaries, rate_limiter
from berth_operator.kube import keyed_tasks, write_failures
from berth_operator.scheduling import uuid_records
from berth_operator.translate import policies

log = logging.getLogger(__name__)

Shown = dict[str, Any]
Due = tuple[str, str]  # Kind and name.

AT_ONCE: Final = 4
KEPT_FOR_URGENT: Final = 1  # Of these.
WRITE_SECONDS: Final = 5.0
HEAD_START_SECONDS: Final = 0.2  # Of the first one: while the server is away, nobody else is tried.
REST_SECONDS: Final = 1.0  # For a server that asks for patience without saying how much.

DEVICE: Final = resources.DEVICES.kind
POLICY: Final = resources.POLICIES.kind
# The parts of a Device's status in which the operator has a say: the cards are many times as much.
OURS: Final = ("conditions", "summary", "claims", "disputed", "origins")


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """What an object should show and does not, if anything, and what that was made of."""

    status: dict[str, Any] | None
    wanted: node_summaries.NodeSummary | None
    shown: Shown | None


class Statuses:
    """Keeps the operator's part of Device and PlacementPolicy status right."""

    def __init__(
        self,
        session: api.Api,
        rhythm: rate_limiter.RateLimiter,
        *,
        wall: Callable[[], dt.datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._rhythm = rhythm
        self._wall = wall
        self._wanted: dict[str, node_summaries.NodeSummary] = {}
        self._shown: dict[str, Shown] = {}
        self._dirty: set[str] = set()
        self._urgent: set[str] = set()
        self._policies: dict[str, Shown] = {}
        self._failures = write_failures.Failures[Due](clock)
        self._writes = keyed_tasks.Places[Due]()
        self._news = False  # Since the present flush began.
        self._stopped = False  # The present flush tries nobody else.
        self._troubled = False
        self._tried: Due = ("", "")  # Whose turn it was when the server failed.

    # ------------------------------------------------------------ Devices

    def want(self, news: list[node_summaries.NodeSummary]) -> None:
        """Record the ledger's newest summaries."""
        for summary in news:
            known = self._wanted.get(summary.node)
            if known != summary:
                self._wanted[summary.node] = summary
                self._dirty.add(summary.node)
                if known is not None and known.silent != summary.silent:
                    self._urgent.add(summary.node)
        self._tell()

    def saw_device(self, name: str, status: Shown) -> None:
        """Apply what a Device shows; somebody may have edited it."""
        self._shown[name] = status
        self._dirty.add(name)
        self._tell()

    def lost_device(self, name: str) -> None:
        """Forget a Device that is gone."""
        self._shown.pop(name, None)
        self._dirty.discard(name)
        self._failures.forget((DEVICE, name))

    def keep_only(self, there: Collection[str]) -> None:
        """Forget all Devices but these: nobody tells of one that is deleted while no Kopf runs."""
        if max(len(self._wanted), len(self._shown)) > len(there):
            for name in self._shown.keys() - there:
                self._failures.forget((DEVICE, name))
            self._wanted = {name: summary for name, summary in self._wanted.items() if name in there}
            self._shown = {name: one for name, one in self._shown.items() if name in there}

    def saw_policy(self, body: Shown) -> None:
        """Record a policy as it is; whether it can be in force is said at the next flush."""
        self._policies[body["metadata"]["name"]] = body
        self._tell()

    def _tell(self) -> None:
        self._news = True
        self._writes.tell()

    # ------------------------------------------------------------ whose turn it is

    async def flush(self) -> None:
        """Apply what differs; what fails stays due, and what takes long goes on once there is news."""
        await self._rhythm.wait_backoff()
        self._news = self._stopped = False
        due, first = self._due(), True
        while not self._stopped:
            if (one := self._next(due)) is not None:
                if await self._began(*one) and first:
                    await self._writes.head_start(one, HEAD_START_SECONDS)
                    first = False
            elif self._writes and (self._waiting(due) or not self._news):
                await self._writes.news()
            else:
                self._tried = ("", "")
                return

    async def end(self) -> None:
        """Leave what is being written."""
        await self._writes.end()

    def _due(self) -> collections.deque[Due]:
        """Return who is due: where the server failed at one, those after it come first the next time."""
        due = [*((DEVICE, name) for name in self._dirty), *((POLICY, name) for name in self._policies)]
        ready = [one for one in due if one not in self._writes and not self._failures.rests(one)]
        return collections.deque(
            sorted(ready, key=lambda one: (self._failures.until(one), one <= self._tried, one))
        )

    def _next(self, due: collections.deque[Due]) -> Due | None:
        """Return who is written next, if anybody may be: what is urgent comes first."""
        free = AT_ONCE - len(self._writes)
        if free and (urgent := next(filter(self._may_go, self._urgent), None)) is not None:
            return DEVICE, urgent
        if due and free > KEPT_FOR_URGENT and not (self._failures.alone(due[0]) and self._tries_again()):
            return due.popleft()
        return None

    def _may_go(self, name: str) -> bool:
        """Return whether an urgent one may be written now; what failed alone waits for its turn."""
        return (DEVICE, name) not in self._writes and not self._failures.alone((DEVICE, name))

    def _tries_again(self) -> bool:
        """Return whether something that failed alone is being written."""
        return any(map(self._failures.alone, self._writes.taken()))

    def _waiting(self, due: collections.deque[Due]) -> bool:
        """Return whether somebody waits for a place who has not failed."""
        return bool(due) and not self._failures.alone(due[0])

    # ------------------------------------------------------------ one object

    async def _began(self, kind: str, name: str) -> bool:
        """Begin to write what an object should show, and return whether there was anything to write."""
        if (kind, name) in self._writes:
            return False  # It stays due.
        draft = self._draft(kind, name)
        if draft.status is not None and kind == DEVICE and name not in self._urgent:
            await self._rhythm.acquire()
            draft = self._draft(kind, name)  # Much may have happened during the wait.
        if kind == DEVICE:
            self._urgent.discard(name)
        if draft.status is None:
            self._settle(kind, name, draft)
            return False
        self._writes.begin((kind, name), self._write(kind, name, draft))
        return True

    def _draft(self, kind: str, name: str) -> Draft:
        moment = lease.second(self._wall())
        if kind == POLICY:
            body = self._policies.get(name)
            if body is None:
                return Draft(None, None, None)
            status = policy_status(body, moment=moment)
            return Draft(None if shows(body.get("status") or {}, status) else status, None, body)
        wanted, shown = self._wanted.get(name), self._shown.get(name)
        if wanted is None or shown is None:
            return Draft(None, wanted, shown)
        status = device_status(wanted, shown, moment=moment)
        return Draft(None if shows(shown, status) else status, wanted, shown)

    def _settle(self, kind: str, name: str, draft: Draft) -> None:
        """Have an object be due no more, unless something came in while the write was under way."""
        if kind == POLICY:
            if self._policies.get(name) is draft.shown:
                self._policies.pop(name, None)
        elif self._wanted.get(name) == draft.wanted and self._shown.get(name) is draft.shown:
            self._dirty.discard(name)

    async def _write(self, kind: str, name: str, draft: Draft) -> None:
        resource = resources.DEVICES if kind == DEVICE else resources.POLICIES
        thing = {"metadata": {"name": name}, "status": draft.status}
        try:
            await self._session.apply(
                resource, thing, manager=names.OPERATOR_MANAGER, sub="status", deadline=WRITE_SECONDS
            )
        except errors.NotFound:
            log.debug("%s %s is gone", kind, name)
        except errors.ClientError as error:
            self._failed(kind, name, error)
            return
        except Exception:
            log.exception("the status of %s %s was not written", kind, name)
            return
        self._troubled = False
        self._failures.succeeded((kind, name))
        self._settle(kind, name, draft)

    def _failed(self, kind: str, name: str, error: errors.ClientError) -> None:
        """Find out whose trouble it is that an object could not be written."""
        # A request that got no answer may have got none because of what it was about.
        told = errors.everybodys(error) and not isinstance(error, errors.Unreachable)
        if not told and not self._failures.failed((kind, name)):
            about = logs.about(f"{kind} {name}")
            log.warning("the status of %s %s was not written: %s", kind, name, error, extra=about)
            return
        # Everybody's trouble: told once while it lasts, and nobody else is tried.
        log.log(logging.DEBUG if self._troubled else logging.WARNING, "statuses wait: %s", error)
        self._troubled = self._stopped = True
        self._tried = kind, name
        if isinstance(error, errors.Throttled):
            self._rhythm.back_off(error.retry_after or REST_SECONDS)


# ---------------------------------------------------------------- what should be there


def device_status(wanted: node_summaries.NodeSummary, shown: Shown, *, moment: str) -> dict[str, Any]:
    """Make the operator's part of a Device's status."""
    # An empty reason is said, too: what is left out stays where somebody else has said it as well.
    summary = {
        "free": wanted.free,
        "used": wanted.used,
        "healthy": wanted.healthy,
        "inUse": wanted.in_use,
        "reason": wanted.reason,
    }
    return {
        "conditions": [_timed(_ready(wanted), shown, moment)],
        "summary": summary,
        "claims": list(wanted.claims),
        "disputed": list(wanted.disputed),
        "origins": [_origin(uuid, one) for uuid, one in wanted.origins],
    }


def _ready(wanted: node_summaries.NodeSummary) -> dict[str, Any]:
    kind = vocabulary.DeviceCondition.READY
    if wanted.silent:
        told = (
            "The agent of this node has not renewed its Lease within the grace period; "
            "its cards get no new pod."
        )
        return _condition(kind, vocabulary.Truth.FALSE, vocabulary.ReadyReason.AGENT_SILENT, told)
    if wanted.failed:
        told = f"The agent renews its Lease, but no card gets a new pod: {wanted.failed}."
        return _condition(kind, vocabulary.Truth.FALSE, vocabulary.ReadyReason.SOURCE_FAILED, text.line(told))
    alive = vocabulary.ReadyReason.AGENT_ALIVE
    return _condition(kind, vocabulary.Truth.TRUE, alive, "The agent renews its Lease.")


def _origin(uuid: str, origin: uuid_records.Origin) -> dict[str, str]:
    since = None if origin.since is None else dt.datetime.fromtimestamp(origin.since, dt.UTC)
    return {"uuid": uuid, "node": origin.node} | ({"since": lease.second(since)} if since else {})


def policy_status(body: Shown, *, moment: str) -> dict[str, Any]:
    """Make the status of a policy."""
    truth, reason, message = _judgement(body)
    generation = body["metadata"].get("generation", 0)
    condition = _condition(vocabulary.PolicyCondition.ACCEPTED, truth, reason, message)
    condition["observedGeneration"] = generation
    return {
        "observedGeneration": generation,
        "conditions": [_timed(condition, body.get("status") or {}, moment)],
    }


def _judgement(body: Shown) -> tuple[vocabulary.Truth, str, str]:
    try:
        policy = policies.rules(msgspec.convert(body, wire.PlacementPolicy))
    except msgspec.ValidationError as error:
        policy = str(error)
    if isinstance(policy, str):
        message = text.line(f"{policy}; the last good policy stays in force.")
        return vocabulary.Truth.FALSE, "Invalid", message
    if body["metadata"]["name"] != names.DEFAULT_POLICY:
        message = f"Only the policy named {names.DEFAULT_POLICY} is in force; this one is valid and rests."
        return vocabulary.Truth.FALSE, "NotDefault", message
    return vocabulary.Truth.TRUE, "InForce", f"This policy is in force.{policies.caution(policy)}"


def _condition(kind: str, truth: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": str(kind), "status": str(truth), "reason": reason, "message": message}


def _timed(condition: dict[str, Any], shown: Shown, moment: str) -> dict[str, Any]:
    """Keep the time of the last transition while the truth stays the same."""
    old = _shown_condition(shown, condition["type"])
    same = old.get("status") == condition["status"] and old.get("lastTransitionTime")
    return condition | {"lastTransitionTime": old["lastTransitionTime"] if same else moment}


def _shown_condition(shown: Shown, kind: str) -> Shown:
    return next((one for one in shown.get("conditions") or () if one.get("type") == kind), {})


def shows(shown: Shown, status: Shown) -> bool:
    """Return whether an object's status already says all that it should."""
    for key, value in status.items():
        if key == "conditions":
            if any(_shown_condition(shown, one["type"]) != one for one in value):
                return False
        elif (shown.get(key) or type(value)()) != value:
            return False
    return True
