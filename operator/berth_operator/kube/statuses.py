"""What our own kinds should show, and making the API agree.

The operator owns a few fields of each Device (the Ready condition and the summary) and
of each PlacementPolicy (the Accepted condition). They are made from the ledger's
summaries and from the policy itself, compared with what the object shows, and applied
where they differ. This is level-based and slow on purpose: it runs in Kopf's thread,
behind the binds and at a pace of its own, and a burst of changes to one node is one
write. Only that an agent fell silent, or speaks again, is told at once.
"""

import datetime as dt
import logging
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from berth_crds import logs, names, text, vocabulary, wire
from berth_crds.client import api, errors, lease, resources
from berth_operator.engine import pace, summaries
from berth_operator.scheduling import titles
from berth_operator.translate import policies

log = logging.getLogger(__name__)

Shown = dict[str, Any]
Due = tuple[str, str]  # Kind and name.

REST_SECONDS: Final = 1.0  # For a server that asks for patience without saying how much.

DEVICE: Final = resources.DEVICES.kind
POLICY: Final = resources.POLICIES.kind
# The parts of a Device's status in which the operator has a say: the cards are many times as much.
OURS: Final = ("conditions", "summary", "claims", "disputed", "origins")


class Statuses:
    """Keeps the operator's part of Device and PlacementPolicy status right."""

    def __init__(self, session: api.Api, rhythm: pace.Pace, *, wall: Callable[[], dt.datetime]) -> None:
        self._session = session
        self._rhythm = rhythm
        self._wall = wall
        self._wanted: dict[str, summaries.Summary] = {}
        self._shown: dict[str, Shown] = {}
        self._dirty: set[str] = set()
        self._urgent: set[str] = set()
        self._policies: dict[str, Shown] = {}
        self._troubled = False
        self._tried: Due = ("", "")  # Whose turn it was when the server failed.

    # ------------------------------------------------------------ Devices

    def want(self, news: list[summaries.Summary]) -> None:
        """Record the ledger's newest summaries."""
        for one in news:
            known = self._wanted.get(one.node)
            if known != one:
                self._wanted[one.node] = one
                self._dirty.add(one.node)
                if known is not None and known.silent != one.silent:
                    self._urgent.add(one.node)

    def saw_device(self, name: str, status: Shown) -> None:
        """Apply what a Device shows; somebody may have edited it."""
        self._shown[name] = status
        self._dirty.add(name)

    def lost_device(self, name: str) -> None:
        """Forget a Device that is gone."""
        self._shown.pop(name, None)
        self._dirty.discard(name)

    def keep_only(self, there: Collection[str]) -> None:
        """Forget all Devices but these: nobody tells of one that is deleted while no Kopf runs."""
        if max(len(self._wanted), len(self._shown)) > len(there):
            self._wanted = {name: one for name, one in self._wanted.items() if name in there}
            self._shown = {name: one for name, one in self._shown.items() if name in there}

    async def flush(self) -> None:
        """Apply what differs; what fails stays due."""
        await self._rhythm.rested()
        try:
            for kind, name in self._due():
                while self._urgent:
                    await self._show_device(self._urgent.pop(), urgent=True)
                self._tried = kind, name
                await (self._show_device(name) if kind == DEVICE else self._judge(name))
        except errors.ClientError as error:
            # Everybody's trouble: told once while it lasts, and nobody else is tried.
            log.log(logging.DEBUG if self._troubled else logging.WARNING, "statuses wait: %s", error)
            self._troubled = True
            if isinstance(error, errors.Throttled):
                self._rhythm.rest(error.retry_after or REST_SECONDS)
        else:
            self._troubled, self._tried = False, ("", "")

    def _due(self) -> list[Due]:
        """Return who is due: where the server failed at one, those after it come first the next time."""
        due = [*((DEVICE, name) for name in self._dirty), *((POLICY, name) for name in self._policies)]
        return sorted(due, key=lambda one: (one <= self._tried, one))

    async def _show_device(self, name: str, *, urgent: bool = False) -> None:
        status = self._missing(name)
        if status is not None and not urgent:
            await self._rhythm.turn()
            status = self._missing(name)  # Much may have happened during the wait.
        wanted, shown = self._wanted.get(name), self._shown.get(name)
        if status is not None and not await self._applied(resources.DEVICES, name, status):
            return
        # What came in while the write was under way is due again.
        if self._wanted.get(name) == wanted and self._shown.get(name) is shown:
            self._dirty.discard(name)

    def _missing(self, name: str) -> dict[str, Any] | None:
        """Return the status that a Device should show and does not."""
        wanted, shown = self._wanted.get(name), self._shown.get(name)
        if wanted is None or shown is None:
            return None
        status = device_status(wanted, shown, moment=lease.second(self._wall()))
        return None if shows(shown, status) else status

    async def _applied(self, resource: resources.Resource, name: str, status: dict[str, Any]) -> bool:
        """Apply a status; False means that it stays due, and everybody's trouble is raised."""
        thing = {"metadata": {"name": name}, "status": status}
        try:
            await self._session.apply(resource, thing, manager=names.OPERATOR_MANAGER, sub="status")
        except errors.NotFound:
            log.debug("%s %s is gone", resource.kind, name)
        except errors.ClientError as error:
            if errors.everybodys(error):
                raise
            told = logs.about(f"{resource.kind} {name}")
            log.warning("the status of %s %s was not written: %s", resource.kind, name, error, extra=told)
            return False
        return True

    # ------------------------------------------------------------ policies

    def saw_policy(self, body: Shown) -> None:
        """Record a policy as it is; whether it can be in force is said at the next flush."""
        self._policies[body["metadata"]["name"]] = body

    async def _judge(self, name: str) -> None:
        """Show whether a policy can be in force."""
        body = self._policies[name]
        status = policy_status(body, moment=lease.second(self._wall()))
        shown = shows(body.get("status") or {}, status)
        if (shown or await self._applied(resources.POLICIES, name, status)) and self._policies[name] is body:
            del self._policies[name]


# ---------------------------------------------------------------- what should be there


def device_status(wanted: summaries.Summary, shown: Shown, *, moment: str) -> dict[str, Any]:
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


def _ready(wanted: summaries.Summary) -> dict[str, Any]:
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


def _origin(uuid: str, origin: titles.Origin) -> dict[str, str]:
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
        rules = policies.rules(msgspec.convert(body, wire.PlacementPolicy))
    except msgspec.ValidationError as error:
        rules = str(error)
    if isinstance(rules, str):
        message = text.line(f"{rules}; the last good policy stays in force.")
        return vocabulary.Truth.FALSE, "Invalid", message
    if body["metadata"]["name"] != names.DEFAULT_POLICY:
        message = f"Only the policy named {names.DEFAULT_POLICY} is in force; this one is valid and rests."
        return vocabulary.Truth.FALSE, "NotDefault", message
    return vocabulary.Truth.TRUE, "InForce", "This policy is in force."


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
