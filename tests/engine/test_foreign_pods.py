"""A pod that another scheduler bound holds what a device plugin of its node may have given it (I8, I9)."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from berth_crds import aliases, names, schema_limits, wire
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import holds
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pods, possible_devices, raw
from scheduling.placements import place
from support import builders, inventories, ledgers

EVERY = holds.ALL_CARDS
NAMELESS = builders.pod("p", gpus=2, nodeName="n1", annotations={names.ALLOCATION: "{"})
SIX_THOUSAND = {
    "name": "main",
    "resources": {"limits": {names.NVIDIA_GPU: "1", names.GPU: "6400", "koordinator.sh/gpu": "800"}},
}
FOREIGN = builders.pod("p", gpus=2, nodeName="n1", schedulerName="other", phase="Running")
WITH_PLUGIN = builders.node("n1", extra={names.NVIDIA_GPU: 4})


def bare(uid: str = "uid-p", at: str = "n1", **status: Any) -> wire.GpuPod:
    """Return a GpuPod of a pod that runs, and to which the kubelet gave nothing."""
    status = {"phase": "Running", "granted": (wire.Grant("main", (), "podresources"),)} | status
    return msgspec.structs.replace(builders.gpupod(at=at, uid=uid), status=wire.GpuPodStatus(**status))


def heard() -> Ledger:
    """Return a ledger of a node whose device plugin serves its cards, and whose agent asks the kubelet."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(WITH_PLUGIN)
    ledger.device_seen(builders.device("n1", kubelet_read=True))
    return ledger


def all_seen(node: facts.Node, gpupod: wire.GpuPod | None, pod: raw.Pod, order: int) -> Ledger:
    """Return a ledger that has seen a node whose agent asks the kubelet, and a pod; at -1 the pod first."""
    ledger = ledgers.with_nodes()
    ledgers.in_turn(
        lambda: ledger.node_seen(node),
        lambda: ledger.device_seen(builders.device("n1", kubelet_read=True)),
        lambda: ledgers.gpupod_seen(ledger, gpupod) if gpupod else None,
        lambda: ledgers.pod_seen(ledger, pod),
        late=order < 0,
    )
    return ledger


@pytest.mark.parametrize("late", [False, True], ids=["the node first", "the pod first"])
@pytest.mark.parametrize(
    ("node", "pod", "expected"),
    [
        pytest.param(WITH_PLUGIN, FOREIGN, 2, id="a device plugin serves what it asks for"),
        pytest.param(builders.node("n1"), FOREIGN, 0, id="nothing on the node serves it"),
        pytest.param(
            WITH_PLUGIN,
            builders.pod("p", nodeName="n1", schedulerName="other", containers=[SIX_THOUSAND]),
            1,
            id="one of its resources is served",
        ),
        pytest.param(
            builders.node("n1"),
            builders.pod("p", gpus=2, nodeName="n1"),
            EVERY,
            id="Berth has bound it, so that its record is lost",
        ),
        pytest.param(
            builders.node("n1"),
            builders.pod("p", nodeName="n1", containers=[builders.asking("main", {names.GPU_SHARED: 1})]),
            EVERY,
            id="the same, with a part of a card",
        ),
        pytest.param(
            builders.node("n1"),
            builders.pod("p", nodeName="n1", annotations={names.GPU: "100"}),
            0,
            id="the same, if it asks by annotations, which anybody may write later",
        ),
        pytest.param(
            builders.node("n1"),
            pods.as_berth_pod(builders.pod("p", gpus=2, nodeName="n1", schedulerName="other")),
            2,
            id="Berth may have bound it, or the scheduler to whose name Berth answers now",
        ),
    ],
)
def test_a_pod_that_others_bound_has_what_its_node_offers(
    node: facts.Node, pod: raw.Pod, expected: int, *, late: bool
) -> None:
    """Berth gave it nothing, and a device plugin gives only what the node says it has."""
    ledger = ledgers.with_nodes()
    ledgers.in_turn(lambda: ledger.node_seen(node), lambda: ledgers.pod_seen(ledger, pod), late=late)

    assert ledgers.holding(ledger) == ([], expected)
    assert inventories.free_cards(ledger.inventory) == max(0, 4 - expected)


LISTING = builders.node("n1", extra={names.GPU: 400})
PART = builders.pod(
    "p", nodeName="n1", schedulerName="other", containers=[builders.asking("main", {names.GPU: 50})]
)


@pytest.mark.parametrize("late", [False, True], ids=["the Device first", "the pod first"])
@pytest.mark.parametrize(("kubelet_served", "expected"), [(False, 0), (True, 1)])
def test_a_part_of_a_card_is_given_only_where_the_agent_is_the_plugin(
    expected: int, *, kubelet_served: bool, late: bool
) -> None:
    """Every node lists the resource, and the kubelet of any other takes the pod without giving it a card."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(LISTING)
    device = builders.device("n1", kubelet_served=kubelet_served)
    ledgers.in_turn(lambda: ledger.device_seen(device), lambda: ledgers.pod_seen(ledger, PART), late=late)

    assert ledgers.holding(ledger) == ([], expected)


ALL_LISTED = builders.node("n1", extra={names.GPU: 400, names.GPU_MEMORY: 1 << 40, names.NVIDIA_GPU: 4})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (lambda at: {names.GPU_MEMORY: at + 1, names.RDMA: 1}, 0),
        (lambda at: {names.NVIDIA_GPU: 0, "nvidia.com/gpumem": at + 1}, 0),
        (lambda at: {names.NVIDIA_GPU: 1, "nvidia.com/gpumem": at + 1}, 1),
        (lambda at: {f"nvidia.com/mig-{at}g.10gb": 1, names.NVIDIA_GPU: 2}, 2),
        (lambda at: {names.NVIDIA_GPU: at + 1}, schema_limits.MOST_DEVICES),
    ],
    ids=[
        "what nodes only list",
        "nothing of what the node lists",
        "a card, and what the node does not list",
        "cards, and profiles that are not there",
        "what a plugin may serve",
    ],
)
def test_a_pod_too_long_to_be_read_has_only_what_a_plugin_may_have_given_it(
    asked: Callable[[int], dict[str, int]], expected: int
) -> None:
    """Init containers that all ask for other amounts, each for next to nothing."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(ALL_LISTED)
    inits = [builders.asking(f"i{at}", asked(at)) for at in range(possible_devices.MOST_DIFFERENT + 4)]
    pod = builders.pod("p", nodeName="n1", schedulerName="other", initContainers=inits, phase="Running")

    ledgers.pod_seen(ledger, pod)

    assert ledgers.holding(ledger) == ([], expected)
    hold = ledger.inventory.hold("uid-p")
    assert hold is not None
    assert hold.withheld_types == frozenset()


KOORDINATOR = {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100}
WITH_KOORDINATOR = builders.node("n1", extra=dict.fromkeys(KOORDINATOR, 400))


def recorded(*minors: int, asks: int = 1, **fields: Any) -> raw.Pod:
    """Return a pod that Koordinator has bound to n1, and written into it that it has these cards."""
    entry = {"id": "GPU-x", "resources": dict.fromkeys(KOORDINATOR, "100")}
    record = json.dumps({"gpu": [{"minor": minor, **entry} for minor in minors], "rdma": [{"minor": 3}]})
    asked = builders.asking("main", {name: amount * asks for name, amount in KOORDINATOR.items()})
    usual: dict[str, Any] = {
        "nodeName": "n1",
        "schedulerName": "koord-scheduler",
        "phase": "Running",
        "containers": [asked],
        "annotations": {aliases.KOORDINATOR_RECORD: record},
    }
    return builders.pod("p", **usual | fields)


EVERY_CARD, NO_CARD = [0, 1, 2, 3], list[int]()
RECORDS: dict[str, tuple[raw.Pod, wire.GpuPod | None, list[int]]] = {
    "the card that it names": (recorded(2), None, [0, 1, 3]),
    "the kubelet knows nothing of it": (recorded(2), bare(), [0, 1, 3]),
    "all that it names": (recorded(0, 3, asks=2), bare(), [1, 2]),
    "a card of which the pod has a part": (
        recorded(2, containers=[builders.asking("main", {"koordinator.sh/gpu-core": 50})]),
        None,
        [0, 1, 3],
    ),
    "fewer than the pod asks for: the rest may be any": (recorded(0, asks=2), None, NO_CARD),
    "more than the pod asks for: not believed": (recorded(1, 2), None, NO_CARD),
    "a card that is not there: not believed": (recorded(9), None, NO_CARD),
    "what cannot be read: not believed": (
        recorded(annotations={aliases.KOORDINATOR_RECORD: '{"gpu": [{"minor": "2"}]}'}),
        None,
        NO_CARD,
    ),
    "what is too long: not believed": (
        recorded(annotations={aliases.KOORDINATOR_RECORD: '{"gpu":[{"minor":2}]}' + " " * (1 << 16)}),
        None,
        NO_CARD,
    ),
    "what the kubelet says beside it": (recorded(2), builders.gpupod(main=[1]), [0, 3]),
    "of a pod that Berth would bind now": (pods.as_berth_pod(recorded(2)), None, [0, 1, 3]),
    "of a scheduler that the policy does not name: not believed": (
        recorded(2, schedulerName="other"),
        None,
        NO_CARD,
    ),
    "the same, and the kubelet knows nothing of it: the pod may have any": (
        recorded(2, schedulerName="other"),
        bare(),
        [0, 1, 2],
    ),
    "a card that is not there, and the kubelet knows nothing of it": (recorded(9), bare(), [0, 1, 2]),
    "more than the pod asks for, and the kubelet knows nothing of it": (recorded(1, 2), bare(), [0, 1, 2]),
    "of a pod of Berth's without a word of Berth's: not believed": (
        recorded(2, schedulerName=names.SCHEDULER_NAME),
        None,
        NO_CARD,
    ),
    "of a pod that Berth has bound: not believed": (
        recorded(
            annotations={
                aliases.KOORDINATOR_RECORD: '{"gpu":[{"minor":2}]}',
                names.ALLOCATION: "{",
                names.MINORS: "1",
            }
        ),
        None,
        [0, 2, 3],
    ),
    "a pod that is over": (recorded(2, phase="Succeeded"), None, EVERY_CARD),
}


@pytest.mark.parametrize(("pod", "gpupod", "free"), RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("order", [1, -1], ids=["the pod last", "the pod first"])
def test_cards_that_koordinator_gave_are_given_to_nobody_else(
    pod: raw.Pod, gpupod: wire.GpuPod | None, free: list[int], order: int
) -> None:
    """Its own agent hands them out, so the kubelet says that the pod has none: only the record tells."""
    ledger = all_seen(WITH_KOORDINATOR, gpupod, pod, order)

    assert given_one_by_one(ledger) == free


def given_one_by_one(ledger: Ledger) -> list[int]:
    """Place pods on whole cards as long as there are any; return the minors of these."""
    found: list[int] = []
    while (placement := place(ledger.inventory, builders.pod_info(f"next-{len(found)}"))) is not None:
        shares = placement.grants[0].shares
        found.append(shares[0].minor)
        ledger.inventory.charge(builders.hold(f"next-{len(found)}", shares=list(shares)))
    return sorted(found)


STARTING = builders.pod("p", gpus=2, nodeName="n1", schedulerName="other", phase="Pending")


@pytest.mark.parametrize(
    ("node", "pod", "gpupod", "expected"),
    [
        pytest.param(WITH_PLUGIN, FOREIGN, None, ([], EVERY), id="nobody has said anything yet"),
        pytest.param(
            WITH_PLUGIN, FOREIGN, builders.gpupod(main=[1, 2]), ([1, 2], 0), id="its agent names them"
        ),
        pytest.param(
            WITH_PLUGIN, FOREIGN, builders.gpupod(at="n2", main=[1, 2]), ([], EVERY), id="another agent does"
        ),
        pytest.param(
            WITH_PLUGIN, FOREIGN, builders.gpupod(), ([], EVERY), id="it has a GpuPod that says nothing"
        ),
        pytest.param(WITH_PLUGIN, FOREIGN, bare(), ([], 0), id="the kubelet gave it nothing"),
        pytest.param(WITH_PLUGIN, STARTING, None, ([], 2), id="it does not run yet"),
        pytest.param(builders.node("n1"), FOREIGN, None, ([], 0), id="nothing on the node serves it"),
        pytest.param(
            WITH_PLUGIN,
            builders.pod("p", gpus=2, nodeName="n1", phase="Running"),
            None,
            ([], EVERY),
            id="it is a pod of Berth's",
        ),
    ],
)
@pytest.mark.parametrize("order", [1, -1], ids=["the pod last", "the pod first"])
def test_a_running_pod_whose_cards_nobody_names_yet_may_have_any(
    node: facts.Node, pod: raw.Pod, gpupod: wire.GpuPod | None, expected: tuple[list[int], int], order: int
) -> None:
    """Where the agent asks the kubelet, it says soon which; until then one of them must not be given out."""
    ledger = all_seen(node, gpupod, pod, order)

    assert ledgers.holding(ledger) == expected
    assert inventories.free_cards(ledger.inventory) == max(0, 4 - len(expected[0]) - expected[1])


@pytest.mark.parametrize("order", [1, -1], ids=["the GpuPod last", "the GpuPod first"])
@pytest.mark.parametrize("pod", [FOREIGN, NAMELESS], ids=["somebody else bound it", "its record is damaged"])
def test_a_gpupod_that_names_more_than_its_pod_asks_for_is_ignored(
    pod: raw.Pod, order: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It names none of them, so the cards of its pod stay kept back; another one of the pod may name them."""
    ledger = heard()
    ledgers.in_turn(
        lambda: ledgers.pod_seen(ledger, pod),
        lambda: ledgers.gpupod_seen(ledger, builders.gpupod(main=[0, 1, 2])),
        late=order < 0,
    )
    ignored = ledgers.holding(ledger)
    ledgers.gpupod_seen(ledger, builders.gpupod("uid-p.n1", uid="uid-p", main=[2, 3]))

    assert ignored == ([], EVERY)
    assert ledgers.holding(ledger) == ([2, 3], 0)
    why = "it names 3 cards, and the pod has 2 at most for what it asks"
    assert f"GpuPod ml/p is ignored: {why}" in caplog.messages


def test_a_pod_that_starts_keeps_back_what_it_asks_for() -> None:
    """It may never be given anything; once it runs, it has been; once it is named, the others are free."""
    ledger, found = heard(), []

    for pod in (STARTING, FOREIGN):
        ledgers.pod_seen(ledger, pod)
        found.append(ledgers.holding(ledger))
    ledgers.gpupod_seen(ledger, builders.gpupod(main=[1, 2]))

    assert [*found, ledgers.holding(ledger)] == [([], 2), ([], EVERY), ([1, 2], 0)]


@pytest.mark.parametrize("late", [False, True], ids=["the GpuPod first", "the pod first"])
@pytest.mark.parametrize(
    ("pod", "gpupod", "expected"),
    [
        pytest.param(FOREIGN, bare(), 0, id="the kubelet gave it nothing"),
        pytest.param(FOREIGN, bare(uid="uid-old"), 2, id="that is said of an earlier pod"),
        pytest.param(FOREIGN, bare(at="n2"), 2, id="that is said of another node"),
        pytest.param(FOREIGN, bare(phase="Pending"), 2, id="it does not run yet"),
        pytest.param(FOREIGN, bare(granted=()), 2, id="nobody heard the kubelet"),
        pytest.param(
            FOREIGN,
            bare(
                granted=(
                    wire.Grant("main", (), "podresources"),
                    wire.Grant("main", ("GPU-n1-0",), "nvml"),
                )
            ),
            2,
            id="it is seen on a card",
        ),
        pytest.param(
            builders.pod("p", gpus=2, nodeName="n1"),
            bare(),
            EVERY,
            id="Berth gives without the kubelet's knowing",
        ),
        pytest.param(NAMELESS, bare(), EVERY, id="it has a record, which is damaged"),
    ],
)
def test_a_pod_to_which_the_kubelet_gave_nothing_withholds_nothing(
    pod: raw.Pod, gpupod: wire.GpuPod, expected: int, *, late: bool
) -> None:
    """That counts for that very pod, where it runs, and where Berth gave it nothing either."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(WITH_PLUGIN)
    ledgers.in_turn(
        lambda: ledgers.gpupod_seen(ledger, gpupod), lambda: ledgers.pod_seen(ledger, pod), late=late
    )

    assert ledgers.holding(ledger) == ([], expected)
