"""The operator's settings: flags, each with an environment variable behind it.

Defaults suit a cluster; a bad value is refused with one sentence.
"""

import argparse
import dataclasses
import math
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from berth_crds import device_packages, flags, logs, names, schema_limits
from berth_crds.text import quoted

PROGRAM: Final = "berth-operator"
DESCRIPTION: Final = f"""\
Binds pods with schedulerName {names.SCHEDULER_NAME} to a node and to chosen cards, and marks
Devices of silent agents not ready. Every flag can be set by the variable in brackets.
"""
# Where every pod with a token of its service account reads in which namespace it is.
OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
METRICS_AUTH: Final = ("open", "token")
# No candidate waits longer for a Lease to expire, whatever it says.
LONGEST_LEASE_SECONDS: Final = 60.0
LEVELS: Final = ("debug", "info", "warning", "error")


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an operator."""

    kubeconfig: str | None = None
    context: str | None = None
    name: str = "berth-operator"
    namespace: str = names.SYSTEM_NAMESPACE
    scheduler_names: frozenset[str] = frozenset({names.SCHEDULER_NAME})
    listen: str = ""
    listen_probes: str = ""
    listen_webhook: str = ""
    metrics_auth: str = "open"
    lease_duration: float = 6.0
    renew_deadline: float = 4.0
    retry_period: float = 1.0
    binds_at_once: int = 64
    binds_per_second: float = 0.0
    audit_period: float = 600.0
    prometheus_token_file: str = ""
    prometheus_ca_file: str = ""
    device_packages: tuple[str, ...] = device_packages.USUAL
    log_level: str = "info"
    log_format: str = logs.PLAIN


def parse(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of the command line, or raise `UsageError`; `--help` and `--version` exit."""
    parser = _parser(environ)
    settings = Settings(**vars(parser.parse_args(argv)))
    if not settings.retry_period < settings.renew_deadline < settings.lease_duration:
        parser.error(
            "the retry period must be shorter than the renew deadline, "
            "and the renew deadline shorter than the lease duration"
        )
    return settings


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = flags.Parser(
        prog=PROGRAM,
        description=DESCRIPTION,
    )
    defaults = _defaults_of_flags()
    for flag, metavar, kind, text in FLAGS:
        default, variable = defaults[flag], flags.variable(flag)
        parser.add_argument(
            f"--{flag}",
            type=flags.reader(kind),
            default=flags.default(environ, default, variable),
            metavar=metavar,
            help=f"{text} [{variable}]" + (f" (default: {default})" if default not in {None, ""} else ""),
        )
    return parser


def _defaults_of_flags() -> dict[str, Any]:
    """Return the default of each flag: that of its setting, unless it is a text or depends on the machine."""
    usual = Settings()
    return {flag: getattr(usual, flag.replace("-", "_")) for flag, *_ in FLAGS} | {
        "name": socket.gethostname(),
        "namespace": own_namespace(),
        "scheduler-names": names.SCHEDULER_NAME,
        device_packages.FLAG: device_packages.ALL,
    }


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _seconds(text: str) -> float:
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a positive number of seconds")
    return value


def _lease_seconds(text: str) -> float:
    if (value := _seconds(text)) > LONGEST_LEASE_SECONDS:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is more than {LONGEST_LEASE_SECONDS:g} seconds")
    return value


def _rate(text: str) -> float:
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a number a second, nor 0 for no limit")
    return value


def _namespace(text: str) -> str:
    if not schema_limits.DNS_LABEL.matches(text):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no name of a namespace")
    return text


def own_namespace(file: Path = OWN_NAMESPACE) -> str:
    """Return the namespace of this pod; outside of pods, the usual one of the operator."""
    try:
        return file.read_text().strip()
    except OSError:
        return names.SYSTEM_NAMESPACE


def _names(text: str) -> frozenset[str]:
    return frozenset(flags.schedulers(text))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number above zero")
    return int(text)


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def choice(text: str) -> str:
        if text.lower() not in words:
            raise argparse.ArgumentTypeError(f"{quoted(text)} is not one of {', '.join(words)}")
        return text.lower()

    return choice


FLAGS: Final[tuple[tuple[str, str, Callable[[str], Any], str], ...]] = (
    (
        "kubeconfig",
        "FILE",
        str,
        "the kubeconfig to use; without it $KUBECONFIG, the pod's own account, ~/.kube/config",
    ),
    ("context", "CONTEXT", str, "the context of that kubeconfig"),
    (
        "name",
        "NAME",
        str,
        "this replica's name in the leader's Lease; in a pod, the pod's name",
    ),
    (
        "namespace",
        "NAMESPACE",
        _namespace,
        "where the leader's Lease and what belongs to the webhook are; in a pod, the pod's namespace",
    ),
    (
        "scheduler-names",
        "NAMES",
        _names,
        (
            "bind the pods that have one of these in spec.schedulerName, separated by commas; see "
            "manifests/migrating.md for what else to edit; not for the name of a scheduler that still runs"
        ),
    ),
    (
        "listen",
        "HOST:PORT",
        flags.address,
        (
            "serve /healthz, /readyz, /metrics, and under /debug/ backlog, ledger, explain, decisions and "
            "snapshot, at HOST:PORT; nothing is served by default. At a loopback address /debug is open to "
            "this machine; at any other it takes a bearer token of somebody who may `get` the path, as the "
            "ClusterRole berth-debug allows, and the operator needs the right to ask the API server whose "
            "token it is: kubectl apply -f manifests/listen/rbac.yaml"
        ),
    ),
    (
        "listen-probes",
        "HOST:PORT",
        flags.address,
        (
            "serve /healthz and /readyz alone at this HOST:PORT, for a kubelet, so that no crowd at --listen "
            "makes it restart the operator (--listen serves them as well); not served by default"
        ),
    ),
    (
        "listen-webhook",
        "HOST:PORT",
        flags.address,
        (
            "serve HTTPS at this HOST:PORT for an API server before Kubernetes 1.36, which then puts the "
            "variables that name a container's cards into new pods; see manifests/delivery.md; not served by "
            "default"
        ),
    ),
    (
        "metrics-auth",
        "open|token",
        _one_of(METRICS_AUTH),
        "who may read /metrics, which names no pod: open (whoever reaches the port) or token (as for /debug)",
    ),
    (
        "lease-duration",
        "SECONDS",
        _lease_seconds,
        "seconds until a silent leader may be replaced, 60 at most",
    ),
    ("renew-deadline", "SECONDS", _seconds, "seconds in which the leader must renew, or stop"),
    ("retry-period", "SECONDS", _seconds, "seconds between two renewals of the lead"),
    ("binds-at-once", "NUMBER", _count, "Bindings under way at the same time"),
    (
        "binds-per-second",
        "NUMBER",
        _rate,
        (
            "the most Bindings to send in a second, for an API server that must be spared; 0: no limit. A "
            "server that asks for a rest (429, Retry-After) gets it in any case"
        ),
    ),
    (
        "audit-period",
        "SECONDS",
        _seconds,
        "seconds between two comparisons of the ledger with the API; metric berth_ledger_drift should be 0",
    ),
    (
        "prometheus-token-file",
        "FILE",
        str,
        (
            "the file of the bearer token for Prometheus, where a policy takes the loads of cards from it; "
            "sent over https:// alone; no token by default"
        ),
    ),
    (
        "prometheus-ca-file",
        "FILE",
        str,
        (
            "the file of the certificates by which Prometheus' own is checked; those that the system trusts "
            "by default"
        ),
    ),
    (device_packages.FLAG, "NAMES", device_packages.choice, device_packages.HELP),
    ("log-level", "LEVEL", _one_of(LEVELS), "debug, info, warning or error"),
    (
        "log-format",
        "FORMAT",
        _one_of(logs.FORMATS),
        (
            "text, or json: then each line of the log is an object with time, level, logger, message, what "
            "the line is about (such as pod, namespace, node and cards), and the traceback of an error"
        ),
    ),
)
