"""The flags of the agent: names, defaults, and what `--help` says of each.

What is made of them is in `settings`, and how their texts are read in `flag_values`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from berth_agent import card_modes, config_choice, delivery_flags, flag_values, other_holders
from berth_crds import device_packages, flags, logs, names

PROGRAM: Final = "berth-agent"

INTERVAL_SECONDS: Final = 10.0
LEASE_SECONDS: Final = 40
DEADLINE_SECONDS: Final = 5.0
DRAIN_SECONDS: Final = 5.0  # For as long a server that ends answers what it was asked.
# The names of NVIDIA's own plugin, whole, shared and cut into MIG instances.
GPU_RESOURCES: Final = (
    names.NVIDIA_GPU,
    names.NVIDIA_GPU_SHARED,
    f"{names.NVIDIA_MIG_PREFIX}*",
    names.GPU,
)
SYSFS: Final = Path("/sys")
PROCFS: Final = Path("/proc")
POD_RESOURCES: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")


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
by commas. The node is also taken from NODE_NAME, and otherwise from the host name. A flag
wins over its variable, that over --config-file, and the file over the default. The file is read
again at a SIGHUP, and the agent starts anew where it says something else.

A shape names how many cards of which model a node has, and may join several by "+":
8xA100-SXM4-80GB, or 2xT4+1xL4.

The file of --faults is read again whenever it changes. It breaks cards by node and
minor, or the whole source of a node; what it does not name is well:
  {"gpu-1": {"3": {"health": "Unhealthy", "reason": "XidCritical", "xid": 79,
                   "message": "fallen off the bus", "recovery": "reset"},
             "5": {"lost": true, "reason": "GpuIsLost"},
             "source": {"reason": "DriverNotLoaded", "message": "no driver"}}}
"source": {"hang": true} makes the probe hang until the file says otherwise. A healthy card
that measures a load has {"health": "Healthy", "load": {"utilization": 95, "encoder": 0,
"decoder": 0, "power": 80, "freeMemoryMiB": 1024}}: percents, power in those of its limit.

With --pod-resources the kubelet is asked which devices it gave to which pods, and each
GpuPod says whether these are the ones that its pod was given. Mount the folder of the
socket, not the socket: each start of the kubelet makes a new one.
"""


# By group. A flag with a default is also read from its variable.
FLAGS: Final[Mapping[str, Mapping[str, delivery_flags.Options]]] = {
    "which settings": {
        "config-file": {
            "metavar": "FILE",
            "type": Path,
            "default": None,
            "help": "configuration file of NVIDIA's device plugin (version v1), for what neither flags nor"
            " variables say (default: none; also read from CONFIG_FILE)",
        },
        "config-folder": {
            "metavar": "FOLDER",
            "type": Path,
            "default": None,
            "help": "folder of such files, of which the label nvidia.com/device-plugin.config of the Node"
            " names one (default: none; also read from CONFIG_FILE_SRCDIR)",
        },
        "default-config": {
            "metavar": "NAME",
            "default": "",
            "help": "with --config-folder, the file of a Node without the label (default: as the fallbacks"
            " say; also read from DEFAULT_CONFIG)",
        },
        "fallback-strategies": {
            "metavar": "WAYS",
            "type": flag_values.fallbacks,
            "default": ",".join(config_choice.USUAL_FALLBACKS),
            "help": "with --config-folder, where neither label nor default names a file, by commas: named,"
            " the file called default; single, the only file; empty, none (default: %(default)s; also read"
            " from FALLBACK_STRATEGIES)",
        },
    },
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
        "fail-on-init-error": {
            "default": False,
            "help": "end with exit code 1 if the cards cannot be read at the start (default: stay, say so in"
            " the Device, and wait for the driver; also read from FAIL_ON_INIT_ERROR)",
        },
        "gpus": {
            "default": True,
            "help": "read the cards of NVIDIA's driver; --no-gpus is for a node that has none, and publishes"
            " its other devices alone",
        },
        "devices": {
            "metavar": "FOLDER",
            "type": Path,
            "default": None,
            "help": "folder of JSON files that list extra devices, besides real cards",
        },
        device_packages.FLAG: {
            "metavar": "NAMES",
            "type": device_packages.choice,
            "default": device_packages.ALL,
            "help": f"{device_packages.HELP} (default: %(default)s)",
        },
        "mig-strategy": {
            "metavar": "STRATEGY",
            "type": flag_values.one_of(card_modes.MIG_STRATEGIES),
            "default": card_modes.MIXED,
            "help": "what a card in MIG mode is: mixed, its instances by their profiles; single, its"
            " instances by nvidia.com/gpu, if all are cut alike; none, a whole card (default: %(default)s;"
            " also read from MIG_STRATEGY)",
        },
        "sharing": {
            "metavar": "STRATEGY:REPLICAS",
            "type": flag_values.sharing,
            "default": "",
            "help": "how the device plugin shares each card that is not in MIG mode: time-slicing:4, or mps:2"
            " (default: cards are not shared)",
        },
        "rename-shared": {
            "default": True,
            "help": "have pods ask for replicas of shared cards by nvidia.com/gpu.shared; with"
            " --no-rename-shared they ask by nvidia.com/gpu, as with NVIDIA's plugin unless it is told"
            " renameByDefault",
        },
        "fail-requests-greater-than-one": {
            "default": False,
            "help": "have the device plugin refuse a container that asks for several replicas, which are no"
            " more of a card than one",
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
            f" (default: {POD_RESOURCES}, if the node's cards are real and that is there at the start)",
        },
        "ask-kubelet": {
            "default": True,
            "help": "ask the kubelet at that default; with --no-ask-kubelet it is asked only where"
            " --pod-resources says",
        },
        "gpu-resources": {
            "metavar": "NAMES",
            "type": flag_values.patterns,
            "default": ",".join(GPU_RESOURCES),
            "help": "which resources of the kubelet are GPUs, by commas, * for anything"
            " (default: %(default)s)",
        },
        "dra-drivers": {
            "metavar": "NAMES",
            "type": flag_values.names,
            "default": ",".join(other_holders.DRA_DRIVERS),
            "help": "which drivers of dynamic resource allocation give GPUs to claims, by commas, * for"
            " anything; empty for none (default: %(default)s)",
        },
    },
    "who else uses cards": {
        "least-process-memory": {
            "metavar": "MIB",
            "type": flag_values.mebibytes,
            "default": str(other_holders.LEAST_PROCESS_MIB),
            "help": "how much of a card's memory a process that nobody gave the card must use to close it for"
            " new pods; one that uses less is only shown, and with 0 each closes it (default: %(default)s)",
        },
    },
    "how containers get their cards": delivery_flags.FLAGS,
    "what to publish besides": {
        "listen": {
            "metavar": "HOST:PORT",
            "type": flags.address,
            "default": "",
            "help": "serve /metrics, /healthz and /readyz there (default: nothing is served)",
        },
        "listen-probes": {
            "metavar": "HOST:PORT",
            "type": flags.address,
            "default": "",
            "help": "serve /healthz and /readyz alone there, for a kubelet, so that no crowd at --listen"
            " has it restart the agent (default: only --listen serves them)",
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
# Flags of NVIDIA's device plugin that are called otherwise here.
FOREIGN_FLAGS: Final = {
    "nvidia-driver-root": "driver-root",
    "driver-root-ctr-path": "container-driver-root",
    "nvidia-dev-root": "dev-root",
}
# Variables of NVIDIA's device plugin, which are read beside our own.
FOREIGN_VARIABLES: Final = {
    "config-file": ("CONFIG_FILE",),
    "config-folder": ("CONFIG_FILE_SRCDIR",),
    "default-config": ("DEFAULT_CONFIG",),
    "fallback-strategies": ("FALLBACK_STRATEGIES",),
    "mig-strategy": ("MIG_STRATEGY",),
    "mps-root": ("MPS_ROOT",),
    "cdi-annotation-prefix": ("CDI_ANNOTATION_PREFIX",),
    "ignored-xids": ("DP_DISABLE_HEALTHCHECKS",),
    "critical-xids": ("DP_ENABLE_HEALTHCHECKS",),
    "nvidia-driver-root": ("NVIDIA_DRIVER_ROOT",),
    "driver-root-ctr-path": ("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
    "nvidia-dev-root": ("NVIDIA_DEV_ROOT",),
    "fail-on-init-error": ("FAIL_ON_INIT_ERROR",),
    "kubelet-socket": ("KUBELET_SOCKET",),
    "device-list-strategy": ("DEVICE_LIST_STRATEGY",),
    "device-id-strategy": ("DEVICE_ID_STRATEGY",),
    "shared-devices-allocation-policy": ("SHARED_DEVICES_ALLOCATION_POLICY",),
    "pass-device-specs": ("PASS_DEVICE_SPECS",),
}
