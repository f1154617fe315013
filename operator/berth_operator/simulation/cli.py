"""The command line: what may be asked, and what each answer is made of."""

import argparse
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn

from berth_crds import flags, names, text
from berth_crds.text import quoted
from berth_crds.vocabulary import Strategy
from berth_operator.simulation import (
    cluster,
    files,
    placing,
    replaying,
    reports,
    scenario,
    traces,
    usage,
    whys,
)
from berth_operator.simulation.mistakes import Mistake
from berth_operator.translate import pods

PROGRAM: Final = "berth-simulation"
CALLED: Final = ".venv/bin/berth-simulation"  # From the checkout, where `make setup` puts it.

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
Lease, GpuPod. Other kinds are passed over, but a Deployment, a Job or anything else that
makes pods is refused where it was written by hand, for no controller is at work here:
give the pods instead. A FILE may be a folder, which stands for all *.yaml, *.yml and
*.json in it and in its folders, or - for standard input.
"""
EXAMPLES_PLACE: Final = f"""\
examples:
  kubectl get nodes,devices,placementpolicies,priorityclasses -o yaml > cluster.yaml
  kubectl get pods -A -o yaml > pods.yaml
  {CALLED} place cluster.yaml pods.yaml
      what happens to the pods that wait, and why
  {CALLED} place cluster.yaml pods.yaml --without ml/train-0 --explain
      what if ml/train-0 were not there; every card that refuses
  {CALLED} place cluster.yaml pods.yaml --add new-node.yaml -o json
      what if there were another node; one JSON object for each pod
  {CALLED} place cluster.yaml pods.yaml -o yaml > bound.yaml
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
  {CALLED} replay trace.jsonl cluster.yaml
  {CALLED} replay trace.jsonl cluster.yaml --strategy spread -o json
"""
TEXTS: Final = {"place": (ABOUT_PLACE, EXAMPLES_PLACE), "replay": (ABOUT_REPLAY, EXAMPLES_REPLAY)}


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """What was asked for."""

    run: Callable[["Chosen"], Iterator[str]]
    files: Sequence[str]
    trace: str = ""
    output: str = "text"
    without: Sequence[str] = ()
    add: Sequence[str] = ()
    strategy: Strategy | None = None
    explain: bool = False
    all: bool = False
    scheduler_names: Sequence[str] = (names.SCHEDULER_NAME,)
    quiet: bool = False


class _Parser(argparse.ArgumentParser):
    """Prints a mistake on the command line in one line, as all others."""

    def error(self, message: str) -> NoReturn:
        raise Mistake(f"{message} (--help tells more)")


def parse(words: Sequence[str]) -> Chosen:
    """Read the command line; files and flags may come in any order."""
    parser = _Parser(prog=CALLED, description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_version(parser, PROGRAM)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    found = {
        "place": _command(commands, "place", "place the pods that have no node yet", _place_options),
        "replay": _command(commands, "replay", "run a trace of arrivals and departures", _replay_options),
    }
    if words and words[0] in found:
        return Chosen(**vars(found[words[0]].parse_intermixed_args(words[1:])))
    parser.parse_args(words)
    raise AssertionError("without a command the parser ends the program")


def _command(
    commands: Any, name: str, about: str, options: Callable[[argparse.ArgumentParser], None]
) -> argparse.ArgumentParser:
    description, epilog = TEXTS[name]
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options(parser)
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
    parser.add_argument("-q", "--quiet", action="store_true", help="no notes on what was passed over")


def _listed(text: str) -> list[str]:
    return [name for name in (part.strip() for part in text.split(",")) if name]


def _strategy(text: str) -> Strategy:
    if text not in set(Strategy):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not one of {', '.join(Strategy)}")
    return Strategy(text)


# ---------------------------------------------------------------- answers


def place(chosen: Chosen) -> Iterator[str]:
    """Place once and print."""
    given = read(chosen)
    given.without(chosen.without)
    paper = cluster.Cluster(chosen.strategy, clock=time.monotonic)
    outcomes, before, notes = placing.place(given, paper, adopt=adopting(chosen), whole=whole(chosen))
    tell(chosen, [*scenario.notes(given), *notes])
    match chosen.output:
        case "json":
            yield from reports.as_json(outcomes)
        case "yaml":
            yield from reports.as_yaml(given, outcomes)
        case _:
            yield from reports.as_text(
                outcomes, before, usage.of_all(paper.inventory), explained=chosen.explain
            )


def replay(chosen: Chosen) -> Iterator[str]:
    """Run a trace and print what happens."""
    given = read(chosen)
    events = traces.read(chosen.trace, given.reader)
    notes, as_json = scenario.notes(given), chosen.output == "json"
    paper = cluster.Cluster(chosen.strategy, clock=time.monotonic)
    run = replaying.Replay(given, paper, adopt=adopting(chosen), whole=whole(chosen))
    write = reports.told_json if as_json else reports.told_text
    # All of it first: a trace that makes no sense halfway through prints nothing.
    told = list(run.run(events))
    tell(chosen, [*notes, *run.notes])
    yield from map(write, told)
    yield from reports.final_json(run.tally) if as_json else reports.final_text(run.tally)


def adopting(chosen: Chosen) -> placing.Adopt:
    """Return what makes those pods of other schedulers Berth's that are to be placed."""
    if chosen.all:
        return pods.ours
    return functools.partial(pods.adopted, schedulers=chosen.scheduler_names)


def whole(chosen: Chosen) -> int:
    """Return of how many nodes at most every card that refuses is told of."""
    if chosen.explain:
        return whys.ALL
    return whys.FEW if chosen.output == "json" else whys.NONE


def read(chosen: Chosen) -> scenario.Scenario:
    """Read all objects."""
    if [chosen.trace, *chosen.files, *chosen.add].count(files.STDIN) > 1:
        raise Mistake("standard input can be read only once")
    given = scenario.Scenario()
    given.add(files.read(chosen.files))
    given.overlay(files.read(chosen.add))
    return given


def tell(chosen: Chosen, notes: Sequence[str]) -> None:
    """Write notes beside the output."""
    if not chosen.quiet and sys.stderr is not None:
        sys.stderr.writelines(f"{PROGRAM}: {text.line(note)}\n" for note in notes)
