"""Events: told once and counted, dropped when there are too many, and never anybody's trouble."""

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from berth_crds.client import api, errors, resources
from berth_operator.engine import rate_limiter
from berth_operator.kube import events
from kube import servers
from kube.conftest import RecordingApi
from support import clock, timeless
from testbed import cluster as clusters
from testbed import waiting


def subject(namespace: str, name: str = "p") -> events.InvolvedObject:
    """Name a pod."""
    return events.InvolvedObject(namespace, name, f"uid-{name}")


class PostedEvents:
    """Events of a namespace, and what the real server has of them."""

    def __init__(self, session: api.Api, cluster: clusters.Cluster, namespace: str) -> None:
        self.recorder = events.EventRecorder(
            session, servers.unlimited(), wall=clock.Clock().wall, instance="op-1_abcd"
        )
        self.cluster = cluster
        self.namespace = namespace

    def record(self, name: str = "p", message: str = "no") -> None:
        """Record that a pod cannot be scheduled."""
        pod = subject(self.namespace, name)
        self.recorder.record(events.Event(pod, "FailedScheduling", message, warning=True))

    async def until(self, *counts: int) -> list[dict[str, Any]]:
        """Wait for Events with these counts."""

        async def there() -> list[dict[str, Any]] | None:
            kubectl = functools.partial(
                self.cluster.kubectl, "get", "events", "-n", self.namespace, "-o", "json"
            )
            found: list[dict[str, Any]] = json.loads(await asyncio.to_thread(kubectl))["items"]
            return found if sorted(event["count"] for event in found) == sorted(counts) else None

        return await waiting.eventually(there, what=f"Events with the counts {counts}", seconds=10)


@pytest.fixture
async def posted(
    session: RecordingApi, berth: clusters.Cluster, namespace: str
) -> AsyncIterator[PostedEvents]:
    """Lend the Events of a namespace."""
    lent = PostedEvents(session, berth, namespace)
    async with timeless.beside(lent.recorder.run()):
        yield lent


async def test_a_record_is_an_event_of_the_pod(posted: PostedEvents) -> None:
    """Kubectl describe finds it: kind, uid, reason, sentence, type, who says so."""
    posted.record(message="0/1 nodes: 1 full")

    (event,) = await posted.until(1)

    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": posted.namespace,
        "uid": "uid-p",
    }
    expected = {
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "0/1 nodes: 1 full",
        "source": {"component": "berth-scheduler"},
        "reportingInstance": "op-1_abcd",
    }
    assert event.items() >= expected.items()


async def test_the_same_again_raises_the_count(posted: PostedEvents) -> None:
    """Equal records are one Event with a count; another sentence or another pod is another."""
    for name, message in (("p", "no"), ("p", "still no"), ("p", "no"), ("q", "no"), ("p", "no")):
        posted.record(name, message)

    await posted.until(3, 1, 1)


async def test_an_event_that_expired_is_posted_anew(posted: PostedEvents) -> None:
    """The server forgets Events after an hour; what is recorded after that begins again."""
    posted.record()
    await posted.until(1)
    await asyncio.to_thread(posted.cluster.kubectl, "delete", "events", "--all", "-n", posted.namespace)

    posted.record()  # Finds that it is gone, and is not lost for that.

    await posted.until(1)


@pytest.mark.parametrize("name", ["a" * 253, "a" * 229 + "-" + "b" * 20, "a" * 229 + "." + "b" * 20])
async def test_any_pod_can_have_events(posted: PostedEvents, name: str) -> None:
    """The name of an Event is made from the pod's, however long, and cut where the server allows it."""
    posted.record(name, "x" * 5000)

    (event,) = await posted.until(1)

    assert len(event["message"]) == 1024


# ---------------------------------------------------------------- too many, and trouble

PATH = resources.EVENTS.path(namespace="ml")


class Recorder(events.EventRecorder):
    """A recorder that posts to a server in memory, at a rate."""

    def __init__(self, rate: float = 0.0, **options: Any) -> None:
        self.server = servers.Server()
        limiter = rate_limiter.RateLimiter(timeless.clock(), lambda: rate)
        super().__init__(self.server.session, limiter, wall=clock.Clock().wall, instance="test", **options)

    def record_all(self, numbers: Iterable[int], namespace: str = "ml") -> None:
        """Record Events of a namespace."""
        for number in numbers:
            self.record(events.Event(subject(namespace), "Scheduled", f"number {number}"))


@timeless.scenario
async def test_namespaces_take_turns() -> None:
    """A crowd of one delays no Event of another, nor of what has none: its Events are in `default`."""
    recorder = Recorder()
    recorder.record_all(range(5), "crowd")
    recorder.record_all([5], "default")
    recorder.record_all([6, 7])
    device = events.InvolvedObject("", "n1", "uid-n1", resources.DEVICES)
    recorder.record(events.Event(device, "NoSuchDevice", "a pod holds what is not there"))

    await recorder.drain(5.0)

    found = [write.namespace for write in recorder.server.writes]
    assert found == ["crowd", "default", "ml", "default", "crowd", "ml", *["crowd"] * 3]


@timeless.scenario
async def test_a_pod_that_is_bound_is_not_told_behind_a_crowd_that_waits() -> None:
    """Of one namespace, too: warnings and what is no warning take turns."""
    recorder = Recorder()
    for at in range(4):
        recorder.record(events.Event(subject("ml"), "FailedScheduling", f"warning {at}", warning=True))
    recorder.record_all([4, 5])

    await recorder.drain(5.0)

    assert recorder.server.messages == [
        *("warning 0", "number 4", "warning 1", "number 5"),
        *("warning 2", "warning 3"),
    ]


@timeless.scenario
async def test_when_a_crowd_piles_up_nobody_else_loses_an_event() -> None:
    """What is dropped, and counted, is the oldest of the namespace that has most, whoever came last."""
    dropped, most = list[None](), events.MOST_QUEUED
    recorder = Recorder(on_drop=lambda: dropped.append(None))
    recorder.record_all([0])
    recorder.record_all(range(1, most + 1), "crowd")
    recorder.record_all([most + 1])

    await recorder.drain(5.0)

    assert len(dropped) == 2
    assert recorder.server.messages[:4] == [f"number {at}" for at in (0, 3, most + 1, 4)]
    assert len(recorder.server.writes) == most


@pytest.mark.parametrize(
    "trouble",
    [*map(servers.error, (500, 403, 404, 422)), servers.reset()],
    ids=["500", "403", "404", "422", "reset"],
)
@timeless.scenario
async def test_an_event_that_cannot_be_posted_is_nobodys_trouble(trouble: errors.ClientError) -> None:
    """It is dropped, and the next one is posted."""
    recorder = Recorder()
    recorder.server.on(PATH, trouble)
    recorder.record_all([1, 2])
    async with timeless.beside(recorder.run()):
        await timeless.passing(60.0)

    assert recorder.server.messages == ["number 1", "number 2"]


@timeless.scenario
async def test_the_last_ones_are_posted_within_a_time() -> None:
    """At the end what is left is posted, but nobody waits for a server that does not answer."""
    recorder = Recorder()
    recorder.server.on(PATH, None, asyncio.Event().wait)
    recorder.record_all(range(3))

    await recorder.drain(0.2)

    assert timeless.clock()() == pytest.approx(0.2)
    assert len(recorder.server.writes) == 2


@timeless.scenario
async def test_the_last_ones_heed_a_server_that_asks_for_a_rest() -> None:
    """At the end, too, a 429 is no reason to ask again and again until the time is up."""
    recorder = Recorder()
    recorder.server.on(PATH, servers.error(429, retry_after=5.0))
    recorder.record_all([1])

    await recorder.drain(0.2)

    assert len(recorder.server.writes) == 1


@timeless.scenario
async def test_the_last_ones_and_the_usual_ones_share_a_queue() -> None:
    """Whoever finds the queue empty, because the other was faster, goes on as if nothing had been there."""
    recorder = Recorder(rate=20.0)
    recorder.record_all(range(3))
    async with timeless.beside(recorder.run()):
        await timeless.passing(0.02)
        await recorder.drain(1.0)
        await timeless.passing(0.1)

    assert len(recorder.server.writes) == 3


@timeless.scenario
async def test_a_server_that_asks_for_a_rest_gets_it_and_no_event_is_lost() -> None:
    """After a 429 nothing is posted until the time that it named; what it turned away comes first then."""
    recorder = Recorder()
    recorder.server.on(PATH, servers.error(429, retry_after=0.4))
    recorder.record_all(range(3))
    async with timeless.beside(recorder.run()):
        await recorder.server.until(4)

    assert [write.moment for write in recorder.server.writes] == pytest.approx([0.0, 0.4, 0.4, 0.4])
    assert recorder.server.messages[1:] == ["number 0", "number 1", "number 2"]


@timeless.scenario
async def test_events_keep_to_their_pace() -> None:
    """They are posted no faster than allowed, however many wait."""
    recorder = Recorder(rate=20.0)
    recorder.record_all(range(6))
    async with timeless.beside(recorder.run()):
        await recorder.server.until(6)

    assert [write.moment for write in recorder.server.writes] == pytest.approx([at / 20.0 for at in range(6)])
