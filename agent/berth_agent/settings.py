"""The flags of the agent, read once at the start.

Flags win over the environment, the environment over defaults. A value that cannot be used raises
`flags.UsageError` with one sentence; nothing here prints, exits or looks at the machine: arguments,
environment and host name are parameters. To add a flag, add a field to `Settings`, its argument to
one of the `_add_…` functions and, where its text has a form of its own, a parser to `flag_values`.
What a shape means is left to the simulated probe.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from berth_agent import flag_values, xid_choices
from berth_crds import flags, logs, names, schema_limits, wire
from berth_crds.text import quoted

PROGRAM: Final = "berth-agent"

INTERVAL_SECONDS: Final = 10.0
LEASE_SECONDS: Final = 40
DEADLINE_SECONDS: Final = 5.0
# The names of NVIDIA's own plugin, whole, shared and cut into MIG instances.
GPU_RESOURCES: Final = (names.NVIDIA_GPU, names.NVIDIA_GPU_SHARED, f"{names.NVIDIA_MIG_PREFIX}*")
SYSFS: Final = Path("/sys")
PROCFS: Final = Path("/proc")
TREES: Final = (
    ("sysfs", SYSFS, "the node's /sys, which says where each real card is"),
    ("procfs", PROCFS, "the node's /proc, which says to which pod a process on a card belongs"),
)


DESCRIPTION: Final = """\
Publishes three things about one node: its Device (the cards and their health), a GpuPod
for each pod that was given cards, and a Lease in the namespace berth-nodes which says
that both are current.

The cards are those of the NVIDIA driver, unless they are simulated. Without a driver the
agent stays, says so in the Device, and goes on once the driver is there.
"""

EPILOG: Final = """\
Every flag can be given by the environment as well: --lease-duration is
BERTH_LEASE_DURATION, several simulated nodes are in BERTH_SIMULATED_NODES, separated
by commas. The node is also taken from NODE_NAME, and otherwise from the host name.

A shape names how many cards of which model a node has, and may join several by "+":
8xA100-SXM4-80GB, or 2xT4+1xL4.

The file of --faults is read again whenever it changes. It breaks cards by node and
minor, or the whole source of a node; what it does not name is well:
  {"gpu-1": {"3": {"health": "Unhealthy", "reason": "XidCritical", "xid": 79,
                   "message": "fallen off the bus", "recovery": "reset"},
             "5": {"lost": true, "reason": "GpuIsLost"},
             "source": {"reason": "DriverNotLoaded", "message": "no driver"}}}
"source": {"hang": true} makes the probe hang until the file says otherwise.

With --pod-resources the kubelet is asked which devices it gave to which pods, and each
GpuPod says whether these are the ones that its pod was given. Mount the folder of the
socket, not the socket: each start of the kubelet makes a new one.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node with simulated cards, and their shape."""

    name: str
    shape: str


@dataclasses.dataclass(frozen=True, slots=True)
class HardwareNode:
    """A node with real cards, and the settings for reading them."""

    name: str
    sysfs: Path = SYSFS
    procfs: Path = PROCFS
    devices: Path | None = None
    ignored_xids: xid_choices.XidChoice = xid_choices.NO_XIDS
    critical_xids: xid_choices.XidChoice = xid_choices.NO_XIDS


Node = SimulatedNode | HardwareNode


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """All settings, checked as far as possible without looking at the machine."""

    nodes: tuple[Node, ...]
    faults: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    context_by_node: bool = False
    interval: float = INTERVAL_SECONDS
    lease_seconds: int = LEASE_SECONDS
    deadline: float = DEADLINE_SECONDS
    log_level: str = "info"
    log_format: str = logs.PLAIN
    pod_resources: Path | None = None
    gpu_resources: tuple[str, ...] = GPU_RESOURCES
    sharing: wire.Sharing | None = None
    listen: str = ""
    listen_probes: str = ""
    dcgm_names: bool = False
    node_labels: bool = True


def parse(arguments: Sequence[str], environment: Mapping[str, str], *, host: str) -> Settings:
    """Return the settings, or raise `Refused`; `--help` and `--version` print and exit."""
    given = vars(_parser(environment, host).parse_args(arguments))
    settings = Settings(
        nodes=_nodes(given),
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
        gpu_resources=given["gpu_resources"],
        sharing=given["sharing"],
        listen=given["listen"],
        listen_probes=given["listen_probes"],
        dcgm_names=given["dcgm_names"],
        node_labels=given["node_labels"],
    )
    _check(settings)
    return settings


def _parser(environment: Mapping[str, str], host: str) -> argparse.ArgumentParser:
    parser = flags.Parser(prog=PROGRAM, description=DESCRIPTION, epilog=EPILOG)
    _add_nodes(parser, environment, host)
    _add_health(parser, environment)
    _add_kubelet(parser, environment)
    _add_output(parser, environment)
    _add_cluster(parser, environment)
    _add_timing(parser, environment)
    return parser


def _add_nodes(parser: argparse.ArgumentParser, environment: Mapping[str, str], host: str) -> None:
    group = parser.add_argument_group("which cards")
    several = [part for part in environment.get("BERTH_SIMULATED_NODES", "").split(",") if part.strip()]
    node = environment.get("BERTH_NODE") or environment.get("NODE_NAME")
    group.add_argument("--node", metavar="NAME", help="name of the node (default: the host's name)")
    group.add_argument(
        "--simulate",
        metavar="SHAPE",
        default=environment.get("BERTH_SIMULATE") or None,
        help="simulate the cards of this node",
    )
    group.add_argument(
        "--simulated-node",
        metavar="NAME=SHAPE",
        action="append",
        help="simulate a node's cards; may be repeated: one process is then the agent of several nodes",
    )
    group.add_argument(
        "--faults",
        metavar="FILE",
        type=Path,
        default=_path(environment, "FAULTS"),
        help="JSON file that breaks simulated cards",
    )
    for flag, tree, what in TREES:
        group.add_argument(
            f"--{flag}",
            metavar="FOLDER",
            type=Path,
            default=_path(environment, flag.upper()) or tree,
            help=f"{what} (default: %(default)s)",
        )
    group.add_argument(
        "--devices",
        metavar="FOLDER",
        type=Path,
        default=_path(environment, "DEVICES"),
        help="folder of JSON files that list extra devices, besides real cards",
    )
    group.add_argument(
        "--sharing",
        metavar="STRATEGY:REPLICAS",
        type=flags.reader(flag_values.sharing),
        default=flags.default(environment, "", "BERTH_SHARING"),
        help="how the device plugin shares each card that is not in MIG mode: time-slicing:4, or mps:2"
        " (default: cards are not shared)",
    )
    parser.set_defaults(fallback_node=node or host.lower(), fallback_simulated=several)


def _add_health(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    group = parser.add_argument_group("which errors count")
    for flag, what, theirs in (
        ("ignored-xids", "never make a card unhealthy", "DP_DISABLE_HEALTHCHECKS"),
        ("critical-xids", "always do, even where they are ignored", "DP_ENABLE_HEALTHCHECKS"),
    ):
        group.add_argument(
            f"--{flag}",
            metavar="XIDS",
            type=flags.reader(flag_values.xids),
            default=flags.default(environment, "", flags.variable(flag), theirs),
            help=f"NVIDIA's errors, by commas or `all`, that {what} (also read from {theirs})",
        )


def _add_kubelet(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    group = parser.add_argument_group("which kubelet")
    group.add_argument(
        "--pod-resources",
        metavar="SOCKET",
        type=Path,
        default=_path(environment, "POD_RESOURCES"),
        help="where the node's kubelet says which devices it gave to which pods (default: it is not asked)",
    )
    group.add_argument(
        "--gpu-resources",
        metavar="NAMES",
        type=flags.reader(flag_values.patterns),
        default=flags.default(environment, ",".join(GPU_RESOURCES), "BERTH_GPU_RESOURCES"),
        help="which resources of the kubelet are GPUs, by commas, * for anything (default: %(default)s)",
    )


def _add_output(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    group = parser.add_argument_group("what to publish besides")
    for flag, what in (
        ("listen", "serve /metrics and /healthz there (default: nothing is served)"),
        (
            "listen-probes",
            (
                "serve /healthz alone there, for a kubelet, so that no crowd at --listen makes it restart the"
                " agent (default: only --listen serves it)"
            ),
        ),
    ):
        group.add_argument(
            f"--{flag}",
            metavar="HOST:PORT",
            type=flags.reader(flags.address),
            default=flags.default(environment, "", flags.variable(flag)),
            help=what,
        )
    for flag, usual, what in (
        ("dcgm-names", False, "name what cards measure as the DCGM exporter does (DCGM_FI_DEV_...)"),
        (
            "node-labels",
            True,
            "label the Node with what its cards have in common (berth.dev/gpu.product, ...)",
        ),
    ):
        group.add_argument(
            f"--{flag}",
            action=argparse.BooleanOptionalAction,
            default=_switch(environment, flag, usual=usual),
            help=what,
        )


def _add_cluster(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    group = parser.add_argument_group("which cluster")
    group.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        default=_path(environment, "KUBECONFIG"),
        help="as for kubectl; in a pod the default is its service account",
    )
    group.add_argument(
        "--context", default=environment.get("BERTH_CONTEXT") or None, help="context of the kubeconfig"
    )
    group.add_argument(
        "--context-by-node",
        action=argparse.BooleanOptionalAction,
        default=_switch(environment, "context-by-node", usual=False),
        help="use the context with the name of the node: one process is then like several agents",
    )


def _add_timing(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    group = parser.add_argument_group("how")
    group.add_argument(
        "--interval",
        metavar="SECONDS",
        type=flags.reader(flag_values.seconds),
        default=flags.default(environment, INTERVAL_SECONDS, "BERTH_INTERVAL"),
        help="from one sample to the next (default: %(default)s)",
    )
    group.add_argument(
        "--lease-duration",
        metavar="SECONDS",
        type=flags.reader(flag_values.whole_seconds),
        default=flags.default(environment, LEASE_SECONDS, "BERTH_LEASE_DURATION"),
        help="how long the Lease vouches, in whole seconds (default: %(default)s)",
    )
    group.add_argument(
        "--sample-deadline",
        metavar="SECONDS",
        type=flags.reader(flag_values.seconds),
        default=flags.default(environment, DEADLINE_SECONDS, "BERTH_SAMPLE_DEADLINE"),
        help="how long one sample may take before its source counts as hung (default: %(default)s)",
    )
    for flag, kind, usual, what in (
        (
            "log-level",
            flag_values.level,
            "info",
            f"how much to say on stderr: {', '.join(flag_values.LEVELS)}",
        ),
        ("log-format", flag_values.log_format, logs.PLAIN, "text, or json: one object a line, with fields"),
    ):
        group.add_argument(
            f"--{flag}",
            metavar=flag.rpartition("-")[2].upper(),
            type=flags.reader(kind),
            default=flags.default(environment, usual, flags.variable(flag)),
            help=f"{what} (default: %(default)s)",
        )


def _switch(environment: Mapping[str, str], flag: str, *, usual: bool) -> bool:
    name = flags.variable(flag)
    if not environment.get(name):
        return usual
    try:
        return flag_values.yes_or_no(environment[name])
    except argparse.ArgumentTypeError as error:
        raise flags.UsageError(f"{name}: {error}.") from None


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    text = environment.get(f"BERTH_{name}")
    return Path(text) if text else None


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
    if several:
        return tuple(_simulated(text, blamed) for text in several)
    name = _node(given["fallback_node"] if given["node"] is None else given["node"])
    if given["simulate"]:
        return (SimulatedNode(name, given["simulate"]),)
    if given["faults"]:
        raise flags.UsageError("--faults breaks simulated cards only: give --simulate SHAPE with it.")
    xids = given["ignored_xids"], given["critical_xids"]
    return (HardwareNode(name, given["sysfs"], given["procfs"], given["devices"], *xids),)


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


def _check(settings: Settings) -> None:
    """Raise for settings that make no sense together."""
    nodes = [node.name for node in settings.nodes]
    if twice := sorted({name for name in nodes if nodes.count(name) > 1}):
        raise flags.UsageError(f"The node {twice[0]} is given twice.")
    if settings.context and settings.context_by_node:
        raise flags.UsageError(
            "--context names one context for all nodes: it does not go with --context-by-node."
        )
    if settings.pod_resources and len(nodes) > 1:
        raise flags.UsageError("--pod-resources is the socket of one kubelet: it goes with one node alone.")
    if settings.lease_seconds <= settings.interval + settings.deadline:
        raise flags.UsageError(
            f"--lease-duration ({settings.lease_seconds} s) must be longer than --interval"
            f" ({settings.interval:g} s) and --sample-deadline ({settings.deadline:g} s) together:"
            " the Lease would expire between two samples."
        )
