"""A Kopf that shows no life is ended and followed by another, however it clings to what it does."""

import asyncio
import contextlib
import functools
import itertools
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import kopf
import pytest
from aiohttp import web
from prometheus_client import generate_latest, registry

from berth_crds import names
from berth_crds.client import resources
from berth_operator import metrics
from berth_operator.engine import node_summaries, rate_limiter
from berth_operator.kube import kopf_lag, kopf_runs, kopf_settings, reconciler
from support import clock, stub
from testbed import waiting

Thing = dict[str, Any]
KNOWN = kopf_lag.Revisions({names.DEVICES: {"n1": "5"}, names.POLICIES: {}})
STATUS = resources.DEVICES.path("n1", sub="status")


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything that is waited for short."""
    monkeypatch.setattr(kopf_lag, "QUIET_CHECKS", 3)
    monkeypatch.setattr(kopf_runs, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(kopf_runs, "WATCHER_SECONDS", 0.05)
    monkeypatch.setattr(reconciler, "END_SECONDS", 0.5)
    monkeypatch.setattr(reconciler, "PAUSE_SECONDS", (0.05,))


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Lend an event that happens at the end, for threads that would stay for ever."""
    event = threading.Event()
    yield event
    event.set()
    for one in threading.enumerate():
        if one.name == "kopf":
            one.join(5)


@pytest.fixture
async def server() -> AsyncIterator[stub.Stub]:
    """Lend a server that takes statuses."""
    async with stub.Stub() as lent:
        lent.on("PATCH", STATUS, stub.thing({}))
        yield lent


def device(kopfs: Thing) -> Callable[..., Awaitable[None]]:
    """Return the handler of Devices that was registered with a Kopf."""
    functions: list[Any] = [one.fn for one in kopfs["registry"]._watching._handlers]
    handler: Callable[..., Awaitable[None]] = functions[0]
    return handler


async def tell(kopfs: Thing, version: str = "5", **status: Any) -> None:
    """Deliver the Device n1, as Kopf does."""
    meta = {"name": "n1", "resourceVersion": version}
    await device(kopfs)(type=None, name="n1", meta=meta, status=status)


# ---------------------------------------------------------------- how it hangs


async def never_lists(_: Thing, __: threading.Event) -> None:
    """Wait for something that does not come."""
    await asyncio.Event().wait()


async def delivers_only_once(kopfs: Thing, _: threading.Event) -> None:
    """Deliver an old revision, and nothing after that."""
    await tell(kopfs, "4")
    await asyncio.Event().wait()


async def swallows_cancellation(_: Thing, __: threading.Event) -> None:
    """Go on whenever cancelled."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def blocks_its_loop(_: Thing, released: threading.Event) -> None:
    """Let nobody else have a turn."""
    released.wait()


async def delivers(kopfs: Thing, _: threading.Event) -> None:
    """Do not hang."""
    await tell(kopfs)
    await asyncio.Event().wait()


Hang = Callable[[Thing, threading.Event], Awaitable[None]]


class Played:
    """A Kopf of which the first run hangs; the next one delivers what there is, once it is allowed to."""

    def __init__(self, hang: Hang, released: threading.Event) -> None:
        self._hang = hang
        self._released = released
        self.allowed = threading.Event()  # Not before the trouble was seen, which would be over by then.
        self.runs: list[Thing] = []

    async def spawn_tasks(self, **kopfs: Any) -> list[asyncio.Task[None]]:
        """Start a run."""
        self.runs.append(kopfs)
        work = self._play(self._hang if len(self.runs) == 1 else delivers, kopfs)
        return [asyncio.create_task(work)]

    async def _play(self, hang: Hang, kopfs: Thing) -> None:
        if hang is delivers:
            leave = functools.partial(asyncio.to_thread, self.allowed.wait, 0)
            await waiting.eventually(leave, what="leave to deliver", seconds=30)
        await hang(kopfs, self._released)


@contextlib.asynccontextmanager
async def running(server: stub.Stub, measured: metrics.Kopf) -> AsyncIterator[reconciler.Reconciler]:
    """Run a reconciler beside the block."""
    lent = reconciler.Reconciler(
        server.link, rate_limiter.unlimited(), agent="test", wall=clock.Clock().wall, kopf_metrics=measured
    )
    lent.start()
    try:
        yield lent
    finally:
        await asyncio.to_thread(lent.stop)


async def looked(one: reconciler.Reconciler, until: Callable[[], object], what: str) -> None:
    """Have it look again and again until something is so."""

    async def so() -> bool:
        one.compare(KNOWN)
        return bool(until())

    await waiting.eventually(so, what=what, seconds=30)


# ---------------------------------------------------------------- what becomes of it


@pytest.mark.parametrize(
    "hang",
    [
        pytest.param(never_lists, id="never lists"),
        pytest.param(delivers_only_once, id="delivers nothing more"),
        pytest.param(swallows_cancellation, id="swallows cancellation"),
        pytest.param(blocks_its_loop, id="blocks its loop"),
    ],
)
async def test_it_is_ended_and_started_again(
    hang: Hang,
    server: stub.Stub,
    released: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next run delivers, its summaries are written; until then the trouble is told and counted."""
    played, into = Played(hang, released), registry.CollectorRegistry()
    monkeypatch.setattr(kopf, "spawn_tasks", played.spawn_tasks)
    summary = node_summaries.NodeSummary("n1", 4, 0, 4, silent=False)

    async with running(server, metrics.Kopf(into)) as one:
        one.update([summary])
        await looked(one, lambda: one.fault, "the trouble to be told")
        told = one.fault
        played.allowed.set()
        await looked(one, lambda: len(played.runs) > 1 and not one.fault, "the next run to be well")
        await looked(one, lambda: "PATCH" in {each.method for each in server.requests}, "the status")

    assert told.startswith("Kopf is ended: it shows no life: revision 5 of n1 (devices) has not come for")
    assert len([each for each in caplog.messages if each.startswith("Kopf is ended")]) == 1
    assert 'berth_kopf_ends_total{reason="no-life"} 1.0' in generate_latest(into).decode()


async def test_one_that_cannot_be_started_is_started_again(
    server: stub.Stub, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lack of threads or file descriptors passes, and is told meanwhile."""
    played, start, lacking = Played(delivers, released), threading.Thread.start, [True]

    def started(thread: threading.Thread) -> None:
        if thread.name == "kopf" and lacking:
            lacking.clear()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(kopf, "spawn_tasks", played.spawn_tasks)
    monkeypatch.setattr(threading.Thread, "start", started)

    async with running(server, metrics.Kopf(registry.CollectorRegistry())) as one:
        await looked(one, lambda: one.fault, "the trouble to be told")
        told = one.fault
        played.allowed.set()
        await looked(one, lambda: played.runs and not one.fault, "the next run to be well")

    assert told.startswith("Kopf cannot be run: can't start new thread")


async def test_a_thread_that_cannot_keep_kopf_is_noticed(
    server: stub.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would be shown any more, so the process has to end; one that was told to end is well."""
    monkeypatch.setattr(kopf, "spawn_tasks", Played(never_lists, threading.Event()).spawn_tasks)
    measured = metrics.Kopf(registry.CollectorRegistry())
    async with running(server, measured) as well:
        assert not well.failed

    monkeypatch.setattr(asyncio, "run", out_of_descriptors)
    monkeypatch.setattr(reconciler, "STOP_SECONDS", 0.01)
    async with running(server, measured) as ill:
        await looked(ill, lambda: ill.failed, "the thread to end")

    assert not well.failed


def out_of_descriptors(work: Any) -> None:
    """Do as `asyncio.run` where no file can be opened."""
    work.close()
    raise OSError(24, "Too many open files")


async def test_what_an_ended_run_still_says_reaches_nobody(
    server: stub.Stub, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that wakes up late neither delivers nor sends a request."""
    refused = threading.Event()

    async def late(kopfs: Thing, released: threading.Event) -> None:
        released.wait()
        await tell(kopfs, "9", summary={"free": 0})
        found: list[Any] = [each.fn for each in kopfs["registry"]._activities._handlers]
        session = (await found[0]()).aiohttp_session
        try:
            await session.get(f"{server.link.server}/late")
        except aiohttp.ClientConnectionError:
            refused.set()

    played = Played(late, released)
    played.allowed.set()
    monkeypatch.setattr(kopf, "spawn_tasks", played.spawn_tasks)

    async with running(server, metrics.Kopf(registry.CollectorRegistry())) as one:
        await looked(one, lambda: len(played.runs) > 1 and not one.fault, "the next run to be well")
        released.set()
        await waiting.eventually(lambda: asyncio.to_thread(refused.wait, 1), what="the late request")
        one.update([node_summaries.NodeSummary("n1", 0, 0, 0, silent=False)])
        await looked(one, lambda: server.bodies, "the status")

    assert "/late" not in {each.path for each in server.requests}
    assert all(b'"conditions"' in body for body in server.bodies)


async def test_a_server_that_is_not_heard_is_no_sign(
    server: stub.Stub, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the informers do not know for sure, and while nobody looks, no run is judged."""
    played = Played(never_lists, released)
    monkeypatch.setattr(kopf, "spawn_tasks", played.spawn_tasks)

    async with running(server, metrics.Kopf(registry.CollectorRegistry())) as one:
        for _ in range(20):
            one.compare(None)
        await asyncio.sleep(0.2)

        assert one.fault == ""
        assert len(played.runs) == 1


# ---------------------------------------------------------------- why it hangs


def kinds(*plurals: str) -> Thing:
    """Make the answer of a server that is asked which kinds there are."""
    verbs = ["get", "list", "patch", "watch"]
    found = [
        {"name": each, "kind": each, "singularName": each, "namespaced": False, "verbs": verbs}
        for each in plurals
    ]
    return {"kind": "APIResourceList", "groupVersion": names.API_VERSION, "resources": found}


async def test_the_end_of_one_watch_ends_the_others(
    server: stub.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kopf itself waits for ever for a watcher that has to ask anew while it ends because of another one."""
    monkeypatch.setattr(kopf_runs, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(kopf_runs, "WATCHER_SECONDS", 3.0)
    version = {"groupVersion": names.API_VERSION, "version": names.VERSION}
    group = {"name": names.GROUP, "versions": [version], "preferredVersion": version}
    talking = asyncio.Event()

    async def busy(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        talking.set()
        for count in itertools.count(3):
            meta = {"name": "default", "uid": "u1", "resourceVersion": str(count)}
            await response.write(json.dumps(stub.event("MODIFIED", {"metadata": meta})).encode() + b"\n")
            await asyncio.sleep(0.1)
        return response

    gone = stub.later(talking, stub.status(404, "404 page not found"))
    server.on("GET", "/api", stub.thing({"versions": ["v1"]}))
    server.on("GET", "/api/v1", stub.thing(kinds("namespaces")))
    server.on("GET", "/apis", stub.thing({"kind": "APIGroupList", "groups": [group]}))
    server.on("GET", f"/apis/{names.API_VERSION}", stub.thing(kinds(names.DEVICES, names.POLICIES)))
    for resource, answer in ((resources.DEVICES, gone), (resources.POLICIES, busy)):
        answers = {"": stub.page(version="2"), "true": answer}
        server.on("GET", resource.path(), stub.by_query("watch", answers))

    async with running(server, metrics.Kopf(registry.CollectorRegistry())) as one:

        async def again() -> bool:
            devices = [each for each in server.asked(limit="100") if each.path == resources.DEVICES.path()]
            return len(devices) > 1

        await waiting.eventually(again, what="the next run", seconds=30)
        told = one.fault

    assert told.startswith("Kopf ended: 404 page not found")
    assert not [each for each in threading.enumerate() if each.name == "kopf"]


def test_kopf_never_kills_the_process() -> None:
    """By default it does so ten minutes after each end that nobody asked it for."""
    assert kopf_settings.settings().process.ultimate_exiting_timeout is None
