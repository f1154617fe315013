"""An API server in memory, as a session: it keeps each write and its moment, and fails where wanted."""

import collections
import dataclasses
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from berth_crds import wire
from berth_crds.client import api, errors, resources
from berth_operator.engine import rate_limiter
from berth_operator.kube import pod_status
from berth_operator.scheduling import queued_pods
from berth_operator.translate import raw
from kube.telling import Notes
from support import clock, timeless

Answer = errors.ClientError | Callable[[], Awaitable[object]] | None
WRITTEN = b'{"metadata":{"resourceVersion":"6"}}'


def error(code: int, retry_after: float | None = None) -> errors.ApiError:
    """Return the error of a status code."""
    return errors.BY_CODE.get(code, errors.Unavailable)(code, "no", retry_after=retry_after)


def reset() -> errors.Unreachable:
    """Return the error of a connection that broke."""
    return errors.Unreachable("connection reset", ambiguous=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """A write, and when it came."""

    moment: float
    path: str
    body: dict[str, Any]

    @property
    def namespace(self) -> str:
        """The namespace that it was written to."""
        return self.path.split("/namespaces/")[1].split("/")[0]

    @property
    def message(self) -> str:
        """The message of an Event, or of the condition in a status."""
        found = self.body if "message" in self.body else self.body["status"]["conditions"][0]
        return str(found["message"])


class Server:
    """Answers the writes of each path in turn as it was told to, and accepts all others."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self._answers: collections.defaultdict[str, collections.deque[Answer]] = collections.defaultdict(
            collections.deque
        )

    def on(self, path: str, *answers: Answer) -> None:
        """Answer the next writes of a path so: with an error, or after something has come to be."""
        self._answers[path].extend(answers)

    async def send(self, _method: str, path: str, *, body: bytes, **_: Any) -> bytes:
        """Record a write, and answer."""
        self.writes.append(Write(timeless.clock()(), path, json.loads(body)))
        answer = self._answers[path].popleft() if self._answers[path] else None
        if isinstance(answer, errors.ClientError):
            raise answer
        if answer is not None:
            await answer()
        return WRITTEN

    async def create(self, kind: resources.Resource, body: Any, *, namespace: str) -> bytes:
        """Record an object that is created, and answer."""
        return await self.send("POST", kind.path(namespace=namespace), body=msgspec.json.encode(body))

    @property
    def session(self) -> api.Api:
        """The server, as the session with it."""
        return cast(api.Api, self)

    @property
    def messages(self) -> list[str]:
        """The messages that were written, in order."""
        return [one.message for one in self.writes]

    async def until(self, count: int) -> None:
        """Wait until there are so many writes."""
        await timeless.until(lambda: len(self.writes) >= count)


class StatusWriting:
    """A pod status writer and its server."""

    def __init__(self, limiter: rate_limiter.RateLimiter | None = None) -> None:
        self.server = Server()
        session = self.server.session
        limiter = limiter or rate_limiter.unlimited()
        self.writer = pod_status.PodStatusWriter(session, Notes(session), limiter, wall=clock.Clock().wall)

    def on(self, name: str, *answers: Answer, namespace: str = "ml") -> None:
        """Answer the next writes of a pod so."""
        self.server.on(resources.PODS.path(name, namespace=namespace, sub="status"), *answers)

    def waits(self, name: str, message: str = "A", *, namespace: str = "ml", shows: str = "") -> None:
        """Have a new pod wait that shows this, or nothing, and refuse it."""
        condition = raw.PodCondition(
            type="PodScheduled", status="False", reason="Unschedulable", message=shows
        )
        status = raw.PodStatus(conditions=(condition,) if shows else ())
        meta = wire.Meta(uid=f"{namespace}-{name}", resource_version="5")
        self.writer.pod_waiting(raw.Pod(meta, status=status))
        self.refuse(name, message, namespace=namespace)

    def refuse(self, name: str, message: str, *, namespace: str = "ml") -> None:
        """Refuse a pod."""
        candidate = queued_pods.Candidate(uid=f"{namespace}-{name}", namespace=namespace, name=name)
        self.writer.unschedulable(candidate, message)

    async def until_settled(self) -> None:
        """Wait until nothing is due."""
        await timeless.until(lambda: not self.writer._due)
