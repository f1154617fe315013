"""Samples a probe in a thread of its own, and never waits longer than the deadline.

The thread is a daemon and not one of the event loop's: a driver that hangs cannot be interrupted,
and must delay neither the next tick nor the end of the program. There is one thread for each
probe, so a second sample never starts while one hangs. Between samples it asks a probe that is an
`EventSource` for events every second, so that an error does not wait for the next tick.
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

from berth_agent import flag_table, probe
from berth_agent.gpupods import process_owners

log = logging.getLogger(__name__)

EVENT_POLL_SECONDS: Final = 1.0
THREAD: Final = "probe"


@dataclasses.dataclass(frozen=True, slots=True)
class Observation:
    """A sample of the cards, and the processes on them; None where these are not known."""

    outcome: probe.Outcome
    processes: tuple[process_owners.LocatedProcess, ...] | None = None


Request = Callable[[Observation], None]


class Sampler:
    """Samples one probe."""

    def __init__(
        self,
        source: probe.Probe,
        *,
        deadline: float,
        procfs: Path = flag_table.PROCFS,
        on_change: Callable[[], None] = lambda: None,
        probe_lock: contextlib.AbstractContextManager[object] | None = None,
    ) -> None:
        """`on_change` is called in the loop's thread when the probe has events.

        `probe_lock` is held while the thread lives: of several samplers of one probe only one samples.
        """
        self._probe = source
        self._deadline = deadline
        self._procfs = procfs
        self._on_change = on_change
        self._probe_lock = probe_lock or contextlib.nullcontext()
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending: asyncio.Future[Observation] | None = None
        self._missed: tuple[probe.XidEvent, ...] = ()
        self._events_fail = False
        self._is_slow = False
        self._hung_message = ""  # Of the sample that hangs: it stays the same while that goes on.

    async def sample(self) -> Observation:
        """Return a new observation, or after the deadline a source that hangs.

        A hung sample is waited for only once: it must not delay the heartbeat. One that ends after all
        was slow, not hung. It is used if the next one is late as well, so a driver that always takes
        longer than the deadline is published one sample late.
        """
        late = None
        if self._pending is not None and self._pending.done():
            late, self._pending = self._pending.result(), None
            self._warn_slow()
        if self._pending is None:
            pending = self._pending = self._ask()
            await asyncio.wait({pending}, timeout=self._deadline)
            if pending.done():
                self._pending = None
                self._missed += _xids(late.outcome) if late else ()
                return self._complete(pending.result())
            self._hung_message = self._describe_hang()
            if late:
                return self._complete(late)
        return Observation(probe.SourceFailed("Hung", self._hung_message))

    def carry_over_xids(self, observation: Observation) -> None:
        """Add the errors of this observation, which nobody has judged, to the next one."""
        self._missed += _xids(observation.outcome)

    def _describe_hang(self) -> str:
        """Return a sentence that the probe hangs and, where it reports it, at which card."""
        where = self._probe.progress() if isinstance(self._probe, probe.ProgressReporter) else ""
        doing = f"; it is {where}" if where else ""
        return f"The probe has not answered within {self._deadline:g} s{doing}."

    def _warn_slow(self) -> None:
        if not self._is_slow:
            log.warning("a sample takes longer than the %g s of --sample-deadline", self._deadline)
        self._is_slow = True

    def _complete(self, observation: Observation) -> Observation:
        """Return an observation with the errors of earlier ones that were not returned."""
        if not self._missed or isinstance(observation.outcome, probe.SourceFailed):
            return observation
        missed, self._missed = self._missed, ()
        xids = (*missed, *observation.outcome.xids)
        return dataclasses.replace(observation, outcome=dataclasses.replace(observation.outcome, xids=xids))

    def close(self) -> None:
        """End the thread and close the probe after the current sample."""
        self._requests.put(None)

    def _ask(self) -> asyncio.Future[Observation]:
        loop = asyncio.get_running_loop()
        pending: asyncio.Future[Observation] = loop.create_future()

        def settle(found: Observation) -> None:
            if not pending.done():
                pending.set_result(found)

        self._requests.put(lambda found: _call_in_loop(loop, settle, found))
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, args=[loop], name=THREAD, daemon=True)
            self._thread.start()
        return pending

    # ------------------------------------------------------------ in the thread

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._probe_lock:
            while (answer := self._next(loop)) is not None:
                answer(_observe(self._probe, self._procfs))
            if isinstance(self._probe, probe.Closable):
                self._probe.close()

    def _next(self, loop: asyncio.AbstractEventLoop) -> Request | None:
        """Return the next request; if there are events meanwhile, report them once."""
        if isinstance(self._probe, probe.EventSource):
            while True:
                with contextlib.suppress(queue.Empty):
                    return self._requests.get(timeout=EVENT_POLL_SECONDS)
                if self._has_news(self._probe):
                    _call_in_loop(loop, self._on_change)
                    break
        return self._requests.get()

    def _has_news(self, source: probe.EventSource) -> bool:
        try:
            has_events = source.has_events()
        except Exception:
            # The next sample shows what is wrong. Events are asked for every second: log the failure once.
            if not self._events_fail:
                log.exception("the probe cannot read the events of its driver")
            self._events_fail = True
            return False
        self._events_fail = False
        return has_events


def _call_in_loop(loop: asyncio.AbstractEventLoop, what: Callable[..., None], *arguments: object) -> None:
    # The loop may have been closed while the driver hung.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what, *arguments)


def _xids(outcome: probe.Outcome) -> tuple[probe.XidEvent, ...]:
    return outcome.xids if isinstance(outcome, probe.Sample) else ()


def _observe(source: probe.Probe, procfs: Path) -> Observation:
    try:
        outcome = source.sample()
    except Exception as error:
        # An exception in a probe is a failed source; the agent goes on and publishes that.
        log.exception("the probe failed")
        return Observation(probe.SourceFailed("ProbeFailed", f"{type(error).__name__}: {error}"))
    return Observation(outcome, _located_processes(source, procfs))


def _located_processes(source: probe.Probe, procfs: Path) -> tuple[process_owners.LocatedProcess, ...] | None:
    if not isinstance(source, probe.ProcessLister):
        return None
    try:
        found = source.processes()
    except Exception:
        # The cards were read all the same; the processes published last stand.
        log.exception("the probe cannot list the processes on the cards")
        return None
    return None if found is None else process_owners.locate(found, procfs)
