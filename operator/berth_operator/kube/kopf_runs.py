"""One run of Kopf, in a thread and loop of its own, which can always be ended.

Left to itself, Kopf does not end in some cases. When the watch of one kind fails, as when
its CRD is deleted, it goes on with the others for five seconds and then cancels every task
of its loop at once. A watcher that asks for a new watch at that moment takes its cancellation
for a pause, because the task that tells it of pauses was cancelled as well; it goes on, and
Kopf waits for it for ever. So its tasks are started, watched and ended from here: the roots
first, then each watcher alone, then the rest. What does not end even so is left in a loop
that never turns again.

Nothing of a run that is over reaches anybody: what it delivers is dropped, and its sessions
send no request, also where its thread hangs and wakes up much later.

Kopf asks the server once, at its start, which kinds there are, and never watches what was
not among them. An API server that has just come up serves our kinds a moment before it
names them, so a Kopf that did not find them is blind for good: it is ended, too.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Collection
from typing import Any, Final

import aiohttp
import kopf

# Kopf takes what it finds as an argument, and shows it there, but gives its type no public name.
from kopf._cogs.structs import references

from berth_crds import names, text
from berth_crds.client import connection
from berth_operator.kube import handlers, kopf_sessions, kopf_settings

GRACE_SECONDS: Final = 1.0  # For the tasks that Kopf ends by itself.
WATCHER_SECONDS: Final = 3.0  # For a watcher that lets its workers finish, which takes two.
GOODBYE_SECONDS: Final = 0.1
WATCHER: Final = "watcher for "  # How Kopf names these tasks.

Task = asyncio.Task[Any]


class Blind(Exception):
    """Kopf did not find the kinds that it is to watch."""


class Run:
    """One life of Kopf."""

    def __init__(self, link: connection.Connection, desk: handlers.Desk) -> None:
        self._link = link
        self._desk = desk
        self._closed = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._sessions: list[aiohttp.ClientSession] = []
        self._left: Collection[Task] = ()
        self.over: concurrent.futures.Future[None] = concurrent.futures.Future()  # With why it ended.
        self.over.set_running_or_notify_cancel()  # Whoever gives up waiting for it does not cancel it.
        self._thread = threading.Thread(target=self._main, name="kopf", daemon=True)

    def start(self) -> None:
        """Start the thread; a RuntimeError says that there can be no more of them."""
        try:
            self._thread.start()
        except RuntimeError:
            self._loop.close()
            raise

    def end(self) -> None:
        """Drop what it delivers from now on, and ask it to end."""
        self._closed.set()
        with contextlib.suppress(RuntimeError):  # The loop is closed once the thread has ended.
            self._loop.call_soon_threadsafe(self._stopping.set)

    # ------------------------------------------------------------ inside the thread

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._work())
        except BaseException as error:  # noqa: BLE001  Kopf ends with whatever the API gave it
            self.over.set_exception(error)
        else:
            self.over.set_result(None)
        finally:
            self._closed.set()
            # Kept, for a task that is taken apart before it is done complains.
            self._left = asyncio.all_tasks(self._loop)
            self._loop.close()

    async def _work(self) -> None:
        registry = kopf.OperatorRegistry()
        handlers.register(registry, self._desk)

        @kopf.on.login(id="berth", registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            made = kopf_sessions.session(self._link, closed=self._closed.is_set)
            self._sessions = [*(one for one in self._sessions if not one.closed), made]
            return kopf.AiohttpSession(
                server=self._link.server, default_namespace=self._link.namespace, aiohttp_session=made
            )

        found = references.Insights()
        roots = await kopf.spawn_tasks(
            registry=registry,
            settings=kopf_settings.settings(),
            insights=found,
            standalone=True,
            clusterwide=True,
        )
        try:
            await self._until_ended(roots, asyncio.ensure_future(_blindness(found)))
        finally:
            await self._end(roots)

    async def _until_ended(self, roots: Collection[Task], blind: asyncio.Task[Blind]) -> None:
        """Wait until Kopf ends by itself, is to end, or is blind; raise why, if there is a fault."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        done, _ = await asyncio.wait([*roots, blind, stopping], return_when=asyncio.FIRST_COMPLETED)
        if blind in done:
            raise blind.result()
        for task in done:
            task.result()

    async def _end(self, roots: Collection[Task]) -> None:
        self._closed.set()
        # What an ended Kopf complains of is nothing that anybody could mend.
        self._loop.set_exception_handler(lambda *_: None)
        await _cancelled(roots, GRACE_SECONDS)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await _cancelled([one for one in others if one.get_name().startswith(WATCHER)], WATCHER_SECONDS)
        for session in self._sessions:
            await session.close()
        await _cancelled(asyncio.all_tasks() - {asyncio.current_task()}, GRACE_SECONDS)
        # TLS needs some turns of the loop to close its connections.
        await asyncio.sleep(GOODBYE_SECONDS)


async def _cancelled(tasks: Collection[Task | None], seconds: float) -> None:
    """Cancel tasks, and wait for them for a while."""
    left = [one for one in tasks if one is not None and not one.done()]
    for one in left:
        one.cancel()
    if left:
        await asyncio.wait(left, timeout=seconds)


async def _blindness(found: references.Insights) -> Blind:
    """Wait until Kopf has found out what there is; return only if our kinds are not all among it."""
    await found.ready_resources.wait()
    named = {one.plural for one in found.watched_resources}
    missing = [one for one in handlers.WATCHED if one not in named]
    if not missing:
        await asyncio.Event().wait()
    return Blind(f"the API server did not name {' and '.join(missing)} of {names.GROUP} yet")


def reason(error: BaseException | None) -> str:
    """Return in a line why a run ended."""
    if isinstance(error, asyncio.CancelledError):
        return "it was cancelled from within"
    if error is None:
        return "it ended by itself"
    # Kopf's own errors of the API are shown as tuples otherwise.
    said = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    return text.line(said or type(error).__name__)
