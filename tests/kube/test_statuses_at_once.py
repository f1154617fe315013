"""Statuses of several objects at a time: one at which the server is slow, or fails, delays nobody else."""

import asyncio
import collections
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from berth_crds import names
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


class Statuses(kind_statuses.KindStatuses):
    """What writes statuses to such a server."""

    def __init__(self, server: Server, *due: str, rate: float = 0.0) -> None:
        session: Any = server
        limiters = kind_statuses.Limiters(
            of_counts=rate_limiter.RateLimiter(timeless.clock(), lambda: rate),
            of_owners=rate_limiter.RateLimiter(timeless.clock(), lambda: 10 * rate),
        )
        super().__init__(session, limiters, wall=clock.Clock().wall, clock=timeless.clock())
        self.due(*due)

    def due(self, *nodes: str, free: int = 1, silent: bool = False, claims: tuple[str, ...] = ()) -> None:
        """Have the Devices of these nodes be due."""
        for name in nodes:
            self.seen(names.DEVICES, name, {})
        summaries = [
            node_summaries.NodeSummary(name, free, 0, 1, silent=silent, claims=claims) for name in nodes
        ]
        self.update(summaries)

    async def work(self) -> None:
        """Flush again and again."""
        while True:
            await asyncio.sleep(0.5)
            await self.flush()

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Flush again and again beside the block."""
        async with timeless.beside(self.work()):
            yield
        await self.cancel()


async def shown(server: Server, name: str, *free: int, within: float = 1.0) -> None:
    """Wait until this was written of an object last."""
    await timeless.until(lambda: server.written[name][-len(free) :] == [*free], most=within)


@timeless.scenario
async def test_a_slow_device_delays_no_other() -> None:
    """Whatever comes in while one is being written is written within a second, each time."""
    server = Server(a=SLOW)
    statuses = Statuses(server, "a")
    async with statuses.working():
        for free in range(40):
            await timeless.at(1.0 + free)
            statuses.due("a", "b", free=free)

            await shown(server, "b", free)


@timeless.scenario
async def test_whose_a_uuid_is_does_not_wait_behind_counts() -> None:
    """However many Devices are counted anew all the time: a successor knows it from nowhere else."""
    server, crowd = Server(), [f"n{at:03}" for at in range(200)]
    statuses = Statuses(server, *crowd, rate=2.0)
    async with statuses.working():
        for second in range(10):
            await timeless.at(3.0 * second + 1)
            statuses.due(*crowd, free=second)
            statuses.due(f"z{second}", claims=("GPU-1",))

            await shown(server, f"z{second}", 1, within=1.5)

    assert len(server.begun) > 50  # The others have their turns as well.


@pytest.mark.parametrize("takes", [pytest.param(SLOW, id="times out"), pytest.param(0.0, id="is refused")])
@timeless.scenario
async def test_what_fails_alone_is_tried_ever_more_rarely_and_last(takes: float) -> None:
    """It rests after each time, so that the server is kept busy with it for a small part of the time."""
    server = Server(a=takes)
    server.fails = {"a": errors.Oversized(500, "etcdserver: request is too large")}
    statuses = Statuses(server, "a", "b")
    async with statuses.working():
        for free in range(120):
            await timeless.at(1.0 + free)
            statuses.due("a", "z", free=free)

    pauses = [round(after - before) for before, after in itertools.pairwise(server.times("a"))]
    assert pauses == sorted(pauses)
    assert pauses[-1] == min(takes, kind_statuses.WRITE_SECONDS) + write_failures.PAUSE_SECONDS[-1]
    # In a flush in which both are due, the other is begun first.
    begun = [name for name, _ in server.begun]
    assert begun[begun.index("a", 1) - 1] == "z"


@timeless.scenario
async def test_what_failed_takes_one_place_at_most() -> None:
    """However many are slow, they are tried one by one once each has failed alone."""
    slow = ["s0", "s1", "s2"]
    server = Server(**dict.fromkeys(slow, SLOW))
    statuses = Statuses(server)
    async with statuses.working():
        for turn in range(200):
            await timeless.at(1.0 + turn / 2)
            statuses.due("b", free=turn)
            if turn in {0, 20, 40}:
                statuses.due(slow[turn // 20])
            if turn > 100:
                assert sum(server.under_way[name] for name in slow) <= 1

    assert all(len(server.times(name)) > 2 for name in slow)


@timeless.scenario
async def test_the_order_of_what_is_written_for_one_object_is_kept() -> None:
    """An object is never written twice at a time, and what came in meanwhile is written after."""
    server = Server(a=0.7)
    statuses = Statuses(server)
    async with statuses.working():
        for free in range(30):
            await timeless.at(free / 10)
            statuses.due("a", free=free, silent=bool(free % 2))
        await shown(server, "a", 29, within=10.0)

    assert server.most_of_one == 1
    assert server.written["a"] == sorted(server.written["a"])


@timeless.scenario
async def test_few_are_written_at_a_time() -> None:
    """A crowd takes all places but the one that is kept for what is urgent."""
    nodes = {f"n{number}": 0.3 for number in range(50)}
    server = Server(**nodes)

    await Statuses(server, *nodes).flush()

    assert {name for name, _ in server.begun} == nodes.keys()
    assert server.most == kind_statuses.AT_ONCE - kind_statuses.RESERVED_FOR_URGENT


@timeless.scenario
async def test_the_rate_of_writes_is_as_allowed() -> None:
    """However many places there are, summaries are written one after the other at their pace."""
    nodes = {f"n{number}": 0.15 for number in range(40)}

    await Statuses(Server(**nodes), *nodes, rate=20.0).flush()

    assert timeless.clock()() == pytest.approx(39 / 20, abs=0.5)


@timeless.scenario
async def test_what_is_urgent_does_not_wait_behind_a_crowd() -> None:
    """That an agent fell silent is written at once, though slow summaries take all other places."""
    crowd = {f"n{number}": 4.0 for number in range(50)}
    server = Server(**crowd)
    statuses = Statuses(server, "z", rate=20.0)
    await statuses.flush()
    statuses.due(*crowd)
    async with statuses.working():
        await timeless.passing(3.0)
        statuses.due("z", free=2, silent=True)

        await shown(server, "z", 1, 2, within=0.2)


@timeless.scenario
async def test_urgent_ones_that_are_slow_do_not_delay_each_other() -> None:
    """A Device whose own verdict cannot be written keeps no other's waiting."""
    server = Server(a=SLOW)
    statuses = Statuses(server, "b", "a")
    async with statuses.working():
        for free in range(1, 40):
            await timeless.at(float(free))
            statuses.due("a", "b", free=free, silent=bool(free % 2))

            await shown(server, "b", free)


@timeless.scenario
async def test_several_that_fail_in_a_row_are_everybodys_trouble() -> None:
    """While the server is away one object is tried at each flush, and no object is blamed for it."""
    nodes = [f"n{number}" for number in range(20)]
    server = Server()
    server.fails = dict.fromkeys(nodes, AWAY)
    statuses = Statuses(server, *nodes)
    await statuses.flush()
    await statuses.cancel()
    before = len(server.begun)

    for _ in range(5):
        await statuses.flush()
    tried = len(server.begun) - before
    server.fails = {}
    await statuses.flush()
    await statuses.flush()

    assert tried == 5
    assert before <= kind_statuses.AT_ONCE
    assert server.written.keys() == set(nodes)


@timeless.scenario
async def test_a_login_that_is_refused_is_everybodys_trouble(caplog: pytest.LogCaptureFixture) -> None:
    """One Device is tried at each flush, one line says so, and all are written once it is over."""
    nodes = [f"n{number}" for number in range(20)]
    server = Server()
    server.fails = dict.fromkeys(nodes, errors.Unauthorized(401, "who?"))
    statuses = Statuses(server, *nodes)

    for _ in range(3):
        await statuses.flush()
    tried = len(server.begun)
    server.fails = {}
    await statuses.flush()

    assert tried == 3
    assert server.written.keys() == set(nodes)
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(errors.ApiError(500, "no"), id="500"),
        pytest.param(errors.Conflict(409, "no"), id="409"),
        pytest.param(errors.AmbiguousNotFound(404, "no backend"), id="a proxy's 404"),
        pytest.param(errors.Unreachable("reset", ambiguous=True), id="reset"),
    ],
)
@timeless.scenario
async def test_what_failed_stays_due(trouble: errors.ClientError) -> None:
    """A write that failed is made at a later flush, and keeps nobody else waiting."""
    server = Server()
    server.fails = {"a": trouble}
    statuses = Statuses(server, "a", "b")

    await statuses.flush()
    written = [*server.written]
    server.fails = {}
    await timeless.passing(write_failures.PAUSE_SECONDS[0])
    await statuses.flush()

    assert (written, [*server.written]) == (["b"], ["b", "a"])


@timeless.scenario
async def test_devices_of_which_nobody_tells_that_they_are_gone_are_forgotten() -> None:
    """They take no memory, and one that comes back is told of by its own summary alone."""
    server = Server()
    statuses = Statuses(server, "a", "b")

    statuses.keep_only({"a"})
    statuses.seen(names.DEVICES, "b", {})
    await statuses.flush()

    assert [*server.written] == ["a"]


@timeless.scenario
async def test_what_is_under_way_ends_with_a_cancel() -> None:
    """Nothing is left of a write once all are cancelled."""
    server = Server(a=SLOW)
    async with Statuses(server, "a").working():
        await timeless.passing(1.0)
        assert server.under_way["a"] == 1

    assert server.under_way["a"] == 0


@timeless.scenario
async def test_what_goes_first_and_is_right_again_keeps_nobody_waiting() -> None:
    """An agent that was silent during a slow write, or whose Device has gone, has nothing written."""
    server = Server(back=2.0)
    statuses = Statuses(server, "back")
    async with statuses.working():
        await timeless.at(1.0)
        for silent in (True, False):
            statuses.update([node_summaries.NodeSummary("back", 1, 0, 1, silent=silent)])
        statuses.due("gone")
        statuses.due("gone", silent=True)
        statuses.gone(names.DEVICES, "gone")
        await timeless.at(4.0)
        statuses.due("other", free=7)

        await shown(server, "other", 7)

    assert (server.written["gone"], server.written["back"]) == ([], [1])
