"""Small clusters by hand: nodes n1, n2, … with cards of 8 GiB, and pods that ask for one thing."""

from collections.abc import Iterable
from typing import Any, Final

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import decisions, explain, queued_pods
from berth_operator.scheduling.devices import facts, requests
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search

GIB: Final = 1 << 30
CARD: Final = 8 * GIB
MODEL: Final = "A100-SXM4-80GB"
RULES: Final = Policy()


def uuid(at: str, minor: int) -> str:
    """Name a card."""
    return f"GPU-{at}-{minor}"


def node(name: str = "n1", *, cpu: int = 8000, **fields: Any) -> nodes.Node:
    """Make a node with so much cpu, in thousandths."""
    amounts = ((nodes.CPU, cpu), (nodes.MEMORY, 64 * GIB), (nodes.PODS, 110))
    return nodes.Node(name, allocatable=amounts, **fields)


def card(minor: int = 0, *, at: str = "n1", **fields: Any) -> facts.Card:
    """Make a card of 8 GiB."""
    usual: dict[str, Any] = {"uuid": uuid(at, minor), "minor": minor, "model": MODEL, "memory": CARD}
    return facts.Card(**usual | fields)


def device(
    at: str = "n1", cards: int | Iterable[facts.Card] = 2, *, failed: str = "", **fields: Any
) -> facts.Device:
    """Make the devices of a node: so many plain cards, or these."""
    made = [card(minor, at=at) for minor in range(cards)] if isinstance(cards, int) else cards
    return facts.Device(at, tuple(made), failed=failed, **fields)


def share(minor: int, core: int = 100, gib: int = 8, *, at: str = "n1") -> decisions.Share:
    """Make a share of a card, or all of it."""
    return decisions.Share(uuid(at, minor), minor, core, gib * GIB)


def hold(name: str, *shares: decisions.Share, at: str = "n1", cpu: int = 0, withheld: int = 0) -> Hold:
    """Make what a pod of the namespace ml holds."""
    amounts = ((nodes.CPU, cpu), (nodes.PODS, 1))
    return Hold(f"uid-{name}", f"ml/{name}", at, amounts, shares, withheld)


def pod(
    *asks: requests.Ask,
    cpu: int = 1000,
    where: nodes.Where = nodes.ANYWHERE,
    manner: requests.Manner = requests.ANY_MANNER,
    **conditions: Any,
) -> queued_pods.Candidate:
    """Make a pod with one container; keywords are conditions on cards."""
    container = requests.ContainerRequest("main", asks)
    request = requests.Request((container,), requests.Conditions(**conditions), manner)
    demand = nodes.Demand(((nodes.CPU, cpu), (nodes.PODS, 1)), where=where)
    return queued_pods.Candidate("uid-p", "ml", "p", request, demand)


def cards(count: int = 1, **fields: Any) -> queued_pods.Candidate:
    """Make a pod that asks for whole cards."""
    return pod(requests.cards(count), **fields)


def part(core: int = 50, gib: int = 4, count: int = 1, **fields: Any) -> queued_pods.Candidate:
    """Make a pod that asks for a part of one card, or of several."""
    return pod(requests.Gpus(count, core, gib * GIB), **fields)


def picture(*known: nodes.Node | facts.Device | Hold, silent: Iterable[str] = ()) -> Inventory:
    """Make an inventory of these, whose agents all report but for the silent ones."""
    made = Inventory()
    for one in known:
        match one:
            case nodes.Node():
                made.put_node(one)
            case facts.Device():
                made.put_device(one)
                made.set_silent(one.node, silent=one.node in set(silent))
            case Hold():
                made.charge(one)
    return made


def several(count: int, *, cards: int = 2) -> list[nodes.Node | facts.Device]:
    """Make nodes with so many cards each."""
    names = [f"n{number}" for number in range(1, count + 1)]
    return [*(node(name) for name in names), *(device(name, cards) for name in names)]


def told(made: Inventory, asked: queued_pods.Candidate, *, whole: bool = False) -> explain.Explanation:
    """Explain."""
    return explain.explain(Search(made), asked, policy=RULES, whole=whole)


def said(made: Inventory, asked: queued_pods.Candidate) -> str:
    """Explain in a sentence."""
    return explain.sentence(told(made, asked), asked)


# A pod that asks for more than one thing, each of which has its words.
PICKY: Final = pod(
    requests.cards(2),
    models=frozenset({"t4", "h200"}),
    memory_at_least=40 * GIB,
    manner=requests.Manner(scope=Scope.NVLINK, joint=("gpu", "rdma")),
)
