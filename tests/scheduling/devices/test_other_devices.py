"""Devices of other types: shares, virtual functions, every one of them, and jointly with cards."""

from typing import Any

import pytest

from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_view, facts, requests
from scheduling.devices import build

LABEL = (("type", "general"),)


def rdma(count: int = 1, share: int = 100, **fields: bool) -> requests.OtherDevices:
    """Ask for NICs."""
    return requests.OtherDevices("rdma", count, share, **fields)


def given(view: device_view.View, *asks: requests.Ask, **fields: Any) -> list[tuple[str, str]]:
    """Place a pod and name the devices and functions it got."""
    shares = build.given(allocator.place(view, build.request(*asks, **fields)))["main"]
    return [(share.uuid, share.function) for share in shares]


# ---------------------------------------------------------------- shares and functions


def test_a_whole_device_must_be_unused() -> None:
    """Somebody's share or virtual function makes a device unfit to be given whole."""
    made = build.device(build.nic(0), build.nic(1, functions=1), build.nic(2))
    view = build.view(made, {"rdma-0": device_view.Usage(10, 0, 1)}, functions=frozenset({"0000:01:00.0"}))

    assert given(view, rdma()) == [("rdma-2", "")]
    refusal = build.refused(allocator.place(view, build.request(rdma(2))))
    assert (refusal.reason, refusal.wanted, refusal.found) == (Reason.PARTLY_USED, 2, 1)


def test_a_share_comes_as_the_lowest_unused_function() -> None:
    """Where a device has virtual functions, each share is one of them."""
    made = build.device(build.nic(0, functions=3))
    view = build.view(made, {"rdma-0": device_view.Usage(20, 0, 1)}, functions=frozenset({"0000:00:00.0"}))

    assert given(view, rdma(share=20)) == [("rdma-0", "0000:00:00.1")]


def test_functions_must_have_the_labels() -> None:
    """A function of another group is passed over."""
    functions = (build.function(0, 0), build.function(0, 1, type="general"))
    view = build.view(build.device(build.nic(0, functions=functions)))

    assert given(view, rdma(share=20), grouping=build.grouping(function_labels=LABEL)) == [
        ("rdma-0", "0000:00:00.1")
    ]


def test_a_function_described_for_a_whole_device_is_given_with_it() -> None:
    """Who asks for a whole device and describes a function gets both."""
    functions = (build.function(0, 0, type="general"),)
    view = build.view(build.device(build.nic(0, functions=functions)))

    assert given(view, rdma()) == [("rdma-0", "")]
    assert given(view, rdma(), grouping=build.grouping(function_labels=LABEL)) == [("rdma-0", "0000:00:00.0")]


def test_a_device_without_functions_is_shared_by_percent() -> None:
    """Shares of a device that has no virtual functions only add up."""
    view = build.view(build.device(build.nic(0), build.nic(1)), {"rdma-0": device_view.Usage(60, 0, 1)})

    assert given(view, rdma(share=40)) == [("rdma-0", "")]
    assert given(view, rdma(share=50)) == [("rdma-1", "")]


def test_functions_run_out_before_percents() -> None:
    """A device whose last function is taken gives no share, however much is left of it."""
    view = build.view(
        build.device(build.nic(0, functions=1)),
        {"rdma-0": device_view.Usage(10, 0, 1)},
        functions=frozenset({"0000:00:00.0"}),
    )

    refusal = build.refused(allocator.place(view, build.request(rdma(share=10))))

    assert (refusal.reason, refusal.never) == (Reason.NO_FUNCTION, False)


def test_an_init_container_borrows_a_function() -> None:
    """The init container takes the function that the main one will use."""
    view = build.view(build.device(build.nic(0, functions=2)))

    found = allocator.place(view, build.request(rdma(share=40), init=(rdma(share=90),)))

    assert build.given(found)["init"][0].function == build.given(found)["main"][0].function
    assert not isinstance(found, allocator.Shortfall)
    assert [(share.core, share.function) for share in allocator.held(found)] == [(90, "0000:00:00.0")]


def test_several_functions_of_one_device_are_held_with_one_sum() -> None:
    """What a pod holds of a device is named once, beside all functions that it holds."""
    view = build.view(build.device(build.nic(0, functions=2)))
    pod = requests.Request(
        (requests.ContainerRequest("a", (rdma(share=40),)), requests.ContainerRequest("b", (rdma(share=50),)))
    )

    found = allocator.place(view, pod)

    assert not isinstance(found, allocator.Shortfall)
    assert [(share.core, share.function) for share in allocator.held(found)] == [
        (90, "0000:00:00.1"),
        (0, "0000:00:00.0"),
    ] or [(share.core, share.function) for share in allocator.held(found)] == [
        (90, "0000:00:00.0"),
        (0, "0000:00:00.1"),
    ]


def test_devices_must_have_the_labels() -> None:
    """A NIC of another fabric is never taken."""
    made = build.device(build.nic(0, labels=(("fabric", "b"),)), build.nic(1, labels=(("fabric", "a"),)))
    wanted = build.grouping(labels=(("fabric", "a"),))

    assert given(build.view(made), rdma(), grouping=wanted) == [("rdma-1", "")]
    refusal = build.refused(allocator.place(build.view(made), build.request(rdma(2), grouping=wanted)))
    assert (refusal.reason, refusal.never) == (Reason.LABEL_MISMATCH, True)


@pytest.mark.parametrize("made", [build.device(), build.device(build.gpu(0))])
def test_a_node_without_the_type_is_refused_for_good(made: facts.Device) -> None:
    """What is not there will not be freed."""
    refusal = build.refused(allocator.place(build.view(made), build.request(rdma())))

    assert (refusal.reason, refusal.never, refusal.detail) == (Reason.NO_DEVICE, True, "rdma")


def test_a_list_of_uuids_pins_a_type_only_if_it_names_it() -> None:
    """A list of GPUs rules out no NIC; a list that names a NIC rules out the others."""
    view = build.view(build.device(build.gpu(0), build.nic(0), build.nic(1)))

    cards = requests.Conditions(uuids=frozenset({"GPU-0"}))
    assert given(view, requests.cards(1), rdma(), conditions=cards) == [("GPU-0", ""), ("rdma-0", "")]
    both = requests.Conditions(uuids=frozenset({"GPU-0", "rdma-1"}))
    assert given(view, requests.cards(1), rdma(), conditions=both) == [("GPU-0", ""), ("rdma-1", "")]
    avoided = requests.Conditions(avoid_uuids=frozenset({"rdma-0"}))
    assert given(view, rdma(), conditions=avoided) == [("rdma-1", "")]


# ---------------------------------------------------------------- every device


def test_every_device_leaves_out_the_sick_ones_and_says_so() -> None:
    """One bad NIC costs the pod that NIC, and not its place."""
    made = build.device(
        build.nic(0),
        build.nic(1, trouble=Reason.UNHEALTHY),
        build.nic(2, labels=(("fabric", "b"),)),
        build.nic(3),
    )
    asked = build.request(rdma(every=True))

    assert given(build.view(made), rdma(every=True)) == [("rdma-0", ""), ("rdma-2", ""), ("rdma-3", "")]
    assert [(one.device, one.reason) for one in allocator.left_out(build.view(made), asked)] == [
        ("rdma-1", Reason.UNHEALTHY)
    ]


def test_every_device_means_every_one_that_is_well() -> None:
    """A healthy device that somebody holds is not left out: the pod waits for it."""
    made = build.device(build.nic(0), build.nic(1))
    view = build.view(made, {"rdma-1": None})

    refusal = build.refused(allocator.place(view, build.request(rdma(every=True))))

    assert (refusal.reason, refusal.never, refusal.wanted, refusal.found) == (Reason.IN_USE, False, 2, 1)


def test_every_device_of_none_is_refused() -> None:
    """Where all are sick there is nothing to give, and that may change."""
    made = build.device(build.nic(0, trouble=Reason.CORDONED))

    refusal = build.refused(allocator.place(build.view(made), build.request(rdma(every=True))))

    assert (refusal.reason, refusal.never) == (Reason.CORDONED, False)


# ---------------------------------------------------------------- jointly with cards


JOINT = build.grouping(joint=("gpu", "rdma"))


def rooted(*roots: str, nics: str = "", **fields: Any) -> facts.Device:
    """Make a node of cards and NICs by the names of their roots."""
    cards = [build.gpu(at, root=root) for at, root in enumerate(roots)]
    return build.device(*cards, *(build.nic(at, root=root) for at, root in enumerate(nics)), **fields)


def test_a_nic_sits_on_the_root_of_each_card() -> None:
    """Two cards on two roots get a NIC on each, though only one was asked for."""
    made = rooted("a", "b", nics="aabb")

    names = given(build.view(made), requests.cards(2), rdma(), grouping=JOINT)

    assert [uuid for uuid, _ in names] == ["GPU-0", "GPU-1", "rdma-0", "rdma-2"]


def test_more_nics_than_roots_are_all_on_those_roots() -> None:
    """Three NICs for one card all come from its root."""
    made = rooted("a", "b", nics="babbb")

    names = given(build.view(made), requests.cards(1), rdma(3), grouping=JOINT)

    assert [uuid for uuid, _ in names] == ["GPU-1", "rdma-0", "rdma-2", "rdma-3"]


def test_cards_are_chosen_where_nics_are() -> None:
    """The best set of cards is passed over when its root has no NIC left: search, not failure."""
    made = rooted("a", "a", "b", "b", nics="ab")
    view = build.view(made, {"rdma-0": None})

    names = given(view, requests.cards(2), rdma(), grouping=JOINT)

    assert [uuid for uuid, _ in names] == ["GPU-2", "GPU-3", "rdma-1"]


def test_each_container_has_its_nic_beside_its_own_card() -> None:
    """What is joint is the container: its NIC is below the root of its own card."""
    made = rooted("a", "b", nics="ba")
    each = (requests.cards(1), rdma())
    pod = requests.Request(
        (requests.ContainerRequest("x", each), requests.ContainerRequest("y", each)), grouping=JOINT
    )

    found = build.given(allocator.place(build.view(made), pod))

    assert [share.uuid for share in found["x"]] == ["GPU-0", "rdma-1"]
    assert [share.uuid for share in found["y"]] == ["GPU-1", "rdma-0"]


@pytest.mark.parametrize(
    "made",
    [rooted("a", "b", nics="cc"), build.device(build.gpu(0), build.nic(0)), rooted("a", "b", nics="a")],
    ids=["no nic on any root", "roots unknown", "one root lacks a nic"],
)
def test_without_a_nic_on_the_root_there_is_no_place(made: facts.Device) -> None:
    """Unknown roots are no roots, and every root needs its own NIC."""
    asked = build.request(requests.cards(len(made.cards)), rdma(), grouping=JOINT)

    refusal = build.refused(allocator.place(build.view(made), asked))

    assert (refusal.reason, refusal.never) == (Reason.NO_ROOT, True)


def test_to_be_joint_takes_two() -> None:
    """A pod that asks for one of the types only is placed as if nothing had been said."""
    made = build.device(build.gpu(0), build.nic(0))

    assert given(build.view(made), requests.cards(1), grouping=JOINT) == [("GPU-0", "")]
    assert given(build.view(made), rdma(), grouping=JOINT) == [("rdma-0", "")]


def test_every_device_is_not_bound_to_roots() -> None:
    """Who asks for all NICs gets all, wherever the cards are."""
    made = rooted("a", nics="ab")

    names = given(build.view(made), requests.cards(1), rdma(every=True), grouping=JOINT)

    assert [uuid for uuid, _ in names] == ["GPU-0", "rdma-0", "rdma-1"]


def test_shares_of_cards_lead_as_well() -> None:
    """A share of a card has its NIC on the root of that card."""
    made = rooted("a", "b", nics="b")

    names = given(build.view(made), requests.Gpus(1, core=50), rdma(share=50), grouping=JOINT)

    assert [uuid for uuid, _ in names] == ["GPU-1", "rdma-0"]
