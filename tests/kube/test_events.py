"""Events: told once and counted, dropped when there are too many, and never anybody's trouble."""

import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from berth_crds.client import api, resources
from berth_operator.engine import rate_limiter
from berth_operator.kube import events
from kube.conftest import Noted
from support import clock, stub, timeless
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
async def board(session: Noted, berth: clusters.Cluster, namespace: str) -> AsyncIterator[Board]:
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


async def test_when_too_many_pile_up_the_oldest_are_dropped() -> None:
    """A queue that nobody empties stays as long as it may be, and tells how many it lost."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("POST", PATH, stub.thing({}, code=201))
        dropped: list[None] = []
        board = events.EventRecorder(
            session,
            rate_limiter.unlimited(),
            wall=clock.Clock().wall,
            instance="test",
            on_drop=lambda: dropped.append(None),
        )

        for number in range(events.MOST_QUEUED + 10):
            board.record(note(number))
        async with timeless.beside(board.run()):

            async def some() -> bool:
                return len(server.bodies) >= 3

            await waiting.eventually(some, what="the first posts")

    assert len(dropped) == 10
    assert json.loads(server.bodies[0])["message"] == "number 10"


async def posted(board: events.EventRecorder, server: stub.Stub) -> list[str]:
    """Have all be posted, and say of which namespaces they were."""
    await board.drain(5.0)
    return [request.path.split("/")[-2] for request in server.requests]


async def test_namespaces_take_turns() -> None:
    """A crowd of one delays no Event of another, nor of what has none: its Events are in `default`."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        for namespace in ("crowd", "ml", "default"):
            server.on("POST", resources.EVENTS.path(namespace=namespace), stub.thing({}, code=201))
        board = events.EventRecorder(
            session, rate_limiter.unlimited(), wall=clock.Clock().wall, instance="test"
        )
        for number in range(5):
            board.record(note(number, "crowd"))
        board.record(note(5, "default"))
        board.record(note(6))
        board.record(note(7))
        device = events.InvolvedObject("", "n1", "uid-n1", resources.DEVICES)
        board.record(events.Event(device, "NoSuchDevice", "a pod holds what is not there"))

        found = await posted(board, server)

    assert found[:6] == ["crowd", "default", "ml", "default", "crowd", "ml"]
    assert found[6:] == ["crowd"] * 3


async def test_when_a_crowd_piles_up_nobody_else_loses_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is dropped is the oldest of the namespace that has most, whoever was told of last."""
    monkeypatch.setattr(events, "MOST_QUEUED", 4)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        for namespace in ("crowd", "ml"):
            server.on("POST", resources.EVENTS.path(namespace=namespace), stub.thing({}, code=201))
        board = events.EventRecorder(
            session, rate_limiter.unlimited(), wall=clock.Clock().wall, instance="test"
        )
        board.record(note(0))
        for number in range(1, 9):
            board.record(note(number, "crowd"))
        board.record(note(9))

        await posted(board, server)

    told = [json.loads(body)["message"] for body in server.bodies]
    assert told == [f"number {at}" for at in (0, 7, 9, 8)]


@pytest.mark.parametrize(
    "trouble",
    [
        stub.status(500, "no"),
        stub.status(403, "the namespace is being terminated"),
        stub.status(404, "no namespace"),
        stub.status(422, "no"),
        stub.reset(),
    ],
    ids=["500", "403", "404", "422", "reset"],
)
async def test_an_event_that_cannot_be_posted_is_nobodys_trouble(trouble: stub.Answer) -> None:
    """It is dropped, and the next one is posted."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("POST", PATH, trouble, stub.thing({}, code=201))
        board = events.EventRecorder(
            session, rate_limiter.unlimited(), wall=clock.Clock().wall, instance="test"
        )
        async with timeless.beside(board.run()):
            board.record(note(1))
            board.record(note(2))

            async def both() -> bool:
                return len(server.bodies) == 2

            await waiting.eventually(both, what="both to be sent")


async def test_the_last_ones_are_posted_within_a_time() -> None:
    """At the end what is left is posted, but nobody waits for a server that does not answer."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("POST", PATH, stub.thing({}, code=201), stub.later(asyncio.Event(), stub.thing({})))
        board = events.EventRecorder(
            session, rate_limiter.unlimited(), wall=clock.Clock().wall, instance="test"
        )
        for number in range(3):
            board.record(note(number))

        await asyncio.wait_for(board.drain(0.2), 2)

    assert len(server.bodies) == 2


async def test_the_last_ones_heed_a_server_that_asks_for_a_rest() -> None:
    """At the end, too, a 429 is no reason to ask again and again until the time is up."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("POST", PATH, stub.status(429, "slow down", headers={"Retry-After": "5"}))
        limiter = rate_limiter.RateLimiter(time.monotonic, rate_limiter.constant(rate_limiter.UNLIMITED))
        board = events.EventRecorder(session, limiter, wall=clock.Clock().wall, instance="test")
        board.record(note(1))

        await board.drain(0.2)

    assert len(server.bodies) == 1


async def test_the_last_ones_and_the_usual_ones_share_a_queue() -> None:
    """Whoever finds the queue empty, because the other was faster, goes on as if nothing had been there."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("POST", PATH, stub.thing({}, code=201))
        limiter = rate_limiter.RateLimiter(time.monotonic, rate_limiter.constant(20.0))
        board = events.EventRecorder(session, limiter, wall=clock.Clock().wall, instance="test")
        async with timeless.beside(board.run()):
            for number in range(3):
                board.record(note(number))
            await asyncio.sleep(0.02)
            await board.drain(1.0)
            await asyncio.sleep(0.1)

    assert len(server.bodies) == 3


async def test_a_server_that_asks_for_a_rest_gets_it_and_no_note_is_lost() -> None:
    """After a 429 nothing is posted until the time that it named; what it turned away comes first then."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        busy = stub.status(429, "slow down", headers={"Retry-After": "0.4"})
        server.on("POST", PATH, busy, stub.thing({}, code=201))
        limiter = rate_limiter.RateLimiter(time.monotonic, rate_limiter.constant(rate_limiter.UNLIMITED))
        board = events.EventRecorder(session, limiter, wall=clock.Clock().wall, instance="test")
        for number in range(3):
            board.record(note(number))
        began = time.monotonic()
        async with timeless.beside(board.run()):
            await asyncio.sleep(0.2)
            early = len(server.bodies)

            async def all_of_them() -> bool:
                return len(server.bodies) == 4

            await waiting.eventually(all_of_them, what="all to be posted")

    assert early == 1
    assert time.monotonic() - began >= 0.4
    assert [json.loads(body)["message"] for body in server.bodies[1:]] == [f"number {at}" for at in range(3)]


async def test_events_keep_to_their_pace() -> None:
    """They are posted no faster than allowed, however many wait."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("POST", PATH, stub.thing({}, code=201))
        limiter = rate_limiter.RateLimiter(time.monotonic, rate_limiter.constant(20.0))
        board = events.EventRecorder(session, limiter, wall=clock.Clock().wall, instance="test")
        for number in range(6):
            board.record(note(number))
        began = time.monotonic()
        async with timeless.beside(board.run()):

            async def all_of_them() -> bool:
                return len(server.bodies) == 6

            await waiting.eventually(all_of_them, what="all to be posted")

    assert time.monotonic() - began >= 5 / 20.0
