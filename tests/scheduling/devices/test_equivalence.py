"""Which nodes and devices are alike for a pod: by their labels only for one that selects by labels."""

import pytest

from berth_operator.scheduling.devices import device_view, equivalence, requests
from support import builders

CARD = (requests.cards(1),)
NIC = (requests.OtherDevices("rdma", 1, 100),)
BY_CARD = builders.request(CARD, conditions=requests.Conditions(card_labels=builders.selecting("gpu", a="b")))
BY_DEVICE = builders.request(NIC, grouping=requests.Grouping(labels=builders.selecting("rdma", a="b")))
BY_FUNCTION = builders.request(
    NIC, grouping=requests.Grouping(function_labels=builders.selecting("rdma", a="b"))
)


def node(value: str) -> device_view.View:
    """Return a node whose devices and functions have a label."""
    labels = (("a", value),)
    functions = (builders.function(0, 1, a=value),)
    return builders.view([builders.card(labels=labels), builders.nic(labels=labels, functions=functions)])


@pytest.mark.parametrize(
    ("request_", "alike"),
    [
        pytest.param(builders.request(CARD), True, id="no labels are asked for"),
        pytest.param(BY_CARD, False, id="by labels of cards"),
        pytest.param(BY_DEVICE, False, id="by labels of devices"),
        pytest.param(BY_FUNCTION, False, id="by labels of functions"),
    ],
)
def test_labels_tell_nodes_apart_only_for_who_selects(
    request_: requests.DeviceRequest, *, alike: bool
) -> None:
    """An answer for one node then holds for others that are labelled otherwise."""
    classes = [equivalence.class_of(node(value), request_) for value in ("b", "c")]

    assert (classes[0] == classes[1]) == alike
