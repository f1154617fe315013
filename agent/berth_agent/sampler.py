"""Looks at a probe from a thread of its own, and never waits longer than the deadline.

The thread is a daemon and not one of the event loop's: a driver that hangs cannot be
interrupted, and must keep neither the next tick nor the end of the program waiting. There is
one thread for each probe, and it does one thing at a time, so that a second look never starts
over one that hangs. Between looks it asks a probe that listens to its driver for news now and
then, so that an error is looked at within a second and not with the next tick.
"""

import asyncio
import contextlib
import dataclasses
import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from berth_agent import card_processes, probe, settings
from berth_agent.gpupods import residents

log = logging.getLogger(__name__)

ASKING_SECONDS: Final = 1.0
THREAD: Final = "probe"


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """What one look gave: the cards, and the processes on them; None where nobody tells of these."""

    outcome: probe.Outcome
    crowd: tuple[residents.Resident, ...] | None = None


Request = Callable[[Look], None]


class Sampler:
    """Looks at one probe."""

    def __init__(
        self,
        source: probe.Probe,
        *,
        deadline: float,
        procfs: Path = settings.PROCFS,
        on_change: Callable[[], None] = lambda: None,
        alone: contextlib.AbstractContextManager[object] | None = None,
    ) -> None:
        """Remember whom to tell, in the loop's thread, that there is something to look at: `on_change`.

        `alone` is held while the thread lives, so that of several samplers of one probe only one looks.
        """
        self._probe = source
        self._deadline = deadline
        self._procfs = procfs
        self._on_change = on_change
        self._alone = alone or contextlib.nullcontext()
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._look: asyncio.Future[Look] | None = None
        self._missed: tuple[probe.Xid, ...] = ()
        self._is_deaf = False
        self._is_slow = False
        self._words = ""  # What is said of the look that hangs: one sentence, however it crawls on.

    async def sample(self) -> Look:
        """Look once, or say that the probe hangs.

        The deadline is waited for once: a hung look must not slow down the heartbeat. One that ends after
        all is slow, not hung. What it found is used if the next one is late as well: so a driver that always
        takes longer than the deadline is heard, a look later than others.
        """
        late = None
        if self._look is not None and self._look.done():
            late, self._look = self._look.result(), None
            self._tell_slow()
        if self._look is None:
            look = self._look = self._ask()
            await asyncio.wait({look}, timeout=self._deadline)
            if look.done():
                self._look = None
                self._missed += _xids(late.outcome) if late else ()
                return self._complete(look.result())
            self._words = self._hung()
            if late:
                return self._complete(late)
        return Look(probe.SourceFailed("Hung", self._words))

    def keep(self, look: Look) -> None:
        """Have the next look tell the errors of this one, which nobody has judged."""
        self._missed += _xids(look.outcome)

    def _hung(self) -> str:
        """Return that the probe hangs and, where it can tell, at what, so that the card to blame is known."""
        where = self._probe.whereabouts() if isinstance(self._probe, probe.Locator) else ""
        doing = f"; it is {where}" if where else ""
        return f"The probe has not answered within {self._deadline:g} s{doing}."

    def _tell_slow(self) -> None:
        if not self._is_slow:
            log.warning("a look takes longer than the %g s of --sample-deadline", self._deadline)
        self._is_slow = True

    def _complete(self, look: Look) -> Look:
        """Add the errors that looks before this one were told, and that nobody has heard of."""
        if not self._missed or isinstance(look.outcome, probe.SourceFailed):
            return look
        missed, self._missed = self._missed, ()
        xids = (*missed, *look.outcome.xids)
        return dataclasses.replace(look, outcome=dataclasses.replace(look.outcome, xids=xids))

    def close(self) -> None:
        """Let the thread end, and the probe be closed, once the look that is under way is over."""
        self._requests.put(None)

    def _ask(self) -> asyncio.Future[Look]:
        loop = asyncio.get_running_loop()
        look: asyncio.Future[Look] = loop.create_future()

        def settle(found: Look) -> None:
            if not look.done():
                look.set_result(found)

        self._requests.put(lambda found: _call(loop, settle, found))
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, args=[loop], name=THREAD, daemon=True)
            self._thread.start()
        return look

    # ------------------------------------------------------------ in the thread

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._alone:
            while (answer := self._next(loop)) is not None:
                answer(_guarded(self._probe, self._procfs))
            if isinstance(self._probe, probe.Closer):
                self._probe.close()

    def _next(self, loop: asyncio.AbstractEventLoop) -> Request | None:
        """Wait for the next look; if there is news meanwhile, tell it once."""
        if isinstance(self._probe, probe.Listener):
            while True:
                with contextlib.suppress(queue.Empty):
                    return self._requests.get(timeout=ASKING_SECONDS)
                if self._has_news(self._probe):
                    _call(loop, self._on_change)
                    break
        return self._requests.get()

    def _has_news(self, source: probe.Listener) -> bool:
        try:
            has_news = source.has_news()
        except Exception:
            # The next look shows what is wrong. Asked every second, the fault is told once.
            if not self._is_deaf:
                log.exception("the probe cannot listen to its driver")
            self._is_deaf = True
            return False
        self._is_deaf = False
        return has_news


def _call(loop: asyncio.AbstractEventLoop, what: Callable[..., None], *arguments: object) -> None:
    # The loop may have been closed while the driver hung.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what, *arguments)


def _xids(outcome: probe.Outcome) -> tuple[probe.Xid, ...]:
    return outcome.xids if isinstance(outcome, probe.Sample) else ()


def _guarded(source: probe.Probe, procfs: Path) -> Look:
    try:
        outcome = source.sample()
    except Exception as error:
        # A fault in a probe is one failed source; the agent lives on and says so.
        log.exception("the probe failed")
        return Look(probe.SourceFailed("ProbeFailed", f"{type(error).__name__}: {error}"))
    return Look(outcome, _crowd(source, procfs))


def _crowd(source: probe.Probe, procfs: Path) -> tuple[residents.Resident, ...] | None:
    if not isinstance(source, card_processes.Processes):
        return None
    try:
        found = source.processes()
    except Exception:
        # The cards were read all the same, and who is on them is what was said last.
        log.exception("the probe cannot tell the processes on the cards")
        return None
    return None if found is None else residents.settle(found, procfs)
