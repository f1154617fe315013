"""Events: told once and counted, dropped when there are too many, and never anybody's trouble."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth_crds.client import errors, resources
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


@dataclasses.dataclass(frozen=True, slots=True)
class Board:
    """Events of one namespace, and what the server has of them."""

    events: events.EventRecorder
    cluster: clusters.Cluster
    namespace: str

    async def posted(self) -> list[dict[str, Any]]:
        """Read what the server has."""
        text = await asyncio.to_thread(
            self.cluster.kubectl, "get", "events", "-n", self.namespace, "-o", "json"
        )
        found: list[dict[str, Any]] = json.loads(text)["items"]
        return found

    async def until(self, *counts: int) -> list[dict[str, Any]]:
        """Wait for events that were told so often."""

        async def there() -> list[dict[str, Any]] | None:
            found = await self.posted()
            return found if sorted(one["count"] for one in found) == sorted(counts) else None

        return await waiting.eventually(there, what=f"events told {counts} times", seconds=10)


@pytest.fixture
async def board(session: RecordingApi, berth: clusters.Cluster, namespace: str) -> AsyncIterator[Board]:
    """Lend a board that posts."""
    lent = events.EventRecorder(
        session, rate_limiter.unlimited(), wall=clock.Clock().wall, instance="op-1_abcd"
    )
    async with timeless.beside(lent.run()):
        yield Board(lent, berth, namespace)


async def test_a_note_is_an_event_of_the_pod(board: Board) -> None:
    """Kubectl describe finds it: kind, uid, reason, sentence, type, who says so."""
    note = events.Event(subject(board.namespace), "FailedScheduling", "0/1 nodes: 1 full", warning=True)

    board.events.record(note)
    (event,) = await board.until(1)

    assert event["involvedObject"] | {} == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": board.namespace,
        "uid": "uid-p",
    }
    assert (event["type"], event["reason"], event["message"]) == (
        "Warning",
        "FailedScheduling",
        "0/1 nodes: 1 full",
    )
    assert event["source"] == {"component": "berth-scheduler"}
    assert event["reportingInstance"] == "op-1_abcd"


async def test_the_same_note_again_raises_the_count(board: Board) -> None:
    """Equal notes are one event, told several times; another sentence or another pod is another."""
    same = events.Event(subject(board.namespace), "FailedScheduling", "no", warning=True)
    other = dataclasses.replace(same, message="still no")
    third = dataclasses.replace(same, involved=subject(board.namespace, "q"))

    for note in (same, other, same, third, same):
        board.events.record(note)

    await board.until(3, 1, 1)


async def test_an_event_that_expired_is_posted_anew(board: Board) -> None:
    """The server forgets events after an hour; a note that is told after that begins again."""
    note = events.Event(subject(board.namespace), "FailedScheduling", "no", warning=True)
    board.events.record(note)
    await board.until(1)
    await asyncio.to_thread(board.cluster.kubectl, "delete", "events", "--all", "-n", board.namespace)

    board.events.record(note)  # Finds that it is gone, and is not lost for that.

    await board.until(1)


@pytest.mark.parametrize("name", ["a" * 253, "a" * 229 + "-" + "b" * 20, "a" * 229 + "." + "b" * 20])
async def test_any_pod_can_have_events(board: Board, name: str) -> None:
    """The name of an event is made from the pod's, however long, and cut where the server allows it."""
    board.events.record(events.Event(subject(board.namespace, name), "Scheduled", "x" * 5000))

    (event,) = await board.until(1)

    assert len(event["message"]) == 1024


# ---------------------------------------------------------------- too many, and trouble

PATH = resources.EVENTS.path(namespace="ml")


def note(number: int, namespace: str = "ml") -> events.Event:
    """Make one of many notes."""
    return events.Event(subject(namespace), "Scheduled", f"number {number}")


def recorder(
    server: servers.Server, limiter: rate_limiter.RateLimiter | None = None, **given: Any
) -> events.EventRecorder:
    """Return a recorder that posts to a server in memory."""
    limiter = limiter or rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(0.0))
    return events.EventRecorder(server.session, limiter, wall=clock.Clock().wall, instance="test", **given)


@timeless.scenario
async def test_when_too_many_pile_up_the_oldest_are_dropped() -> None:
    """A queue that nobody empties stays as long as it may be, and tells how many it lost."""
    server, dropped = servers.Server(), list[None]()
    board = recorder(server, on_drop=lambda: dropped.append(None))

    for number in range(events.MOST_QUEUED + 10):
        board.record(note(number))
    async with timeless.beside(board.run()):
        await server.until(3)

    assert len(dropped) == 10
    assert server.messages[0] == "number 10"


@timeless.scenario
async def test_namespaces_take_turns() -> None:
    """A crowd of one delays no Event of another, nor of what has none: its Events are in `default`."""
    server = servers.Server()
    board = recorder(server)
    for number in range(5):
        board.record(note(number, "crowd"))
    board.record(note(5, "default"))
    board.record(note(6))
    board.record(note(7))
    device = events.InvolvedObject("", "n1", "uid-n1", resources.DEVICES)
    board.record(events.Event(device, "NoSuchDevice", "a pod holds what is not there"))

    await board.drain(5.0)

    found = [one.namespace for one in server.writes]
    assert found == ["crowd", "default", "ml", "default", "crowd", "ml", *["crowd"] * 3]


@timeless.scenario
async def test_when_a_crowd_piles_up_nobody_else_loses_an_event() -> None:
    """What is dropped is the oldest of the namespace that has most, whoever was told of last."""
    server = servers.Server()
    board = recorder(server)
    most = events.MOST_QUEUED
    board.record(note(0))
    for number in range(1, most + 1):
        board.record(note(number, "crowd"))
    board.record(note(most + 1))

    await board.drain(5.0)

    assert server.messages[:4] == [f"number {at}" for at in (0, 3, most + 1, 4)]
    assert len(server.writes) == most


@pytest.mark.parametrize(
    "trouble",
    [*map(servers.error, (500, 403, 404, 422)), servers.reset()],
    ids=["500", "403", "404", "422", "reset"],
)
@timeless.scenario
async def test_an_event_that_cannot_be_posted_is_nobodys_trouble(trouble: errors.ClientError) -> None:
    """It is dropped, and the next one is posted."""
    server = servers.Server()
    server.on(PATH, trouble)
    board = recorder(server)
    async with timeless.beside(board.run()):
        board.record(note(1))
        board.record(note(2))
        await timeless.passing(60.0)

    assert server.messages == ["number 1", "number 2"]


@timeless.scenario
async def test_the_last_ones_are_posted_within_a_time() -> None:
    """At the end what is left is posted, but nobody waits for a server that does not answer."""
    server = servers.Server()
    server.on(PATH, None, asyncio.Event().wait)
    board = recorder(server)
    for number in range(3):
        board.record(note(number))

    await board.drain(0.2)

    assert timeless.clock()() == pytest.approx(0.2)
    assert len(server.writes) == 2


@timeless.scenario
async def test_the_last_ones_heed_a_server_that_asks_for_a_rest() -> None:
    """At the end, too, a 429 is no reason to ask again and again until the time is up."""
    server = servers.Server()
    server.on(PATH, servers.error(429, retry_after=5.0))
    board = recorder(server)
    board.record(note(1))

    await board.drain(0.2)

    assert len(server.writes) == 1


@timeless.scenario
async def test_the_last_ones_and_the_usual_ones_share_a_queue() -> None:
    """Whoever finds the queue empty, because the other was faster, goes on as if nothing had been there."""
    server = servers.Server()
    board = recorder(server, rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(20.0)))
    async with timeless.beside(board.run()):
        for number in range(3):
            board.record(note(number))
        await timeless.passing(0.02)
        await board.drain(1.0)
        await timeless.passing(0.1)

    assert len(server.writes) == 3


@timeless.scenario
async def test_a_server_that_asks_for_a_rest_gets_it_and_no_note_is_lost() -> None:
    """After a 429 nothing is posted until the time that it named; what it turned away comes first then."""
    server = servers.Server()
    server.on(PATH, servers.error(429, retry_after=0.4))
    board = recorder(server)
    for number in range(3):
        board.record(note(number))
    async with timeless.beside(board.run()):
        await server.until(4)

    assert [one.moment for one in server.writes] == pytest.approx([0.0, 0.4, 0.4, 0.4])
    assert server.messages[1:] == [f"number {at}" for at in range(3)]


@timeless.scenario
async def test_events_keep_to_their_pace() -> None:
    """They are posted no faster than allowed, however many wait."""
    server = servers.Server()
    board = recorder(server, rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(20.0)))
    for number in range(6):
        board.record(note(number))
    async with timeless.beside(board.run()):
        await server.until(6)

    assert [one.moment for one in server.writes] == pytest.approx([at / 20.0 for at in range(6)])
