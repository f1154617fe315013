"""Kubernetes Events: what happened to a pod or a Device, for `kubectl describe` and `kubectl get events`.

They are the least important writes there are: posted by one worker that keeps to a
pace, which makes way for binds; the same one told again only raises its count. The namespaces
take turns, and those of what has none, as Devices, are one more. When too many pile up the oldest
of the namespace that has most are dropped and counted. An Event that cannot be posted is never
an error.
"""

import asyncio
import collections
import dataclasses
import datetime as dt
import logging
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from berth_crds import names, text
from berth_crds.client import api, errors, lease, resources
from berth_operator.engine import rate_limiter
from berth_operator.kube import fair_queue

log = logging.getLogger(__name__)

MOST_QUEUED: Final = 16_384
LONGEST_MESSAGE: Final = 1024  # The API server refuses more.
REST_SECONDS: Final = 1.0  # For a server that asks for patience without saying how much.
MOST_REMEMBERED: Final = 4096
NAMESPACE_OF_NONE: Final = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What an Event is about; a pod, if nothing else is said."""

    namespace: str
    name: str
    uid: str
    kind: resources.Resource = resources.PODS

    @property
    def events_in(self) -> str:
        """The namespace of its Events: of what has none itself, they are kept in this one."""
        return self.namespace or NAMESPACE_OF_NONE


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """One thing to tell; equal notes are the same Event, told again."""

    subject: Subject
    reason: str
    message: str
    warning: bool = False


@dataclasses.dataclass(slots=True)
class Posted:
    """An Event that exists, and how often its note was told."""

    name: str
    count: int = 1


class Events:
    """Posts notes as Events."""

    def __init__(
        self,
        session: api.Api,
        rhythm: rate_limiter.RateLimiter,
        *,
        wall: Callable[[], dt.datetime],
        instance: str,
        on_drop: Callable[[], None] = lambda: None,
    ) -> None:
        self._session = session
        self._rhythm = rhythm
        self._wall = wall
        self._instance = instance
        self._queue = fair_queue.InTurns[Note]()
        self._news = asyncio.Event()
        self._posted: collections.OrderedDict[Note, Posted] = collections.OrderedDict()
        self._on_drop = on_drop

    def tell(self, note: Note) -> None:
        """Queue a note."""
        self._queue.push(note.subject.namespace, note)
        if len(self._queue) > MOST_QUEUED:
            self._queue.drop()
            self._on_drop()
        self._news.set()

    async def run(self) -> None:
        """Post for ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                await self._rhythm.acquire()
                await self._post_first()

    async def drain(self, seconds: float) -> None:
        """Post what is left, within a time."""
        try:
            async with asyncio.timeout(seconds):
                while self._queue:
                    await self._rhythm.wait_backoff()
                    await self._post_first()
        except TimeoutError:
            log.info("events not posted before the end: %d", len(self._queue))

    async def _post_first(self) -> None:
        if self._queue:  # The last posts and the usual ones go on beside each other.
            await self._post(self._queue.pop())

    async def _post(self, note: Note) -> None:
        try:
            known = self._posted.get(note)
            if known is None:
                self._remember(note, await self._create(note))
            else:
                await self._repeat(note, known)
        except errors.NotFound:
            # The server has let the old one go: it is told as a new one.
            if self._posted.pop(note, None) is not None:
                self._queue.put_back(note.subject.namespace, note)
        except errors.Throttled as error:
            self._rhythm.back_off(error.retry_after or REST_SECONDS)
            self._queue.put_back(note.subject.namespace, note)
        except errors.ClientError as error:
            log.debug("an event was not posted: %s", error)

    async def _create(self, note: Note) -> Posted:
        name = f"{note.subject.name[:230].rstrip('-.')}.{secrets.token_hex(8)}"
        thing = event(note, name, moment=lease.second(self._wall()), instance=self._instance)
        await self._session.create(resources.EVENTS, thing, namespace=note.subject.events_in)
        return Posted(name)

    async def _repeat(self, note: Note, known: Posted) -> None:
        count = known.count + 1
        body = {"count": count, "lastTimestamp": lease.second(self._wall())}
        path = resources.EVENTS.path(known.name, namespace=note.subject.events_in)
        await self._session.send("PATCH", path, body=msgspec.json.encode(body), content=api.MERGE_PATCH)
        known.count = count

    def _remember(self, note: Note, posted: Posted) -> None:
        self._posted[note] = posted
        if len(self._posted) > MOST_REMEMBERED:
            self._posted.popitem(last=False)


def event(note: Note, name: str, *, moment: str, instance: str) -> dict[str, Any]:
    """Make the Event object of a note."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": note.subject.events_in},
        "involvedObject": {
            "apiVersion": note.subject.kind.api_version,
            "kind": note.subject.kind.kind,
            **({"namespace": note.subject.namespace} if note.subject.namespace else {}),
            "name": note.subject.name,
            "uid": note.subject.uid,
        },
        "type": "Warning" if note.warning else "Normal",
        "reason": note.reason,
        "message": text.line(note.message, most=LONGEST_MESSAGE),
        "count": 1,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "source": {"component": names.SCHEDULER_NAME},
        "reportingComponent": names.SCHEDULER_NAME,
        "reportingInstance": instance,
    }
