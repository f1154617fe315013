"""What `place` says of each pod, and what it takes into account."""

from pathlib import Path

import pytest

from berth_crds import allocation, names
from simulation import desk, every_field

BIG = {"nvidia.com/gpu": 4}


def record(of: desk.Body, *minors: int, core: int = 100) -> dict[str, str]:
    """Return the annotation that hands cards of a Device to the container."""
    listed = [card for card in of["spec"]["devices"] if card["minor"] in minors]
    shares = [
        allocation.Share(card["uuid"], card["minor"], core, card["memory"] * core // 100) for card in listed
    ]
    held = allocation.of(of["metadata"]["name"], {"main": {"gpu": shares}})
    return {names.ALLOCATION: allocation.encode(held)}


def test_placed() -> None:
    """A pod that fits has its node and the record that its annotation would hold, and no refusals."""
    one = desk.device()
    (told,) = desk.place(desk.node(), one, desk.pod())

    share = {"uuid": desk.cards(one)[0], "minor": 0, "core": 100, "memory": 15360 << 20}
    assert told == {
        "pod": "ml/p",
        "node": "n1",
        "allocation": {"v": 1, "node": "n1", "containers": {"main": {"gpu": [share]}}},
        "refusals": [],
        "nearest": None,
    }


def test_refused() -> None:
    """A pod that does not fit has a refusal for each card in the way, and what is nearest."""
    one = desk.device()
    busy = desk.pod("busy", BIG, annotations=record(one, 0, 1, 2), nodeName="n1", phase="Running")
    (told,) = desk.place(desk.node(), one, busy, desk.pod("p", BIG))

    assert (told["pod"], told["node"], told["allocation"]) == ("ml/p", None, None)
    of_node, *of_cards = told["refusals"]
    assert (of_node["node"], of_node["device"], of_node["reason"]) == ("n1", None, "Full")
    assert [refusal["device"] for refusal in of_cards] == desk.cards(one)[:3]
    assert {(refusal["node"], refusal["reason"]) for refusal in of_cards} == {("n1", "InUse")}
    assert all(refusal["message"] for refusal in told["refusals"])
    assert "n1 has 1 card free, 4 wanted" in told["nearest"]


def test_rejected() -> None:
    """A request that nobody can serve is refused with its reason, of no node."""
    (told,) = desk.place(*desk.both(), desk.pod(limits={"berth.dev/gpu": 150}))

    (refusal,) = told["refusals"]
    assert (refusal["node"], refusal["device"], refusal["reason"]) == (None, None, "InvalidRequest")
    assert told["nearest"] is None


def test_no_nodes() -> None:
    """Without nodes a pod waits, and that is the reason."""
    (told,) = desk.place(desk.pod())

    assert [refusal["reason"] for refusal in told["refusals"]] == ["NoNodes"]


def test_without_cards() -> None:
    """A pod without devices gets a node and no record."""
    (told,) = desk.place(*desk.both(), desk.pod(limits={"cpu": "1"}))

    assert (told["node"], told["allocation"]) == ("n1", None)


def test_charged() -> None:
    """Pods that have a node and a record hold what it says, and are not placed again."""
    one = desk.device()
    busy = desk.pod("busy", annotations=record(one, 0), nodeName="n1", phase="Running")
    half = desk.pod("half", {"berth.dev/gpu": 50}, annotations=record(one, 1, core=50), nodeName="n1")
    told = desk.place(desk.node(), one, busy, half, desk.pod("p", {"nvidia.com/gpu": 2}))

    (only,) = told
    shares = only["allocation"]["containers"]["main"]["gpu"]
    assert [share["minor"] for share in shares] == [2, 3]


def test_withheld() -> None:
    """A bound pod without a readable record withholds as many cards as it asks for, and a note says so."""
    lost = desk.pod("lost", {"nvidia.com/gpu": 3}, nodeName="n1", phase="Running")
    objects = *desk.both(), lost, desk.pod("p", {"nvidia.com/gpu": 2})
    answer = desk.run("place", "-", "-o", "json", stdin=desk.written(*objects))

    (told,) = answer.objects
    assert told["node"] is None
    assert "Pod ml/lost withholds cards of n1: it asks for cards and has no allocation" in answer.notes


def test_named_by_its_gpupod() -> None:
    """A bound pod without a readable record holds what its GpuPod names, and a note says so."""
    about = {"uid": "u-1", "namespace": None}
    lost = desk.pod("lost", meta=about, nodeName="n1", phase="Running")
    gpupod = desk.gpupod("lost", "u-1", 0, namespace="")
    objects = *desk.both(), gpupod, lost, desk.pod("p", {"nvidia.com/gpu": 3})
    answer = desk.run("place", "-", "-o", "json", stdin=desk.written(*objects))

    (told,) = answer.objects
    assert [share["minor"] for share in told["allocation"]["containers"]["main"]["gpu"]] == [1, 2, 3]
    said = "Pod default/lost holds on n1 what its GpuPod names: it asks for cards and has no allocation"
    assert said in answer.notes


@pytest.mark.parametrize(
    ("uid", "minors"),
    [
        pytest.param("u-0", [0], id="of an earlier pod"),
        pytest.param("u-1", [0, 0], id="that contradicts itself"),
        pytest.param("u-1", [], id="that names nothing"),
    ],
)
def test_ignored_gpupod(uid: str, minors: list[int]) -> None:
    """A GpuPod that does not speak for its pod changes nothing: the pod withholds."""
    lost = desk.pod("lost", meta={"uid": "u-1"}, nodeName="n1", phase="Running")
    objects = *desk.both(), desk.gpupod("lost", uid, *minors), lost, desk.pod("p", BIG)
    answer = desk.run("place", "-", "-o", "json", stdin=desk.written(*objects))

    assert answer.objects[0]["node"] is None
    assert "Pod ml/lost withholds cards of n1: it asks for cards and has no allocation" in answer.notes


def test_not_there() -> None:
    """Where a bound pod's record names a device that is not there, a note says so."""
    one, before = desk.device(), desk.device(shape="8xT4")
    swapped = desk.pod("swapped", annotations=record(before, 7), nodeName="n1", phase="Running")
    answer = desk.run("place", "-", stdin=desk.written(desk.node(), one, swapped))

    assert answer.notes == (
        f"berth-simulation: stdin: Pod ml/swapped: its allocation names {desk.cards(before)[7]}, "
        f"which the Device n1 does not have\n"
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished(phase: str) -> None:
    """A finished pod holds nothing and is not spoken of."""
    one = desk.device()
    over = desk.pod("over", BIG, annotations=record(one, 0, 1, 2, 3), nodeName="n1", phase=phase)
    told = desk.place(desk.node(), one, over, desk.pod("p", BIG))

    assert desk.went(told) == {"ml/p": "n1"}


def test_order() -> None:
    """Pods are placed by priority, then in the order given, whatever their names and ages."""
    named = [
        desk.pod("z", meta={"creationTimestamp": "2026-03-02T08:00:00Z"}),
        desk.pod("a", meta={"creationTimestamp": "2020-03-02T08:00:00Z"}),
        desk.pod("m", priority=5),
        desk.pod("urgent", priorityClassName="urgent"),
        desk.pod("system", priorityClassName="system-node-critical"),
    ]
    told = desk.place(*desk.both(), desk.priority("urgent", 1000), *named)

    assert list(desk.went(told)) == ["ml/system", "ml/urgent", "ml/m", "ml/z", "ml/a"]
    assert [one["node"] for one in told] == ["n1"] * 4 + [None]


def test_global_default() -> None:
    """The class that is the cluster's default counts for pods that name none."""
    usual, low = desk.priority("usual", 10, globalDefault=True), desk.priority("low", 1)
    told = desk.place(
        *desk.both(), low, usual, desk.pod("first", priorityClassName="low"), desk.pod("second")
    )

    assert list(desk.went(told)) == ["ml/second", "ml/first"]


def test_unknown_class() -> None:
    """A pod whose class is not given has the priority 0, and a note says so."""
    objects = *desk.both(), desk.pod(priorityClassName="nobody-knows")
    answer = desk.run("place", "-", stdin=desk.written(*objects))

    assert answer.code == 0
    assert "Pod ml/p: there is no PriorityClass nobody-knows, so its priority is 0" in answer.notes


def test_not_ours() -> None:
    """Pods of other schedulers and gated ones are told of, last, and not placed."""
    other = desk.pod("other", schedulerName="default-scheduler")
    gated = desk.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    leaving = desk.pod("leaving", meta={"deletionTimestamp": "2026-03-02T08:00:00Z"})
    told = desk.place(*desk.both(), other, gated, leaving, desk.pod())

    assert [(one["pod"], one["node"]) for one in told] == [
        ("ml/p", "n1"),
        ("ml/other", None),
        ("ml/gated", None),
        ("ml/leaving", None),
    ]
    assert [one["refusals"][0]["reason"] for one in told[1:]] == ["NotOurs", "Gated", "Deleting"]
    assert "example.com/wait" in told[2]["refusals"][0]["message"]


def test_all() -> None:
    """With --all, pods of other schedulers are placed too."""
    other = desk.pod("other", schedulerName="default-scheduler")

    assert desk.went(desk.place(*desk.both(), other, words=["--all"])) == {"ml/other": "n1"}


def test_capacity() -> None:
    """Where a node does not say what can be given out, its capacity counts; 110 pods fit on it."""
    hand_made = desk.node() | {"status": {"capacity": {"cpu": "2"}}}
    objects = hand_made, desk.device()
    fits, too_much = desk.pod("fits", {"cpu": "2"}), desk.pod("too-much", {"cpu": "3"})

    assert desk.went(desk.place(*objects, fits)) == {"ml/fits": "n1"}
    assert desk.went(desk.place(*objects, too_much)) == {"ml/too-much": None}


def test_names() -> None:
    """A pod without a namespace is in the default one; one without a name gets one, the same each time."""
    plain = desk.pod(meta={"name": "plain", "namespace": None})
    made = [desk.pod(meta={"name": None, "generateName": "job-"}) for _ in range(2)]
    told = desk.place(*desk.both(), plain, *made)

    assert list(desk.went(told)) == ["default/plain", "ml/job-1", "ml/job-2"]


# ---------------------------------------------------------------- who is alive

EARLY, LATER, LATE = (f"2026-03-02T08:0{at}:00.000000Z" for at in (0, 1, 2))


@pytest.mark.parametrize(
    ("leases", "nodes"),
    [
        pytest.param([], {"n1", "n2"}, id="without Leases all count as alive"),
        pytest.param([desk.lease("n1")], {"n1"}, id="with Leases those that have one"),
        pytest.param(
            [desk.lease("n1", EARLY), desk.lease("n2", LATE)], {"n2"}, id="a Lease much older than the newest"
        ),
        pytest.param(
            [desk.lease("n1", "2026-03-02T08:01:30.5Z"), desk.lease("n2", LATE)],
            {"n1", "n2"},
            id="a Lease within the grace period",
        ),
    ],
)
def test_agents(leases: list[desk.Body], nodes: set[str]) -> None:
    """Only nodes whose agents live get pods."""
    pods = [desk.pod(f"p{at}", BIG) for at in range(2)]
    told = desk.place(*desk.both("n1"), *desk.both("n2"), *leases, *pods)

    assert {one["node"] for one in told} - {None} == nodes


def test_condemned() -> None:
    """An agent of which the operator wrote that it is silent is silent."""
    ready = {"type": "Ready", "status": "False", "reason": "AgentSilent"}
    (told,) = desk.place(desk.node(), desk.device(conditions=[ready]), desk.pod())

    assert [refusal["reason"] for refusal in told["refusals"]] == ["Silent"]


# ---------------------------------------------------------------- what if


def test_without() -> None:
    """With --without a pod is not there, whether it holds something or waits."""
    one = desk.device()
    busy = desk.pod("busy", BIG, annotations=record(one, 0, 1, 2, 3), nodeName="n1")
    objects = desk.node(), one, busy, desk.pod("first", BIG), desk.pod("second", BIG)

    assert desk.went(desk.place(*objects)) == {"ml/first": None, "ml/second": None}
    left_out = ["--without", "ml/busy,ml/first"]
    assert desk.went(desk.place(*objects, words=left_out)) == {"ml/second": "n1"}


def test_add(tmp_path: Path) -> None:
    """With --add there are more objects, and one of the same name takes the place of the other."""
    more = desk.save(tmp_path / "more.yaml", *desk.both("n2", "8xT4"))
    larger = desk.save(tmp_path / "larger.yaml", desk.device("n1", "8xT4"))
    objects = *desk.both("n1"), desk.pod(limits={"nvidia.com/gpu": 8})

    assert desk.went(desk.place(*objects)) == {"ml/p": None}
    assert desk.went(desk.place(*objects, words=["--add", more])) == {"ml/p": "n2"}
    assert desk.went(desk.place(*objects, words=["--add", larger])) == {"ml/p": "n1"}


def test_strategy() -> None:
    """With --strategy nodes are ranked in another way, whatever the policy says."""
    policy = {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "default"},
        "spec": {"strategy": "binpack"},
    }
    objects = *desk.both("n1"), *desk.both("n2"), policy, *(desk.pod(f"p{at}") for at in range(2))

    assert set(desk.went(desk.place(*objects)).values()) == {"n1"}
    assert set(desk.went(desk.place(*objects, words=["--strategy", "spread"])).values()) == {"n1", "n2"}


# ---------------------------------------------------------------- text


def test_text() -> None:
    """People get a table, with what is nearest and what would help below the reason, and a sum."""
    objects = *desk.both(), desk.pod("one"), desk.pod("four", BIG), desk.pod("part", {"berth.dev/gpu": 25})
    answer = desk.run("place", "-", stdin=desk.written(*objects))

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
    one = desk.device()
    objects = desk.node(), one, desk.pod("one"), desk.pod("four", BIG)
    answer = desk.run("place", "-", "--explain", stdin=desk.written(*objects))

    assert "ml/four: 0/1 nodes are available: 1 has fewer than 4 free cards" in answer.out
    assert desk.cards(one)[0] in answer.out


def test_notes() -> None:
    """What plays no part is counted beside the output; -q is quiet."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    objects = *desk.both(), desk.device("n9"), config, config, desk.pod()
    loud, quiet = (desk.run("place", "-", *words, stdin=desk.written(*objects)) for words in ((), ("-q",)))

    assert loud.out == quiet.out
    assert quiet.notes == ""
    assert "passed over: 2 ConfigMap\n" in loud.notes
    assert "Device n9: there is no Node of this name" in loud.notes


@pytest.mark.parametrize("words", [(), ("--explain",)], ids=["in short", "in full"])
def test_what_is_printed_steers_no_terminal(words: tuple[str, ...]) -> None:
    """A snapshot holds what anybody in a cluster wrote; to look at it is safe."""
    nasty = "T4\x1b[2J\r\n\u202e\x9b"
    taint = {"key": "a", "value": nasty, "effect": "NoSchedule"}
    tainted = desk.node("n2") | {"spec": {"taints": [taint]}}
    given = [
        *desk.both(),
        tainted,
        desk.device("n2"),
        desk.pod("model", annotations={"berth.dev/model": nasty}),
        desk.pod("wrong", annotations={"berth.dev/scope": nasty}),
        desk.pod("large", {"nvidia.com/gpu": 5}),
    ]

    answer = desk.run("place", "-", *words, stdin=desk.written(*given))

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
def test_what_berth_does_not_honour_is_read_all_the_same(spec: desk.Body, uses: str) -> None:
    """It is said of the pod, and the others are placed."""
    told = desk.place(*desk.both(), desk.pod("a", **spec), desk.pod("b"))
    refused, placed = told
    assert uses in refused["refusals"][0]["message"]
    assert placed["node"] == "n1"
