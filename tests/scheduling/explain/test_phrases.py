"""Every reason reads well, for one node and for several, and so do amounts."""

import pytest

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import decisions, explain, queued_pods, wording
from berth_operator.scheduling.constraints import delivery, registry
from berth_operator.scheduling.decisions import Count, Reason, Refusal
from berth_operator.scheduling.deficits import Deficit, Unit
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.explain import phrases
from berth_operator.scheduling.nodes import facts
from scheduling.explain import scenes, volume_phrases, words_about_pods
from support import builders

GIB = builders.GIB
PICKY = scenes.PICKY

# The detail, then what one node and what two nodes say.
REASONS: dict[Reason, tuple[str, str, str]] = {
    Reason.INVALID_REQUEST: (
        "",
        "1 cannot serve an invalid request",
        "2 cannot serve an invalid request",
    ),
    Reason.UNSUPPORTED_REQUEST: (
        "",
        "1 cannot serve this kind of request",
        "2 cannot serve this kind of request",
    ),
    Reason.UNSUPPORTED_CONSTRAINT: (
        "",
        "1 cannot be evaluated: the pod uses an unsupported constraint",
        "2 cannot be evaluated: the pod uses an unsupported constraint",
    ),
    Reason.TOO_MUCH_TOGETHER: (
        "",
        "1 was not evaluated (too many long requests wait)",
        "2 were not evaluated (too many long requests wait)",
    ),
    Reason.NODE_CORDONED: ("", "1 is cordoned", "2 are cordoned"),
    Reason.TAINTED: ("gpu", "1 has the untolerated taint gpu", "2 have the untolerated taint gpu"),
    Reason.FEATURE_MISSING: ("A", "1 does not declare the feature A", "2 do not declare the feature A"),
    Reason.SELECTOR_MISMATCH: (
        "",
        "1 does not match the node selector or affinity",
        "2 do not match the node selector or affinity",
    ),
    **volume_phrases.REASONS,
    Reason.DISK_IN_USE: ("rbd a/b", "1 has the disk rbd a/b in use", "2 have the disk rbd a/b in use"),
    Reason.HOST_PORT_TAKEN: ("80/TCP", "1 has host port 80/TCP in use", "2 have host port 80/TCP in use"),
    **words_about_pods.REASONS,
    Reason.INSUFFICIENT_RESOURCE: ("cpu", "1 has insufficient cpu", "2 have insufficient cpu"),
    Reason.NOT_PUBLISHED: (
        "",
        "1 has no Device: no agent has published its cards",
        "2 have no Device: no agent has published their cards",
    ),
    Reason.NO_DEVICE: ("", "1 has no cards", "2 have no cards"),
    Reason.SILENT: ("", "1 has an agent that stopped reporting", "2 have agents that stopped reporting"),
    Reason.SOURCE_FAILED: (
        "NVMLDown",
        "1 has an agent that cannot read its GPUs (NVMLDown)",
        "2 have agents that cannot read their GPUs (NVMLDown)",
    ),
    Reason.QUARANTINED: (
        "its kubelet rejected 3 pods in a row: OutOfcpu",
        "1 is quarantined (its kubelet rejected 3 pods in a row: OutOfcpu)",
        "2 are quarantined (its kubelet rejected 3 pods in a row: OutOfcpu)",
    ),
    Reason.NOT_FED: (
        "",
        f"1 {delivery.MADE_TOO_EARLY}",
        f"2 {delivery.MADE_TOO_EARLY}",
    ),
    Reason.NOT_COUNTED: (
        "",
        "1 gives what its kubelet counts and no more: ask for nvidia.com/gpu or berth.dev/gpu",
        "2 give what their kubelets count and no more: ask for nvidia.com/gpu or berth.dev/gpu",
    ),
    Reason.NO_DELIVERY: (
        "",
        "1 has no way to give containers their cards: its Device says why",
        "2 have no way to give containers their cards: their Devices say why",
    ),
    Reason.ONE_REPLICA_EACH: (
        "",
        "1 gives a container one replica at most: ask for one in each",
        "2 give a container one replica at most: ask for one in each",
    ),
    Reason.TOO_FEW_CARDS: ("", "1 has fewer than 2 cards", "2 have fewer than 2 cards"),
    Reason.MODEL_MISMATCH: (
        "",
        "1 has fewer than 2 cards of model h200 or t4",
        "2 have fewer than 2 cards of model h200 or t4",
    ),
    Reason.UNHEALTHY: ("", "1 has too few healthy cards", "2 have too few healthy cards"),
    Reason.CARD_CORDONED: (
        "",
        "1 has too few cards that are not cordoned",
        "2 have too few cards that are not cordoned",
    ),
    Reason.OCCUPIED: (
        "",
        "1 has cards used by processes that Berth did not place",
        "2 have cards used by processes that Berth did not place",
    ),
    Reason.DUPLICATE_UUID: (
        "",
        "1 has cards whose UUID another node reports too",
        "2 have cards whose UUID another node reports too",
    ),
    Reason.INVALID_ALLOCATION: (
        "",
        "1 has cards reserved for a pod without a valid allocation annotation",
        "2 have cards reserved for a pod without a valid allocation annotation",
    ),
    Reason.MIG_MODE: ("", "1 has cards in MIG mode", "2 have cards in MIG mode"),
    Reason.WITHHELD: (
        "",
        "1 has cards held by pods whose allocation annotation is missing or unreadable",
        "2 have cards held by pods whose allocation annotation is missing or unreadable",
    ),
    Reason.FULL: ("", "1 has too few free cards", "2 have too few free cards"),
    Reason.CARD_MEMORY: (
        "",
        "1 has less than 60 GiB of memory free on all cards together",
        "2 have less than 60 GiB of memory free on all cards together",
    ),
    Reason.FREE_MEMORY: (
        "",
        "1 has fewer than 2 cards with at least 20 GiB of memory free",
        "2 have fewer than 2 cards with at least 20 GiB of memory free",
    ),
    Reason.EXCLUDED: (
        "",
        "1 has too few cards that are not excluded",
        "2 have too few cards that are not excluded",
    ),
    Reason.NOT_INCLUDED: ("", "1 has too few of the listed cards", "2 have too few of the listed cards"),
    Reason.TOO_SMALL: (
        "",
        "1 has too few cards with at least 40 GiB",
        "2 have too few cards with at least 40 GiB",
    ),
    Reason.SHARING_MODE: (
        "",
        "1 has cards that are given out only as time-sliced or MPS replicas",
        "2 have cards that are given out only as time-sliced or MPS replicas",
    ),
    Reason.PROFILE_MISMATCH: (
        "1g.10gb",
        "1 has too few MIG 1g.10gb instances",
        "2 have too few MIG 1g.10gb instances",
    ),
    Reason.LABEL_MISMATCH: (
        "rdma",
        "1 has too few rdma devices with the labels asked for",
        "2 have too few rdma devices with the labels asked for",
    ),
    Reason.IN_USE: ("", "1 has too few unused cards", "2 have too few unused cards"),
    Reason.PARTLY_USED: (
        "",
        "1 has too few cards that no other pod shares",
        "2 have too few cards that no other pod shares",
    ),
    Reason.NO_INSTANCE: (
        "1g.10gb",
        "1 has too few free MIG 1g.10gb instances",
        "2 have too few free MIG 1g.10gb instances",
    ),
    Reason.NO_FUNCTION: (
        "rdma",
        "1 has too few free virtual functions of rdma devices",
        "2 have too few free virtual functions of rdma devices",
    ),
    Reason.SCOPE_MISMATCH: (
        "",
        "1 has too few free cards within one NVLink group",
        "2 have too few free cards within one NVLink group",
    ),
    Reason.NO_PARTITION: (
        "",
        "1 has no free NVLink partition of 2 cards",
        "2 have no free NVLink partition of 2 cards",
    ),
    Reason.PARTITIONS_HONORED: (
        "",
        "1 has no free partition of 2 cards and gives whole cards in partitions only",
        "2 have no free partition of 2 cards and give whole cards in partitions only",
    ),
    Reason.NO_ROOT: (
        "",
        "1 has too few free gpu and rdma on the same PCIe root",
        "2 have too few free gpu and rdma on the same PCIe root",
    ),
    Reason.ROOT_IN_USE: (
        "rdma",
        "1 has too few rdma devices below PCIe roots that no other pod uses",
        "2 have too few rdma devices below PCIe roots that no other pod uses",
    ),
    Reason.UNDECIDED: (
        "",
        "1 was not fully evaluated (time limit)",
        "2 were not fully evaluated (time limit)",
    ),
}


@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_reason(reason: Reason) -> None:
    """A reason reads well for one node and for several."""
    detail, one, two = REASONS[reason]

    assert explain.brief([Count(reason, detail, 1)], PICKY) == f"0/1 nodes are available: {one}"
    assert explain.brief([Count(reason, detail, 2)], PICKY) == f"0/2 nodes are available: {two}"


DETAILED = {
    "no room for a pod": (Count(Reason.INSUFFICIENT_RESOURCE, "pods", 2), "2 have too many pods"),
    "no replicas": (Count(Reason.FULL, "replicas", 1), "1 has too few free replicas"),
    "no instances": (Count(Reason.FULL, "MIG 1g.10gb", 2), "2 have too few free MIG 1g.10gb instances"),
    "no other devices": (Count(Reason.FULL, "rdma", 1), "1 has too few free rdma devices"),
    "few other devices": (Count(Reason.TOO_FEW_CARDS, "rdma", 1), "1 has too few rdma devices"),
    "cordoned devices": (
        Count(Reason.CARD_CORDONED, "fpga", 2),
        "2 have too few fpga devices that are not cordoned",
    ),
    "unhealthy instances": (
        Count(Reason.UNHEALTHY, "MIG 1g.10gb", 1),
        "1 has too few healthy MIG 1g.10gb instances",
    ),
    "occupied devices": (
        Count(Reason.OCCUPIED, "rdma", 1),
        "1 has rdma devices used by processes that Berth did not place",
    ),
    "too few replicas": (
        Count(Reason.TOO_FEW_CARDS, "replicas", 1),
        "1 has fewer than 2 replicas of shared cards",
    ),
    "none at all": (Count(Reason.NO_DEVICE, "fpga", 1), "1 has no fpga devices"),
    "a nameless source": (Count(Reason.SOURCE_FAILED, "", 1), "1 has an agent that cannot read its GPUs"),
    "a name too long": (
        Count(Reason.TAINTED, "x" * 200, 1),
        f"1 has the untolerated taint {'x' * 79}…",
    ),
}


@pytest.mark.parametrize(("count", "text"), DETAILED.values(), ids=DETAILED.keys())
def test_detail(count: Count, text: str) -> None:
    """What a reason is about is named in its own words."""
    assert explain.brief([count], PICKY) == f"0/{count.nodes} nodes are available: {text}"


CONDITIONS = {
    "a pattern": (scenes.cards(pattern="^A100"), "whose model matches ^A100"),
    "a pattern to avoid": (scenes.cards(avoid_pattern="PCIe"), "whose model does not match PCIe"),
    "models to avoid": (scenes.cards(avoid_models=frozenset({"t4"})), "other than t4"),
    "both": (
        scenes.cards(avoid_models=frozenset({"t4"}), models=frozenset({"a", "b", "c", "d", "e"})),
        "of model a, b, c or 2 more and other than t4",
    ),
}


@pytest.mark.parametrize(("pod", "text"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_conditions_on_models(pod: queued_pods.PodInfo, text: str) -> None:
    """What is wanted of a model is repeated as it was asked."""
    assert (
        explain.brief([Count(Reason.MODEL_MISMATCH, "", 1)], pod)
        == f"0/1 nodes are available: 1 has no card {text}"
    )


def test_every_reason_has_words() -> None:
    """No reason is left without words, in a sentence or in a table."""
    assert set(REASONS) | {Reason.NO_NODES} == set(Reason) == set(registry.WORDS) == set(registry.BRIEF)


def test_empty_cluster() -> None:
    """Where there are no nodes, nothing is counted."""
    assert explain.brief([Count(Reason.NO_NODES, "", 0)], PICKY) == "there are no nodes"


def test_counts_stand_in_their_order() -> None:
    """The counts are told as they come, which is the most frequent first; rare ones are summed up."""
    counts = [Count(Reason.FULL, "", 5), *(Count(Reason.TAINTED, f"t{at}", 1) for at in range(9))]

    found = explain.brief(counts, PICKY)

    assert found.startswith(
        "0/14 nodes are available: 5 have too few free cards; 1 has the untolerated taint t0; "
    )
    assert found.endswith("; 1 has the untolerated taint t6; 2 for other reasons")


def test_rejection_tells_all_faults() -> None:
    """A request that cannot be served is told everything that is wrong with it at once."""
    faults = (
        Refusal(Reason.INVALID_REQUEST, detail="this is wrong"),
        Refusal(Reason.UNSUPPORTED_REQUEST, detail="that is not served"),
    )

    assert explain.sentence(decisions.Reject("uid", faults), PICKY) == "this is wrong; that is not served"


def test_endless_faults_are_cut() -> None:
    """A condition takes 1,024 characters, whatever people write."""
    faults = tuple(Refusal(Reason.INVALID_REQUEST, detail="x" * 700) for _ in range(2))

    found = explain.sentence(decisions.Reject("uid", faults), PICKY)

    assert len(found) == 1024
    assert found.endswith("…")


# ---------------------------------------------------------------- what others wrote

NASTY = "a\x1b[2J\r\n0/9 nodes are available: forged\u202e\u200b\x9b\x7f"
NASTY_POD = scenes.pod(
    requests.cards(2),
    models=frozenset({NASTY, "t4"}),
    avoid_models=frozenset({NASTY}),
    pattern=NASTY,
    grouping=requests.Grouping(scope=Scope.NVLINK, joint=(NASTY, "rdma")),
)


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_no_reason_passes_controls_on(reason: Reason) -> None:
    """Whatever people call their models, taints and resources, the sentence is one printable line."""
    assert explain.brief([Count(reason, NASTY, 2)], NASTY_POD).isprintable()
    assert phrases.briefly(reason, NASTY).isprintable()


def test_no_explanation_passes_controls_on() -> None:
    """Neither the sentence nor the table of a whole explanation steers a terminal."""
    taint = facts.Taint(NASTY, NASTY, "NoSchedule")
    made = builders.inventory(
        builders.node("n1", taints=(taint,)),
        builders.device("n1", 2),
        builders.node("n2"),
        builders.device("n2", [builders.card(0, at="n2", model=NASTY, uuid=NASTY)]),
        builders.node(NASTY),
        builders.device(NASTY, 2, failed=NASTY),
    )
    node_selection = facts.NodeSelection(selector=((NASTY, NASTY),))

    for asked in (
        scenes.cards(2),
        scenes.cards(models=frozenset({NASTY})),
        scenes.cards(node_selection=node_selection),
    ):
        told = scenes.told(made, asked, all_nodes=True)
        assert explain.sentence(told, asked).isprintable()
        assert all(line.isprintable() for line in explain.table(told).split("\n"))
        assert all(refusal.detail.isprintable() for refusal in explain.refusals(told, asked))


# ---------------------------------------------------------------- amounts

AMOUNTS = {
    "bytes, even": (Deficit("", Unit.BYTES, 8 * GIB, 6 * GIB), "6 GiB free, 8 GiB wanted"),
    "bytes, free rounded down": (Deficit("", Unit.BYTES, 8 * GIB, 8 * GIB - 1), "7.9 GiB free, 8 GiB wanted"),
    "bytes, wanted rounded up": (Deficit("", Unit.BYTES, 8 * GIB + 1, 6 * GIB), "6 GiB free, 8.1 GiB wanted"),
    "few bytes": (Deficit("", Unit.BYTES, 512 << 20, 0), "0 GiB free, 512 MiB wanted"),
    "core": (Deficit("core", Unit.PERCENT, 50, 20), "20 % core free, 50 % wanted"),
    "a part of another device": (Deficit("", Unit.PERCENT, 50, 20), "20 % free, 50 % wanted"),
    "cpu": (Deficit("cpu", Unit.THOUSANDTHS, 2500, 1999), "1.9 cpu free, 2.5 wanted"),
    "less than nothing": (Deficit("cpu", Unit.THOUSANDTHS, 2500, -500), "0 cpu free, 2.5 wanted"),
    "memory": (Deficit("memory", Unit.BYTES, 2 * GIB, GIB), "1 GiB memory free, 2 GiB wanted"),
    "a card": (Deficit("cards", Unit.PIECES, 1, 0), "0 cards free, 1 wanted"),
    "cards": (Deficit("cards", Unit.PIECES, 4, 3), "3 cards free, 4 wanted"),
    "instances": (Deficit("MIG 1g.10gb", Unit.PIECES, 2, 1), "1 MIG 1g.10gb instance free, 2 wanted"),
    "devices": (Deficit("rdma", Unit.PIECES, 2, 1), "1 rdma device free, 2 wanted"),
}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nvidia.com/gpus", "nvidia.com/gpus (did you mean nvidia.com/gpu?)"),
        ("nvidia.com/gpu-memory", "nvidia.com/gpu-memory (did you mean nvidia.com/gpumem?)"),
        ("nvidia.com/hostdev", "nvidia.com/hostdev"),
        ("example.com/gpus", "example.com/gpus"),
    ],
)
def test_a_resource_that_is_misspelt_is_told_as_it_is_spelt(name: str, said: str) -> None:
    """A node may well serve it, so it is not refused; who lacks it reads what was meant perhaps."""
    counts = (Count(Reason.INSUFFICIENT_RESOURCE, name, 1),)
    assert explain.brief(counts, PICKY) == f"0/1 nodes are available: 1 has insufficient {said}"


@pytest.mark.parametrize(("measure", "text"), AMOUNTS.values(), ids=AMOUNTS.keys())
def test_amount(measure: Deficit, text: str) -> None:
    """Amounts are written as people write them, never more free than there is."""
    assert wording.shortage([measure]) == text
