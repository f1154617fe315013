"""The agent as a program: `python -m berth_agent` or `berth-agent`.

Reads the settings, starts one loop for each node, and turns signals into a clean exit. The
time of day and the name of this process enter here and nowhere else.

On a clean exit the Lease is left as it is: the last Device is still the best that is known, and
whether the agent is away for too long is for the operator's watchdog to judge. So a quick
restart changes nothing.
"""

import asyncio
import contextlib
import ctypes
import dataclasses
import gc
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from berth_agent import (
    backoff,
    cardless,
    chosen_packages,
    configuration,
    extra_device_files,
    extra_devices,
    flag_table,
    fpga,
    loop,
    probe,
    rdma,
    sampler,
    simulated,
    sysfs,
    way,
)
from berth_agent.flag_table import PROGRAM
from berth_agent.health import health_rules
from berth_agent.kubelet import checkpoint, podresources
from berth_agent.node_view import NodeView
from berth_agent.nvml import nvml_probe
from berth_agent.settings import (
    HardwareNode,
    Node,
    Settings,
    SimulatedNode,
)
from berth_crds import flags, logs, nesting, tasks, vocabulary
from berth_crds.client import api, connection, errors, lease

if TYPE_CHECKING:
    from berth_agent import package_sources
    from berth_agent.delivery import other_devices

log = logging.getLogger("berth_agent")

EXIT_CARDS_UNREADABLE: Final = 1  # As NVIDIA's plugin has it.
EXIT_SECONDS: Final = 1.5
SERVED_SECONDS: Final = 10.0  # How long an ending agent serves a kubelet that still has pods to admit.
MOST_PAUSE_SECONDS: Final = 60.0
STABLE_SECONDS: Final = 600.0  # After running for so long, earlier failures no longer count.
STARTED_SECONDS: Final = 15.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal comes, and return the exit code.

    It is 0, or 2 for a setting that cannot be used, or 1 if cards that cannot be read are to end the agent.
    """
    nesting.raise_limits()
    try:
        settings_reader = configuration.SettingsReader(
            sys.argv[1:] if arguments is None else arguments, os.environ, host=socket.gethostname()
        )
        settings = settings_reader.without_file
        logs.start(settings.log_level, "%(asctime)s %(levelname)-7s %(message)s", settings.log_format)
        settings = asyncio.run(_unless_ended(settings_reader.at_start()))
        not_loaded = chosen_packages.load(settings)
        configs = tuple(_config(node, settings, not_loaded) for node in settings.nodes)
        if asyncio.run(_serve(_connections(settings), configs, settings, settings_reader)):
            configuration.start_anew()
    except (flags.UsageError, simulated.BadShape, errors.Unusable) as refusal:
        logs.report_exit(PROGRAM, refusal)
        return flags.EXIT_UNUSABLE
    except asyncio.CancelledError:
        return 0  # It was told to end before it knew its settings.
    except CardsUnreadable as failure:
        logs.report_exit(PROGRAM, failure)
        return EXIT_CARDS_UNREADABLE
    return 0


async def _unless_ended(awaited: Awaitable[Settings]) -> Settings:
    """Return what is awaited; a signal to end cancels it."""
    task = asyncio.current_task()
    assert task is not None, "this is a task"  # noqa: S101
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await awaited


class CardsUnreadable(Exception):
    """The cards of a node cannot be read at the start; the text is a sentence."""


def _config(node: Node, settings: Settings, not_loaded: Sequence[str]) -> loop.NodeConfig:
    """Return what the loop needs to know of a node: its cards, and what all kinds of nodes have."""
    sources = chosen_packages.sources(node, settings, not_loaded)
    further: list[extra_devices.Reader] = [sources.read] if sources else []
    match node:
        case SimulatedNode(name, shape):
            extra = extra_devices.ExtraDevices(further)
            cards = simulated.SimulatedProbe(name, shape, settings.faults, extra.complete)
            boot = simulated.boot_id(name)
            config = loop.NodeConfig(name, cards, vocabulary.GrantSource.SIMULATED, boot_id=boot)
        case HardwareNode():
            own = health_rules.HealthRules(ignored=node.ignored_xids, critical=node.critical_xids)
            boot = sysfs.Kernel(node.sysfs, node.procfs).boot_id()
            config = loop.NodeConfig(
                node.name, _hardware(node, further), boot_id=boot, procfs=node.procfs, rules=own
            )
        case _:
            assert_never(node)
    pod_resources = settings.pod_resources or _usual_socket(node, settings)
    return dataclasses.replace(
        config,
        kubelet=_kubelet(pod_resources, settings.deadline),
        checkpoint=checkpoint.path(
            plugins=settings.plugin.socket if settings.plugin else None, pod_resources=pod_resources
        ),
        resources=settings.gpu_resources,
        others=settings.others,
        labels=settings.node_labels,
        modes=settings.modes,
        ways=tuple(_ways(node, settings, config, sources)),
    )


def _usual_socket(node: Node, settings: Settings, path: Path = flag_table.POD_RESOURCES) -> Path | None:
    """Return the usual socket of the kubelet of this node, if its folder is there and it may be asked.

    The socket itself may be missing for a while: a kubelet that restarts makes it anew.
    """
    may_ask = isinstance(node, HardwareNode) and settings.others.asks_kubelet
    if not may_ask or not path.parent.is_dir():
        return None
    log.info("the kubelet is asked at %s which devices it gave to which pods", path)
    return path


def _kubelet(socket_path: Path | None, deadline: float) -> podresources.PodResourcesClient | None:
    """Return a client of the kubelet, if the kubelet is to be asked."""
    return podresources.PodResourcesClient(socket_path, deadline=deadline) if socket_path else None


def _hardware(node: HardwareNode, further: Iterable[extra_devices.Reader]) -> probe.Probe:
    """Return the probe of the real cards and the extra devices of the node, those of packages last."""
    kernel = sysfs.Kernel(node.sysfs, node.procfs)
    readers: list[extra_devices.Reader] = [lambda: rdma.devices(kernel), lambda: fpga.devices(kernel)]
    folder = extra_device_files.DeviceFolder(node.devices, kernel) if node.devices else None
    if folder:
        readers.append(folder.devices)
    extra = extra_devices.ExtraDevices((*readers, *further), folder.labels if folder else tuple)
    made = nvml_probe.NvmlProbe if node.gpus else cardless.CardlessProbe
    return made(kernel, extra.complete)


def _connections(settings: Settings) -> Mapping[str, connection.Connection]:
    """Return the connection of each node to the API server: one for all, or one context for each node."""
    names = [node.name for node in settings.nodes]
    if not settings.context_by_node:
        return dict.fromkeys(names, connection.load(settings.kubeconfig, context=settings.context))
    if (paths := connection.find(settings.kubeconfig)) is None:
        raise flags.UsageError("--context-by-node needs a kubeconfig with a context for each node.")
    return dict(zip(names, connection.from_contexts(paths, names), strict=True))


async def _serve(
    connections: Mapping[str, connection.Connection],
    configs: Sequence[loop.NodeConfig],
    settings: Settings,
    settings_reader: configuration.SettingsReader,
) -> bool:
    """Run every node until a signal comes, or raise `CardsUnreadable` where that is to end the agent.

    Return whether the agent is to start anew, because its settings have changed.
    """
    if settings.fail_on_init_error:
        await _check_cards(configs, settings.deadline)
    timing = loop.Timing(settings.interval, settings.deadline, settings.lease_seconds)
    identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    process = loop.ProcessContext(clock=lease.wall, identity=identity)
    patience = EXIT_SECONDS + (SERVED_SECONDS + flag_table.DRAIN_SECONDS if settings.plugin else 0)
    stop = _on_signals(process.hangup, settings_reader, patience)
    nodes = ", ".join(config.node for config in configs)
    servers = ", ".join(sorted({each_connection.server for each_connection in connections.values()}))
    log.info("%s speaks for %s at %s", process.identity, nodes, servers)
    node_views = {each.node: NodeView(each.node) for each in configs}
    async with _served(settings, node_views.values()), _sessions(connections) as sessions:
        running = [
            asyncio.create_task(
                _run_forever(sessions[each.node], each, timing, process, node_views[each.node])
            )
            for each in configs
        ]
        asyncio.get_running_loop().call_later(STARTED_SECONDS, _release_memory)
        changed = asyncio.create_task(settings_reader.changed(settings))
        ended = asyncio.create_task(stop.wait())
        await asyncio.wait((changed, ended), return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            configuration.ignore_hangups()
            _at_the_latest(patience, lambda: configuration.start_anew_unless(stop))
        if settings.plugin:
            await _end_plugin(process)
        await tasks.end([*running, changed, ended])
    log.info("stopped")
    return not stop.is_set()


async def _end_plugin(process: loop.ProcessContext) -> None:
    """Let the kubelet have what it asks for, if that does not take too long."""
    process.ending.set()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SERVED_SECONDS):
            await process.ended.wait()


async def _check_cards(configs: Iterable[loop.NodeConfig], deadline: float) -> None:
    """Raise `CardsUnreadable` for the first node whose cards cannot be read."""
    for config in configs:
        first = sampler.Sampler(
            config.probe, deadline=deadline, procfs=config.procfs, probe_lock=config.probe_lock
        )
        with contextlib.closing(first):
            outcome = (await first.sample()).outcome
        if isinstance(outcome, probe.SourceFailed):
            raise CardsUnreadable(f"the cards of {config.node} cannot be read: {outcome.message}")


@contextlib.asynccontextmanager
async def _sessions(connections: Mapping[str, connection.Connection]) -> AsyncIterator[Mapping[str, api.Api]]:
    """Open one session for each connection; nodes with the same connection share it."""
    opened = {
        id(each_connection): api.Api(each_connection, agent=PROGRAM)
        for each_connection in connections.values()
    }
    for session in opened.values():
        await session.__aenter__()
    try:
        yield {name: opened[id(each_connection)] for name, each_connection in connections.items()}
    finally:
        # Concurrently: each waits a moment for its connections, and there may be hundreds.
        await asyncio.gather(*(session.__aexit__(None, None, None) for session in opened.values()))


@contextlib.asynccontextmanager
async def _served(settings: Settings, node_views: Iterable[NodeView]) -> AsyncIterator[None]:
    """Serve metrics and probes where the settings ask for them."""
    async with contextlib.AsyncExitStack() as stack:
        if settings.listen_probes:
            log.info("probes at %s", await stack.enter_async_context(_probes(settings, node_views)))
        if settings.listen:
            log.info("listening at %s", await stack.enter_async_context(_metrics(settings, node_views)))
        yield


# What these import takes memory that an agent spares without them.


def _ways(
    node: Node, settings: Settings, config: loop.NodeConfig, sources: "package_sources.PackageSources | None"
) -> Iterator[way.MakeWay]:
    """Yield what makes each way that is chosen for a node, and the report on the packages."""
    if sources:
        from berth_agent import package_report  # noqa: PLC0415

        yield lambda _: package_report.PackageReport(sources)
    if files := settings.runtime_config:
        from berth_agent import runtime_watch  # noqa: PLC0415

        runtime = runtime_watch.RuntimeConfig(files)
        yield lambda _: runtime_watch.RuntimeWatch(runtime, interval=settings.interval)
    if settings.nri or settings.cdi or settings.plugin or settings.mps:
        from berth_agent import chosen_ways, kernel_openers  # noqa: PLC0415

        openers: dict[str, other_devices.Opener] = {**sources.openers} if sources else {}
        if isinstance(node, HardwareNode):
            kernel = sysfs.Kernel(node.sysfs, node.procfs)
            openers |= kernel_openers.of_kernel(kernel, settings.driver.dev)
        yield from chosen_ways.makers(
            settings,
            config.node,
            config.procfs,
            simulated=isinstance(node, SimulatedNode),
            openers=openers,
        )


def _probes(
    settings: Settings, node_views: Iterable[NodeView]
) -> contextlib.AbstractAsyncContextManager[str]:
    from berth_agent import web  # noqa: PLC0415
    from berth_crds import http_server  # noqa: PLC0415

    ready = web.ready_route(lambda: _unready(settings, node_views))
    return web.serving(settings.listen_probes, ready, flag="--listen-probes", limits=http_server.PROBES)


def _metrics(
    settings: Settings, node_views: Iterable[NodeView]
) -> contextlib.AbstractAsyncContextManager[str]:
    from berth_agent import metrics, web  # noqa: PLC0415

    collector = metrics.Collector(node_views, clock=asyncio.get_running_loop().time, dcgm=settings.dcgm_names)
    return web.serving(
        settings.listen,
        web.ready_route(lambda: _unready(settings, node_views)),
        web.metrics_route(lambda: metrics.text(collector), metrics.CONTENT_TYPE),
    )


def _unready(settings: Settings, node_views: Iterable[NodeView]) -> str:
    """Return of each node whose Lease may have expired why that is, in sentences."""
    now = asyncio.get_running_loop().time()
    return " ".join(filter(None, (each.unready(now, most=settings.lease_seconds) for each in node_views)))


async def _run_forever(
    session: api.Api,
    config: loop.NodeConfig,
    timing: loop.Timing,
    process: loop.ProcessContext,
    seen: NodeView,
) -> None:
    """Run one node, and restart it after an unexpected exception; other nodes are not affected."""
    failures, clock = 0, asyncio.get_running_loop().time
    while True:
        began = clock()
        try:
            await loop.NodeAgent(session, config, timing, process, seen).run()
        except Exception as error:
            failures = 1 if clock() - began > STABLE_SECONDS else failures + 1
            log.exception("node %s: the agent failed and is restarted", config.node)
            await asyncio.sleep(backoff.pause(error, failures, most=MOST_PAUSE_SECONDS))


def _release_memory() -> None:
    """Release the memory that only the start needed: the agent runs for months beside workloads."""
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):  # Not every C library has it.
        ctypes.CDLL(None).malloc_trim(0)


def _on_signals(
    hangup: asyncio.Event, settings_reader: configuration.SettingsReader, patience: float
) -> asyncio.Event:
    """Return an event that a signal to end sets; `patience` seconds after that the process is killed.

    A SIGHUP sets `hangup`, and has settings read.
    """
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _hang_up, hangup, settings_reader)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stop, patience)
    return stop


def _hang_up(hangup: asyncio.Event, settings_reader: configuration.SettingsReader) -> None:
    hangup.set()
    hangup.clear()
    settings_reader.look_again()


def _stop(event: asyncio.Event, patience: float) -> None:
    event.set()
    _at_the_latest(patience, lambda: os._exit(0))


def _at_the_latest(patience: float, leave: Callable[[], object]) -> None:
    """Leave the process after so many seconds, if it is still there then."""
    # The event loop waits for its threads (names being resolved, a token file on a dead disk)
    # before it ends. The end is clean without them: nothing is left to write.
    timer = threading.Timer(patience, leave)
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    sys.exit(main())
