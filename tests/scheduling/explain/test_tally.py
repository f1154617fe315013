"""The first reason of a node, counted without looking closely: what no patience can cure comes first."""

import pytest

from berth_operator.scheduling import backlog, decisions, inventory, search, tally
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import facts, requests
from scheduling.explain import scenes

GIB = scenes.GIB
FULL_OF_T4 = (
    scenes.node(),
    scenes.device(cards=[scenes.card(model="Tesla T4", trouble=Reason.UNHEALTHY)]),
    scenes.hold("a", scenes.share(0)),
)


def nic(minor: int) -> facts.Card:
    """Make a NIC."""
    return facts.Card(f"rdma-{minor}", minor, type="rdma")


def asks(*asks: requests.Ask) -> backlog.Candidate:
    """Ask for several things, each in a container of its own."""
    containers = tuple(requests.ContainerRequest(f"c{at}", (ask,)) for at, ask in enumerate(asks))
    return backlog.Candidate("uid-p", "ml", "p", requests.Request(containers))


CASES: dict[str, tuple[inventory.Inventory, backlog.Candidate, tuple[Count, ...]]] = {
    "the model before its trouble and its use": (
        scenes.picture(*FULL_OF_T4),
        scenes.cards(models=frozenset({"A100"})),
        (Count(Reason.MODEL_MISMATCH, "", 1),),
    ),
    "trouble before use": (
        scenes.picture(*FULL_OF_T4),
        scenes.cards(models=frozenset({"t4"})),
        (Count(Reason.UNHEALTHY, "", 1),),
    ),
    "use": (
        scenes.picture(*scenes.several(1, cards=1), scenes.hold("a", scenes.share(0))),
        scenes.cards(),
        (Count(Reason.FULL, "", 1),),
    ),
    "the list of uuids": (
        scenes.picture(*scenes.several(1)),
        scenes.cards(uuids=frozenset({"GPU-other"})),
        (Count(Reason.NOT_INCLUDED, "", 1),),
    ),
    "the list of uuids to avoid": (
        scenes.picture(*scenes.several(1, cards=1)),
        scenes.cards(avoid_uuids=frozenset({"GPU-n1-0"})),
        (Count(Reason.EXCLUDED, "", 1),),
    ),
    "the least memory": (
        scenes.picture(*scenes.several(1)),
        scenes.cards(memory_at_least=9 * GIB),
        (Count(Reason.TOO_SMALL, "", 1),),
    ),
    "a share larger than the card": (
        scenes.picture(*scenes.several(1)),
        scenes.part(10, 9),
        (Count(Reason.TOO_SMALL, "", 1),),
    ),
    "more core than any card has": (
        scenes.picture(*scenes.several(1)),
        scenes.part(120, 1),
        (Count(Reason.TOO_SMALL, "", 1),),
    ),
    "asks of different sizes, each judged by itself": (
        scenes.picture(
            scenes.node(),
            scenes.device(cards=[scenes.card(0), scenes.card(1, memory=80 * GIB)]),
            scenes.hold("a", scenes.share(1, 100, 80)),
        ),
        asks(requests.Gpus(1, 10, 40 * GIB), requests.Gpus(2, 10, GIB)),
        (Count(Reason.FULL, "", 1),),
    ),
    "withheld cards, of which a share may not start one": (
        scenes.picture(*scenes.several(1, cards=1), scenes.hold("a", withheld=1)),
        scenes.part(),
        (Count(Reason.WITHHELD, "", 1),),
    ),
    "which source failed": (
        scenes.picture(scenes.node(), scenes.device(failed="NVMLDown")),
        scenes.cards(),
        (Count(Reason.SOURCE_FAILED, "NVMLDown", 1),),
    ),
    "other devices, of which some may become free": (
        scenes.picture(
            scenes.node(),
            scenes.device(cards=0, others=(nic(0),)),
            scenes.hold("a", decisions.Share("rdma-0", 0, 100, 0, "rdma")),
        ),
        scenes.pod(requests.Parts("rdma", 1)),
        (Count(Reason.FULL, "rdma", 1),),
    ),
    "no nodes": (scenes.picture(), scenes.cards(), (Count(Reason.NO_NODES, "", 0),)),
}


@pytest.mark.parametrize(("picture", "pod", "counts"), CASES.values(), ids=CASES.keys())
def test_first_reason(
    picture: inventory.Inventory, pod: backlog.Candidate, counts: tuple[Count, ...]
) -> None:
    """Each node gives its first reason, in the order in which its cards are asked ever more closely."""
    found = tally.tally(picture, search.ask(pod.request, pod.demand), {})

    assert found == counts


def test_closer_look_speaks_last() -> None:
    """What only a closer look showed is the reason of a node that has no other; the rest had no look."""
    picture, pod = scenes.picture(*scenes.several(2)), scenes.cards(3)
    fits = scenes.cards(1)
    closer = {0: (Reason.NO_ROOT, "")}

    assert tally.tally(picture, search.ask(pod.request, pod.demand), closer) == (
        Count(Reason.TOO_FEW_CARDS, "", 2),
    )
    assert tally.tally(picture, search.ask(fits.request, fits.demand), closer) == (
        Count(Reason.NO_ROOT, "", 1),
        Count(Reason.UNDECIDED, "", 1),
    )
