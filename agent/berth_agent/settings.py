"""What a person may choose about the agent, read once at the start.

Flags win over the environment, the environment over defaults. Whatever cannot be used
becomes `Refused` with one sentence; nothing here prints, exits or looks at the machine:
arguments, environment and host name are handed in. What a shape string means is left to
the simulated probe.
"""

import argparse
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

PROGRAM: Final = "berth-agent"

INTERVAL_SECONDS: Final = 10.0
LEASE_SECONDS: Final = 40
DEADLINE_SECONDS: Final = 5.0
LEVELS: Final = ("debug", "info", "warning", "error")

_NODE: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

DESCRIPTION: Final = """\
Looks at the cards of one node and keeps three things true in the cluster: the node's
Device (what is there and how it fares), a GpuPod for each pod that was given cards, and
a Lease in the namespace berth-nodes that vouches for both.
"""

EPILOG: Final = """\
Every flag can be given by the environment as well: --lease-duration is
BERTH_LEASE_DURATION, several simulated nodes stand in BERTH_SIMULATED_NODES separated
by commas. The node is also taken from NODE_NAME, and from the host name at last.

A shape names how many cards of which model a node has, and may join several by "+":
8xA100-SXM4-80GB, or 2xT4+1xL4.

The file of --faults is read again whenever it changes. It breaks cards by node and
minor, or the whole source of a node; what it does not name is well:
  {"gpu-1": {"3": {"health": "Unhealthy", "reason": "XidCritical", "xid": 79,
                   "message": "fallen off the bus", "recovery": "reset"},
             "5": {"lost": true, "reason": "GpuIsLost"},
             "source": {"reason": "DriverNotLoaded", "message": "no driver"}}}
"source": {"hang": true} makes the probe hang until the file says otherwise.
"""


class Refused(Exception):
    """The settings cannot be used; the message is one sentence for a person."""


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node whose cards are made up, and the shape they are made up by."""

    name: str
    shape: str


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """All choices, checked as far as they can be without looking at anything."""

    nodes: tuple[SimulatedNode, ...]
    faults: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    interval: float = INTERVAL_SECONDS
    lease_seconds: int = LEASE_SECONDS
    deadline: float = DEADLINE_SECONDS
    log_level: str = "info"


def parse(arguments: Sequence[str], environment: Mapping[str, str], *, host: str) -> Settings:
    """Read the settings, or raise `Refused`; `--help` prints and exits, as everywhere."""
    given = vars(_parser(environment, host).parse_args(arguments))
    settings = Settings(
        nodes=_nodes(given),
        faults=given["faults"],
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        interval=given["interval"],
        lease_seconds=given["lease_duration"],
        deadline=given["sample_deadline"],
        log_level=given["log_level"],
    )
    _check(settings)
    return settings


class _Parser(argparse.ArgumentParser):
    """argparse would print its usage before the sentence, and exit by itself."""

    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; see {PROGRAM} --help")


def _parser(environment: Mapping[str, str], host: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_subject(parser, environment, host)
    _add_cluster(parser, environment)
    _add_pace(parser, environment)
    return parser


def _add_subject(parser: argparse.ArgumentParser, environment: Mapping[str, str], host: str) -> None:
    group = parser.add_argument_group("what to look at")
    several = [part for part in environment.get("BERTH_SIMULATED_NODES", "").split(",") if part.strip()]
    node = environment.get("BERTH_NODE") or environment.get("NODE_NAME")
    group.add_argument("--node", metavar="NAME", help="name of the node (default: the host's name)")
    group.add_argument(
        "--simulate",
        metavar="SHAPE",
        default=environment.get("BERTH_SIMULATE") or None,
        help="make up the cards of this node",
    )
    group.add_argument(
        "--simulated-node",
        metavar="NAME=SHAPE",
        action="append",
        help="make up a node's cards; may be repeated: one process then speaks for several nodes",
    )
    group.add_argument(
        "--faults",
        metavar="FILE",
        type=Path,
        default=_path(environment, "FAULTS"),
        help="JSON file that breaks simulated cards",
    )
    parser.set_defaults(fallback_node=node or host.lower(), fallback_simulated=several)


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


def _add_pace(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    group = parser.add_argument_group("how")
    group.add_argument(
        "--interval",
        metavar="SECONDS",
        type=_seconds,
        default=environment.get("BERTH_INTERVAL") or INTERVAL_SECONDS,
        help="from one look to the next (default: %(default)s)",
    )
    group.add_argument(
        "--lease-duration",
        metavar="SECONDS",
        type=_whole_seconds,
        default=environment.get("BERTH_LEASE_DURATION") or LEASE_SECONDS,
        help="how long the Lease vouches, in whole seconds (default: %(default)s)",
    )
    group.add_argument(
        "--sample-deadline",
        metavar="SECONDS",
        type=_seconds,
        default=environment.get("BERTH_SAMPLE_DEADLINE") or DEADLINE_SECONDS,
        help="how long one look may take before its source counts as hung (default: %(default)s)",
    )
    group.add_argument(
        "--log-level",
        metavar="LEVEL",
        type=_level,
        default=environment.get("BERTH_LOG_LEVEL") or "info",
        help=f"how much to say on stderr: {', '.join(LEVELS)} (default: %(default)s)",
    )


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    text = environment.get(f"BERTH_{name}")
    return Path(text) if text else None


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above zero")
    return value


def _whole_seconds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds above zero")
    return int(text)


def _level(text: str) -> str:
    # Not `choices`: argparse does not hold a default, and so the environment, against those.
    if text.lower() not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(LEVELS)}")
    return text.lower()


# ---------------------------------------------------------------- which nodes


def _nodes(given: Mapping[str, object]) -> tuple[SimulatedNode, ...]:
    """Choose between the two forms: this one node, or several by name."""
    several = given["simulated_node"] or ([] if given["simulate"] else given["fallback_simulated"])
    if several and (given["simulate"] or given["node"]):
        raise Refused("--simulated-node names its nodes itself and goes with neither --node nor --simulate.")
    assert isinstance(several, list)  # noqa: S101  what argparse's `append` makes
    if several:
        return tuple(_simulated(text) for text in several)
    if not given["simulate"]:
        raise Refused(
            "This version has no hardware probe yet: give --simulate SHAPE or --simulated-node NAME=SHAPE."
        )
    return (SimulatedNode(_node(str(given["node"] or given["fallback_node"])), str(given["simulate"])),)


def _simulated(text: str) -> SimulatedNode:
    name, separator, shape = text.strip().partition("=")
    if not separator or not shape:
        raise Refused(f"--simulated-node takes NAME=SHAPE, such as gpu-1=8xA100-SXM4-80GB, not {text!r}.")
    return SimulatedNode(_node(name), shape)


def _node(name: str) -> str:
    if not _NODE.fullmatch(name):
        raise Refused(f"{name!r} is not the name of a node: lowercase letters, digits, '-' and '.'.")
    return name


def _check(settings: Settings) -> None:
    """Refuse choices that make no sense together."""
    names = [node.name for node in settings.nodes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Refused(f"The node {twice[0]} is given twice.")
    if settings.lease_seconds <= settings.interval + settings.deadline:
        raise Refused(
            f"--lease-duration ({settings.lease_seconds} s) must be longer than --interval"
            f" ({settings.interval:g} s) and --sample-deadline ({settings.deadline:g} s) together:"
            " the Lease would lapse between two looks."
        )
