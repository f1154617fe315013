"""Kubernetes Events: what happened to a pod or a Device, for `kubectl describe` and `kubectl get events`.

Events are the least important writes. One worker posts them at a limited rate that makes way for
binds, and an Event that is repeated only raises its count. The namespaces take turns, and in each
its warnings and its other Events: a pod that is bound is not told behind a crowd that waits. Objects
without a namespace, such as Devices, count as one more. When too many Events are queued, the
oldest of those that are most are dropped and counted. A failed post is never an error. What
they say is decided elsewhere: of pods in `pod_status`.
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
from berth_operator.engine import fair_queue, rate_limiter

log = logging.getLogger(__name__)

MOST_QUEUED: Final = 16_384
LONGEST_MESSAGE: Final = 1024  # The API server refuses more.
MOST_REMEMBERED: Final = 4096
CLUSTER_SCOPED_NAMESPACE: Final = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class InvolvedObject:
    """The object of an Event; a pod by default."""

    namespace: str
    name: str
    uid: str
    kind: resources.Resource = resources.PODS

    @property
    def event_namespace(self) -> str:
        """The namespace of its Events; those of cluster-scoped objects are in `default`."""
        return self.namespace or CLUSTER_SCOPED_NAMESPACE


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """What happened; an equal value is the same Event, repeated."""

    involved: InvolvedObject
    reason: str
    message: str
    warning: bool = False

    @property
    def key(self) -> str:
        """Whose turn it is to be posted in: the namespace's, for warnings or for others."""
        return f"{self.involved.namespace} {self.warning}"


@dataclasses.dataclass(slots=True)
class PostedEvent:
    """An Event object that exists, and its count."""

    name: str
    count: int = 1


class EventRecorder:
    """Records events and posts them as Event objects."""

    def __init__(
        self,
        session: api.Api,
        limiter: rate_limiter.RateLimiter,
        *,
        wall: Callable[[], dt.datetime],
        instance: str,
        on_drop: Callable[[], None] = lambda: None,
    ) -> None:
        self._session = session
        self._rate_limiter = limiter
        self._wall = wall
        self._instance = instance
        self._queue = fair_queue.FairQueue[Event]()
        self._queued = asyncio.Event()
        self._posted: collections.OrderedDict[Event, PostedEvent] = collections.OrderedDict()
        self._on_drop = on_drop

    def record(self, event: Event) -> None:
        """Queue an event."""
        self._queue.push(event.key, event)
        if len(self._queue) > MOST_QUEUED:
            self._queue.drop()
            self._on_drop()
        self._queued.set()

    async def run(self) -> None:
        """Post queued events, for ever."""
        while True:
            await self._queued.wait()
            self._queued.clear()
            while self._queue:
                await self._rate_limiter.acquire()
                await self._post_first()

    async def drain(self, seconds: float) -> None:
        """Post what is queued, within this time."""
        try:
            async with asyncio.timeout(seconds):
                while self._queue:
                    await self._rate_limiter.wait_backoff()
                    await self._post_first()
        except TimeoutError:
            log.info("events not posted before the end: %d", len(self._queue))

    async def _post_first(self) -> None:
        if self._queue:  # `drain` may run beside `run`.
            await self._post(self._queue.pop())

    async def _post(self, event: Event) -> None:
        try:
            if (posted := self._posted.get(event)) is not None:
                await self._repeat(event, posted)
            else:
                self._posted[event] = await self._create(event)
                if len(self._posted) > MOST_REMEMBERED:
                    self._posted.popitem(last=False)
        except errors.NotFound:
            # The Event has expired in the server: create a new one.
            if self._posted.pop(event, None) is not None:
                self._queue.put_back(event.key, event)
        except errors.Throttled as error:
            self._rate_limiter.back_off(error.pause)
            self._queue.put_back(event.key, event)
        except errors.ClientError as error:
            log.debug("an event was not posted: %s", error)

    async def _create(self, event: Event) -> PostedEvent:
        name = f"{event.involved.name[:230].rstrip('-.')}.{secrets.token_hex(8)}"
        await self._session.create(
            resources.EVENTS,
            manifest(event, name, moment=lease.rfc3339(self._wall()), instance=self._instance),
            namespace=event.involved.event_namespace,
        )
        return PostedEvent(name)

    async def _repeat(self, event: Event, posted: PostedEvent) -> None:
        count = posted.count + 1
        body = {"count": count, "lastTimestamp": lease.rfc3339(self._wall())}
        path = resources.EVENTS.path(posted.name, namespace=event.involved.event_namespace)
        await self._session.send("PATCH", path, body=msgspec.json.encode(body), content=api.MERGE_PATCH)
        posted.count = count


def manifest(event: Event, name: str, *, moment: str, instance: str) -> dict[str, Any]:
    """Return the Event object of an event."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": event.involved.event_namespace},
        "involvedObject": {
            "apiVersion": event.involved.kind.api_version,
            "kind": event.involved.kind.kind,
            **({"namespace": event.involved.namespace} if event.involved.namespace else {}),
            "name": event.involved.name,
            "uid": event.involved.uid,
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": text.line(event.message, most=LONGEST_MESSAGE),
        "count": 1,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "source": {"component": names.SCHEDULER_NAME},
        "reportingComponent": names.SCHEDULER_NAME,
        "reportingInstance": instance,
    }
