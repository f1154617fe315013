"""Replays: pods come and go on a simulated clock, and wait by the backlog's own rules."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from berth_crds import names
from simulation import simulator


def replay(
    *events: simulator.Body, given: tuple[simulator.Body, ...] = (), words: tuple[str, ...] = ()
) -> list[simulator.Body]:
    """Run a trace over these objects, and return the lines of JSON."""
    answer = run(*events, given=given or simulator.both(), words=("-o", "json", *words))
    assert answer.code == 0, answer.notes
    return answer.objects


def run(
    *events: object, given: tuple[simulator.Body, ...] = (), words: tuple[str, ...] = ()
) -> simulator.Answer:
    """Run a trace over these objects."""
    first = [{"at": 0, "apply": one} for one in given]
    return simulator.run(
        "replay", "-", *words, stdin="".join(f"{json.dumps(one)}\n" for one in (*first, *events))
    )


def brief(lines: list[simulator.Body]) -> list[tuple[float, str, str]]:
    """Return of each line when, what and who; without what was applied and the summary."""
    return [
        (line["at"], line["event"], line.get("pod") or line.get("name", ""))
        for line in lines
        if line["event"] not in {"applied", "summary"}
    ]


def add(at: float, name: str, limits: int | dict[str, Any] = 1, **fields: Any) -> simulator.Body:
    """Return the event of a pod that comes."""
    seconds = {"for": fields.pop("seconds")} if "seconds" in fields else {}
    return {"at": at, "add": simulator.pod(name, limits, **fields)} | seconds


def apply(at: float, *objects: simulator.Body) -> list[simulator.Body]:
    """Return the events of objects that are created or changed."""
    return [{"at": at, "apply": one} for one in objects]


def remove(at: float, kind: str, name: str, **meta: str) -> simulator.Body:
    """Return the event of an object that goes."""
    return {"at": at, "remove": {"kind": kind, "name": name, **meta}}


GATED: Final = [{"name": "example.com/wait"}]
LOST: Final = simulator.pod("lost", nodeName="n1", meta={"uid": "u-1"})
LAST_CARDS: Final = {names.UUIDS: ",".join(simulator.cards(simulator.device())[1:])}
# Events, and what happens then: when, what, to whom.
CASES: Final[dict[str, tuple[list[simulator.Body], list[tuple[float, str, str]]]]] = {
    "a pod that does not fit is placed at the very moment at which another ends": (
        [add(10, "a", 4, seconds=100), add(20, "b", 4, seconds=50)],
        [
            (10, "placed", "ml/a"),
            (20, "waiting", "ml/b"),
            (110, "finished", "ml/a"),
            (110, "placed", "ml/b"),
            (160, "finished", "ml/b"),
        ],
    ),
    "a pod that was just refused is tried again the moment it can be helped": (
        [add(0, "a", 4), add(1, "b", 4), {"at": 1.01, "finish": "ml/a"}],
        [
            (0, "placed", "ml/a"),
            (1, "waiting", "ml/b"),
            (1.01, "finished", "ml/a"),
            (1.01, "placed", "ml/b"),
        ],
    ),
    "when room comes, the most important pod gets it; of equals the one that came first": (
        [
            add(0, "a", 4, seconds=100),
            add(1, "z", 4, seconds=100),
            add(2, "b", 4),
            add(3, "urgent", 4, priority=1, seconds=100),
        ],
        [
            (0, "placed", "ml/a"),
            *((at, "waiting", f"ml/{name}") for at, name in ((1, "z"), (2, "b"), (3, "urgent"))),
            (100, "finished", "ml/a"),
            (100, "placed", "ml/urgent"),
            (200, "finished", "ml/urgent"),
            (200, "placed", "ml/z"),
            (300, "finished", "ml/z"),
            (300, "placed", "ml/b"),
        ],
    ),
    "a refusal whose words stay the same is told once": (
        [add(0, "a", seconds=10), add(0, "b", seconds=20), add(0, "huge", 16)],
        [
            (0, "placed", "ml/a"),
            (0, "placed", "ml/b"),
            (0, "waiting", "ml/huge"),
            (10, "finished", "ml/a"),
            (20, "finished", "ml/b"),
        ],
    ),
    "a deleted pod gives back what it holds, and waits no more; its name is free again": (
        [
            add(0, "a", 4),
            add(0, "b", 4),
            {"at": 5, "delete": "ml/b"},
            remove(6, "Pod", "a", namespace="ml"),
            add(7, "a", 4),
        ],
        [
            (0, "placed", "ml/a"),
            (0, "waiting", "ml/b"),
            (5, "deleted", "ml/b"),
            (6, "deleted", "ml/a"),
            (7, "placed", "ml/a"),
        ],
    ),
    "a pod that was deleted before its time does not end the one that has its name now": (
        [add(0, "a", seconds=10), {"at": 5, "delete": "ml/a"}, add(6, "a", seconds=100)],
        [(0, "placed", "ml/a"), (5, "deleted", "ml/a"), (6, "placed", "ml/a"), (106, "finished", "ml/a")],
    ),
    "a new node helps those who wait; one that goes takes its pods and its Device with it": (
        [
            add(0, "big", 8),
            *apply(10, *simulator.both("n2", "8xT4")),
            remove(20, "Node", "n2"),
            {"at": 30, "finish": "ml/big"},
            add(40, "next", 8),
        ],
        [
            (0, "waiting", "ml/big"),
            (10, "placed", "ml/big"),
            (20, "removed", "n2"),
            (20, "deleted with its node", "ml/big"),
            (40, "waiting", "ml/next"),
        ],
    ),
    "a trace of a cluster tells of a Node that goes and of its Device": (
        [remove(1, "Node", "n1"), remove(2, "Device", "n1")],
        [(1, "removed", "n1")],
    ),
    "without its Lease an agent is silent, and its node gets no pod until the Lease is back": (
        [
            *apply(0, simulator.lease("n1"), simulator.lease("n2")),
            remove(1, "Lease", "n1"),
            add(2, "p"),
            *apply(3, simulator.lease("n1")),
        ],
        [(1, "removed", "n1"), (2, "waiting", "ml/p"), (3, "placed", "ml/p")],
    ),
    "a waiting pod can be edited, and a gated one let in": (
        [
            add(0, "gated", schedulingGates=GATED),
            add(0, "wrong", {"berth.dev/gpu": 150}),
            *apply(5, simulator.pod("gated"), simulator.pod("wrong", {"berth.dev/gpu": 100})),
        ],
        [
            (0, "not tried", "ml/gated"),
            (0, "refused", "ml/wrong"),
            (5, "placed", "ml/gated"),
            (5, "placed", "ml/wrong"),
        ],
    ),
    "the cards that a GpuPod names are taken while it is there; without it the pod withholds as many": (
        [
            {"at": 0, "add": LOST},
            add(0, "p", 3, annotations=LAST_CARDS),
            *apply(1, simulator.gpupod("lost", "u-1", 3)),
            *apply(2, simulator.gpupod("lost", "u-1", 0)),
            remove(3, "GpuPod", "lost", namespace="ml"),
            {"at": 4, "finish": "ml/p"},
            add(5, "q", 3, annotations=LAST_CARDS),
        ],
        [
            (0, "waiting", "ml/p"),
            (2, "placed", "ml/p"),
            (3, "removed", "lost"),
            (4, "finished", "ml/p"),
            (5, "waiting", "ml/q"),
        ],
    ),
}


@pytest.mark.parametrize(("events", "expected"), CASES.values(), ids=CASES)
def test_what_happens(events: list[simulator.Body], expected: list[tuple[float, str, str]]) -> None:
    """Pods come and go, and wait, as they would on a cluster."""
    assert brief(replay(*events)) == expected


def test_decisions_are_those_of_place() -> None:
    """A decision has the very fields that `place` prints."""
    pods = simulator.pod("a"), simulator.pod("b", 4)
    placed = simulator.place(*simulator.both(), *pods)

    decisions = [line for line in replay(*({"at": 0, "add": pod} for pod in pods)) if "pod" in line]

    assert [{key: line[key] for key in placed[0]} for line in decisions] == placed


def test_files(tmp_path: Path) -> None:
    """A trace may name files, relative to itself; each use makes new names where they are generated."""
    simulator.save(tmp_path / "cluster.yaml", *simulator.both())
    simulator.save(tmp_path / "pod.yaml", simulator.pod(meta={"name": None, "generateName": "job-"}))
    events = [{"at": at, "add": "pod.yaml"} for at in (0, 1)]
    (tmp_path / "trace.jsonl").write_text("\n".join(map(json.dumps, events)))
    answer = simulator.run("replay", tmp_path / "trace.jsonl", tmp_path / "cluster.yaml", "-o", "json")

    assert brief(answer.objects) == [(0, "placed", "ml/job-1"), (1, "placed", "ml/job-2")]


def test_summary() -> None:
    """In the end: what became of all, how long they waited, and the mean over time of cards given out."""
    *_, summary = replay(
        add(0, "a", 4, seconds=100),
        add(0, "b", {"berth.dev/gpu": 50}, seconds=100),
        add(0, "wrong", {"berth.dev/gpu": 150}),
        add(0, "huge", 16),
    )

    assert summary == {
        "at": 200,
        "event": "summary",
        "pods": {"came": 4, "placed": 2, "finished": 2, "deleted": 0, "waiting": 1, "refused": 1, "aside": 0},
        "cards": {"mean": 2.25, "peak": 4.0, "now": 0.0, "there": 4, "utilisation": 0.5625},
        "waited": {"mean": 50.0, "longest": 100.0},
    }


def test_text() -> None:
    """People get a line for each thing that happens, and a sum."""
    answer = run(add(0, "a", seconds=30), given=simulator.both())

    assert answer.out.splitlines() == [
        "[       0.0 s] Node n1 applied",
        "[       0.0 s] Device n1 applied",
        "[       0.0 s] ml/a placed on n1 0: 1 card",
        "[      30.0 s] ml/a finished",
        "",
        "pods: 1 came, 1 placed, 1 finished, 0 deleted, 0 waiting, 0 refused, 0 aside",
        "waited until placed: 0.0 s on average, 0.0 s at most",
        "given out: 25.0 % over 30.0 s, 1.0 at most, 0.0 of 4 cards at the end",
    ]


def test_many() -> None:
    """With thousands of arrivals every pod gets its turn, and nothing is given out twice."""
    events = (add(at / 10, f"p{at}", 1 + at % 4, seconds=7) for at in range(300))

    *_, summary = replay(*events, given=(*simulator.both("n1"), *simulator.both("n2", "8xT4")))

    assert summary["pods"]["placed"] == summary["pods"]["finished"] == 300
    assert summary["cards"]["peak"] <= summary["cards"]["there"] == 12


BAD: Final[dict[str, tuple[Any, str]]] = {
    "no JSON": ("{", "it is not JSON"),
    "no object": (3, "expected an object, found 3"),
    "no time": ({"add": simulator.pod()}, "at: expected seconds since the start, found nothing"),
    "a time before the start": (
        {"at": -1, "add": simulator.pod()},
        "at: expected seconds since the start, found -1",
    ),
    "a time beyond all bounds": (
        '{"at": 1' + "0" * 400 + ', "finish": "a"}',
        "at: expected seconds since the start, found 1" + "0" * 59 + "...",
    ),
    "no number": ('{"at": NaN, "finish": "a"}', "at: expected seconds since the start, found nan"),
    "a time that is true": (
        {"at": True, "add": simulator.pod()},
        "at: expected seconds since the start, found true",
    ),
    "nothing that happens": (
        {"at": 0},
        "expected one of add, finish, delete, apply, remove, found none of them",
    ),
    "two things at once": (
        {"at": 0, "finish": "a", "delete": "a"},
        "expected one of add, finish, delete, apply, remove, found finish, delete",
    ),
    "a word too many": ({"at": 0, "finish": "a", "for": 3}, "'for' is not known beside finish"),
    "adding a node": ({"at": 0, "add": simulator.node()}, "add is for pods; write apply for Node n1"),
    "a file that is not there": ({"at": 0, "add": "no.yaml"}, "no.yaml: No such file or directory"),
    "a malformed pod": (
        {"at": 0, "add": simulator.pod(containers=[])},
        "Pod ml/p: spec.containers is missing or empty",
    ),
    "an unknown pod": ({"at": 0, "finish": "ml/a"}, "there is no Pod ml/a at this time"),
    "removing a Secret": (
        {"at": 0, "remove": {"kind": "Secret", "name": "a"}},
        "remove: 'Secret' is none of Node, Device, GpuPod, Lease, PlacementPolicy, PriorityClass",
    ),
    "removing a Node that is not there": (
        {"at": 0, "remove": {"kind": "Node", "name": "zz"}},
        "there is no Node zz at this time",
    ),
    "removing a Lease that is not there": (
        {"at": 0, "remove": {"kind": "Lease", "name": "zz"}},
        "there is no Lease zz at this time",
    ),
    "removing without a name": (
        {"at": 0, "remove": "n1"},
        'remove: expected {"kind": ..., "name": ...}, found \'n1\'',
    ),
}


@pytest.mark.parametrize(("event", "said"), BAD.values(), ids=BAD.keys())
def test_mistakes(event: Any, said: str) -> None:
    """What makes no sense is reported with its line, and nothing is printed."""
    line = event if isinstance(event, str) else json.dumps(event)
    answer = simulator.run(
        "replay", "-", stdin=f"{json.dumps({'at': 0, 'apply': simulator.node()})}\n\n{line}\n"
    )

    assert answer == (2, "", f"berth-simulation: stdin: line 3: {said}\n")


def test_removed_twice() -> None:
    """What was removed is not there any more."""
    answer = run(*(remove(at, "Node", "n1") for at in range(2)), given=(simulator.node(),))

    assert answer == (2, "", "berth-simulation: stdin: line 3: there is no Node n1 at this time\n")


def test_twice() -> None:
    """A pod cannot come while it is there."""
    answer = run(add(0, "a"), add(1, "a"))

    assert answer == (2, "", "berth-simulation: stdin: line 2: Pod ml/a is there already\n")
