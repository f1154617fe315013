"""Replays: pods come and go on a simulated clock, and wait by the backlog's own rules."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from berth_crds import names
from simulation import desk

FOUR: Final = {"nvidia.com/gpu": 4}


def replay(
    *events: desk.Body, given: tuple[desk.Body, ...] = (), words: tuple[str, ...] = ()
) -> list[desk.Body]:
    """Run a trace over these objects, and give what is told as JSON."""
    answer = run(*events, given=given or desk.both(), words=("-o", "json", *words))
    assert answer.code == 0, answer.notes
    return answer.objects


def run(*events: object, given: tuple[desk.Body, ...] = (), words: tuple[str, ...] = ()) -> desk.Answer:
    """Run a trace over these objects."""
    first = [{"at": 0, "apply": one} for one in given]
    return desk.run("replay", "-", *words, stdin="".join(f"{json.dumps(one)}\n" for one in (*first, *events)))


def brief(told: list[desk.Body]) -> list[tuple[float, str, str]]:
    """Return of each line when, what and who; without the summary and what was applied at the start."""
    return [
        (one["at"], one["event"], one.get("pod") or one.get("name", ""))
        for one in told
        if one["event"] != "summary" and (one["at"], one["event"]) != (0, "applied")
    ]


def test_waits() -> None:
    """A pod that does not fit is placed at the very moment at which another ends."""
    told = replay(
        {"at": 10, "add": desk.pod("a", FOUR), "for": 100},
        {"at": 20, "add": desk.pod("b", FOUR), "for": 50},
    )

    assert brief(told) == [
        (10, "placed", "ml/a"),
        (20, "waiting", "ml/b"),
        (110, "finished", "ml/a"),
        (110, "placed", "ml/b"),
        (160, "finished", "ml/b"),
    ]


def test_told_like_place() -> None:
    """A decision is told with the very fields that `place` prints."""
    one = *desk.both(), desk.pod("a"), desk.pod("b", FOUR)
    placed = desk.place(*one)
    told = replay(*({"at": 0, "add": pod} for pod in one[2:]))

    decisions = [line for line in told if "pod" in line]
    assert [{key: line[key] for key in placed[0]} for line in decisions] == placed


def test_help_comes_at_once() -> None:
    """A pod that was just refused is tried again the moment it can be helped, as in the operator."""
    told = replay(
        {"at": 0, "add": desk.pod("a", FOUR)},
        {"at": 1, "add": desk.pod("b", FOUR)},
        {"at": 1.01, "finish": "ml/a"},
    )

    assert brief(told)[-1] == (1.01, "placed", "ml/b")


def test_priority() -> None:
    """When room comes, the most important pod gets it; of equals the one that came first."""
    told = replay(
        {"at": 0, "add": desk.pod("a", FOUR), "for": 100},
        {"at": 1, "add": desk.pod("z", FOUR), "for": 100},
        {"at": 2, "add": desk.pod("b", FOUR), "for": 100},
        {"at": 3, "add": desk.pod("urgent", FOUR, priority=1), "for": 100},
    )

    assert [who for _, event, who in brief(told) if event == "placed"] == [
        "ml/a",
        "ml/urgent",
        "ml/z",
        "ml/b",
    ]


def test_said_once() -> None:
    """A refusal whose words stay the same is told once, however often the pod is tried."""
    told = replay(
        {"at": 0, "add": desk.pod("a"), "for": 10},
        {"at": 0, "add": desk.pod("b"), "for": 20},
        {"at": 0, "add": desk.pod("huge", {"nvidia.com/gpu": 16})},
    )

    assert [event for _, event, who in brief(told) if who == "ml/huge"] == ["waiting"]


def test_delete() -> None:
    """A deleted pod gives back what it holds, and waits no more; its name is free again."""
    told = replay(
        {"at": 0, "add": desk.pod("a", FOUR)},
        {"at": 0, "add": desk.pod("b", FOUR)},
        {"at": 5, "delete": "ml/b"},
        {"at": 6, "remove": {"kind": "Pod", "namespace": "ml", "name": "a"}},
        {"at": 7, "add": desk.pod("a", FOUR)},
    )

    assert brief(told)[2:] == [(5, "deleted", "ml/b"), (6, "deleted", "ml/a"), (7, "placed", "ml/a")]


def test_end_of_another() -> None:
    """A pod that was deleted before its time does not end the one that has its name now."""
    told = replay(
        {"at": 0, "add": desk.pod("a"), "for": 10},
        {"at": 5, "delete": "ml/a"},
        {"at": 6, "add": desk.pod("a"), "for": 100},
    )

    assert brief(told)[-1] == (106, "finished", "ml/a")


def test_node_joins_and_leaves() -> None:
    """A new node helps those who wait; one that goes takes its pods and its Device with it."""
    joining = [{"at": 10, "apply": one} for one in desk.both("n2", "8xT4")]
    told = replay(
        {"at": 0, "add": desk.pod("big", {"nvidia.com/gpu": 8})},
        *joining,
        {"at": 20, "remove": {"kind": "Node", "name": "n2"}},
        {"at": 30, "finish": "ml/big"},
        {"at": 40, "add": desk.pod("next", {"nvidia.com/gpu": 8})},
    )

    assert [one for one in brief(told) if one[1] != "applied"] == [
        (0, "waiting", "ml/big"),
        (10, "placed", "ml/big"),
        (20, "removed", "n2"),
        (20, "deleted with its node", "ml/big"),
        (40, "waiting", "ml/next"),
    ]


def test_device_goes_with_its_node() -> None:
    """A Device is gone with its Node; a trace of a cluster, which tells of both, is no mistake."""
    told = replay(
        {"at": 1, "remove": {"kind": "Node", "name": "n1"}},
        {"at": 2, "remove": {"kind": "Device", "name": "n1"}},
    )

    assert brief(told) == [(1, "removed", "n1")]


def test_agent_falls_silent() -> None:
    """Without its Lease an agent is silent, and its node gets no pod until the Lease is back."""
    told = replay(
        {"at": 0, "apply": desk.lease("n1")},
        {"at": 0, "apply": desk.lease("n2")},
        {"at": 1, "remove": {"kind": "Lease", "name": "n1"}},
        {"at": 2, "add": desk.pod()},
        {"at": 3, "apply": desk.lease("n1")},
    )

    events = [(at, event) for at, event, _ in brief(told) if event in {"placed", "waiting"}]
    assert events == [(2, "waiting"), (3, "placed")]


def test_edited() -> None:
    """A waiting pod can be edited, and a gated one let in; it keeps its place among its equals."""
    gated = desk.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    told = replay(
        {"at": 0, "add": gated},
        {"at": 0, "add": desk.pod("wrong", {"berth.dev/gpu": 150})},
        {"at": 5, "apply": desk.pod("gated")},
        {"at": 5, "apply": desk.pod("wrong", {"berth.dev/gpu": 100})},
    )

    assert [one for one in brief(told) if one[1] != "applied"] == [
        (0, "not tried", "ml/gated"),
        (0, "refused", "ml/wrong"),
        (5, "placed", "ml/gated"),
        (5, "placed", "ml/wrong"),
    ]


def test_files(tmp_path: Path) -> None:
    """A trace may name files, relative to itself; each use makes new names where they are generated."""
    desk.save(tmp_path / "cluster.yaml", *desk.both())
    desk.save(tmp_path / "pod.yaml", desk.pod(meta={"name": None, "generateName": "job-"}))
    events = [{"at": at, "add": "pod.yaml"} for at in (0, 1)]
    (tmp_path / "trace.jsonl").write_text("\n".join(map(json.dumps, events)))
    answer = desk.run("replay", tmp_path / "trace.jsonl", tmp_path / "cluster.yaml", "-o", "json")

    assert brief(answer.objects) == [(0, "placed", "ml/job-1"), (1, "placed", "ml/job-2")]


def test_summary() -> None:
    """In the end: what became of all, how long they waited, and the mean over time of cards given out."""
    told = replay(
        {"at": 0, "add": desk.pod("a", FOUR), "for": 100},
        {"at": 0, "add": desk.pod("b", {"berth.dev/gpu": 50}), "for": 100},
        {"at": 0, "add": desk.pod("wrong", {"berth.dev/gpu": 150})},
        {"at": 0, "add": desk.pod("huge", {"nvidia.com/gpu": 16})},
    )

    assert told[-1] == {
        "at": 200,
        "event": "summary",
        "pods": {"came": 4, "placed": 2, "finished": 2, "deleted": 0, "waiting": 1, "refused": 1, "aside": 0},
        "cards": {"mean": 2.25, "peak": 4.0, "now": 0.0, "there": 4, "utilisation": 0.5625},
        "waited": {"mean": 50.0, "longest": 100.0},
    }


def test_text() -> None:
    """People get a line for each thing that happens, and a sum."""
    answer = run({"at": 0, "add": desk.pod("a"), "for": 30}, given=desk.both())

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
    events = [
        {"at": at / 10, "add": desk.pod(f"p{at}", {"nvidia.com/gpu": 1 + at % 4}), "for": 7}
        for at in range(300)
    ]
    told = replay(*events, given=(*desk.both("n1"), *desk.both("n2", "8xT4")))

    summary = told[-1]
    assert summary["pods"]["placed"] == summary["pods"]["finished"] == 300
    assert summary["cards"]["peak"] <= summary["cards"]["there"] == 12


BAD: Final[dict[str, tuple[Any, str]]] = {
    "no JSON": ("{", "it is not JSON"),
    "no object": (3, "expected an object, found 3"),
    "no time": ({"add": desk.pod()}, "at: expected seconds since the start, found nothing"),
    "a time before the start": (
        {"at": -1, "add": desk.pod()},
        "at: expected seconds since the start, found -1",
    ),
    "a time beyond all bounds": (
        '{"at": 1' + "0" * 400 + ', "finish": "a"}',
        "at: expected seconds since the start, found 1" + "0" * 59 + "...",
    ),
    "no number": ('{"at": NaN, "finish": "a"}', "at: expected seconds since the start, found nan"),
    "a time that is true": (
        {"at": True, "add": desk.pod()},
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
    "adding a node": ({"at": 0, "add": desk.node()}, "add is for pods; write apply for Node n1"),
    "a file that is not there": ({"at": 0, "add": "no.yaml"}, "no.yaml: No such file or directory"),
    "a malformed pod": (
        {"at": 0, "add": desk.pod(containers=[])},
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
    """What makes no sense is told with its line, and nothing is printed."""
    line = event if isinstance(event, str) else json.dumps(event)
    answer = desk.run("replay", "-", stdin=f"{json.dumps({'at': 0, 'apply': desk.node()})}\n\n{line}\n")

    assert answer == (2, "", f"berth-simulation: stdin: line 3: {said}\n")


def test_gpupod() -> None:
    """The cards that a GpuPod names are taken while it is there; without it the pod withholds as many."""
    lost = desk.pod("lost", nodeName="n1", meta={"uid": "u-1"})
    three, last = {"nvidia.com/gpu": 3}, {names.UUIDS: ",".join(desk.cards(desk.device())[1:])}
    told = replay(
        {"at": 0, "add": lost},
        {"at": 0, "add": desk.pod("p", three, annotations=last)},
        {"at": 1, "apply": desk.gpupod("lost", "u-1", 3)},
        {"at": 2, "apply": desk.gpupod("lost", "u-1", 0)},
        {"at": 3, "remove": {"kind": "GpuPod", "namespace": "ml", "name": "lost"}},
        {"at": 4, "finish": "ml/p"},
        {"at": 5, "add": desk.pod("q", three, annotations=last)},
    )

    assert [one for one in brief(told) if one[1] in {"waiting", "placed"}] == [
        (0, "waiting", "ml/p"),
        (1, "waiting", "ml/p"),
        (2, "placed", "ml/p"),
        (5, "waiting", "ml/q"),
    ]


def test_removed_twice() -> None:
    """What was removed is not there any more."""
    node = {"kind": "Node", "name": "n1"}
    answer = run(*({"at": at, "remove": node} for at in range(2)), given=(desk.node(),))

    assert answer == (2, "", "berth-simulation: stdin: line 3: there is no Node n1 at this time\n")


def test_twice() -> None:
    """A pod cannot come while it is there."""
    answer = run(*({"at": at, "add": desk.pod("a")} for at in range(2)))

    assert answer == (2, "", "berth-simulation: stdin: line 2: Pod ml/a is there already\n")
