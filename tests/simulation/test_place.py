"""What `place` says of each pod, and what it takes into account."""

from pathlib import Path

import pytest

from berth_crds import allocation, names
from simulation import simulator
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


CARDS, NODE = simulator.device(), simulator.node()


def test_placed() -> None:
    """A pod that fits has its node and the record that its annotation would hold, and no refusals."""
    share = {"uuid": simulator.cards(CARDS)[0], "minor": 0, "core": 100, "memory": 15360 << 20}

    assert simulator.place(NODE, CARDS, simulator.pod()) == [
        {
            "pod": "ml/p",
            "node": "n1",
            "allocation": {"v": 1, "node": "n1", "containers": {"main": {"gpu": [share]}}},
            "refusals": [],
            "nearest": None,
        }
    ]


def test_refused() -> None:
    """A pod that does not fit has a refusal for each card in the way, and what is nearest."""
    busy = simulator.pod("busy", BIG, annotations=record(CARDS, 0, 1, 2), nodeName="n1", phase="Running")

    (answer,) = simulator.place(NODE, CARDS, busy, simulator.pod("p", BIG))

    assert (answer["pod"], answer["node"], answer["allocation"]) == ("ml/p", None, None)
    assert [(refusal["node"], refusal["device"], refusal["reason"]) for refusal in answer["refusals"]] == [
        ("n1", None, "Full"),
        *(("n1", uuid, "InUse") for uuid in simulator.cards(CARDS)[:3]),
    ]
    assert all(refusal["message"] for refusal in answer["refusals"])
    assert "n1 has 1 card free, 4 wanted" in answer["nearest"]


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
    "a pod without devices": ((*simulator.both(), simulator.pod(limits={"cpu": "1"})), [], {"ml/p": "n1"}),
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
    (answer,) = simulator.place(*objects)

    (refusal,) = answer["refusals"]
    node = "n1" if reason == "Silent" else None
    assert (refusal["node"], refusal["device"], refusal["reason"]) == (node, None, reason)
    assert answer["nearest"] is None or reason != "InvalidRequest"


WITHHOLDS = "Pod ml/lost withholds cards of n1: it asks for cards and has no allocation"
BOUND: dict[str, tuple[tuple[simulator.Body, ...], int, list[int], str]] = {
    "pods that have a record hold what it says": (
        (
            simulator.pod("busy", annotations=record(CARDS, 0), nodeName="n1", phase="Running"),
            simulator.pod(
                "half", {"berth.dev/gpu": 50}, annotations=record(CARDS, 1, core=50), nodeName="n1"
            ),
        ),
        2,
        [2, 3],
        "",
    ),
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


@pytest.mark.parametrize(("objects", "wanted", "minors", "note"), BOUND.values(), ids=BOUND)
def test_what_bound_pods_hold(
    objects: tuple[simulator.Body, ...], wanted: int, minors: list[int], note: str
) -> None:
    """What its record says or its GpuPod names; else a pod withholds what it asks for, and a note says so."""
    answer = simulator.run_on([NODE, CARDS, *objects, simulator.pod("p", wanted)], "-o", "json")

    (placed,) = answer.objects
    given = placed["allocation"]["containers"]["main"]["gpu"] if placed["node"] else []
    assert [share["minor"] for share in given] == minors
    assert note in answer.notes


EIGHT = simulator.device(shape="8xT4")
SWAPPED = simulator.pod("swapped", annotations=record(EIGHT, 7), nodeName="n1", phase="Running")
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


@pytest.mark.parametrize(
    ("objects", "note"),
    [
        pytest.param(
            (SWAPPED,),
            f"its allocation names {simulator.cards(EIGHT)[7]}, which the Device n1 does not have",
            id="a record that names a device that is not there",
        ),
        pytest.param(
            (simulator.pod(priorityClassName="nobody-knows"),),
            "Pod ml/p: there is no PriorityClass nobody-knows, so its priority is 0",
            id="a class that is not given",
        ),
        pytest.param((CONFIG, CONFIG), "passed over: 2 ConfigMap\n", id="what plays no part"),
        pytest.param(
            (simulator.device("n9"),),
            "Device n9: there is no Node of this name",
            id="a Device without a Node",
        ),
    ],
)
def test_notes(objects: tuple[simulator.Body, ...], note: str) -> None:
    """What people may have overlooked is noted beside the output; -q is quiet."""
    loud, quiet = (simulator.run_on([NODE, CARDS, *objects], *words) for words in ((), ("-q",)))

    assert note in loud.notes
    assert (quiet.out, quiet.notes) == (loud.out, "")


def test_not_ours() -> None:
    """Pods of other schedulers and gated ones are listed last, and not placed."""
    gated = simulator.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    leaving = simulator.pod("leaving", meta={"deletionTimestamp": "2026-03-02T08:00:00Z"})
    placed, *others = simulator.place(*simulator.both(), OTHER, gated, leaving, simulator.pod())

    assert (placed["pod"], placed["node"]) == ("ml/p", "n1")
    assert [(one["pod"], one["node"], one["refusals"][0]["reason"]) for one in others] == [
        ("ml/other", None, "NotOurs"),
        ("ml/gated", None, "Gated"),
        ("ml/leaving", None, "Deleting"),
    ]
    assert "example.com/wait" in others[1]["refusals"][0]["message"]


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
    pods = simulator.pod("p0", BIG), simulator.pod("p1", BIG)

    answers = simulator.place(*simulator.both("n1"), *simulator.both("n2"), *leases, *pods)

    assert set(simulator.nodes(answers).values()) - {None} == nodes


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
    answer = simulator.run_on(objects)

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
    answer = simulator.run_on([NODE, CARDS, simulator.pod("one"), simulator.pod("four", BIG)], "--explain")

    assert "ml/four: 0/1 nodes are available: 1 has fewer than 4 free cards" in answer.out
    assert simulator.cards(CARDS)[0] in answer.out


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

    answer = simulator.run_on(given, *words)

    assert all(line.isprintable() for line in answer.out.split("\n"))


@pytest.mark.parametrize(
    ("spec", "uses"),
    [
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}, "resource claims"),
    ],
)
def test_what_berth_does_not_honour_is_read_all_the_same(spec: simulator.Body, uses: str) -> None:
    """It is said of the pod, and the others are placed."""
    refused, placed = simulator.place(*simulator.both(), simulator.pod("a", **spec), simulator.pod("b"))

    assert uses in refused["refusals"][0]["message"]
    assert placed["node"] == "n1"


def test_what_the_kubelet_reports_of_a_node_counts() -> None:
    """Images that it has already, and features that it declares."""
    small, large = (simulator.node(name, cpu="4", memory="8Gi") for name in ("n1", "n2"))
    large["status"] |= {
        "images": [{"names": ["llm:1"], "sizeBytes": 1800 << 20}],
        "declaredFeatures": ["UserNamespacesHostNetworkSupport"],
    }
    with_image = simulator.pod("i", {})
    with_image["spec"]["containers"][0]["image"] = "llm:1"
    with_feature = simulator.pod("f", {}, hostNetwork=True, hostUsers=False)

    found = simulator.nodes(simulator.place(small, large, with_image, with_feature))

    assert found == {"ml/i": "n2", "ml/f": "n2"}
