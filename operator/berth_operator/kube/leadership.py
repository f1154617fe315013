"""The lead, kept in a thread of its own.

Decisions, long lists and the collector can keep the main loop busy for longer than a Lease
may go without a renewal. So the elector runs in a thread with a loop and a connection of
its own, where nothing else is done. It must not keep the lead for a program that hangs:
the main loop shows that it turns by `pulse`, and where it does not, the lead is lost.

Losing the lead ends the process from this thread, whatever the main loop does: what that
has in its hands must not be sent any more.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from berth_crds.client import api
from berth_operator.engine import ports
from berth_operator.kube import elector

log = logging.getLogger(__name__)

PULSE_SECONDS: Final = 0.5
STOP_SECONDS: Final = 2.0

T = TypeVar("T")
Idle = Callable[[], float]
There = tuple[asyncio.AbstractEventLoop, elector.Elector]


class Lead:
    """Campaigns for the lead and keeps it, beside the loop that runs `pulse`.

    `make` gives the elector, in the thread, of a session and of what tells for how long the main
    loop has not turned; `lost` is called in the thread when the lead is over.
    """

    def __init__(
        self,
        session: Callable[[], api.Api],
        make: Callable[[api.Api, Idle], elector.Elector],
        *,
        clock: ports.Clock,
        lost: Callable[[str], None],
    ) -> None:
        self._session = session
        self._make = make
        self._clock = clock
        self._lost = lost
        self._turned = clock()
        self._thread = threading.Thread(target=self._run, name="lead", daemon=True)
        self._ready: concurrent.futures.Future[There] = concurrent.futures.Future()
        self._main: asyncio.AbstractEventLoop
        self._loop: asyncio.AbstractEventLoop  # The thread's.
        self._elector: elector.Elector
        self._renewed = asyncio.Event()
        self._stop: asyncio.Event
        self._holding: asyncio.Task[None]

    # ------------------------------------------------------------ asked by the main loop

    async def start(self) -> None:
        """Start the thread, and wait until it takes orders."""
        self._main = asyncio.get_running_loop()
        self._thread.start()
        self._loop, self._elector = await asyncio.wrap_future(self._ready)

    async def pulse(self) -> None:
        """Show that the main loop turns, for ever."""
        while True:
            self._turned = self._clock()
            await asyncio.sleep(PULSE_SECONDS)

    async def campaign(self) -> elector.Term:
        """Wait until the Lease is ours; it is kept from then on."""
        return await self._there(self._win)

    def leads(self) -> bool:
        """Whether the lead is surely still ours."""
        return self._elector.leads()

    async def wait_steady(self) -> None:
        """Wait until the Lease was renewed since there was last a doubt of the server."""
        while not self._elector.steady():
            self._renewed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PULSE_SECONDS):
                    await self._renewed.wait()

    def doubt(self) -> None:
        """Have the Lease renewed before anything else is sent: the server was not there."""
        self._loop.call_soon_threadsafe(self._elector.doubt)

    async def declare(self, text: str) -> None:
        """Have the Lease carry a declaration, and wait until it surely does."""
        await self._there(lambda mine: mine.declare(text))

    async def release(self) -> None:
        """Release the Lease in order, so that the next leader need not wait."""
        await self._there(lambda mine: mine.release())

    async def stop(self) -> None:
        """End the thread; a Lease that was not released is left to lapse."""
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join, STOP_SECONDS)

    async def _there(self, work: Callable[[elector.Elector], Coroutine[Any, Any, T]]) -> T:
        """Have something done in the thread, and wait for it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(self._elector), self._loop))

    # ------------------------------------------------------------ inside the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception as error:
            log.exception("the thread that keeps the lead ended")
            if not self._ready.done():
                self._ready.set_exception(error)
            self._lost(f"{type(error).__name__}: {error}")

    async def _work(self) -> None:
        async with self._session() as session:
            self._stop = asyncio.Event()
            mine = self._make(session, lambda: self._clock() - self._turned)
            self._ready.set_result((asyncio.get_running_loop(), mine))
            await self._stop.wait()

    async def _win(self, mine: elector.Elector) -> elector.Term:
        term = await mine.campaign()
        self._holding = asyncio.create_task(self._hold(mine), name="hold the lead")
        return term

    def _tell(self) -> None:
        self._main.call_soon_threadsafe(self._renewed.set)

    async def _hold(self, mine: elector.Elector) -> None:
        try:
            await mine.hold(self._tell)
        except elector.Lost as error:
            self._lost(str(error))
        except Exception as error:
            log.exception("the lead cannot be held")
            self._lost(f"{type(error).__name__}: {error}")
