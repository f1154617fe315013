"""Makes the ways by which the agent itself opens cards to containers, as the settings choose them.

Only an agent that has such a way imports this: what these ways import takes memory.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from berth_agent import isolation_kinds
from berth_agent.cdi.writer import CdiConfig, CdiWriter
from berth_agent.delivery import isolation, other_devices
from berth_agent.delivery.device_nodes import DeviceNodes
from berth_agent.delivery.driver_files import DriverFiles
from berth_agent.delivery.means import CdiMeans, DirectMeans
from berth_agent.delivery.other_devices import Opener
from berth_agent.device_plugin import answers
from berth_agent.device_plugin.plugin import DevicePlugin, PluginConfig
from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import checkpoint
from berth_agent.kubelet.checkpoint import CompletedLister
from berth_agent.kubelet.podresources import PodResourcesClient, PodResourcesLister
from berth_agent.mps.daemon import MpsConfig, MpsDaemon
from berth_agent.nri import adjuster
from berth_agent.nri.messages import NewContainer
from berth_agent.nri.plugin import NriPlugin
from berth_agent.nri.shares_watch import SharesWatch
from berth_agent.nvml import compute_mode
from berth_agent.settings import IsolationSettings, NriSettings, Settings
from berth_agent.way import MakeWay, NodeAccess


def makers(
    settings: Settings,
    node: str,
    procfs: Path,
    *,
    simulated: bool,
    openers: Mapping[str, Opener] = other_devices.NO_OPENERS,
) -> Iterator[MakeWay]:
    """Yield what makes each way of a node; simulated cards need no device nodes, and are in no mode.

    `openers` open devices of other types, by type.
    """
    direct = _direct_means(settings, procfs, simulated=simulated)
    mps = _mps(settings, node, simulated=simulated)
    kept = _isolation(settings.isolation, mps)
    sockets = settings.plugin.socket if settings.plugin else None
    checkpoint_file = checkpoint.path(plugins=sockets, pod_resources=settings.pod_resources)
    if mps:
        yield lambda _: mps
    if nri := _nri(settings, direct, kept, openers):
        yield lambda access: _nri_plugin(nri, access, checkpoint_file)
    if settings.cdi:
        cdi = CdiConfig(settings.cdi, direct)
        yield lambda access: CdiWriter(cdi, access.node, access.cards, interval=settings.interval)
    if plugin := _plugin(settings, direct, mps, kept):
        yield lambda access: _device_plugin(plugin, access, checkpoint_file)
    if nri:
        yield lambda _: SharesWatch(kept)


def _direct_means(settings: Settings, procfs: Path, *, simulated: bool) -> DirectMeans:
    """Return what opens the cards of a node; simulated ones need no device nodes."""
    driver = settings.driver
    device_nodes = DeviceNodes(driver.dev, procfs, optional=simulated)
    return DirectMeans(device_nodes, DriverFiles(driver.root, driver.on_host))


def _mps(settings: Settings, node: str, *, simulated: bool) -> MpsDaemon | None:
    """Return the daemon of MPS, where it is kept running; simulated cards need not be set for it."""
    if settings.mps is None:
        return None
    config = MpsConfig(settings.mps.root, settings.mps.control, settings.modes.sharing)
    if not simulated:
        config = dataclasses.replace(config, make_exclusive=compute_mode.make_exclusive)
    return MpsDaemon(config, node, interval=settings.interval)


def _isolation(settings: IsolationSettings, mps: MpsDaemon | None) -> isolation.Isolation:
    """Return what keeps containers to their parts of cards."""
    if settings.kind == isolation_kinds.MPS and mps:
        return isolation.MpsIsolation(mps)
    if settings.kind == isolation_kinds.HAMI_CORE and settings.hami_core:
        return isolation.HamiIsolation(settings.hami_core)
    return isolation.NOT_ISOLATED


def _nri(
    settings: Settings, direct: DirectMeans, kept: isolation.Isolation, openers: Mapping[str, Opener]
) -> adjuster.NriConfig | None:
    """Return how containers are adjusted as the runtime makes them, where they are."""
    if (nri := settings.nri) is None:
        return None
    means = CdiMeans(nri.cdi_kind) if nri.cdi_kind else direct
    guard = _guard(settings, nri)
    return adjuster.NriConfig(nri.socket, means, guard, kept, openers, direct.device_nodes)


def _guard(settings: Settings, nri: NriSettings) -> adjuster.Guard | None:
    if not nri.guard or settings.pod_resources is None:
        return None
    kubelet = PodResourcesClient(settings.pod_resources, deadline=adjuster.KUBELET_SECONDS)
    return adjuster.Guard(kubelet, settings.gpu_resources, frozenset(nri.unguarded_namespaces))


def _nri_plugin(config: adjuster.NriConfig, access: NodeAccess, file: Path | None) -> NriPlugin:
    if config.guard:
        guard = dataclasses.replace(config.guard, kubelet=_completed(config.guard.kubelet, access, file))
        config = dataclasses.replace(config, guard=guard)
    decisions = adjuster.Adjuster(access.node, access.cards, _requested(access), config)
    return NriPlugin(config.socket, access.node, decisions.delivery)


def _requested(access: NodeAccess) -> adjuster.Requested:
    """Return what says which resources a container asks the kubelet for; None while its pod is not known."""

    def requested(container: NewContainer) -> Iterable[str] | None:
        # Under its name an earlier pod may still be the one that is known.
        if container.pod_uid not in {pod.metadata.uid for pod in access.pods.pods()}:
            return None
        return access.requested((container.namespace, container.pod), container.name)

    return requested


def _completed(lister: PodResourcesLister, access: NodeAccess, file: Path | None) -> PodResourcesLister:
    """Return a lister that knows of init containers, too, if the agent is shown the kubelet's checkpoint."""
    if file is None:
        return lister
    return CompletedLister(lister, file, lambda: watched_pod.keys_by_uid(access.pods.pods()))


def _plugin(
    settings: Settings, direct: DirectMeans, mps: MpsDaemon | None, kept: isolation.Isolation
) -> PluginConfig | None:
    """Return how the kubelet is served, where it is."""
    if (plugin := settings.plugin) is None or settings.pod_resources is None:
        return None
    kubelet = PodResourcesClient(settings.pod_resources, deadline=answers.LIST_SECONDS)
    rules = answers.AnswerRules(plugin.choices, direct, settings.driver.dev_on_host, mps, kept)
    return PluginConfig(plugin.socket, kubelet, rules)


def _device_plugin(config: PluginConfig, access: NodeAccess, file: Path | None) -> DevicePlugin:
    config = dataclasses.replace(config, kubelet=_completed(config.kubelet, access, file))
    return DevicePlugin(config, access.node, access.pods, access.hangup, access.on_change)
