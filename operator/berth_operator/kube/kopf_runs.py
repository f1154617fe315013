"""One run of Kopf, in a thread and loop of its own, which can always be ended.

On its own, Kopf does not end in some cases. When the watch of one kind fails, as when
its CRD is deleted, it goes on with the others for five seconds and then cancels every task
of its loop at once. A watcher that asks for a new watch at that moment takes its cancellation
for a pause, because the task that signals pauses was cancelled as well; it goes on, and
Kopf waits for it for ever. So its tasks are started, watched and ended here: the root tasks
first, then each watcher alone, then the rest. Tasks that do not end even so are left in a
stopped loop.

A run that is stopped has no effect any more: its events are dropped, and its sessions send no
request, also where its thread hangs and wakes up much later.

Kopf asks the server for its kinds once, at the start, and never watches a kind that was missing
then. An API server that has just started serves our kinds a moment before discovery lists them,
so a run that did not find them is ended, too.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Collection
from typing import Any, Final

import aiohttp
import kopf

# Kopf takes these as arguments, but gives their types no public names.
from kopf._cogs.structs import references
from kopf._core.engines import peering

from berth_crds import names, tasks, text
from berth_crds.client import connection, sockets
from berth_operator.kube import kopf_handlers, kopf_sessions, kopf_settings

GRACE_SECONDS: Final = 1.0  # For the tasks that Kopf ends by itself.
WATCHER_SECONDS: Final = 3.0  # For a watcher that lets its workers finish, which takes two.
WATCHER: Final = "watcher for "  # How Kopf names these tasks.

Task = asyncio.Task[Any]


class KindsNotFound(Exception):
    """Kopf did not find the kinds that it is to watch."""


class KopfRun:
    """One run of Kopf."""

    def __init__(self, link: connection.Connection, sink: kopf_handlers.KopfSink) -> None:
        self._link = link
        self._sink = sink
        self._closed = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._sockets = sockets.Sockets()
        self._sessions: list[aiohttp.ClientSession] = []
        self._left: Collection[Task] = ()
        self.ended: concurrent.futures.Future[None] = (
            concurrent.futures.Future()
        )  # With the error that ended it.
        self.ended.set_running_or_notify_cancel()  # A waiter that gives up does not cancel it.
        self._thread = threading.Thread(target=self._main, name="kopf", daemon=True)

    def start(self) -> None:
        """Start the thread; raise RuntimeError if the system has too many threads."""
        try:
            self._thread.start()
        except RuntimeError:
            self._loop.close()
            raise

    def stop(self) -> None:
        """Drop the run's events from now on, and ask it to end."""
        self._closed.set()
        with contextlib.suppress(RuntimeError):  # The loop is closed once the thread has ended.
            self._loop.call_soon_threadsafe(self._stopping.set)

    # ------------------------------------------------------------ inside the thread

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._work())
        except BaseException as error:  # noqa: BLE001  Kopf ends with whatever the API gave it
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)
        finally:
            self._closed.set()
            # Kept, for a pending task that is collected as garbage logs an error.
            self._left = asyncio.all_tasks(self._loop)
            self._loop.close()

    async def _work(self) -> None:
        registry = kopf.OperatorRegistry()
        kopf_handlers.register(registry, self._sink)

        @kopf.on.login(id="berth", registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            made = kopf_sessions.session(self._link, self._sockets, closed=self._closed.is_set)
            self._sessions = [*(one for one in self._sessions if not one.closed), made]
            return kopf.AiohttpSession(
                server=self._link.server, default_namespace=self._link.namespace, aiohttp_session=made
            )

        found = references.Insights()
        root_tasks = await kopf.spawn_tasks(
            registry=registry,
            settings=kopf_settings.settings(),
            insights=found,
            # Else Kopf looks up the name of its user, and ends where that has none, as in our image.
            identity=peering.Identity(names.OPERATOR_ACCOUNT),
            memories=kopf_settings.NoMemories(),
            standalone=True,
            clusterwide=True,
        )
        try:
            await self._until_ended(root_tasks, asyncio.ensure_future(_wait_kinds_missing(found)))
        finally:
            await self._end(root_tasks)

    async def _until_ended(self, root_tasks: Collection[Task], missing: asyncio.Task[None]) -> None:
        """Wait until Kopf ends, is stopped, or misses our kinds; raise the error, if there is one."""
        done, _ = await asyncio.wait(
            [*root_tasks, missing, asyncio.ensure_future(self._stopping.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in done:
            task.result()

    async def _end(self, root_tasks: Collection[Task]) -> None:
        self._closed.set()
        # The errors of a Kopf that is being ended need no log.
        self._loop.set_exception_handler(lambda *_: None)
        await tasks.end(root_tasks, seconds=GRACE_SECONDS)
        watchers = [one for one in asyncio.all_tasks() if one.get_name().startswith(WATCHER)]
        await tasks.end(watchers, seconds=WATCHER_SECONDS)
        for session in self._sessions:
            await session.close()
        await tasks.end(asyncio.all_tasks() - {asyncio.current_task()}, seconds=GRACE_SECONDS)
        await self._sockets.close()


async def _wait_kinds_missing(found: references.Insights) -> None:
    """Wait until Kopf has listed the server's kinds; raise if some of ours are missing, else wait on."""
    await found.ready_resources.wait()
    named = {one.plural for one in found.watched_resources}
    unnamed = [one for one in kopf_handlers.WATCHED if one not in named]
    if unnamed:
        raise KindsNotFound(f"the API server did not name {' and '.join(unnamed)} of {names.GROUP} yet")
    await asyncio.Event().wait()


def end_reason(error: BaseException | None) -> str:
    """Return in one line why a run ended."""
    if isinstance(error, asyncio.CancelledError):
        return "it was cancelled from within"
    if error is None:
        return "it ended by itself"
    # Kopf's own errors of the API are shown as tuples otherwise.
    message = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    return text.line(message or type(error).__name__)
