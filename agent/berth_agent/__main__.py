"""The agent as a program: `python -m berth_agent` or `berth-agent`.

Reads the settings, wires one loop for each node, and turns signals into a clean end. The
clock, chance and the name of this process enter here and nowhere else.

On a clean end the Lease is left as it is. To release it would say nothing true: the last
Device is still the best that is known, and whether its silence matters is for the
operator's watchdog to judge, which a quick restart then never notices.
"""

import asyncio
import contextlib
import ctypes
import datetime as dt
import gc
import logging
import os
import random
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Final, assert_never

from berth_agent import (
    backoff,
    dropins,
    extra_devices,
    loop,
    node_view,
    probe,
    rdma,
    settings,
    simulated,
    sysfs,
)
from berth_agent.health import rules
from berth_agent.kubelet import podresources
from berth_agent.nvml import source
from berth_crds import flags, logs, nesting, vocabulary
from berth_crds.client import api, connection, errors

log = logging.getLogger("berth_agent")

LAST_WORD_SECONDS: Final = 1.5
MOST_PAUSE_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 600.0  # A node that ran for so long has not failed before.
SETTLED_SECONDS: Final = 15.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; 0 is a clean end, 2 a setting that cannot be used."""
    nesting.allow()
    try:
        chosen = settings.parse(
            sys.argv[1:] if arguments is None else arguments, os.environ, host=socket.gethostname()
        )
        logs.start(chosen.log_level, "%(asctime)s %(levelname)-7s %(message)s", chosen.log_format)
        subjects = tuple(_subject(node, chosen) for node in chosen.nodes)
        asyncio.run(_serve(_links(chosen), subjects, chosen))
    except (flags.Refused, simulated.BadShape, errors.Unusable) as refusal:
        logs.last_word(settings.PROGRAM, refusal)
        return flags.EXIT_UNUSABLE
    return 0


def _subject(node: settings.Node, chosen: settings.Settings) -> loop.Subject:
    kubelet, resources, labels = _kubelet(chosen), chosen.gpu_resources, chosen.node_labels
    match node:
        case settings.SimulatedNode(name, shape):
            made_up = simulated.SimulatedProbe(
                simulated.machine(name, shape), simulated.FaultFile(chosen.faults, name)
            )
            grants = vocabulary.GrantSource.SIMULATED
            return loop.Subject(
                name, made_up, grants, kubelet, resources, labels=labels, sharing=chosen.sharing
            )
        case settings.HardwareNode():
            own = rules.Rules(ignored=node.ignored_xids, critical=node.critical_xids)
            return loop.Subject(
                node.name,
                _hardware(node),
                None,
                kubelet,
                resources,
                node.procfs,
                own,
                labels=labels,
                sharing=chosen.sharing,
            )
        case _:
            assert_never(node)


def _hardware(node: settings.HardwareNode) -> probe.Probe:
    """Join what looks at real cards with what looks at the devices beside them."""
    kernel = sysfs.Kernel(node.sysfs, node.procfs)
    readers: list[extra_devices.Reader] = [lambda: rdma.devices(kernel)]
    if node.devices:
        readers.append(dropins.Folder(node.devices, kernel).devices)
    return extra_devices.Beside(source.NvmlProbe(kernel), readers)


def _kubelet(chosen: settings.Settings) -> podresources.Lister | None:
    if chosen.pod_resources is None:
        return None
    return podresources.PodResources(chosen.pod_resources, deadline=chosen.deadline)


def _links(chosen: settings.Settings) -> Mapping[str, connection.Connection]:
    """Return how each node speaks to the API server: all alike, or each under its own name."""
    names = [node.name for node in chosen.nodes]
    if not chosen.context_by_node:
        return dict.fromkeys(names, connection.load(chosen.kubeconfig, context=chosen.context))
    paths = connection.find(chosen.kubeconfig)
    if paths is None:
        raise flags.Refused("--context-by-node needs a kubeconfig with a context for each node.")
    return dict(zip(names, connection.from_contexts(paths, names), strict=True))


async def _serve(
    links: Mapping[str, connection.Connection], subjects: Sequence[loop.Subject], chosen: settings.Settings
) -> None:
    """Run every node until a signal comes."""
    pace = loop.Pace(chosen.interval, chosen.deadline, chosen.lease_seconds)
    means = loop.Means(clock=_now, chance=random.random, identity=_identity(), seconds=time.monotonic)
    stop = _on_signals()
    where = ", ".join(sorted({link.server for link in links.values()}))
    log.info("%s speaks for %s at %s", means.identity, _listed(subjects), where)
    boards = {each.node: node_view.Board(each.node) for each in subjects}
    async with _served(chosen, boards.values()), _sessions(links) as sessions:
        tasks = [
            asyncio.create_task(_keep(sessions[each.node], each, pace, means, boards[each.node]))
            for each in subjects
        ]
        asyncio.get_running_loop().call_later(SETTLED_SECONDS, _tidy)
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    log.info("stopped")


@contextlib.asynccontextmanager
async def _sessions(links: Mapping[str, connection.Connection]) -> AsyncIterator[Mapping[str, api.Api]]:
    """Open one session for each way to speak; nodes that speak alike share it."""
    opened = {id(link): api.Api(link, agent=settings.PROGRAM) for link in links.values()}
    for session in opened.values():
        await session.__aenter__()
    try:
        yield {name: opened[id(link)] for name, link in links.items()}
    finally:
        # All at once: each waits a moment for its connections, and there may be hundreds.
        await asyncio.gather(*(session.__aexit__(None, None, None) for session in opened.values()))


@contextlib.asynccontextmanager
async def _served(chosen: settings.Settings, boards: Iterable[node_view.Board]) -> AsyncIterator[None]:
    """Serve what is measured, and the probe, where that is wanted."""
    async with contextlib.AsyncExitStack() as stack:
        if chosen.listen_probes:
            log.info("probes at %s", await stack.enter_async_context(_probes(chosen.listen_probes)))
        if chosen.listen:
            log.info("listening at %s", await stack.enter_async_context(_measures(chosen, boards)))
        yield


# What these import takes memory that only a server needs.


def _probes(address: str) -> contextlib.AbstractAsyncContextManager[str]:
    from berth_agent import web  # noqa: PLC0415
    from berth_crds import http_server  # noqa: PLC0415

    return web.serving(address, flag="--listen-probes", limits=http_server.PROBES)


def _measures(
    chosen: settings.Settings, boards: Iterable[node_view.Board]
) -> contextlib.AbstractAsyncContextManager[str]:
    from berth_agent import metrics, web  # noqa: PLC0415

    collector = metrics.Collector(boards, clock=asyncio.get_running_loop().time, dcgm=chosen.dcgm_names)
    route = web.metrics_route(lambda: metrics.text(collector), metrics.CONTENT_TYPE)
    return web.serving(chosen.listen, route)


async def _keep(
    session: api.Api, subject: loop.Subject, pace: loop.Pace, means: loop.Means, seen: node_view.Board
) -> None:
    """Run one node; should it fail on a fault of ours, start it anew and leave the others alone."""
    failures, clock = 0, asyncio.get_running_loop().time
    while True:
        began = clock()
        try:
            await loop.run_node(session, subject, pace, means, seen)
        except Exception as error:
            failures = 1 if clock() - began > STEADY_SECONDS else failures + 1
            log.exception("node %s: the agent failed, starting it anew", subject.node)
            pause = backoff.pause(error, failures, most=MOST_PAUSE_SECONDS, chance=means.chance())
            await asyncio.sleep(pause)


def _tidy() -> None:
    """Release what only the start needed: the agent lives for months beside somebody's workload."""
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):  # Not every C library can.
        ctypes.CDLL(None).malloc_trim(0)


def _on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop(stop))
    return stop


def _stop(event: asyncio.Event) -> Callable[[], None]:
    def stop() -> None:
        event.set()
        # Threads of the event loop (names being resolved, a token file on a dead disk) are
        # waited for at its end. The end is clean either way: nothing is left to write.
        last_word = threading.Timer(LAST_WORD_SECONDS, os._exit, [0])
        last_word.daemon = True
        last_word.start()

    return stop


def _identity() -> str:
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _listed(subjects: Sequence[loop.Subject]) -> str:
    return ", ".join(subject.node for subject in subjects)


if __name__ == "__main__":
    sys.exit(main())
