"""The command line: its commands and options, the output of each command, and the exit code."""

import argparse
import dataclasses
import errno
import functools
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn, TextIO

from berth_crds import device_packages, flags, names, text
from berth_crds.text import quoted
from berth_crds.vocabulary import Strategy
from berth_operator.simulation import files, placing, pod_explanations, replaying, reports, traces, usage
from berth_operator.simulation.cluster import Cluster
from berth_operator.simulation.input_errors import InputError
from berth_operator.simulation.scenario import Scenario
from berth_operator.translate import pods

PROGRAM: Final = "berth-simulation"
EXIT_NO_OUTPUT: Final = 1
EXIT_PIPE: Final = 141  # As of a program that the signal ended.
PROGRAM_PATH: Final = ".venv/bin/berth-simulation"  # From the checkout, where `make setup` puts it.

ABOUT: Final = """\
Show what Berth would do with these objects, without a cluster: which node and which
devices each pod gets, or why it gets none and what would help. The same input gives the
same output, byte for byte, unless explaining a pod takes longer than it may, and then the
output says so.
"""
ABOUT_PLACE: Final = f"""\
Place the pods of FILEs that have no node yet: by priority, then in the order given, each
on what those before it left. Pods that have a node keep what their annotation
{names.ALLOCATION} says. FILEs are manifests as people write them or as
`kubectl get -o yaml` prints them: Node, Device, Pod, PlacementPolicy, PriorityClass,
Lease, GpuPod, Namespace, PersistentVolumeClaim, PersistentVolume, StorageClass, CSIDriver,
CSINode, CSIStorageCapacity. Other kinds are passed over, but a Deployment, a Job or
anything else that makes pods is refused where it was written by hand, for no controller
is at work here: give the pods instead. A FILE may be a folder, which stands for all
*.yaml, *.yml and *.json in it and in its folders, or - for standard input.
"""
EXAMPLES_PLACE: Final = f"""\
examples:
  kubectl get nodes,devices,placementpolicies,priorityclasses -o yaml > cluster.yaml
  kubectl get pods -A -o yaml > pods.yaml
  {PROGRAM_PATH} place cluster.yaml pods.yaml
      what happens to the pods that wait, and why
  {PROGRAM_PATH} place cluster.yaml pods.yaml --without ml/train-0 --explain
      what if ml/train-0 were not there; every card that refuses
  {PROGRAM_PATH} place cluster.yaml pods.yaml --add new-node.yaml -o json
      what if there were another node; one JSON object for each pod
  {PROGRAM_PATH} place cluster.yaml pods.yaml -o yaml > bound.yaml
      the pods as they would be bound, to be read again
"""
ABOUT_REPLAY: Final = """\
Run a trace of arrivals and departures over the objects of FILEs, if any. Pods that do not
fit wait and are tried again by Berth's own rules; time passes without being waited for.
"""
EXAMPLES_REPLAY: Final = f"""\
a trace has one JSON object on each line; times are seconds since the start:
  {{"at": 0, "add": {{"apiVersion": "v1", "kind": "Pod", ...}}}}   a pod arrives
  {{"at": 0, "add": "train.yaml", "for": 3600}}                  the pods of a file, each for an hour
  {{"at": 60, "finish": "ml/train-0"}}                           a pod ends
  {{"at": 60, "delete": "ml/train-0"}}                           a pod is deleted, placed or not
  {{"at": 90, "apply": {{"kind": "Node", ...}}}}                   an object is new or changed
  {{"at": 95, "remove": {{"kind": "Node", "name": "n1"}}}}         an object is gone
names of files are relative to the trace.

examples:
  {PROGRAM_PATH} replay trace.jsonl cluster.yaml
  {PROGRAM_PATH} replay trace.jsonl cluster.yaml --strategy spread -o json
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The command and options of one run."""

    run: Callable[["Options"], Iterator[str]]
    files: Sequence[str]
    trace: str = ""
    output: str = "text"
    without: Sequence[str] = ()
    add: Sequence[str] = ()
    strategy: Strategy | None = None
    explain: bool = False
    all: bool = False
    scheduler_names: Sequence[str] = (names.SCHEDULER_NAME,)
    device_packages: tuple[str, ...] = device_packages.USUAL
    quiet: bool = False


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error of the command line in one line, like all others."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (--help tells more)")


def parse(words: Sequence[str]) -> Options:
    """Return the options of the command line; files and flags may come in any order."""
    parser = _Parser(
        prog=PROGRAM_PATH, description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_version(parser, PROGRAM)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    found = {
        "place": _command(
            commands, "place", "place the pods that have no node yet", ABOUT_PLACE, EXAMPLES_PLACE
        ),
        "replay": _command(
            commands, "replay", "run a trace of arrivals and departures", ABOUT_REPLAY, EXAMPLES_REPLAY
        ),
    }
    _place_options(found["place"])
    _replay_options(found["replay"])
    if words and words[0] in found:
        return Options(**vars(found[words[0]].parse_intermixed_args(words[1:])))
    parser.parse_args(words)
    raise AssertionError("without a command the parser ends the program")


def _command(commands: Any, name: str, about: str, description: str, epilog: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _place_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=place)
    parser.add_argument("files", nargs="+", metavar="FILE", help="manifests; - is standard input")
    _output(parser, "text", "json", "yaml")
    parser.add_argument(
        "--without",
        action="extend",
        type=_listed,
        default=[],
        metavar="NAMESPACE/POD,...",
        help="what if these pods were not there",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="show of every card why it refuses, as tables; with -o json in a large cluster too",
    )
    _common(parser)


def _replay_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=replay)
    parser.add_argument("trace", metavar="TRACE", help="what happens when; - is standard input")
    parser.add_argument("files", nargs="*", metavar="FILE", help="manifests of what is there at the start")
    _output(parser, "text", "json")
    _common(parser)


def _output(parser: argparse.ArgumentParser, *choices: str) -> None:
    parser.add_argument("-o", "--output", choices=choices, default="text", help="default: text")


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="FILE",
        help="what if these objects were there too; each takes the place of the one of its name",
    )
    parser.add_argument(
        "--strategy", type=_strategy, metavar="NAME", help=f"instead of the policy's: {', '.join(Strategy)}"
    )
    parser.add_argument(
        "--all", action="store_true", help=f"place pods whose schedulerName is not {names.SCHEDULER_NAME} too"
    )
    parser.add_argument(
        "--scheduler-names",
        type=flags.schedulers,
        default=[names.SCHEDULER_NAME],
        metavar="NAMES",
        help="place pods whose schedulerName is one of these, as an operator with this flag does",
    )
    parser.add_argument(
        f"--{device_packages.FLAG}",
        type=flags.reader(device_packages.choice),
        default=device_packages.USUAL,
        metavar="NAMES",
        help=f"{device_packages.HELP} (default: {device_packages.ALL})",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no notes on what was passed over")


def _listed(text: str) -> list[str]:
    return [name for name in (part.strip() for part in text.split(",")) if name]


def _strategy(text: str) -> Strategy:
    if text not in set(Strategy):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not one of {', '.join(Strategy)}")
    return Strategy(text)


# ---------------------------------------------------------------- commands


def place(options: Options) -> Iterator[str]:
    """Place once and print."""
    scenario = read(options)
    scenario.without(options.without)
    cluster = Cluster(options.strategy, clock=time.thread_time)
    outcomes, before, notes = placing.place(
        scenario, cluster, adopt=adopter(options), detailed_nodes=detailed_nodes(options)
    )
    print_notes(options, [*scenario.notes(), *notes])
    match options.output:
        case "json":
            yield from reports.as_json(outcomes)
        case "yaml":
            yield from reports.as_yaml(scenario, outcomes)
        case _:
            yield from reports.as_text(
                outcomes, before, usage.of_all(cluster.inventory), explained=options.explain
            )


def replay(options: Options) -> Iterator[str]:
    """Run a trace and print what happens."""
    scenario = read(options)
    events = traces.read(options.trace, scenario.reader)
    notes, as_json = scenario.notes(), options.output == "json"
    run = replaying.Replay(
        scenario,
        Cluster(options.strategy, clock=time.thread_time),
        adopt=adopter(options),
        detailed_nodes=detailed_nodes(options),
    )
    write = reports.event_json if as_json else reports.event_text
    # The whole run comes first: an invalid trace prints nothing.
    happened = list(run.run(events))
    print_notes(options, [*notes, *run.notes])
    yield from map(write, happened)
    yield from reports.summary_json(run.summary) if as_json else reports.summary_text(run.summary)


def adopter(options: Options) -> placing.Adopt:
    """Return the function that adopts those pods of other schedulers that are to be placed."""
    if options.all:
        return pods.as_berth_pod
    return functools.partial(pods.adopt, schedulers=options.scheduler_names)


def detailed_nodes(options: Options) -> int:
    """Return for how many nodes at most every card that refuses is shown."""
    if options.explain:
        return pod_explanations.EVERY_CLUSTER
    return pod_explanations.SMALL_CLUSTER if options.output == "json" else pod_explanations.NEAREST_ONLY


def read(options: Options) -> Scenario:
    """Return all objects of the files."""
    if [options.trace, *options.files, *options.add].count(files.STDIN) > 1:
        raise InputError("standard input can be read only once")
    scenario = Scenario()
    scenario.add(files.read(options.files))
    scenario.overlay(files.read(options.add))
    return scenario


def print_notes(options: Options, notes: Sequence[str]) -> None:
    """Write notes to standard error."""
    if not options.quiet and sys.stderr is not None:
        sys.stderr.writelines(f"{PROGRAM}: {text.line(note)}\n" for note in notes)


# ---------------------------------------------------------------- one run


def run(words: Sequence[str]) -> int:
    """Run and return the exit code; a closed pipe is no error message."""
    # Everything that is read stays until the end: garbage collection would be lost time.
    gc.disable()
    try:
        options = parse(words)
        print_notes(options, device_packages.load(options.device_packages))
        _write(sys.stdout, options)
    except (InputError, flags.UsageError) as error:
        _print_error(str(error))
        return flags.EXIT_UNUSABLE
    except BrokenPipeError:
        # Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except RecursionError:
        _print_error("the input is nested too deep")
        return flags.EXIT_UNUSABLE
    except OSError as error:
        _print_error(f"the output cannot be written: {error.strerror}")
        return EXIT_NO_OUTPUT
    return 0


def _print_error(what: str) -> None:
    # Python has None for a stream that was closed before it started.
    if sys.stderr is not None:
        sys.stderr.write(f"{PROGRAM}: {what}\n")


def _write(out: TextIO | None, options: Options) -> None:
    if out is None:
        raise OSError(errno.EBADF, "it is closed")
    if hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", newline="\n")
    out.writelines(options.run(options))
    out.flush()
