"""The table for people, and how much of a large cluster is looked at for it."""

from typing import Final

from berth_operator.scheduling import explain
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.what_if import explanation_budget
from scheduling.explain import scenes
from support import builders

SHARES = """\
NODE  DEVICE  UUID      REASON                                WANTED        FREE
n1    -       -         not enough free                       1 card        0 cards
      GPU 0   GPU-n1-0  not enough free                       20 %, 80 GiB  90 %, 60 GiB
      GPU 1   GPU-n1-1  unhealthy                             20 %, 80 GiB  100 %, 80 GiB
n2    -       -         other model, unsuitable for this pod  1 card        0 cards
      GPU 0   GPU-n2-0  other model, unsuitable for this pod  20 %, 80 GiB  100 %, 80 GiB
n3    -       -         agent stopped reporting               -             -
n4    -       -         insufficient cpu                      1 cpu         0.5 cpu
nearest: GPU 0 of n1 has 60 GiB free, 80 GiB wanted
would fit if 20 GiB were freed on GPU-n1-0 of n1 (held by ml/a)
would fit on 1 node if it asked for 60 GiB instead of 80 GiB of each card
would fit if 0.5 cpu were freed on n4
would fit on 1 node if it asked for 0.5 instead of 1 cpu
would fit if GPU-n1-0 of n1 were freed (held by ml/a)
would fit if GPU-n1-1 of n1 were healthy
would fit if the Berth agent on n3 reported again
would fit on 1 node if the condition on models were dropped
"""


def test_table() -> None:
    """Each node has its reason, each of its cards what it lacks, and below stands what would help."""
    inventory = builders.inventory(
        *(builders.node(f"n{at}") for at in range(1, 5)),
        builders.device("n1", [builders.card(0), builders.card(1, trouble=Reason.UNHEALTHY)]),
        builders.device("n2", [builders.card(at="n2", model="Tesla T4")]),
        builders.device("n3", 2),
        builders.device("n4", 2),
        builders.hold("a", "n1", [builders.share(0, core=10, memory=20 * builders.GIB)]),
        builders.hold("b", "n4", amounts=builders.amounts(7500)),
        silent=["n3"],
    )
    pod = scenes.part(20, 80, models=frozenset({builders.MODEL}))

    assert explain.table(scenes.told(inventory, pod)) == SHARES


WHOLE = """\
NODE  DEVICE  UUID      REASON                                WANTED         FREE
n1    -       -         not enough free                       3 cards        1 card
      GPU 0   GPU-n1-0  in use                                100 %, 80 GiB  0 %, 0 GiB
      GPU 1   GPU-n1-1  partly used                           100 %, 80 GiB  50 %, 60 GiB
n2    -       -         in MIG mode, unsuitable for this pod  3 cards        2 cards
      GPU 2   GPU-n2-2  in MIG mode, unsuitable for this pod  100 %, 80 GiB  100 %, 80 GiB
nearest: n1 has 1 card free, 3 wanted
would fit on 1 node if it asked for 2 instead of 3 cards
would fit if GPU-n1-0 and GPU-n1-1 of n1 were freed (held by ml/a and ml/b)
"""


def test_table_of_whole_cards() -> None:
    """A card that is never given out whole is told apart from one that is in use."""
    inventory = builders.inventory(
        *builders.nodes(1, 3),
        builders.hold("a", "n1", [0]),
        builders.hold("b", "n1", [builders.share(1, core=50, memory=20 * builders.GIB)]),
        builders.node("n2"),
        builders.device("n2", [builders.card(minor, at="n2", mig=minor == 2) for minor in range(3)]),
    )

    assert explain.table(scenes.told(inventory, scenes.cards(3))) == WHOLE


def test_table_of_an_empty_cluster() -> None:
    """Where there are no nodes there is nothing to lay out."""
    assert explain.table(scenes.told(builders.inventory(), scenes.cards())) == "no nodes\n"


def test_table_where_all_is_well() -> None:
    """A pod that fits everywhere is told so."""
    told = scenes.told(builders.inventory(*builders.nodes(2, 2)), scenes.cards())

    assert explain.table(told) == "fits on 2 of 2 nodes\n"


def test_large_cluster_is_looked_at_in_part() -> None:
    """The nearest nodes and one of each reason are looked at, the others only counted."""
    names = [f"n{at:03}" for at in range(100)]
    inventory = builders.inventory(
        *map(builders.node, names), *(builders.device(name, 2) for name in names[:-1])
    )
    for name in names[:-1]:
        inventory.charge(builders.hold(name, name, [0]))

    told = scenes.told(inventory, scenes.cards(2))

    looked = [finding.node for finding in told.nodes if finding.diagnosed]
    assert looked == [*names[: explanation_budget.MOST_NEAREST_NODES], "n099"]
    assert "and 91 more nodes, not analyzed: 91 not enough free\n" in explain.table(told)


def test_large_cluster_is_looked_at_as_a_whole_if_wanted() -> None:
    """Who wants to know of every card is told of every card."""
    names = [f"n{at:03}" for at in range(30)]
    inventory = builders.inventory(*map(builders.node, names), *(builders.device(name, 1) for name in names))

    told = scenes.told(inventory, scenes.pod(requests.Gpus(1, 50, 400 * builders.GIB)), all_nodes=True)

    assert all(finding.diagnosed and finding.shortfall is not None for finding in told.nodes)


NETWORK_CARDS: Final = """\
NODE  DEVICE  UUID  REASON                                         WANTED  FREE
n1    -       -     too few rdma devices, unsuitable for this pod  -       -
"""


def test_a_pod_without_cards_is_told_of_the_devices_that_it_asks_for() -> None:
    """Parts of one network card that fit alone and not together are no matter of cards."""
    device = builders.device("n1", 8, others=[builders.nic(0)])
    made = builders.inventory(builders.node("n1"), device)
    parts = (requests.OtherDevices("rdma", 1, share) for share in (50, 60))
    pod = builders.pod_info(request=builders.request(*parts))

    table = explain.table(scenes.told(made, pod))

    assert table.startswith(NETWORK_CARDS)
