"""The flags of the agent, read once at the start.

Flags win over the environment, the environment over the configuration file, the file over defaults. A value
that cannot be used raises `flags.UsageError` with one sentence; nothing here prints, exits or looks at the
machine: arguments, environment, host name and what the file says are parameters. To add a flag, add a field
to `Settings`, its argument to `flag_table` and, where its text has a form of its own, a parser to
`flag_values`.
What a shape means is left to the simulated probe.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from berth_agent import (
    card_modes,
    config_choice,
    config_file,
    delivery_flags,
    flag_table,
    flag_values,
    isolation_kinds,
    other_holders,
    plugin_choices,
    xid_choices,
)
from berth_crds import device_packages, flags, logs, names, schema_limits, wire
from berth_crds.text import quoted


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node with simulated cards, and their shape."""

    name: str
    shape: str


@dataclasses.dataclass(frozen=True, slots=True)
class HardwareNode:
    """A node with real cards, and the settings for reading them."""

    name: str
    sysfs: Path = flag_table.SYSFS
    procfs: Path = flag_table.PROCFS
    devices: Path | None = None
    ignored_xids: xid_choices.XidChoice = xid_choices.NO_XIDS
    critical_xids: xid_choices.XidChoice = xid_choices.NO_XIDS
    gpus: bool = True


Node = SimulatedNode | HardwareNode


@dataclasses.dataclass(frozen=True, slots=True)
class NriSettings:
    """The runtime's socket, and what its plugin does there."""

    socket: Path
    cdi_kind: str = ""
    guard: bool = False
    unguarded_namespaces: tuple[str, ...] = delivery_flags.UNGUARDED_NAMESPACES


@dataclasses.dataclass(frozen=True, slots=True)
class IsolationSettings:
    """What keeps containers to their parts of cards, and where HAMi's library is."""

    kind: str = isolation_kinds.NONE
    hami_core: Path | None = None


NO_ISOLATION: Final = IsolationSettings()


@dataclasses.dataclass(frozen=True, slots=True)
class MpsSettings:
    """Where the daemon of MPS has its folders, and what starts it."""

    root: Path
    control: str


@dataclasses.dataclass(frozen=True, slots=True)
class PluginSettings:
    """The kubelet's socket for device plugins, and how containers learn of their devices."""

    socket: Path
    choices: plugin_choices.PluginChoices = plugin_choices.USUAL


@dataclasses.dataclass(frozen=True, slots=True)
class DriverFolders:
    """Where the driver is on the host and where the agent sees that, and the same of the device nodes."""

    on_host: Path = Path("/")
    root: Path = Path("/")
    dev: Path = Path("/dev")
    dev_on_host: Path = Path("/dev")


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """All settings, checked as far as possible without looking at the machine."""

    nodes: tuple[Node, ...]
    config_file: Path | None = None
    config_folder: config_choice.ConfigFolder | None = None
    faults: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    context_by_node: bool = False
    interval: float = flag_table.INTERVAL_SECONDS
    lease_seconds: int = flag_table.LEASE_SECONDS
    deadline: float = flag_table.DEADLINE_SECONDS
    log_level: str = "info"
    log_format: str = logs.PLAIN
    pod_resources: Path | None = None
    gpu_resources: tuple[str, ...] = flag_table.GPU_RESOURCES
    others: other_holders.OtherHolders = other_holders.USUAL
    modes: card_modes.CardModes = card_modes.USUAL
    listen: str = ""
    listen_probes: str = ""
    dcgm_names: bool = False
    node_labels: bool = True
    fail_on_init_error: bool = False
    nri: NriSettings | None = None
    isolation: IsolationSettings = NO_ISOLATION
    mps: MpsSettings | None = None
    runtime_config: tuple[Path, ...] = ()
    cdi: Path | None = None
    plugin: PluginSettings | None = None
    driver: DriverFolders = DriverFolders()
    device_packages: tuple[str, ...] = device_packages.USUAL


def parse(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    host: str,
    config: config_file.Config = config_file.NONE,
    checked: bool = True,
) -> Settings:
    """Return the settings, or raise a usage error; `--help` and `--version` print and exit.

    Without a file that is still to be read, what makes sense only with it cannot be `checked`.
    """
    given = vars(_parser(environment, host, config.texts).parse_args(arguments))
    settings = Settings(
        nodes=_nodes(given),
        config_file=given["config_file"],
        config_folder=_config_folder(given),
        faults=given["faults"],
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        context_by_node=given["context_by_node"],
        interval=given["interval"],
        lease_seconds=given["lease_duration"],
        deadline=given["sample_deadline"],
        log_level=given["log_level"],
        log_format=given["log_format"],
        pod_resources=given["pod_resources"],
        gpu_resources=tuple(dict.fromkeys((*given["gpu_resources"], names.GPU))),
        others=other_holders.chosen(given),
        modes=card_modes.CardModes(_sharing(given), given["rename_shared"], given["mig_strategy"]),
        listen=given["listen"],
        listen_probes=given["listen_probes"],
        dcgm_names=given["dcgm_names"],
        node_labels=given["node_labels"],
        fail_on_init_error=given["fail_on_init_error"],
        nri=_nri(given),
        isolation=IsolationSettings(given["share_isolation"], given["hami_core"]),
        mps=_mps(given),
        runtime_config=given["runtime_config"],
        cdi=given["cdi"],
        plugin=_plugin(given),
        driver=_driver(given),
        device_packages=given["device_packages"],
    )
    if checked:
        _check(settings)
    return settings


def _parser(
    environment: Mapping[str, str], host: str, file: Mapping[str, flags.SourcedText]
) -> argparse.ArgumentParser:
    parser = flags.Parser(
        prog=flag_table.PROGRAM, description=flag_table.DESCRIPTION, epilog=flag_table.EPILOG
    )
    for title, arguments in flag_table.FLAGS.items():
        group = parser.add_argument_group(title)
        for flag, options in arguments.items():
            foreign = flag_table.FOREIGN_FLAGS.get(flag, flag)
            spellings = dict.fromkeys((f"--{flag}", f"--{foreign}"))
            group.add_argument(*spellings, **_with_source(flag, options, environment, file))
    several = [part for part in environment.get("BERTH_SIMULATED_NODES", "").split(",") if part.strip()]
    node = environment.get("BERTH_NODE") or environment.get("NODE_NAME")
    parser.set_defaults(fallback_node=node or host.lower(), fallback_simulated=several)
    return parser


def _with_source(
    flag: str,
    options: delivery_flags.Options,
    environment: Mapping[str, str],
    file: Mapping[str, flags.SourcedText],
) -> delivery_flags.Options:
    """Return the options of a flag; where it has a default, with that of its variables or of the file."""
    if "default" not in options:
        return options
    usual = options["default"]
    variables = flags.variable(flag), *flag_table.FOREIGN_VARIABLES.get(flag, ())
    default = flags.default(environment, file.get(flag, usual), *variables)
    if isinstance(usual, bool):
        switch = default if isinstance(default, bool) else flags.reader(flag_values.yes_or_no)(default)
        return {**options, "action": argparse.BooleanOptionalAction, "default": switch}
    return {**options, "type": flags.reader(options.get("type", str)), "default": default}


# ---------------------------------------------------------------- which nodes


def _nodes(given: Mapping[str, Any]) -> tuple[Node, ...]:
    """Return the nodes: this one, simulated or real, or several simulated ones by name."""
    named = given["simulated_node"]
    several = named or ([] if given["simulate"] else given["fallback_simulated"])
    blamed = "--simulated-node" if named else "BERTH_SIMULATED_NODES"
    if several and (given["simulate"] or given["node"] is not None):
        raise flags.UsageError(
            f"{blamed} names its nodes itself and goes with neither --node nor --simulate."
        )
    if not given["gpus"] and (several or given["simulate"]):
        raise flags.UsageError("--no-gpus is for a node without cards: it does not go with simulated ones.")
    if several:
        return tuple(_simulated(text, blamed) for text in several)
    name = _node(given["fallback_node"] if given["node"] is None else given["node"])
    if given["simulate"]:
        return (SimulatedNode(name, given["simulate"]),)
    if given["faults"]:
        raise flags.UsageError("--faults breaks simulated cards only: give --simulate SHAPE with it.")
    # The flags are called as its fields.
    return (
        HardwareNode(name, **{one.name: given[one.name] for one in dataclasses.fields(HardwareNode)[1:]}),
    )


def _simulated(text: str, blamed: str) -> SimulatedNode:
    name, separator, shape = text.strip().partition("=")
    if not separator or not shape:
        raise flags.UsageError(
            f"{blamed} takes NAME=SHAPE, such as gpu-1=8xA100-SXM4-80GB, not {quoted(text)}."
        )
    return SimulatedNode(_node(name), shape)


def _node(name: str) -> str:
    if not schema_limits.DNS_SUBDOMAIN.matches(name):
        raise flags.UsageError(
            f"{quoted(name)} is not the name of a node: lowercase letters, digits, '-' and '.'."
        )
    return name


def _config_folder(given: Mapping[str, Any]) -> config_choice.ConfigFolder | None:
    """Return the folder of configuration files; None where there is none."""
    if not given["config_folder"]:
        return None
    if given["config_file"]:
        raise flags.UsageError("--config-file names the file itself: it does not go with --config-folder.")
    return config_choice.ConfigFolder(
        given["config_folder"], given["default_config"], given["fallback_strategies"]
    )


def _nri(given: Mapping[str, Any]) -> NriSettings | None:
    """Return the settings of the runtime's plugin; None where there is to be none."""
    if given["nri"]:
        return NriSettings(given["nri"], given["nri_cdi_kind"], given["guard"], given["unguarded_namespaces"])
    for flag in ("guard", "nri-cdi-kind"):
        if given[flag.replace("-", "_")]:
            raise flags.UsageError(
                f"--{flag} is about what the runtime's plugin does: give --nri SOCKET with it."
            )
    return None


def _sharing(given: Mapping[str, Any]) -> wire.Sharing | None:
    """Return how cards are shared, and whether the device plugin gives a container one replica at most."""
    sharing: wire.Sharing | None = given["sharing"]
    if sharing and given["kubelet_socket"] and given["fail_requests_greater_than_one"]:
        return msgspec.structs.replace(sharing, one_per_container=True)
    return sharing


def _plugin(given: Mapping[str, Any]) -> PluginSettings | None:
    """Return the settings of the device plugin; None where there is to be none."""
    choices = plugin_choices.PluginChoices(
        given["device_list_strategy"],
        given["device_id_strategy"],
        given["pass_device_specs"],
        given["shared_devices_allocation_policy"],
        given["fail_requests_greater_than_one"],
        given["cdi_annotation_prefix"],
    )
    return PluginSettings(given["kubelet_socket"], choices) if given["kubelet_socket"] else None


def _mps(given: Mapping[str, Any]) -> MpsSettings | None:
    """Return the settings of MPS where something needs its daemon: NVIDIA's users always name its folder."""
    of_plugin = given["kubelet_socket"] and card_modes.is_by_mps(given["sharing"])
    needed = of_plugin or given["share_isolation"] == isolation_kinds.MPS
    return MpsSettings(given["mps_root"], given["mps_control"]) if needed and given["mps_root"] else None


def _driver(given: Mapping[str, Any]) -> DriverFolders:
    on_host = given["nvidia_driver_root"]
    root = given["driver_root_ctr_path"] or on_host
    dev_root = given["nvidia_dev_root"]
    return DriverFolders(on_host, root, (dev_root or root) / "dev", (dev_root or on_host) / "dev")


def _check(settings: Settings) -> None:
    """Raise for settings that make no sense together."""
    nodes = [node.name for node in settings.nodes]
    if twice := sorted({name for name in nodes if nodes.count(name) > 1}):
        raise flags.UsageError(f"The node {twice[0]} is given twice.")
    if settings.context and settings.context_by_node:
        raise flags.UsageError(
            "--context names one context for all nodes: it does not go with --context-by-node."
        )
    if len(nodes) > 1 and (of_one_node := _of_one_node(settings)):
        raise flags.UsageError(f"{of_one_node}: it goes with one node alone.")
    _check_delivery(settings)
    if settings.lease_seconds <= settings.interval + settings.deadline:
        raise flags.UsageError(
            f"--lease-duration ({settings.lease_seconds} s) must be longer than --interval"
            f" ({settings.interval:g} s) and --sample-deadline ({settings.deadline:g} s) together:"
            " the Lease would expire between two samples."
        )


def _of_one_node(settings: Settings) -> str:
    """Return which setting is about one node, in words; empty for none."""
    about: Mapping[str, object] = {
        "--pod-resources is the socket of one kubelet": settings.pod_resources,
        "--nri is the socket of one node's runtime": settings.nri,
        "--runtime-config names files of one node": settings.runtime_config,
        "--cdi is a folder of one node": settings.cdi,
        "--mps-root is a folder of one node": settings.mps,
        "--config-folder is for the label of one node": settings.config_folder,
        "--kubelet-socket is that of one kubelet": settings.plugin,
    }
    return next((words for words, value in about.items() if value), "")


def _check_delivery(settings: Settings) -> None:
    """Raise where a way of delivery lacks what it needs."""
    if settings.nri and settings.nri.guard and not settings.pod_resources:
        raise flags.UsageError(
            "--guard asks the kubelet which containers have cards: give --pod-resources SOCKET with it."
        )
    if settings.plugin and not settings.pod_resources:
        raise flags.UsageError(
            "--kubelet-socket has to know for which pod the kubelet asks: give --pod-resources SOCKET, too."
        )
    _check_isolation(settings)
    if settings.plugin and card_modes.is_by_mps(settings.modes.sharing) and not settings.mps:
        raise flags.UsageError(
            "Cards are shared by MPS, which needs a daemon: give --mps-root FOLDER with it."
        )
    if settings.plugin and settings.plugin.choices.names_cdi_devices and not settings.cdi:
        raise flags.UsageError("--device-list-strategy names CDI devices: give --cdi FOLDER with it.")


def _check_isolation(settings: Settings) -> None:
    """Raise where what is to keep containers to their parts lacks what it needs."""
    kind = settings.isolation.kind
    if kind != isolation_kinds.NONE and not settings.nri:
        raise flags.UsageError(
            "--share-isolation is about containers that are being made: give --nri SOCKET with it."
        )
    if kind == isolation_kinds.HAMI_CORE and not settings.isolation.hami_core:
        raise flags.UsageError(
            "--share-isolation hami-core needs HAMi's library: give --hami-core FOLDER with it."
        )
    if settings.isolation.hami_core and kind != isolation_kinds.HAMI_CORE:
        raise flags.UsageError(
            "--hami-core is where HAMi's library is: give --share-isolation hami-core with it."
        )
    if kind == isolation_kinds.MPS and not settings.mps:
        raise flags.UsageError(
            "--share-isolation mps needs the daemon of MPS: give --mps-root FOLDER with it."
        )
