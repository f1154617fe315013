"""The flags about how containers get their cards, and what keeps them to their parts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from berth_agent import flag_values, isolation_kinds, plugin_choices
from berth_crds import names

# Of those who look after the cards, and see all of them.
UNGUARDED_NAMESPACES: Final = (names.SYSTEM_NAMESPACE, "gpu-operator", "kube-system")

Options = Mapping[str, Any]  # Of a flag, as argparse takes them.

FLAGS: Final[Mapping[str, Options]] = {
    "runtime-config": {
        "metavar": "FILES",
        "type": flag_values.files,
        "default": "",
        "help": "where NVIDIA's container runtime has its configuration, by commas, as a rule in"
        " /etc/nvidia-container-runtime/config.toml: where there is none, pods that depend on it are not"
        " bound to the node (default: it is not looked for, and pods are bound)",
    },
    "nri": {
        "metavar": "SOCKET",
        "type": Path,
        "default": None,
        "help": "adjust each container as it is made, at this socket of containerd or CRI-O, such as"
        " /var/run/nri/nri.sock (default: the environment of the pod does it)",
    },
    "nri-cdi-kind": {
        "metavar": "VENDOR/CLASS",
        "type": flag_values.cdi_kind,
        "default": "",
        "help": "with --nri, name cards as CDI devices of this kind, such as nvidia.com/gpu, and leave"
        " the rest to the runtime (default: device nodes and the driver's files)",
    },
    "guard": {
        "default": False,
        "help": "with --nri and --pod-resources, take NVIDIA_VISIBLE_DEVICES from containers that were"
        " given no card",
    },
    "unguarded-namespaces": {
        "metavar": "NAMES",
        "type": flag_values.names,
        "default": ",".join(UNGUARDED_NAMESPACES),
        "help": "namespaces that --guard leaves alone, by commas (default: %(default)s)",
    },
    "share-isolation": {
        "metavar": "KIND",
        "type": flag_values.one_of(isolation_kinds.KINDS),
        "default": isolation_kinds.NONE,
        "help": "with --nri, what keeps a container to its part of a card: mps, hami-core or none"
        " (default: %(default)s)",
    },
    "hami-core": {
        "metavar": "FOLDER",
        "type": Path,
        "default": None,
        "help": "where on the node, and for the agent, HAMi's libvgpu.so and ld.so.preload are",
    },
    "mps-root": {
        "metavar": "FOLDER",
        "type": Path,
        "default": None,
        "help": "keep the daemon of MPS running, with its folders here, on the node and for the agent"
        " (also read from MPS_ROOT)",
    },
    "mps-control": {
        "metavar": "PROGRAM",
        "default": "nvidia-cuda-mps-control",
        "help": "what starts that daemon, and tells it limits (default: %(default)s)",
    },
    "kubelet-socket": {
        "metavar": "SOCKET",
        "type": Path,
        "default": None,
        "help": "be the device plugin of the kubelet that listens there, as a rule at"
        " /var/lib/kubelet/device-plugins/kubelet.sock (default: none; also read from KUBELET_SOCKET)",
    },
    "device-list-strategy": {
        "metavar": "WAYS",
        "type": flag_values.list_strategies,
        "default": "envvar",
        "help": "how the device plugin tells containers of their devices, by commas:"
        f" {', '.join(plugin_choices.LIST_STRATEGIES)} (default: %(default)s; also read from"
        " DEVICE_LIST_STRATEGY)",
    },
    "device-id-strategy": {
        "metavar": "ID",
        "type": flag_values.one_of(plugin_choices.ID_STRATEGIES),
        "default": plugin_choices.UUID,
        "help": "what envvar and volume-mounts call a device: uuid or index (default: %(default)s; also"
        " read from DEVICE_ID_STRATEGY)",
    },
    "shared-devices-allocation-policy": {
        "metavar": "POLICY",
        "type": flag_values.one_of(plugin_choices.ALLOCATION_POLICIES),
        "default": plugin_choices.DISTRIBUTED,
        "help": "which replicas of shared cards pods get that the scheduler chose none for: distributed"
        " over the cards, or packed on few (default: %(default)s; also read from"
        " SHARED_DEVICES_ALLOCATION_POLICY)",
    },
    "pass-device-specs": {
        "default": False,
        "help": "have the kubelet itself open the device nodes, as its static CPU manager needs it (also"
        " read from PASS_DEVICE_SPECS)",
    },
    "cdi-annotation-prefix": {
        "metavar": "PREFIX",
        "default": plugin_choices.CDI_ANNOTATION_PREFIX,
        "help": "what the key of an annotation begins with that names CDI devices, for cdi-annotations"
        " (default: %(default)s; also read from CDI_ANNOTATION_PREFIX)",
    },
    "cdi": {
        "metavar": "FOLDER",
        "type": Path,
        "default": None,
        "help": "write a CDI spec with the devices berth.dev/gpu=UUID there, such as /var/run/cdi"
        " (default: none is written)",
    },
    "nvidia-driver-root": {
        "metavar": "FOLDER",
        "type": Path,
        "default": Path("/"),
        "help": "where on the node the driver is installed (default: %(default)s; also read from"
        " NVIDIA_DRIVER_ROOT)",
    },
    "driver-root-ctr-path": {
        "metavar": "FOLDER",
        "type": Path,
        "default": None,
        "help": "where the agent sees that folder (default: at the same place; also read from"
        " DRIVER_ROOT_CTR_PATH or CONTAINER_DRIVER_ROOT)",
    },
    "nvidia-dev-root": {
        "metavar": "FOLDER",
        "type": Path,
        "default": None,
        "help": "the folder that has dev/nvidia0 and its kin, on the node and for the agent alike"
        " (default: that of the driver; also read from NVIDIA_DEV_ROOT)",
    },
}
