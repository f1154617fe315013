"""What a node lists: its devices that may get pods or are held, and never less than its pods ask for."""

import dataclasses

import pytest

from berth_crds import names
from berth_crds.vocabulary import NodeNames
from berth_operator.engine import node_capacity
from berth_operator.scheduling import holds
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.policy import NO_OVERSALE, Oversale
from support import builders

BERTH, KOORDINATOR, NONE = NodeNames.BERTH, NodeNames.KOORDINATOR, NodeNames.NONE


def listed(
    *known: device_facts.Device | holds.Hold, which: NodeNames = BERTH, oversale: Oversale = NO_OVERSALE
) -> node_capacity.Amounts | None:
    """Return what node n1 is to list."""
    info = builders.inventory(builders.node(), *known).node("n1")
    assert info is not None
    return node_capacity.of_node(info, which, oversale)


def cards(count: int) -> dict[str, int]:
    """Return what so many plain cards are, by Berth's names."""
    whole = dict.fromkeys((names.GPU, names.GPU_CORE, names.GPU_MEMORY_RATIO), 100 * count)
    return whole | {names.GPU_MEMORY: builders.MEMORY * count}


def device(*troubles: Reason | None) -> device_facts.Device:
    """Return a node whose cards have these troubles."""
    return builders.device(cards=[builders.card(at, trouble=one) for at, one in enumerate(troubles)])


def asking(name: str, amount: int) -> holds.Hold:
    """Return a pod on the node that asks for a resource, and holds nothing by name."""
    return dataclasses.replace(builders.hold("asks"), amounts=((name, amount),))


def test_cards_are_listed_by_all_names_of_berth() -> None:
    """In the units in which pods ask for them."""
    assert listed(builders.device("n1", 4)) == cards(4)


@pytest.mark.parametrize("trouble", [Reason.UNHEALTHY, Reason.CARD_CORDONED, Reason.OCCUPIED])
def test_a_card_that_gets_no_pods_counts_while_it_is_held(trouble: Reason) -> None:
    """Its pod would be refused by a kubelet that is started again."""
    sick = device(None, trouble)

    assert listed(sick) == cards(1)
    assert listed(sick, builders.hold("p", shares=(1,))) == cards(2)


def test_a_node_lists_no_less_than_its_pods_ask_for() -> None:
    """A card may vanish with a pod on it."""
    found = listed(builders.device("n1", 1), asking(names.GPU, 300))

    assert found == cards(1) | {names.GPU: 300}


def test_shared_cards_are_replicas_and_mig_cards_are_none_of_these() -> None:
    """Nobody may ask for a part of them."""
    shared, mig = builders.card(0, replicas=4), builders.card(1, mig=True)

    assert listed(builders.device(cards=[shared, mig, builders.card(2)])) == cards(1) | {names.GPU_SHARED: 4}


def test_other_devices_count_like_cards() -> None:
    """Each is a hundred percent."""
    nics = tuple(builders.nic(at) for at in range(2))

    assert listed(dataclasses.replace(builders.device("n1", 1), others=nics)) == cards(1) | {names.RDMA: 200}


def test_devices_of_other_types_are_passed_over() -> None:
    """Agents publish them from files, and no resource stands for them."""
    npu = dataclasses.replace(builders.nic(0), type="npu")

    assert listed(dataclasses.replace(builders.device("n1", 1), others=(npu,))) == cards(1)


def test_a_node_lists_as_much_core_as_may_be_promised() -> None:
    """A kubelet adds up what all pods ask for by that name; of nothing else there is more."""
    oversale = Oversale(150, frozenset({"batch"}))
    unknown = builders.card(1, memory=0)

    assert listed(builders.device("n1", 2), oversale=oversale) == cards(2) | {names.GPU_CORE: 300}
    found = listed(builders.device(cards=[builders.card(), unknown]), oversale=oversale)
    assert found is not None
    assert found[names.GPU_CORE] == 250, "a card of unknown memory is never oversold"


def test_a_node_lists_core_that_is_held_after_the_policy_has_changed() -> None:
    """A kubelet that is started again would refuse pods that run."""
    assert listed(builders.device("n1", 1), asking(names.GPU_CORE, 150)) == cards(1) | {names.GPU_CORE: 150}


def test_koordinators_names_stand_beside_ours() -> None:
    """Its new ones and its old ones."""
    found = listed(builders.device("n1", 1), which=KOORDINATOR)

    assert found == cards(1) | {
        f"{group}/{name.removeprefix('berth.dev/')}": amount
        for name, amount in cards(1).items()
        for group in ("koordinator.sh", "kubernetes.io")
    }


def test_what_the_kubelet_counts_itself_is_left_to_it() -> None:
    """It may have nothing left to give, and says so; the names beside it are listed as elsewhere."""
    found = listed(builders.device("n1", 2, kubelet_served=True))

    assert found == {name: amount for name, amount in cards(2).items() if name != names.GPU}


def test_no_name_is_listed_where_the_policy_wants_none() -> None:
    """Not even while pods ask for it: a kubelet minds no extended resource that its node does not list."""
    assert listed(builders.device("n1", 4), asking(names.GPU, 100), which=NONE) == {}


def test_a_name_without_which_the_kubelet_refuses_pods_stays_as_long_as_they_ask_for_it() -> None:
    """Whether the policy lists it no more, or the Device is gone."""
    pod = asking("kubernetes.io/gpu", 200)

    assert listed(builders.device("n1", 4), pod, which=NONE) == {"kubernetes.io/gpu": 200}
    assert listed(pod, which=KOORDINATOR) == {"kubernetes.io/gpu": 200}
    assert listed(which=KOORDINATOR) == {}


def test_nothing_is_known_of_a_node_whose_cards_cannot_be_read() -> None:
    """What it lists stays, for its pods have their cards."""
    assert listed(dataclasses.replace(builders.device("n1", 4), failed="NVMLDown")) is None
