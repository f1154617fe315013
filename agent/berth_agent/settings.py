"""The flags of the agent, read once at the start.

Flags win over the environment, the environment over defaults. A value that cannot be used raises
`flags.UsageError` with one sentence; nothing here prints, exits or looks at the machine: arguments,
environment and host name are parameters. To add a flag, add a field to `Settings`, its argument to
`FLAGS` and, where its text has a form of its own, a parser to `flag_values`.
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


Options = Mapping[str, Any]  # Of a flag, as argparse takes them.

# By group. A flag with a default is also read from its variable.
FLAGS: Final[Mapping[str, Mapping[str, Options]]] = {
    "which cards": {
        "node": {"metavar": "NAME", "help": "name of the node (default: the host's name)"},
        "simulate": {"metavar": "SHAPE", "default": None, "help": "simulate the cards of this node"},
        "simulated-node": {
            "metavar": "NAME=SHAPE",
            "action": "append",
            "help": "simulate a node's cards; may be repeated: one process is then the agent of several"
            " nodes",
        },
        "faults": {
            "metavar": "FILE",
            "type": Path,
            "default": None,
            "help": "JSON file that breaks simulated cards",
        },
        "sysfs": {
            "metavar": "FOLDER",
            "type": Path,
            "default": SYSFS,
            "help": "the node's /sys, which says where each real card is (default: %(default)s)",
        },
        "procfs": {
            "metavar": "FOLDER",
            "type": Path,
            "default": PROCFS,
            "help": "the node's /proc, which says to which pod a process on a card belongs"
            " (default: %(default)s)",
        },
        "devices": {
            "metavar": "FOLDER",
            "type": Path,
            "default": None,
            "help": "folder of JSON files that list extra devices, besides real cards",
        },
        "sharing": {
            "metavar": "STRATEGY:REPLICAS",
            "type": flag_values.sharing,
            "default": "",
            "help": "how the device plugin shares each card that is not in MIG mode: time-slicing:4, or mps:2"
            " (default: cards are not shared)",
        },
    },
    "which errors count": {
        "ignored-xids": {
            "metavar": "XIDS",
            "type": flag_values.xids,
            "default": "",
            "help": "NVIDIA's errors, by commas or `all`, that never make a card unhealthy"
            " (also read from DP_DISABLE_HEALTHCHECKS)",
        },
        "critical-xids": {
            "metavar": "XIDS",
            "type": flag_values.xids,
            "default": "",
            "help": "NVIDIA's errors, by commas or `all`, that always do, even where they are ignored"
            " (also read from DP_ENABLE_HEALTHCHECKS)",
        },
    },
    "which kubelet": {
        "pod-resources": {
            "metavar": "SOCKET",
            "type": Path,
            "default": None,
            "help": "where the node's kubelet says which devices it gave to which pods"
            " (default: it is not asked)",
        },
        "gpu-resources": {
            "metavar": "NAMES",
            "type": flag_values.patterns,
            "default": ",".join(GPU_RESOURCES),
            "help": "which resources of the kubelet are GPUs, by commas, * for anything"
            " (default: %(default)s)",
        },
    },
    "what to publish besides": {
        "listen": {
            "metavar": "HOST:PORT",
            "type": flags.address,
            "default": "",
            "help": "serve /metrics and /healthz there (default: nothing is served)",
        },
        "listen-probes": {
            "metavar": "HOST:PORT",
            "type": flags.address,
            "default": "",
            "help": "serve /healthz alone there, for a kubelet, so that no crowd at --listen makes it restart"
            " the agent (default: only --listen serves it)",
        },
        "dcgm-names": {
            "default": False,
            "help": "name what cards measure as the DCGM exporter does (DCGM_FI_DEV_...)",
        },
        "node-labels": {
            "default": True,
            "help": "label the Node with what its cards have in common (berth.dev/gpu.product, ...)",
        },
    },
    "which cluster": {
        "kubeconfig": {
            "metavar": "FILE",
            "type": Path,
            "default": None,
            "help": "as for kubectl; in a pod the default is its service account",
        },
        "context": {"default": None, "help": "context of the kubeconfig"},
        "context-by-node": {
            "default": False,
            "help": "use the context with the name of the node: one process is then like several agents",
        },
    },
    "how": {
        "interval": {
            "metavar": "SECONDS",
            "type": flag_values.seconds,
            "default": INTERVAL_SECONDS,
            "help": "from one sample to the next (default: %(default)s)",
        },
        "lease-duration": {
            "metavar": "SECONDS",
            "type": flag_values.whole_seconds,
            "default": LEASE_SECONDS,
            "help": "how long the Lease vouches, in whole seconds (default: %(default)s)",
        },
        "sample-deadline": {
            "metavar": "SECONDS",
            "type": flag_values.seconds,
            "default": DEADLINE_SECONDS,
            "help": "how long one sample may take before its source counts as hung (default: %(default)s)",
        },
        "log-level": {
            "metavar": "LEVEL",
            "type": flag_values.one_of(flag_values.LEVELS),
            "default": "info",
            "help": f"how much to say on stderr: {', '.join(flag_values.LEVELS)} (default: %(default)s)",
        },
        "log-format": {
            "metavar": "FORMAT",
            "type": flag_values.one_of(logs.FORMATS),
            "default": logs.PLAIN,
            "help": "text, or json: one object a line, with fields (default: %(default)s)",
        },
    },
}
# Variables of NVIDIA's device plugin, which are read beside our own.
FOREIGN_VARIABLES: Final = {
    "ignored-xids": ("DP_DISABLE_HEALTHCHECKS",),
    "critical-xids": ("DP_ENABLE_HEALTHCHECKS",),
}


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
    for title, arguments in FLAGS.items():
        group = parser.add_argument_group(title)
        for flag, options in arguments.items():
            group.add_argument(f"--{flag}", **_with_variables(flag, options, environment))
    several = [part for part in environment.get("BERTH_SIMULATED_NODES", "").split(",") if part.strip()]
    node = environment.get("BERTH_NODE") or environment.get("NODE_NAME")
    parser.set_defaults(fallback_node=node or host.lower(), fallback_simulated=several)
    return parser


def _with_variables(flag: str, options: Options, environment: Mapping[str, str]) -> Options:
    """Return the options of a flag, with the default of its variables where it has one."""
    if "default" not in options:
        return options
    usual = options["default"]
    if isinstance(usual, bool):
        switch = _switch(environment, flag, usual=usual)
        return {**options, "action": argparse.BooleanOptionalAction, "default": switch}
    default = flags.default(environment, usual, flags.variable(flag), *FOREIGN_VARIABLES.get(flag, ()))
    return {**options, "type": flags.reader(options.get("type", str)), "default": default}


def _switch(environment: Mapping[str, str], flag: str, *, usual: bool) -> bool:
    name = flags.variable(flag)
    if not environment.get(name):
        return usual
    try:
        return flag_values.yes_or_no(environment[name])
    except argparse.ArgumentTypeError as error:
        raise flags.UsageError(f"{name}: {error}.") from None


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
    return (
        HardwareNode(
            name,
            given["sysfs"],
            given["procfs"],
            given["devices"],
            given["ignored_xids"],
            given["critical_xids"],
        ),
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
