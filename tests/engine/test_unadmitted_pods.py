"""A pod that somebody else put on a node counts there as far as its kubelet could admit it (I8, I9)."""

import itertools
from collections.abc import Callable
from typing import Any, Final

import pytest

from berth_crds import names
from berth_operator.engine import unadmitted_pods
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, holds
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import raw
from support import builders, clock, inventories, ledgers

NOTHING: Final[tuple[Any, ...]] = ((), 0)
EVERY: Final = holds.ALL_CARDS
LEAVING: Final = facts.Taint("leaving", "", "NoExecute")
ELSEWHERE: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
        }
    }
}
Step = Callable[[Ledger], object]


def foreign(name: str = "p", cpu: str = "1", cards: int = 0, **spec: Any) -> raw.Pod:
    """Return a pod that another scheduler put on node n1."""
    asked = {"requests": {"cpu": cpu}, "limits": {names.NVIDIA_GPU: cards} if cards else {}}
    plain = {"nodeName": "n1", "schedulerName": "other", "containers": [{"name": "main", "resources": asked}]}
    return builders.pod(name, **plain | spec)


def porting(name: str, *numbers: int, address: str = "", protocol: str = "TCP", cards: int = 0) -> raw.Pod:
    """Return a pod of another scheduler that asks for ports of its node."""
    where = {"containerPort": 1, "hostIP": address, "protocol": protocol}
    ports = [where | {"hostPort": number} for number in numbers or (80,)]
    asked = {"limits": {names.NVIDIA_GPU: cards}} if cards else {}
    return foreign(name, containers=[{"name": "main", "ports": ports, "resources": asked}])


def plugged(name: str = "n1", **fields: Any) -> facts.Node:
    """Return a node of eight cpus whose device plugin serves four cards."""
    return builders.node(name, extra={names.NVIDIA_GPU: 4}, **fields)


def shop(node: facts.Node | None = None) -> Ledger:
    """Return a ledger that knows this node and its four cards."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(node or plugged())
    return ledger


def charged(ledger: Ledger, name: str = "p") -> tuple[facts.Amounts, int]:
    """Return what is charged of a pod: of resources, and how many cards it withholds."""
    hold = ledger.inventory.hold(f"uid-{name}")
    assert hold is not None
    return hold.amounts, hold.withheld


def counts(ledger: Ledger, *names_: str) -> list[str]:
    """Name those of these pods that are charged."""
    return [name for name in names_ if charged(ledger, name) != NOTHING]


# ---------------------------------------------------------------- who surely is refused


@pytest.mark.parametrize(
    ("node", "pod"),
    [
        pytest.param(plugged(), foreign(cpu="9", cards=2), id="more cpu than the node has"),
        pytest.param(plugged(), foreign(cards=5), id="more cards than its device plugin has"),
        pytest.param(plugged(), foreign(cards=2, nodeSelector={"zone": "a"}), id="another label"),
        pytest.param(plugged(), foreign(cards=2, affinity=ELSEWHERE), id="affinity to another node"),
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
            porting("p", *range(1, 66), cards=2),
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
    steps: list[Step] = [lambda ledger: ledger.node_seen(node), lambda ledger: ledgers.pod_seen(ledger, pod)]

    for step in reversed(steps) if late else steps:
        step(ledger)

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
    ledger = shop(node)

    ledgers.pod_seen(ledger, pod)

    amounts, withheld = charged(ledger)
    assert amounts
    assert withheld >= 2
    assert inventories.free_cards(ledger.inventory) <= 2


def test_on_a_node_that_is_not_known_everything_is_charged() -> None:
    """Nobody can tell what its kubelet says, and nothing is given there."""
    ledger = shop()
    ledgers.pod_seen(ledger, foreign(cpu="9", cards=2))

    ledger.node_gone("n1")
    gone = charged(ledger)
    ledger.node_seen(plugged())

    assert gone[1] == 2
    assert charged(ledger) == NOTHING


# ---------------------------------------------------------------- host ports and operating systems


@pytest.mark.parametrize(
    ("pod", "stays"),
    [
        pytest.param(porting("p", cards=2), False, id="the very port"),
        pytest.param(porting("p", address="10.0.0.2", cards=2), True, id="another address"),
        pytest.param(porting("p", address="10.0.0.1", cards=2), False, id="the very address"),
        pytest.param(porting("p", address="0.0.0.0", cards=2), False, id="every address"),
        pytest.param(porting("p", protocol="UDP", cards=2), True, id="another protocol"),
        pytest.param(porting("p", 81, cards=2), True, id="another port"),
    ],
)
def test_a_port_that_is_taken_keeps_it_out(pod: raw.Pod, *, stays: bool) -> None:
    """Two pods of one node cannot have one port, and the kubelet refuses the second."""
    ledger = shop()
    ledgers.pod_seen(ledger, pod)
    before = counts(ledger, "p")

    ledgers.pod_seen(ledger, builders.admitted(porting("rival", address="10.0.0.1")))
    beside = counts(ledger, "p")
    ledger.pod_over("uid-rival")

    assert (before, beside, counts(ledger, "p")) == (["p"], ["p"] if stays else [], ["p"])


# ---------------------------------------------------------------- what is left


RIVAL: Final = builders.admitted(foreign("rival", cpu="6", cards=3))


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(lambda ledger: ledger.pod_over("uid-rival"), id="a pod ends"),
        pytest.param(
            lambda ledger: ledgers.pod_seen(ledger, builders.admitted(foreign("rival", cpu="1", cards=2))),
            id="a pod shrinks",
        ),
        pytest.param(
            lambda ledger: ledger.node_seen(builders.node(cpu=16000, extra={names.NVIDIA_GPU: 8})),
            id="the node grows",
        ),
    ],
)
def test_it_is_charged_as_soon_as_there_is_room(last: Step) -> None:
    """The kubelet may admit it at that moment, so it is charged in the same step."""
    ledger = shop()
    ledgers.pod_seen(ledger, RIVAL)
    ledgers.pod_seen(ledger, foreign("plain", cpu="4"))
    ledgers.pod_seen(ledger, foreign(cpu="4", cards=2))
    before = counts(ledger, "plain", "p")

    last(ledger)

    assert before == []
    assert charged(ledger, "plain") == (((facts.CPU, 4000), (facts.PODS, 1)), 0)
    assert charged(ledger) == (((facts.CPU, 4000), (names.NVIDIA_GPU, 2), (facts.PODS, 1)), 2)


LINUX: Final = {"kubernetes.io/os": "linux"}
ADMITTED_B: Final = builders.admitted(foreign("b", cards=3))
# Pods as they are seen, and which of them are charged in the end.
SEEN: dict[str, tuple[list[raw.Pod], list[str]]] = {
    "the port of all addresses is taken": (
        [builders.admitted(porting("rival")), porting("p", address="10.0.0.1", cards=2)],
        ["rival"],
    ),
    "either of two may have the port": ([porting("a", cards=1), porting("b", cards=1)], ["a", "b"]),
    "of the node's operating system": ([foreign(cards=2, os={"name": "linux"})], ["p"]),
    "of another operating system": ([foreign(cards=2, os={"name": "windows"})], []),
    "there is no room any more": ([foreign(cards=2), RIVAL], ["rival"]),
    "any of several may be admitted first": ([foreign("a", cards=2), foreign("b", cards=3)], ["a", "b"]),
    "one of them was admitted": ([foreign("a", cards=2), foreign("b", cards=3), ADMITTED_B], ["b"]),
    "all were admitted, whatever is left": (
        [RIVAL, foreign(cpu="4", cards=2), builders.admitted(foreign(cpu="4", cards=2))],
        ["p", "rival"],
    ),
}


@pytest.mark.parametrize(("seen", "expected"), SEEN.values(), ids=SEEN.keys())
def test_pods_are_charged_that_were_or_may_be_admitted(seen: list[raw.Pod], expected: list[str]) -> None:
    """Until the kubelet has chosen, what each pod asks for is kept; it knows better than we what is left."""
    ledger = shop(plugged(labels=LINUX))

    for pod in seen:
        ledgers.pod_seen(ledger, pod)

    assert counts(ledger, *sorted({pod.metadata.name for pod in seen})) == expected
    withheld = sum(charged(ledger, name)[1] for name in expected)
    assert inventories.free_cards(ledger.inventory) == max(0, 4 - withheld)


# ---------------------------------------------------------------- beside binds under way


def test_a_bind_under_way_leaves_it_room() -> None:
    """The kubelet may hear of it before it hears of the bind, which does not stand then; later it is told."""
    ledger = shop()
    four = builders.demand(extra={names.NVIDIA_GPU: 4})
    ledgers.add_waiting(ledger, "ours", 4, demand=four)
    ledgers.assume(ledger, "ours")

    ledgers.pod_seen(ledger, foreign(cards=2))
    under_way, stood = counts(ledger, "p"), ledger.assumed_pods.is_current("uid-ours")
    ours = builders.pod("ours", gpus=4, nodeName="n1", annotations=builders.record("n1", main=range(4)))
    ledgers.pod_seen(ledger, ours)

    assert (under_way, stood) == (["p"], False)
    assert counts(ledger, "p") == []


def test_who_is_kept_out_unsettles_nothing_and_helps_nobody() -> None:
    """It takes nothing and leaves nothing, so no bind is decided anew for it and nobody is woken."""
    ledger = shop()
    ledgers.add_waiting(ledger, "ours")
    ledgers.assume(ledger, "ours")
    ledgers.add_waiting(ledger, "large", 9)
    ledgers.put_off(ledger, "large", ClusterEvent.CAPACITY_FREED)

    ledgers.pod_seen(ledger, foreign(cpu="9", cards=2))
    ledger.pod_over("uid-p")

    assert ledger.assumed_pods.is_current("uid-ours")
    assert ledgers.ready_names(ledger) == []


def test_what_it_would_take_is_given_to_others() -> None:
    """A pod that waits for all cards of the node gets them."""
    ledger = shop()
    ledgers.pod_seen(ledger, foreign(cards=2, nodeSelector={"zone": "a"}))

    ledgers.add_waiting(ledger, "ours", 4)

    (answer,) = ledgers.decide(ledger)
    assert isinstance(answer, decisions.Bind)


# ---------------------------------------------------------------- any order


ARRIVALS: dict[str, Step] = {
    "node": lambda ledger: ledger.node_seen(plugged()),
    "Device": lambda ledger: ledger.device_seen(builders.device("n1")),
    "admitted": lambda ledger: ledgers.pod_seen(
        ledger, builders.admitted(foreign("admitted", cpu="5", cards=1))
    ),
    "fits": lambda ledger: ledgers.pod_seen(ledger, foreign("fits", cpu="3", cards=3)),
    "large": lambda ledger: ledgers.pod_seen(ledger, foreign("large", cpu="4", cards=1)),
}


@pytest.mark.parametrize("order", list(itertools.permutations(ARRIVALS)), ids=", ".join)
def test_order_of_arrival_does_not_matter(order: tuple[str, ...]) -> None:
    """The same objects have the same pods charged, whichever came last."""
    ledger = Ledger(clock.Clock())

    for word in order:
        ARRIVALS[word](ledger)

    assert counts(ledger, "admitted", "fits", "large") == ["admitted", "fits"]
    assert ledger.unadmitted_pods._charged["n1"] == {facts.CPU: 3000, names.NVIDIA_GPU: 3, facts.PODS: 1}


def test_its_conditions_are_asked_once_of_each_state_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of them a node has, and however often others change there, little is worked out."""
    asked: list[facts.Node] = []

    def suits(node: facts.Node, _: facts.Where) -> bool:
        asked.append(node)
        return True

    monkeypatch.setattr(unadmitted_pods, "suits", suits)
    ledger = shop()

    for number in range(50):
        ledgers.pod_seen(ledger, foreign(f"p{number}"))
        ledgers.pod_seen(ledger, builders.admitted(foreign("rival", cpu=f"{number % 2 + 1}")))
    ledger.node_seen(plugged(pods=50))

    assert len(asked) == 100


def test_nothing_is_remembered_of_those_that_are_gone() -> None:
    """Who was admitted or is over is no longer looked at."""
    ledger = shop()
    ledgers.pod_seen(ledger, foreign("a", cards=1))
    ledgers.pod_seen(ledger, foreign("b", cards=9))

    ledgers.pod_seen(ledger, builders.admitted(foreign("a", cards=1)))
    ledger.pod_over("uid-b")

    assert repr(ledger.unadmitted_pods) == "<UnadmittedPods: 0 pods on 0 nodes>"
    assert not ledger.unadmitted_pods._charged
