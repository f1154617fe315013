"""What `place` says of each pod, and what it takes into account."""

from pathlib import Path

import pytest

from berth_crds import allocation, names
from simulation import every_field, simulator
from support import manifests

BIG = {"nvidia.com/gpu": 4}


def record(of: simulator.Body, *minors: int, core: int = 100) -> dict[str, str]:
    """Return the annotation that hands cards of a Device to the container."""
    listed = [card for card in of["spec"]["devices"] if card["minor"] in minors]
    shares = [
        allocation.Share(card["uuid"], card["minor"], core, card["memory"] * core // 100) for card in listed
    ]
    held = allocation.of(of["metadata"]["name"], {"main": {"gpu": shares}})
    return {names.ALLOCATION: allocation.encode(held)}


def test_placed() -> None:
    """A pod that fits has its node and the record that its annotation would hold, and no refusals."""
    one = simulator.device()
    (told,) = simulator.place(simulator.node(), one, simulator.pod())

    share = {"uuid": simulator.cards(one)[0], "minor": 0, "core": 100, "memory": 15360 << 20}
    assert told == {
        "pod": "ml/p",
        "node": "n1",
        "allocation": {"v": 1, "node": "n1", "containers": {"main": {"gpu": [share]}}},
        "refusals": [],
        "nearest": None,
    }


def test_refused() -> None:
    """A pod that does not fit has a refusal for each card in the way, and what is nearest."""
    one = simulator.device()
    busy = simulator.pod("busy", BIG, annotations=record(one, 0, 1, 2), nodeName="n1", phase="Running")
    (told,) = simulator.place(simulator.node(), one, busy, simulator.pod("p", BIG))

    assert (told["pod"], told["node"], told["allocation"]) == ("ml/p", None, None)
    of_node, *of_cards = told["refusals"]
    assert (of_node["node"], of_node["device"], of_node["reason"]) == ("n1", None, "Full")
    assert [refusal["device"] for refusal in of_cards] == simulator.cards(one)[:3]
    assert {(refusal["node"], refusal["reason"]) for refusal in of_cards} == {("n1", "InUse")}
    assert all(refusal["message"] for refusal in told["refusals"])
    assert "n1 has 1 card free, 4 wanted" in told["nearest"]


CARDS, NODE = simulator.device(), simulator.node()
FULL = simulator.pod("busy", BIG, annotations=record(CARDS, 0, 1, 2, 3), nodeName="n1")
OTHER = simulator.pod("other", schedulerName="default-scheduler")
HAND_MADE = simulator.node() | {"status": {"capacity": {"cpu": "2"}}}
POLICY = manifests.own("PlacementPolicy", "default", spec={"strategy": "binpack"})
USUAL, LOW = simulator.priority("usual", 10, globalDefault=True), simulator.priority("low", 1)
TWO_NODES = *simulator.both("n1"), *simulator.both("n2"), simulator.pod("a"), simulator.pod("b")
WENT: dict[str, tuple[tuple[simulator.Body, ...], list[str], dict[str, str | None]]] = {
    **{
        f"a pod that {phase} holds nothing and is not listed": (
            (NODE, CARDS, FULL | {"status": {"phase": phase}}, simulator.pod("p", BIG)),
            [],
            {"ml/p": "n1"},
        )
        for phase in ("Succeeded", "Failed")
    },
    "by priority, then in the order given, whatever the names and ages": (
        (
            *simulator.both(),
            simulator.priority("urgent", 1000),
            simulator.pod("z", meta={"creationTimestamp": "2026-03-02T08:00:00Z"}),
            simulator.pod("a", meta={"creationTimestamp": "2020-03-02T08:00:00Z"}),
            simulator.pod("m", priority=5),
            simulator.pod("urgent", priorityClassName="urgent"),
            simulator.pod("system", priorityClassName="system-node-critical"),
        ),
        [],
        {"ml/system": "n1", "ml/urgent": "n1", "ml/m": "n1", "ml/z": "n1", "ml/a": None},
    ),
    "the cluster's default class counts for pods that name none": (
        (
            *simulator.both(),
            LOW,
            USUAL,
            simulator.pod("first", priorityClassName="low"),
            simulator.pod("second"),
        ),
        [],
        {"ml/second": "n1", "ml/first": "n1"},
    ),
    "without --all pods of other schedulers are not placed": (
        (*simulator.both(), OTHER),
        [],
        {"ml/other": None},
    ),
    "with --all they are": ((*simulator.both(), OTHER), ["--all"], {"ml/other": "n1"}),
    "a node without allocatable has its capacity": (
        (HAND_MADE, CARDS, simulator.pod("fits", {"cpu": "2"})),
        [],
        {"ml/fits": "n1"},
    ),
    "and no more": ((HAND_MADE, CARDS, simulator.pod("too-much", {"cpu": "3"})), [], {"ml/too-much": None}),
    "a pod without a namespace or a name gets the same in every run": (
        (
            *simulator.both(),
            simulator.pod(meta={"name": "plain", "namespace": None}),
            *(simulator.pod(meta={"name": None, "generateName": "job-"}) for _ in range(2)),
        ),
        [],
        {"default/plain": "n1", "ml/job-1": "n1", "ml/job-2": "n1"},
    ),
    "without pods that hold or wait": (
        (NODE, CARDS, FULL, simulator.pod("first", BIG), simulator.pod("second", BIG)),
        ["--without", "ml/busy,ml/first"],
        {"ml/second": "n1"},
    ),
    "with all of them": (
        (NODE, CARDS, FULL, simulator.pod("first", BIG), simulator.pod("second", BIG)),
        [],
        {"ml/first": None, "ml/second": None},
    ),
    "by the policy's strategy": ((*TWO_NODES, POLICY), [], {"ml/a": "n1", "ml/b": "n1"}),
    "by another strategy": ((*TWO_NODES, POLICY), ["--strategy", "spread"], {"ml/a": "n1", "ml/b": "n2"}),
}


@pytest.mark.parametrize(("objects", "words", "expected"), WENT.values(), ids=WENT.keys())
def test_where_pods_go(
    objects: tuple[simulator.Body, ...], words: list[str], expected: dict[str, str | None]
) -> None:
    """Each pod that waits has its node, or none, in this order."""
    assert list(simulator.nodes(simulator.place(*objects, words=words)).items()) == list(expected.items())


SILENT = simulator.device(conditions=[{"type": "Ready", "status": "False", "reason": "AgentSilent"}])


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param(
            (*simulator.both(), simulator.pod(limits={"berth.dev/gpu": 150})), "InvalidRequest", id="invalid"
        ),
        pytest.param((simulator.pod(),), "NoNodes", id="no nodes"),
        pytest.param((NODE, SILENT, simulator.pod()), "Silent", id="an agent that the operator found silent"),
    ],
)
def test_one_reason(objects: tuple[simulator.Body, ...], reason: str) -> None:
    """A pod that is not placed for one reason has one refusal, of no device, and only a node can be near."""
    (told,) = simulator.place(*objects)

    (refusal,) = told["refusals"]
    assert (refusal["device"], refusal["reason"]) == (None, reason)
    assert refusal["node"] == ("n1" if reason == "Silent" else None)
    assert told["nearest"] is None or reason != "InvalidRequest"


def test_without_cards() -> None:
    """A pod without devices gets a node and no record."""
    (told,) = simulator.place(*simulator.both(), simulator.pod(limits={"cpu": "1"}))

    assert (told["node"], told["allocation"]) == ("n1", None)


def test_charged() -> None:
    """Pods that have a node and a record hold what it says, and are not placed again."""
    one = simulator.device()
    busy = simulator.pod("busy", annotations=record(one, 0), nodeName="n1", phase="Running")
    half = simulator.pod("half", {"berth.dev/gpu": 50}, annotations=record(one, 1, core=50), nodeName="n1")
    told = simulator.place(simulator.node(), one, busy, half, simulator.pod("p", {"nvidia.com/gpu": 2}))

    (only,) = told
    shares = only["allocation"]["containers"]["main"]["gpu"]
    assert [share["minor"] for share in shares] == [2, 3]


WITHHOLDS = "Pod ml/lost withholds cards of n1: it asks for cards and has no allocation"
LOST: dict[str, tuple[tuple[simulator.Body, ...], int, list[int], str]] = {
    "no record": (
        (simulator.pod("lost", {"nvidia.com/gpu": 3}, nodeName="n1", phase="Running"),),
        2,
        [],
        WITHHOLDS,
    ),
    "a GpuPod that names a card": (
        (
            simulator.pod("lost", meta={"uid": "u-1", "namespace": None}, nodeName="n1", phase="Running"),
            simulator.gpupod("lost", "u-1", 0, namespace=""),
        ),
        3,
        [1, 2, 3],
        "Pod default/lost holds on n1 what its GpuPod names: it asks for cards and has no allocation",
    ),
    **{
        name: (
            (
                simulator.pod("lost", meta={"uid": "u-1"}, nodeName="n1", phase="Running"),
                simulator.gpupod("lost", uid, *minors),
            ),
            4,
            [],
            WITHHOLDS,
        )
        for name, uid, minors in (
            ("a GpuPod of an earlier pod", "u-0", [0]),
            ("a GpuPod that contradicts itself", "u-1", [0, 0]),
            ("a GpuPod that names nothing", "u-1", []),
        )
    },
}


@pytest.mark.parametrize(("objects", "wanted", "minors", "note"), LOST.values(), ids=LOST.keys())
def test_bound_without_a_readable_record(
    objects: tuple[simulator.Body, ...], wanted: int, minors: list[int], note: str
) -> None:
    """It withholds as many cards as it asks for, or holds what its GpuPod names, and a note says so."""
    pod = simulator.pod("p", {"nvidia.com/gpu": wanted})
    answer = simulator.run(
        "place", "-", "-o", "json", stdin=simulator.written(*simulator.both(), *objects, pod)
    )

    (told,) = answer.objects
    given = told["allocation"]["containers"]["main"]["gpu"] if told["node"] else []
    assert [share["minor"] for share in given] == minors
    assert note in answer.notes


def test_not_there() -> None:
    """Where a bound pod's record names a device that is not there, a note says so."""
    one, before = simulator.device(), simulator.device(shape="8xT4")
    swapped = simulator.pod("swapped", annotations=record(before, 7), nodeName="n1", phase="Running")
    answer = simulator.run("place", "-", stdin=simulator.written(simulator.node(), one, swapped))

    assert answer.notes == (
        f"berth-simulation: stdin: Pod ml/swapped: its allocation names {simulator.cards(before)[7]}, "
        f"which the Device n1 does not have\n"
    )


def test_unknown_class() -> None:
    """A pod whose class is not given has the priority 0, and a note says so."""
    objects = *simulator.both(), simulator.pod(priorityClassName="nobody-knows")
    answer = simulator.run("place", "-", stdin=simulator.written(*objects))

    assert answer.code == 0
    assert "Pod ml/p: there is no PriorityClass nobody-knows, so its priority is 0" in answer.notes


def test_not_ours() -> None:
    """Pods of other schedulers and gated ones are told of, last, and not placed."""
    other = simulator.pod("other", schedulerName="default-scheduler")
    gated = simulator.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    leaving = simulator.pod("leaving", meta={"deletionTimestamp": "2026-03-02T08:00:00Z"})
    told = simulator.place(*simulator.both(), other, gated, leaving, simulator.pod())

    assert [(one["pod"], one["node"]) for one in told] == [
        ("ml/p", "n1"),
        ("ml/other", None),
        ("ml/gated", None),
        ("ml/leaving", None),
    ]
    assert [one["refusals"][0]["reason"] for one in told[1:]] == ["NotOurs", "Gated", "Deleting"]
    assert "example.com/wait" in told[2]["refusals"][0]["message"]


# ---------------------------------------------------------------- who is alive

EARLY, LATER, LATE = (f"2026-03-02T08:0{at}:00.000000Z" for at in (0, 1, 2))


@pytest.mark.parametrize(
    ("leases", "nodes"),
    [
        pytest.param([], {"n1", "n2"}, id="without Leases all count as alive"),
        pytest.param([simulator.lease("n1")], {"n1"}, id="with Leases those that have one"),
        pytest.param(
            [simulator.lease("n1", EARLY), simulator.lease("n2", LATE)],
            {"n2"},
            id="a Lease much older than the newest",
        ),
        pytest.param(
            [simulator.lease("n1", "2026-03-02T08:01:30.5Z"), simulator.lease("n2", LATE)],
            {"n1", "n2"},
            id="a Lease within the grace period",
        ),
    ],
)
def test_agents(leases: list[simulator.Body], nodes: set[str]) -> None:
    """Only nodes whose agents live get pods."""
    pods = [simulator.pod(f"p{at}", BIG) for at in range(2)]
    told = simulator.place(*simulator.both("n1"), *simulator.both("n2"), *leases, *pods)

    assert {one["node"] for one in told} - {None} == nodes


# ---------------------------------------------------------------- what if


def test_add(tmp_path: Path) -> None:
    """With --add there are more objects, and one of the same name takes the place of the other."""
    more = simulator.save(tmp_path / "more.yaml", *simulator.both("n2", "8xT4"))
    larger = simulator.save(tmp_path / "larger.yaml", simulator.device("n1", "8xT4"))
    objects = *simulator.both("n1"), simulator.pod(limits={"nvidia.com/gpu": 8})

    assert simulator.nodes(simulator.place(*objects)) == {"ml/p": None}
    assert simulator.nodes(simulator.place(*objects, words=["--add", more])) == {"ml/p": "n2"}
    assert simulator.nodes(simulator.place(*objects, words=["--add", larger])) == {"ml/p": "n1"}


# ---------------------------------------------------------------- text


def test_text() -> None:
    """People get a table, with what is nearest and what would help below the reason, and a sum."""
    objects = (
        *simulator.both(),
        simulator.pod("one"),
        simulator.pod("four", BIG),
        simulator.pod("part", {"berth.dev/gpu": 25}),
    )
    answer = simulator.run("place", "-", stdin=simulator.written(*objects))

    lines = answer.out.splitlines()
    assert lines.pop(4).lstrip().startswith("would fit ")
    assert lines == [
        "POD       NODE   MINORS   WHAT",
        "ml/one    n1     0        1 card",
        "ml/four   -      -        waits: 0/1 nodes are available: 1 has fewer than 4 free cards",
        "                          nearest: n1 has 3 cards free, 4 wanted",
        "ml/part   n1     1        25 % and 3.7 GiB of a card",
        "",
        "3 pods to place: 2 placed, 1 waiting; of 4 cards 0 were in use and 2 are now",
    ]


def test_explain() -> None:
    """With --explain each card that refuses has its line."""
    one = simulator.device()
    objects = simulator.node(), one, simulator.pod("one"), simulator.pod("four", BIG)
    answer = simulator.run("place", "-", "--explain", stdin=simulator.written(*objects))

    assert "ml/four: 0/1 nodes are available: 1 has fewer than 4 free cards" in answer.out
    assert simulator.cards(one)[0] in answer.out


def test_notes() -> None:
    """What plays no part is counted beside the output; -q is quiet."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    objects = *simulator.both(), simulator.device("n9"), config, config, simulator.pod()
    loud, quiet = (
        simulator.run("place", "-", *words, stdin=simulator.written(*objects)) for words in ((), ("-q",))
    )

    assert loud.out == quiet.out
    assert quiet.notes == ""
    assert "passed over: 2 ConfigMap\n" in loud.notes
    assert "Device n9: there is no Node of this name" in loud.notes


@pytest.mark.parametrize("words", [(), ("--explain",)], ids=["in short", "in full"])
def test_what_is_printed_steers_no_terminal(words: tuple[str, ...]) -> None:
    """A snapshot holds what anybody in a cluster wrote; to look at it is safe."""
    nasty = "T4\x1b[2J\r\n\u202e\x9b"
    taint = {"key": "a", "value": nasty, "effect": "NoSchedule"}
    tainted = simulator.node("n2") | {"spec": {"taints": [taint]}}
    given = [
        *simulator.both(),
        tainted,
        simulator.device("n2"),
        simulator.pod("model", annotations={"berth.dev/model": nasty}),
        simulator.pod("wrong", annotations={"berth.dev/scope": nasty}),
        simulator.pod("large", {"nvidia.com/gpu": 5}),
    ]

    answer = simulator.run("place", "-", *words, stdin=simulator.written(*given))

    assert answer.code == 0, answer.notes
    assert all(line.isprintable() for line in answer.out.split("\n"))


@pytest.mark.parametrize(
    ("spec", "uses"),
    [
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "volume claims"),
        ({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}, "volume claims"),
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}, "resource claims"),
        ({"affinity": {"podAffinity": every_field.NEAR}}, "pod affinity"),
        ({"affinity": {"podAntiAffinity": every_field.NEAR}}, "pod anti-affinity"),
    ],
)
def test_what_berth_does_not_honour_is_read_all_the_same(spec: simulator.Body, uses: str) -> None:
    """It is said of the pod, and the others are placed."""
    told = simulator.place(*simulator.both(), simulator.pod("a", **spec), simulator.pod("b"))
    refused, placed = told
    assert uses in refused["refusals"][0]["message"]
    assert placed["node"] == "n1"
