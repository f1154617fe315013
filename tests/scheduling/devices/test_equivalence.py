"""Which nodes and devices are alike for a pod: by all that its answer depends on, and by nothing else."""

import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Scope
from berth_operator.scheduling.devices import allocator, device_view, equivalence, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from support import builders, random_devices, thorough
from support.builders import GIB

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


TWO_CARDS = builders.request(
    (requests.cards(1), requests.cards(1)), grouping=requests.Grouping(scope=Scope.NVLINK)
)
BESIDE_A_SHARE = builders.request((requests.cards(1), requests.Gpus(1, 10, GIB)))
FREE = builders.request(CARD, conditions=requests.Conditions(free_memory_at_least=2 * GIB))
OF_NO_SUCH_MODEL = builders.request(CARD, conditions=requests.Conditions(models=frozenset({"t4"})))
ALONE = builders.request(CARD, grouping=requests.Grouping(exclusive=(("gpu", Scope.PCIE),)))
UP_TO = {key: device_view.Usage(30, key * GIB, 1) for key in (0, 1, 2, 80)}
NOTHING = device_view.UNUSED


def held(
    usage: device_view.Usage,
    *,
    at: str = "n1",
    measured: int = 0,
    nic: device_view.Usage = NOTHING,
    gone: device_view.Usage = NOTHING,
) -> device_view.View:
    """Return a node of two cards and a NIC; this is taken of a card, of the NIC, and of a card that is gone.

    Of the other card so much was measured free.
    """
    devices = [*(builders.card(minor, at=at, root=str(minor)) for minor in range(2)), builders.nic()]
    free = {devices[1].uuid: measured} if measured else {}
    return builders.view(devices, {0: usage, devices[2].uuid: nic, "GPU-gone": gone}, measured_free=free)


@pytest.mark.parametrize(
    ("request_", "one", "other", "alike"),
    [
        pytest.param(TWO_CARDS, held(UP_TO[1]), held(UP_TO[2]), True, id="of a card that cannot serve"),
        pytest.param(BESIDE_A_SHARE, held(UP_TO[1]), held(UP_TO[2]), False, id="of a card that may serve"),
        pytest.param(BESIDE_A_SHARE, held(UP_TO[1]), held(UP_TO[80]), False, id="of one that no longer may"),
        pytest.param(
            FREE,
            held(UP_TO[1], measured=3 * GIB),
            held(UP_TO[1], measured=4 * GIB),
            True,
            id="measured, where enough is free",
        ),
        pytest.param(
            FREE,
            held(UP_TO[1], measured=3 * GIB),
            held(UP_TO[1], measured=GIB),
            False,
            id="measured, where too little is free",
        ),
        pytest.param(TWO_CARDS, held(NOTHING), held(NOTHING, nic=UP_TO[1]), True, id="of what is not asked"),
        pytest.param(
            OF_NO_SUCH_MODEL, held(UP_TO[1]), held(UP_TO[2]), True, id="of a card that never serves"
        ),
        pytest.param(
            OF_NO_SUCH_MODEL,
            held(NOTHING),
            held(UP_TO[2]),
            False,
            id="whether anything is, as for withheld cards",
        ),
        pytest.param(ALONE, held(NOTHING), held(NOTHING, gone=UP_TO[1]), False, id="of one that may be near"),
    ],
)
def test_how_much_is_taken_matters_only_of_a_device_that_may_serve(
    request_: requests.DeviceRequest, one: device_view.View, other: device_view.View, *, alike: bool
) -> None:
    """Else no two nodes would be alike whose pods hold slightly different amounts."""
    classes = [allocator.equivalence_class(view, request_) for view in (one, other)]

    assert (classes[0] == classes[1]) == alike


def test_devices_are_not_judged_by_very_many_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all that is taken of them, or was measured, tells nodes apart."""
    monkeypatch.setattr(equivalence, "MOST_ASKS", 0)
    views = held(UP_TO[1]), held(UP_TO[2]), held(UP_TO[1], measured=3 * GIB), held(UP_TO[1], measured=4 * GIB)

    for asked, expected in ((TWO_CARDS, 2), (FREE, 4)):
        assert len({allocator.equivalence_class(view, asked) for view in views}) == expected


@pytest.mark.parametrize(
    ("listed", "alike"),
    [
        pytest.param("GPU-elsewhere", True, id="a card of no node"),
        pytest.param(builders.uuid("n1", 0), False, id="a card of one of them"),
    ],
)
@pytest.mark.parametrize("avoids", [True, False])
def test_names_tell_nodes_apart_only_where_the_pod_lists_them(
    listed: str, *, avoids: bool, alike: bool
) -> None:
    """A pod that lists a card is searched for on that node, and elsewhere on one of many that are alike."""
    uuids = frozenset({listed})
    conditions = requests.Conditions(avoid_uuids=uuids) if avoids else requests.Conditions(uuids=uuids)
    asked = builders.request((requests.cards(1), requests.cards(1)), conditions=conditions)

    classes = [allocator.equivalence_class(held(UP_TO[1], at=at), asked) for at in ("n1", "n2")]

    assert (classes[0] == classes[1]) == alike


def test_the_name_of_an_instance_tells_its_node_apart() -> None:
    """It is no less a device than its card."""
    pieces = [builders.instances(at, 0, 2) for at in ("n1", "n2", "n3")]
    views = [builders.view([builders.card(mig=True, instances=some)]) for some in pieces]
    asked = builders.request(
        (requests.Instances(builders.PROFILE, 1),),
        conditions=requests.Conditions(avoid_uuids=frozenset({pieces[0][1].uuid})),
    )

    first, second, third = (allocator.equivalence_class(view, asked) for view in views)

    assert first != second == third


@hypothesis.settings(
    max_examples=thorough.examples(400), suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
@hypothesis.given(random_devices.nodes_and_pods(), st.data())
def test_nodes_of_one_class_give_the_same_answer(
    case: tuple[device_view.View, requests.DeviceRequest], data: st.DataObject
) -> None:
    """A node on which other amounts are taken says the same to a pod, if it is of the same class."""
    view, request = case
    other = data.draw(taken_otherwise(view))
    alike = allocator.equivalence_class(view, request) == allocator.equivalence_class(other, request)
    hypothesis.event(f"alike: {alike}, equal: {view == other}")

    if alike:
        assert answer(view, request) == answer(other, request)


@st.composite
def taken_otherwise(draw: st.DrawFn, view: device_view.View) -> device_view.View:
    """Return the node with other amounts taken of some devices, and some cards under other names."""
    used = {
        card.uuid: draw(st.just(view.usage(card.uuid)) | random_devices.usages(card))
        for card in (*view.device.cards, *view.device.others)
    }
    measured = {uuid: draw(st.sampled_from((free, free + 1))) for uuid, free in view.measured_free.items()}
    cards = tuple(draw(st.sampled_from((card, renamed(card)))) for card in view.device.cards)
    pairs = zip(view.device.cards, cards, strict=True)
    names = {was.uuid: now.uuid for was, now in pairs}
    return view._replace(
        device=dataclasses.replace(view.device, cards=cards),
        used={names.get(uuid, uuid): one for uuid, one in (dict(view.used) | used).items()},
        measured_free={names[uuid]: free for uuid, free in measured.items()},
    )


def renamed(card: PhysicalDevice) -> PhysicalDevice:
    """Return the card under another name."""
    return dataclasses.replace(card, uuid=f"{card.uuid}-renamed")


def answer(view: device_view.View, request: requests.DeviceRequest) -> tuple[object, str] | None:
    """Return why the node does not take the pod; None if it does."""
    found = allocator.allocate_or_explain(view, request)
    return (found.reason, found.detail) if isinstance(found, allocator.Shortfall) else None
