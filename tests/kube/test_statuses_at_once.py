"""Statuses of several objects at a time: one at which the server is slow, or fails, delays nobody else."""

import asyncio
import collections
import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from berth_crds.client import errors
from berth_operator.engine import node_summaries, rate_limiter
from berth_operator.kube import kind_statuses, write_failures
from support import clock, timeless

SLOW = 1000.0
AWAY = errors.Unreachable("nobody there", ambiguous=False)


class Server:
    """An API server that takes a moment for each write, and its own time for some objects."""

    def __init__(self, **takes: float) -> None:
        self.takes = takes
        self.fails: dict[str, errors.ClientError] = {}
        self.begun: list[tuple[str, float]] = []
        self.written: dict[str, list[Any]] = collections.defaultdict(list)
        self.under_way: collections.Counter[str] = collections.Counter()
        self.most_of_one = self.most = 0

    async def apply(self, _: object, thing: Mapping[str, Any], *, deadline: float, **__: object) -> bytes:
        """Write an object by its deadline."""
        name, now = thing["metadata"]["name"], timeless.clock()
        self.begun.append((name, round(now(), 1)))
        self.under_way[name] += 1
        self.most_of_one = max(self.most_of_one, self.under_way[name])
        self.most = max(self.most, self.under_way.total())
        try:
            async with asyncio.timeout(deadline):
                await asyncio.sleep(self.takes.get(name, 0.01))
        except TimeoutError:
            raise errors.Unreachable("no answer", ambiguous=True) from None
        finally:
            self.under_way[name] -= 1
        if name in self.fails:
            raise self.fails[name]
        self.written[name].append(json.loads(json.dumps(thing["status"]))["summary"]["free"])
        return b""

    def times(self, name: str) -> list[float]:
        """Return when the writes of an object began."""
        return [moment for one, moment in self.begun if one == name]


class Desk(kind_statuses.KindStatuses):
    """What writes statuses to such a server."""

    def __init__(self, server: Server, limiter: rate_limiter.RateLimiter | None = None) -> None:
        link: Any = server
        super().__init__(
            link, limiter or rate_limiter.unlimited(), wall=clock.Clock().wall, clock=timeless.clock()
        )

    def due(self, *nodes: str, free: int = 1, silent: bool = False) -> None:
        """Have the Devices of these nodes be due."""
        for name in nodes:
            self.device_seen(name, {})
        self.update([node_summaries.NodeSummary(name, free, 0, 1, silent=silent) for name in nodes])

    async def work(self) -> None:
        """Flush again and again."""
        while True:
            await asyncio.sleep(0.5)
            await self.flush()


@timeless.scenario
async def test_a_slow_device_delays_no_other() -> None:
    """Whatever comes in while one is being written is written within a second, each time."""
    server = Server(a=SLOW)
    desk = Desk(server)
    desk.due("a")
    async with timeless.beside(desk.work()):
        for at in range(40):
            await timeless.at(1.0 + at)
            desk.due("a", "b", free=at)

            await timeless.until(lambda at=at: server.written["b"][-1:] == [at], most=1.0)  # type: ignore[misc]
        await desk.cancel()


@timeless.scenario
async def test_what_timed_out_alone_is_tried_ever_more_rarely_and_last() -> None:
    """It rests after each time, so that the server is kept busy with it for a small part of the time."""
    server = Server(a=SLOW)
    desk = Desk(server)
    desk.due("a", "b")
    async with timeless.beside(desk.work()):
        for at in range(120):
            await timeless.at(1.0 + at)
            desk.due("a", "z", free=at)
        await desk.cancel()

    pauses = [round(after - before) for before, after in itertools.pairwise(server.times("a"))]
    assert pauses == sorted(pauses)
    assert pauses[-1] == kind_statuses.WRITE_SECONDS + write_failures.PAUSE_SECONDS[-1]
    # In a flush in which both are due, the other is begun first.
    begun = [name for name, _ in server.begun]
    assert begun[begun.index("a", 1) - 1] == "z"


@timeless.scenario
async def test_what_failed_takes_one_place_at_most() -> None:
    """However many are slow, they are tried one by one once each has failed alone."""
    slow = [f"s{at}" for at in range(3)]
    server = Server(**dict.fromkeys(slow, SLOW))
    desk = Desk(server)
    async with timeless.beside(desk.work()):
        for at in range(200):
            await timeless.at(1.0 + at / 2)
            desk.due("b", free=at)
            if at % 20 == 0 and at < 60:
                desk.due(slow[at // 20])
            if at > 100:
                assert sum(server.under_way[name] for name in slow) <= 1
        await desk.cancel()

    assert all(len(server.times(name)) > 2 for name in slow)


@timeless.scenario
async def test_the_order_of_what_is_written_for_one_object_is_kept() -> None:
    """An object is never written twice at a time, and what came in meanwhile is written after."""
    server = Server(a=0.7)
    desk = Desk(server)
    async with timeless.beside(desk.work()):
        for at in range(30):
            await timeless.at(at / 10)
            desk.due("a", free=at, silent=bool(at % 2))
        await timeless.until(lambda: server.written["a"][-1:] == [29])

    assert server.most_of_one == 1
    assert server.written["a"] == sorted(server.written["a"])


@timeless.scenario
async def test_few_are_written_at_a_time() -> None:
    """A crowd takes all places but the one that is kept for what is urgent."""
    nodes = [f"n{at}" for at in range(50)]
    server = Server(**dict.fromkeys(nodes, 0.3))
    desk = Desk(server)
    desk.due(*nodes)

    await desk.flush()

    assert {name for name, _ in server.begun} == set(nodes)
    assert server.most == kind_statuses.AT_ONCE - kind_statuses.RESERVED_FOR_URGENT


@timeless.scenario
async def test_the_rate_of_writes_is_as_allowed() -> None:
    """However many places there are, summaries are written one after the other at their pace."""
    nodes = [f"n{at}" for at in range(40)]
    server = Server(**dict.fromkeys(nodes, 0.15))
    desk = Desk(server, rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(20.0)))
    desk.due(*nodes)

    await desk.flush()

    assert timeless.clock()() == pytest.approx(39 / 20, abs=0.5)


@timeless.scenario
async def test_what_is_urgent_does_not_wait_behind_a_crowd() -> None:
    """That an agent fell silent is written at once, though slow summaries take all other places."""
    crowd = [f"n{at}" for at in range(50)]
    server = Server(**dict.fromkeys(crowd, 4.0))
    desk = Desk(server, rate_limiter.RateLimiter(timeless.clock(), rate_limiter.constant(20.0)))
    desk.due("z")
    await desk.flush()
    desk.due(*crowd)
    async with timeless.beside(desk.work()):
        await timeless.passing(3.0)
        desk.due("z", free=2, silent=True)

        await timeless.until(lambda: server.written["z"] == [1, 2], most=0.2)
        await desk.cancel()


@timeless.scenario
async def test_urgent_ones_that_are_slow_do_not_delay_each_other() -> None:
    """A Device whose own verdict cannot be written keeps no other's waiting."""
    server = Server(a=SLOW)
    desk = Desk(server)
    desk.due("b")
    desk.due("a")
    async with timeless.beside(desk.work()):
        for at in range(1, 40):
            await timeless.at(float(at))
            desk.due("a", "b", free=at, silent=bool(at % 2))

            await timeless.until(lambda at=at: server.written["b"][-1:] == [at], most=1.0)  # type: ignore[misc]
        await desk.cancel()


@timeless.scenario
async def test_several_that_fail_in_a_row_are_everybodys_trouble() -> None:
    """While the server is away one object is tried at each flush, and no object is blamed for it."""
    nodes = [f"n{at}" for at in range(20)]
    server = Server()
    server.fails = dict.fromkeys(nodes, AWAY)
    desk = Desk(server)
    desk.due(*nodes)
    await desk.flush()
    await desk.cancel()
    before = len(server.begun)

    for _ in range(5):
        await desk.flush()
    tried = len(server.begun) - before
    server.fails = {}
    await desk.flush()
    await desk.flush()

    assert tried == 5
    assert before <= kind_statuses.AT_ONCE
    assert server.written.keys() == set(nodes)


@timeless.scenario
async def test_what_is_refused_each_time_is_tried_ever_more_rarely() -> None:
    """An object that the server cannot store is not sent to it at each flush."""
    server = Server()
    server.fails = {"a": errors.Oversized(500, "etcdserver: request is too large")}
    desk = Desk(server)
    desk.due("a", "b")
    async with timeless.beside(desk.work()):
        await timeless.passing(60.0)

    assert 3 <= len(server.times("a")) <= 8
    assert server.written["b"]


@timeless.scenario
async def test_what_is_under_way_ends_with_its_desk() -> None:
    """Nothing is left of a write once the desk has ended."""
    server = Server(a=SLOW)
    desk = Desk(server)
    desk.due("a")
    async with timeless.beside(desk.work()):
        await timeless.passing(1.0)
    assert server.under_way["a"] == 1

    await desk.cancel()

    assert server.under_way["a"] == 0
