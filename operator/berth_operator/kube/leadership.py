"""Leader election in a thread of its own.

Decisions, long lists and garbage collection can keep the main loop busy for longer than a Lease
may go without a renewal. So the elector runs in a thread with a loop and a connection of its own,
where nothing else runs. It must not keep the Lease for a program that hangs: the main loop runs
`heartbeat`, and without heartbeats leadership is lost.

Losing leadership ends the process from this thread, whatever the main loop does: no write that
the main loop has prepared may be sent any more. Where that cannot be relied on, a new leader first
waits until the binds of the old one have ended.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn, TypeVar

from berth_crds import tasks
from berth_crds.client import api
from berth_operator.engine import ports
from berth_operator.kube import binding_writer, elector, terms

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 0.5
# How long a new leader waits: until the last binds of the old one have ended.
SETTLE_SECONDS: Final = binding_writer.SERVER_SECONDS + 1.0
STOP_SECONDS: Final = 4.0  # The tasks of the thread, and then its connections, may take two seconds each.
END_SECONDS: Final = 2.0
EXIT_LOST: Final = 3
LAST_LOG_SECONDS: Final = 1.0  # A blocked log must not delay the end of a process that lost leadership.

T = TypeVar("T")
HungSeconds = Callable[[], float]
LoopAndElector = tuple[asyncio.AbstractEventLoop, elector.Elector]


class LeaderElection:
    """Runs the elector beside the loop that runs `heartbeat`.

    `make` is called in the thread and returns the elector for a session and for a function that
    returns for how long the main loop has hung. `lost` is called in the thread when leadership is lost.
    """

    def __init__(
        self,
        session: Callable[[], api.Api],
        make: Callable[[api.Api, HungSeconds], elector.Elector],
        *,
        clock: ports.Clock,
        lost: Callable[[str], None],
    ) -> None:
        self._session = session
        self._make = make
        self._clock = clock
        self._lost = lost
        self._last_heartbeat = clock()
        self._thread = threading.Thread(target=self._run, name="lead", daemon=True)
        self._ready: concurrent.futures.Future[LoopAndElector] = concurrent.futures.Future()
        self._main: asyncio.AbstractEventLoop
        self._loop: asyncio.AbstractEventLoop  # The thread's.
        self._elector: elector.Elector
        self._renewed = asyncio.Event()
        self._stop: asyncio.Event
        self._holding: asyncio.Task[None]

    # ------------------------------------------------------------ called by the main loop

    async def start(self) -> None:
        """Start the thread, and wait until its loop runs."""
        self._main = asyncio.get_running_loop()
        self._thread.start()
        self._loop, self._elector = await asyncio.wrap_future(self._ready)

    async def heartbeat(self) -> None:
        """Record that the main loop runs, periodically, for ever."""
        while True:
            self._last_heartbeat = self._clock()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def campaign(self) -> terms.Term:
        """Acquire the Lease, however long it takes, and renew it from then on."""
        return await self._in_thread(self._campaign)

    def leads(self) -> bool:
        """Whether we surely lead."""
        return self._elector.leads()

    async def wait_confirmed(self) -> None:
        """Wait until no renewal is late, and one has come after the last call of `doubt`."""
        while not self._elector.confirmed():
            self._renewed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._renewed.wait()

    def doubt(self) -> None:
        """Renew the Lease before anything else is sent: the server was unavailable."""
        self._loop.call_soon_threadsafe(self._elector.doubt)

    async def declare(self, text: str) -> None:
        """Write a declaration into the Lease, and wait until it surely is there."""
        await self._in_thread(lambda elector_: elector_.declare(text))

    async def withdraw(self) -> None:
        """End a campaign that was cut short, and release what it may have taken."""
        await self._in_thread(lambda elector_: elector_.withdraw())

    async def release(self, *, clean: bool) -> None:
        """Release the Lease; if binds may still be under way it is not `clean`."""
        await self._in_thread(lambda elector_: elector_.release(clean=clean))

    async def stop(self) -> None:
        """End the thread; a Lease that was not released is left to expire."""
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join, STOP_SECONDS)

    async def _in_thread(self, work: Callable[[elector.Elector], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the thread, and wait for its result here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(self._elector), self._loop))

    # ------------------------------------------------------------ inside the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception as error:
            log.exception("the thread of the leader election ended")
            if not self._ready.done():
                self._ready.set_exception(error)
            self._lost(f"{type(error).__name__}: {error}")

    async def _work(self) -> None:
        async with self._session() as session:
            self._stop = asyncio.Event()
            elector_ = self._make(session, lambda: self._clock() - self._last_heartbeat)
            self._ready.set_result((asyncio.get_running_loop(), elector_))
            await self._stop.wait()
            # Before the session is closed: a request that begins afterwards would leave its connection open.
            await tasks.end(asyncio.all_tasks() - {asyncio.current_task()}, seconds=END_SECONDS)

    async def _campaign(self, elector_: elector.Elector) -> terms.Term:
        term = await elector_.campaign()
        self._holding = asyncio.create_task(self._hold(elector_), name="hold the lead")
        return term

    async def _hold(self, elector_: elector.Elector) -> None:
        try:
            await elector_.keep_renewing(lambda: self._main.call_soon_threadsafe(self._renewed.set))
        except elector.LeadershipLost as error:
            self._lost(str(error))
        except Exception as error:
            log.exception("the Lease cannot be renewed")
            self._lost(f"{type(error).__name__}: {error}")


def exit_lost(why: str) -> NoReturn:
    """End the process at once when leadership is lost, from any thread, so that no write can follow."""
    timer = threading.Timer(LAST_LOG_SECONDS, os._exit, [EXIT_LOST])
    timer.daemon = True
    timer.start()
    log.error("leadership lost: %s", why)
    logging.shutdown()
    os._exit(EXIT_LOST)
