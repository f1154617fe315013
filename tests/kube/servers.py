"""An API server in memory, as a session, with writers of Events and conditions that write there."""

import collections
import dataclasses
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from berth_crds import wire
from berth_crds.client import api, errors, resources
from berth_operator.engine import rate_limiter
from berth_operator.kube import events, kind_statuses, pod_status
from berth_operator.scheduling import queued_pods
from berth_operator.translate import raw
from support import clock, timeless

Answer = errors.ClientError | Callable[[], Awaitable[object]] | None
WRITTEN = b'{"metadata":{"resourceVersion":"6"}}'


def pod_info(name: str, namespace: str = "ml") -> queued_pods.PodInfo:
    """Return a pod that waits."""
    return queued_pods.PodInfo(uid=f"{namespace}-{name}", namespace=namespace, name=name)


def unlimited() -> rate_limiter.RateLimiter:
    """Return a rate limiter without limits."""
    return rate_limiter.RateLimiter(float, lambda: rate_limiter.UNLIMITED)


def unlimited_statuses() -> kind_statuses.Limiters:
    """Return the rate limiters of the statuses of our kinds, without limits."""
    return kind_statuses.Limiters(unlimited(), unlimited())


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
    def name(self) -> str:
        """The name of the object whose subresource was written."""
        return self.path.split("/")[-2]

    @property
    def message(self) -> str:
        """The message of an Event, or of the condition in a status."""
        found = self.body if "message" in self.body else self.body["status"]["conditions"][0]
        return str(found["message"])


class Server:
    """Answers the writes of each path in turn as it was told to, and accepts all others.

    The answer to a write of a pod is as long as the pod, where a size is given.
    """

    def __init__(self, sizes: Mapping[str, int] = {}) -> None:
        self.sizes = sizes
        self.writes: list[Write] = []
        self._answers: collections.defaultdict[str, collections.deque[Answer]] = collections.defaultdict(
            collections.deque
        )

    def on(self, path: str, *answers: Answer) -> None:
        """Answer the next writes of a path so: with an error, or after something has come to be."""
        self._answers[path].extend(answers)

    async def send(self, _method: str, path: str, *, body: bytes, **_: Any) -> bytes:
        """Record a write, and answer."""
        write = Write(timeless.clock()(), path, json.loads(body))
        self.writes.append(write)
        answer = self._answers[path].popleft() if self._answers[path] else None
        if isinstance(answer, errors.ClientError):
            raise answer
        if answer is not None:
            await answer()
        return WRITTEN.ljust(self.sizes.get(write.name, 0))

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
        return [write.message for write in self.writes]

    async def until(self, count: int) -> None:
        """Wait until there are so many writes."""
        await timeless.until(lambda: len(self.writes) >= count)


class RecordedEvents(events.EventRecorder):
    """Keeps Events instead of posting them: their reasons and messages."""

    def __init__(self, session: api.Api) -> None:
        super().__init__(session, unlimited(), wall=clock.Clock().wall, instance="test")
        self.recorded: list[tuple[str, str]] = []

    def record(self, event: events.Event) -> None:
        """Keep an Event."""
        self.recorded.append((event.reason, event.message))


class StatusWriter(pod_status.PodStatusWriter):
    """A pod status writer whose Events are kept."""

    def __init__(
        self, session: api.Api, limiter: rate_limiter.RateLimiter | None = None, **options: Any
    ) -> None:
        self.time = clock.Clock()
        self.events = RecordedEvents(session)
        limiter = limiter or unlimited()
        super().__init__(session, self.events, limiter, wall=self.time.wall, **options)


class StatusWriting(StatusWriter):
    """A pod status writer and its server."""

    def __init__(
        self, limiter: rate_limiter.RateLimiter | None = None, sizes: Mapping[str, int] = {}
    ) -> None:
        self.server = Server(sizes)
        super().__init__(self.server.session, limiter)

    def on(self, name: str, *answers: Answer, namespace: str = "ml") -> None:
        """Answer the next writes of a pod so."""
        self.server.on(resources.PODS.path(name, namespace=namespace, sub="status"), *answers)

    def see(
        self,
        name: str,
        shows: str = "",
        *,
        namespace: str = "ml",
        reason: str = pod_status.UNSCHEDULABLE,
        version: str = "5",
    ) -> None:
        """Have a pod be seen that shows this, or no condition."""
        shown = raw.PodCondition(type=pod_status.SCHEDULED, status="False", reason=reason, message=shows)
        meta = wire.Meta(uid=f"{namespace}-{name}", resource_version=version)
        self.pod_waiting(raw.Pod(meta, status=raw.PodStatus(conditions=(shown,) if shows else ())))

    def refuse(self, name: str, message: str = "A", *, namespace: str = "ml") -> None:
        """Refuse a pod."""
        self.unschedulable(pod_info(name, namespace), message)

    def refuse_new(self, *names: str, message: str = "A", namespace: str = "ml", shows: str = "") -> None:
        """Have pods be seen that show this, or no condition, and refuse them."""
        for name in names:
            self.see(name, shows, namespace=namespace)
            self.refuse(name, message, namespace=namespace)

    async def write_until(self, condition: Callable[[], object]) -> None:
        """Write conditions until something holds."""
        async with timeless.beside(self.run()):
            await timeless.until(condition)

    async def until_settled(self) -> None:
        """Wait until nothing is due."""
        await timeless.until(lambda: not self._due)


def numbered(prefix: str, numbers: Iterable[int]) -> list[str]:
    """Return numbered names."""
    return [f"{prefix}{number}" for number in numbers]
