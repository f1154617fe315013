"""A pod that somebody else put on a node counts there as far as its kubelet could admit it (I8, I9)."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final
from unittest import mock

import pytest

from berth_crds import names
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.nodes import affinity, facts
from berth_operator.translate import raw
from support import builders, clock, inventories, ledgers

NOTHING: Final[tuple[Any, ...]] = ((), 0)
LEAVING: Final = facts.Taint("leaving", "", "NoExecute")
TERM: Final = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
REQUIRED: Final = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
ELSEWHERE: Final = {"nodeAffinity": REQUIRED}
Step = Callable[[Ledger], object]


def foreign(
    name: str = "p", cpu: str = "1", cards: int = 0, ports: Iterable[Any] = (), **spec: Any
) -> raw.Pod:
    """Return a pod that another scheduler put on node n1."""
    asked = {"requests": {"cpu": cpu}, "limits": {names.NVIDIA_GPU: cards} if cards else {}}
    main = builders.container(resources=asked, ports=list(ports))
    return builders.pod(name, **{"nodeName": "n1", "schedulerName": "other", "containers": [main]} | spec)


def port(number: int = 80, *, address: str = "", protocol: str = "TCP") -> dict[str, Any]:
    """Return a port of a container that is one of its node."""
    return {"containerPort": 1, "hostPort": number, "hostIP": address, "protocol": protocol}


def rival(cpu: str = "1", cards: int = 0, **fields: Any) -> raw.Pod:
    """Return another such pod, which was admitted."""
    return builders.admitted(foreign("rival", cpu, cards, **fields))


def plugged(name: str = "n1", **fields: Any) -> facts.Node:
    """Return a node of eight cpus whose device plugin serves four cards."""
    return builders.node(name, extra={names.NVIDIA_GPU: 4}, **fields)


def with_pods(*pods: raw.Pod, node: facts.Node | None = None) -> Ledger:
    """Return a ledger that knows this node with four cards, and has seen these pods."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(node or plugged())
    for pod in pods:
        ledgers.pod_seen(ledger, pod)
    return ledger


def charged(ledger: Ledger, name: str = "p") -> tuple[facts.Amounts, int]:
    """Return what is charged of a pod: of resources, and how many cards it withholds."""
    hold = ledger.inventory.hold(f"uid-{name}")
    assert hold is not None
    return hold.amounts, hold.withheld


def counts(ledger: Ledger, *names_: str) -> list[str]:
    """Name those of these pods that are charged."""
    return [name for name in names_ or ("p",) if charged(ledger, name) != NOTHING]


# ---------------------------------------------------------------- who surely is refused


@pytest.mark.parametrize(
    ("node", "pod"),
    [
        pytest.param(plugged(), foreign(cpu="9", cards=2), id="more cpu than the node has"),
        pytest.param(plugged(), foreign(cards=5), id="more cards than its device plugin has"),
        pytest.param(plugged(), foreign(cards=2, nodeSelector={"zone": "a"}), id="another label"),
        pytest.param(plugged(), foreign(cards=2, affinity=ELSEWHERE), id="affinity to another node"),
        pytest.param(
            plugged(),
            foreign(cards=2, hostNetwork=True, hostUsers=False),
            id="a feature that its kubelet lacks",
        ),
        pytest.param(plugged(taints=(LEAVING,)), foreign(cards=2), id="the node drives it off"),
        pytest.param(plugged(pods=0), foreign(cards=2), id="the node has room for no pod"),
        pytest.param(
            plugged(),
            foreign(cards=2, nodeSelector={f"label-{number}": "a" for number in range(100)}),
            id="it says more than is read",
        ),
        pytest.param(
            plugged(),
            foreign(cards=2, annotations={"kubernetes.io/config.mirror": "a"}),
            id="it is said to mirror a file",
        ),
        pytest.param(
            plugged(),
            foreign(cards=2, ports=map(port, range(1, 66))),
            id="it asks for more host ports than are read",
        ),
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["the node first", "the pod first"])
def test_who_surely_is_refused_keeps_nothing_from_others(
    node: facts.Node, pod: raw.Pod, *, late: bool
) -> None:
    """The kubelet will say so a moment later; until then all of the node can be given to others."""
    ledger = ledgers.with_nodes()
    ledgers.in_turn(lambda: ledger.node_seen(node), lambda: ledgers.pod_seen(ledger, pod), late=late)

    assert charged(ledger) == NOTHING
    assert inventories.free_cards(ledger.inventory) == 4


@pytest.mark.parametrize(
    ("node", "pod"),
    [
        pytest.param(plugged(), foreign(cards=2), id="it fits"),
        pytest.param(plugged(), builders.admitted(foreign(cpu="9", cards=2)), id="it was admitted"),
        pytest.param(plugged(), foreign(cpu="9", cards=2, phase="Running"), id="it runs"),
        pytest.param(
            plugged(), foreign(cpu="9", cards=2, annotations={names.TERM: "1/2"}), id="Berth bound it"
        ),
        pytest.param(
            plugged(taints=(facts.Taint("gpu", "yes", "NoSchedule"),)),
            foreign(cards=2),
            id="a taint that concerns only schedulers",
        ),
        pytest.param(
            plugged(taints=(LEAVING,)),
            foreign(cards=2, tolerations=[{"key": "leaving", "operator": "Exists"}]),
            id="it tolerates the taint",
        ),
        pytest.param(
            plugged(unschedulable=True), foreign(cards=2), id="the node is cordoned, which is for schedulers"
        ),
        pytest.param(
            plugged(),
            foreign(cards=2, overhead={"example.com/unheard-of": "5"}),
            id="the node does not know a resource",
        ),
    ],
)
def test_who_may_be_admitted_is_charged(node: facts.Node, pod: raw.Pod) -> None:
    """What a kubelet may take, or has taken, is given to nobody else."""
    ledger = with_pods(pod, node=node)

    amounts, withheld = charged(ledger)
    assert amounts
    assert withheld >= 2
    assert inventories.free_cards(ledger.inventory) <= 2


def test_on_a_node_that_is_not_known_everything_is_charged() -> None:
    """Nobody can tell what its kubelet says, and nothing is given there."""
    ledger = with_pods(foreign(cpu="9", cards=2))

    ledger.node_gone("n1")
    gone = counts(ledger)
    ledger.node_seen(plugged())

    assert (gone, counts(ledger)) == (["p"], [])


# ---------------------------------------------------------------- host ports and operating systems


@pytest.mark.parametrize(
    ("asked", "stays"),
    [
        pytest.param(port(), [], id="the very port"),
        pytest.param(port(address="10.0.0.2"), ["p"], id="another address"),
        pytest.param(port(address="10.0.0.1"), [], id="the very address"),
        pytest.param(port(address="0.0.0.0"), [], id="every address"),
        pytest.param(port(protocol="UDP"), ["p"], id="another protocol"),
        pytest.param(port(81), ["p"], id="another port"),
    ],
)
def test_a_port_that_is_taken_keeps_it_out(asked: dict[str, Any], stays: list[str]) -> None:
    """Two pods of one node cannot have one port, and the kubelet refuses the second."""
    ledger = with_pods(foreign(cards=2, ports=[asked]))
    before = counts(ledger)

    ledgers.pod_seen(ledger, rival(ports=[port(address="10.0.0.1")]))
    beside = counts(ledger)
    ledger.pod_over("uid-rival")

    assert (before, beside, counts(ledger)) == (["p"], stays, ["p"])


# ---------------------------------------------------------------- what is left


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(lambda ledger: ledger.pod_over("uid-rival"), id="a pod ends"),
        pytest.param(lambda ledger: ledgers.pod_seen(ledger, rival("1", 2)), id="a pod shrinks"),
        pytest.param(
            lambda ledger: ledger.node_seen(builders.node(cpu=16000, extra={names.NVIDIA_GPU: 8})),
            id="the node grows",
        ),
    ],
)
def test_it_is_charged_as_soon_as_there_is_room(last: Step) -> None:
    """The kubelet may admit it at that moment, so it is charged in the same step."""
    ledger = with_pods(rival("6", 3), foreign("plain", cpu="4"), foreign(cpu="4", cards=2))
    before = counts(ledger, "plain", "p")

    last(ledger)

    assert before == []
    assert charged(ledger, "plain") == (((facts.CPU, 4000), (facts.PODS, 1)), 0)
    assert charged(ledger) == (((facts.CPU, 4000), (names.NVIDIA_GPU, 2), (facts.PODS, 1)), 2)


A, B, LARGE = foreign("a", cards=2), foreign("b", cards=3), foreign(cpu="4", cards=2)
# Pods as they are seen, and which of them are charged in the end.
SEEN: dict[str, tuple[list[raw.Pod], list[str]]] = {
    "the port of all addresses is taken": (
        [rival(ports=[port()]), foreign(cards=2, ports=[port(address="10.0.0.1")])],
        ["rival"],
    ),
    "either of two may have the port": (
        [foreign("a", cards=1, ports=[port()]), foreign("b", cards=1, ports=[port()])],
        ["a", "b"],
    ),
    "of the node's operating system": ([foreign(cards=2, os={"name": "linux"})], ["p"]),
    "of another operating system": ([foreign(cards=2, os={"name": "windows"})], []),
    "there is no room any more": ([foreign(cards=2), rival("6", 3)], ["rival"]),
    "any of several may be admitted first": ([A, B], ["a", "b"]),
    "one of them was admitted": ([A, B, builders.admitted(B)], ["b"]),
    "all were admitted, whatever is left": ([rival("6", 3), LARGE, builders.admitted(LARGE)], ["p", "rival"]),
}


@pytest.mark.parametrize(("seen", "expected"), SEEN.values(), ids=SEEN.keys())
def test_pods_are_charged_that_were_or_may_be_admitted(seen: list[raw.Pod], expected: list[str]) -> None:
    """Until the kubelet has chosen, what each pod asks for is kept; it knows better than we what is left."""
    ledger = with_pods(*seen, node=plugged(labels={"kubernetes.io/os": "linux"}))

    assert counts(ledger, *sorted({pod.metadata.name for pod in seen})) == expected
    withheld = sum(charged(ledger, name)[1] for name in expected)
    assert inventories.free_cards(ledger.inventory) == max(0, 4 - withheld)


# ---------------------------------------------------------------- beside binds under way


def test_a_bind_under_way_leaves_it_room() -> None:
    """The kubelet may hear of it before it hears of the bind, which does not stand then; later it is told."""
    ledger = with_pods()
    ledgers.add_waiting(ledger, "ours", 4, demand=builders.demand(extra={names.NVIDIA_GPU: 4}))
    ledgers.assume(ledger, "ours")

    ledgers.pod_seen(ledger, foreign(cards=2))
    under_way, stood = counts(ledger), ledger.assumed_pods.is_current("uid-ours")
    record = builders.record("n1", main=range(4))
    ledgers.pod_seen(ledger, builders.pod("ours", gpus=4, nodeName="n1", annotations=record))

    assert (under_way, stood, counts(ledger)) == (["p"], False, [])


def test_who_is_kept_out_unsettles_nothing_and_helps_nobody() -> None:
    """It takes nothing and leaves nothing, so no bind is decided anew for it and nobody is woken."""
    ledger = with_pods()
    ledgers.add_waiting(ledger, "ours")
    ledgers.assume(ledger, "ours")
    ledgers.add_sleeping(ledger, "large", ClusterEvent.CAPACITY_FREED, cards=9)

    ledgers.pod_seen(ledger, foreign(cpu="9", cards=2))
    ledger.pod_over("uid-p")

    assert ledger.assumed_pods.is_current("uid-ours")
    assert ledgers.ready_names(ledger) == []


# ---------------------------------------------------------------- any order


ARRIVALS: dict[str, Step] = {
    "node": lambda ledger: ledger.node_seen(plugged()),
    "Device": lambda ledger: ledger.device_seen(builders.device("n1")),
    "rival": lambda ledger: ledgers.pod_seen(ledger, rival("5", 1)),
    "fits": lambda ledger: ledgers.pod_seen(ledger, foreign("fits", cpu="3", cards=3)),
    "large": lambda ledger: ledgers.pod_seen(ledger, foreign("large", cpu="4", cards=1)),
}


@pytest.mark.parametrize("order", list(itertools.permutations(ARRIVALS)), ids=", ".join)
def test_order_of_arrival_does_not_matter(order: tuple[str, ...]) -> None:
    """The same objects have the same pods charged, whichever came last."""
    ledger = Ledger(clock.Clock())

    for name in order:
        ARRIVALS[name](ledger)

    assert counts(ledger, "rival", "fits", "large") == ["rival", "fits"]
    assert ledger.unadmitted_pods._charged["n1"] == {facts.CPU: 3000, names.NVIDIA_GPU: 3, facts.PODS: 1}


def test_its_conditions_are_asked_once_of_what_its_node_is() -> None:
    """However many of them a node has, and however often others change there, little is worked out."""
    with mock.patch.object(affinity, "matches", return_value=True) as matches:
        ledger = with_pods(*(foreign(f"p{number}") for number in range(50)))
        for number in range(50):
            ledgers.pod_seen(ledger, rival(f"{number % 2 + 1}"))
        ledger.node_seen(plugged(pods=50))
        asked = matches.call_count
        ledger.node_seen(plugged(pods=50, labels={"zone": "a"}))

    assert (asked, matches.call_count) == (50, 100)


def test_nothing_is_remembered_of_those_that_are_gone() -> None:
    """Who was admitted or is over is no longer looked at."""
    ledger = with_pods(A, foreign("b", cards=9))

    ledgers.pod_seen(ledger, builders.admitted(A))
    ledger.pod_over("uid-b")

    assert repr(ledger.unadmitted_pods) == "<UnadmittedPods: 0 pods on 0 nodes>"
    assert not ledger.unadmitted_pods._charged
