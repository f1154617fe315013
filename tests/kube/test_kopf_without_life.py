"""A Kopf that shows no life is ended and followed by another, however it clings to what it does."""

import asyncio
import contextlib
import functools
import itertools
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import kopf
import pytest
from aiohttp import web
from prometheus_client import generate_latest, registry

from berth_crds import names
from berth_crds.client import resources
from berth_operator import metrics
from berth_operator.kube import kind_statuses, kopf_lag, kopf_runs, kopf_settings, reconciler
from kube import eventually
from kube.reconcilers import STATUS, Thing, running, serve, summary
from support import stub
from testbed import waiting

KNOWN = kopf_lag.Revisions({names.DEVICES: {"n1": "5"}, names.POLICIES: {}})


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything that is waited for short."""
    monkeypatch.setattr(kopf_lag, "QUIET_CHECKS", 3)
    monkeypatch.setattr(kopf_runs, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(kopf_runs, "WATCHER_SECONDS", 0.05)
    monkeypatch.setattr(reconciler, "END_SECONDS", 0.5)
    monkeypatch.setattr(reconciler, "PAUSE_SECONDS", (0.05,))


@pytest.fixture
def server(server: stub.Stub) -> stub.Stub:
    """Lend a server that takes statuses."""
    server.on("PATCH", STATUS, stub.thing({}))
    return server


def handler_of(handlers: Any) -> Callable[..., Awaitable[Any]]:
    """Return the first of the handlers that were registered with a Kopf."""
    handler: Callable[..., Awaitable[Any]] = next(iter(handlers._handlers)).fn
    return handler


async def deliver(options: Thing, version: str = "5", **status: Any) -> None:
    """Deliver the Device n1, as Kopf does."""
    body = {"metadata": {"name": "n1", "resourceVersion": version}, "status": status}
    await handler_of(options["registry"]._watching)(type=None, name="n1", body=body)


# ---------------------------------------------------------------- how it hangs


async def never_lists(_: Thing, __: threading.Event) -> None:
    """Wait for something that does not come."""
    await asyncio.Event().wait()


async def delivers_only_once(options: Thing, _: threading.Event) -> None:
    """Deliver an old revision, and nothing after that."""
    await deliver(options, "4")
    await asyncio.Event().wait()


async def swallows_cancellation(_: Thing, __: threading.Event) -> None:
    """Go on whenever cancelled."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def blocks_its_loop(_: Thing, released: threading.Event) -> None:
    """Let nobody else have a turn."""
    released.wait()


async def delivers(options: Thing, _: threading.Event) -> None:
    """Do not hang."""
    await deliver(options)
    await asyncio.Event().wait()


Hang = Callable[[Thing, threading.Event], Awaitable[None]]


class FakeKopf:
    """A Kopf of which the first run hangs; the next one delivers what there is, once it is allowed to."""

    def __init__(self) -> None:
        self.hang: Hang = never_lists
        self.released = threading.Event()  # At the end, for threads that would stay for ever.
        self.allowed = threading.Event()  # Not before the trouble was seen, which would be over by then.
        self.runs: list[Thing] = []

    async def spawn_tasks(self, **options: Any) -> list[asyncio.Task[None]]:
        """Start a run."""
        self.runs.append(options)
        work = self._run(self.hang if len(self.runs) == 1 else delivers, options)
        return [asyncio.create_task(work)]

    async def _run(self, hang: Hang, options: Thing) -> None:
        if hang is delivers:
            allowed = functools.partial(asyncio.to_thread, self.allowed.wait, 0)
            await waiting.eventually(allowed, what="leave to deliver", seconds=30)
        await hang(options, self.released)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKopf]:
    """Lend a Kopf that is run in place of the real one."""
    lent = FakeKopf()
    monkeypatch.setattr(kopf, "spawn_tasks", lent.spawn_tasks)
    yield lent
    lent.released.set()
    for thread in threading.enumerate():
        if thread.name == "kopf":
            thread.join(5)


async def compare_until(
    reconciler_: reconciler.Reconciler, condition: Callable[[], object], what: str
) -> None:
    """Have a reconciler compare again and again until something holds."""

    def compared() -> object:
        reconciler_.compare(KNOWN)
        return condition()

    await eventually.holds(compared, what, seconds=30)


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
    hang: Hang, server: stub.Stub, fake: FakeKopf, caplog: pytest.LogCaptureFixture
) -> None:
    """The next run delivers, its summaries are written; until then the trouble is told and counted."""
    fake.hang, collected = hang, registry.CollectorRegistry()

    async with running(server.link, metrics.Kopf(collected)) as reconciler_:
        reconciler_.update([summary()])
        await compare_until(reconciler_, lambda: reconciler_.fault, "the fault")
        fault = reconciler_.fault
        fake.allowed.set()
        await compare_until(
            reconciler_, lambda: len(fake.runs) > 1 and not reconciler_.fault, "the next run to be well"
        )
        await compare_until(reconciler_, lambda: server.bodies, "the status")

    assert fault.startswith("Kopf is ended: it shows no life: revision 5 of n1 (devices) has not come for")
    assert len([message for message in caplog.messages if message.startswith("Kopf is ended")]) == 1
    assert 'berth_kopf_ends_total{reason="no-life"} 1.0' in generate_latest(collected).decode()


async def test_one_that_cannot_be_started_is_started_again(
    server: stub.Stub, fake: FakeKopf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lack of threads or file descriptors passes, and is told meanwhile."""
    fake.hang, start, lacking = delivers, threading.Thread.start, [True]

    def started(thread: threading.Thread) -> None:
        if thread.name == "kopf" and lacking:
            lacking.clear()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)

    async with running(server.link) as reconciler_:
        await compare_until(reconciler_, lambda: reconciler_.fault, "the fault")
        fault = reconciler_.fault
        fake.allowed.set()
        await compare_until(
            reconciler_, lambda: fake.runs and not reconciler_.fault, "the next run to be well"
        )

    assert fault.startswith("Kopf cannot be run: can't start new thread")


@pytest.mark.usefixtures("fake")
async def test_a_thread_that_cannot_keep_kopf_is_noticed(
    server: stub.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would be shown any more, so the process has to end; one that was told to end is well."""
    async with running(server.link) as well:
        assert not well.failed

    monkeypatch.setattr(asyncio, "run", out_of_descriptors)
    monkeypatch.setattr(reconciler, "STOP_SECONDS", 0.01)
    async with running(server.link) as ill:
        await compare_until(ill, lambda: ill.failed, "the thread to end")

    assert not well.failed


def out_of_descriptors(work: Any) -> None:
    """Do as `asyncio.run` where no file can be opened."""
    work.close()
    raise OSError(24, "Too many open files")


async def test_what_an_ended_run_still_says_reaches_nobody(server: stub.Stub, fake: FakeKopf) -> None:
    """A thread that wakes up late neither delivers a status as if it were shown, nor asks anything."""
    refused = threading.Event()
    wanted = summary(free=0, healthy=0)
    shown = kind_statuses.device_status(wanted, {}, moment="2026-01-01T00:00:00Z")

    async def late(options: Thing, released: threading.Event) -> None:
        released.wait()
        await deliver(options, "9", **shown)
        login = await handler_of(options["registry"]._activities)()
        try:
            await login.aiohttp_session.get(f"{server.link.server}/late")
        except aiohttp.ClientConnectionError:
            refused.set()

    fake.hang = late
    fake.allowed.set()

    async with running(server.link) as reconciler_:
        await compare_until(
            reconciler_, lambda: len(fake.runs) > 1 and not reconciler_.fault, "the next run to be well"
        )
        fake.released.set()
        await eventually.holds(refused.is_set, "the late request")
        reconciler_.update([wanted])
        await compare_until(reconciler_, lambda: server.bodies, "the status")

    assert "/late" not in {request.path for request in server.requests}


async def test_one_that_delivers_no_gpupod_is_ended(server: stub.Stub, fake: FakeKopf) -> None:
    """Though all Devices come: the fault, which the probe tells, names the GpuPod that has not."""
    fake.hang = delivers
    fake.allowed.set()
    blind = kopf_lag.Revisions({names.DEVICES: {"n1": "5"}, names.GPU_PODS: {"ml/train": "g1"}})

    async with running(server.link) as reconciler_:

        def compared() -> str:
            reconciler_.compare(blind)
            return reconciler_.fault

        await eventually.holds(compared, "the fault", seconds=30)
        fault = reconciler_.fault

    assert "uid g1 of ml/train (gpupods) has not come" in fault


async def test_a_server_that_is_not_heard_is_no_sign(server: stub.Stub, fake: FakeKopf) -> None:
    """While the informers do not know for sure, and while nobody looks, no run is judged."""
    async with running(server.link) as reconciler_:
        for _ in range(20):
            reconciler_.compare(None)
        await asyncio.sleep(0.2)

        assert reconciler_.fault == ""
        assert len(fake.runs) == 1


# ---------------------------------------------------------------- why it hangs


async def test_the_end_of_one_watch_ends_the_others(
    server: stub.Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kopf itself waits for ever for a watcher that has to ask anew while it ends because of another one."""
    monkeypatch.setattr(kopf_runs, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(kopf_runs, "WATCHER_SECONDS", 3.0)
    streams = asyncio.Event()

    async def busy(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        streams.set()
        for version in itertools.count(3):
            meta = {"name": "default", "uid": "u1", "resourceVersion": str(version)}
            await response.write(json.dumps(stub.event("MODIFIED", {"metadata": meta})).encode() + b"\n")
            await asyncio.sleep(0.1)
        return response

    gone = stub.later(streams, stub.status(404, "404 page not found"))
    serve(server, {resources.DEVICES: gone, resources.POLICIES: busy})

    async with running(server.link) as reconciler_:
        lists = functools.partial(server.asked, limit="100")
        await eventually.holds(
            lambda: [request.path for request in lists()].count(resources.DEVICES.path()) > 1,
            "the next run",
            seconds=30,
        )
        fault = reconciler_.fault

    assert fault.startswith("Kopf ended: 404 page not found")
    assert "kopf" not in {thread.name for thread in threading.enumerate()}


def test_kopf_never_kills_the_process() -> None:
    """By default it does so ten minutes after each end that nobody asked it for."""
    assert kopf_settings.settings().process.ultimate_exiting_timeout is None
