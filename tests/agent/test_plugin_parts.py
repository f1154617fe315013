"""Parts of cards, which the device plugin counts in percent, beside a kubelet that is played."""

from collections.abc import Iterable

import msgspec
import pytest

from agent.plugin_node import CARDS, GPU, SHARED, SPLIT, Node, listed, pod
from berth_agent.delivery import part_choice
from berth_agent.device_plugin import answers, offers
from berth_agent.device_plugin.answers import NodeState
from berth_agent.gpupods import pod_cache, watched_pod
from berth_agent.kubelet import podresources
from berth_agent.kubelet.device_ids import uuid_of
from berth_agent.kubelet.plugin_server import AllocationRefused
from berth_crds import allocation, names, wire

PARTS, CORE = names.GPU, names.GPU_CORE


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "FOUND_SECONDS", 0.15)
    monkeypatch.setattr(answers, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(answers, "SETTLE_SECONDS", 0.05)


def percents(minor: int, first: int = 0, last: int = 100) -> tuple[str, ...]:
    """Return these percents of a card."""
    return offers.percents(f"GPU-{minor}")[first:last]


def given(name: str, ids: tuple[str, ...]) -> podresources.ListedPod:
    """Return a pod as the kubelet lists it, with these percents."""
    return listed(name, ids, resource=PARTS)


def healthy(node: Node, resource: str = PARTS) -> list[int]:
    """Count the devices of each card that the kubelet may give."""
    found = {card.uuid: 0 for card in node.answers.state.cards}
    for device in node.answers.offers()[resource]:
        found[uuid_of(device.id)] += device.is_healthy
    return list(found.values())


async def preferred(node: Node, size: int, must: Iterable[str] = ()) -> dict[str, int]:
    """Return how many percent of each card are preferred of those that the kubelet has left."""
    node.answers.listed = node.kubelet.pods_listed
    taken = {
        device
        for pod in node.answers.listed
        for one in pod.containers
        for devices in one.devices
        for device in devices.ids
    }
    left = [one.id for one in node.answers.offers()[PARTS] if one.is_healthy and one.id not in taken]
    chosen = await node.preferred(*left, size=size, resource=PARTS, must=tuple(must))
    assert len(set(chosen)) == len(chosen)
    return {uuid: len([one for one in chosen if uuid_of(one) == uuid]) for uuid in map(uuid_of, chosen)}


# ---------------------------------------------------------------- what the kubelet counts


def test_a_pod_is_awaited_until_the_kubelet_has_given_it_all() -> None:
    """To whichever of its containers; who asks for nothing of it, has ended, or runs is not awaited."""
    node = Node()
    half, started = pod("half", {PARTS: 10}, {GPU: 1}), watched_pod.ContainerStatus("c0", "containerd://a")
    node.pods = [
        half,
        pod("given", {PARTS: 10}),
        pod("with an init container", {PARTS: 10}, {PARTS: 10}, init=1),
        pod("unasked", {CORE: 10}, promised=[["GPU-0"]], core=10),
    ]
    node.answers.listed = (
        given("half", percents(0, 0, 10)),
        given("given", percents(0, 10, 20)),
        listed("with an init container", (), percents(0, 20, 30), resource=PARTS),
    )

    assert list(node.answers.awaiting()) == [("ml", "half")]
    for status in (watched_pod.PodStatus("Failed"), watched_pod.PodStatus("Running", (started,))):
        node.pods = [msgspec.structs.replace(half, status=status)]
        assert list(node.answers.awaiting()) == []


def test_a_part_leaves_the_rest_of_its_card() -> None:
    """By whichever name it was asked for; but the card is no whole one any more."""
    node = Node()
    node.pods = [
        pod("asked", {PARTS: 30}, promised=[["GPU-0"]], core=30),
        pod("unasked", {CORE: 30}, promised=[["GPU-1"]], core=30),
        pod("whole", {GPU: 1}, promised=[["GPU-2"]]),
    ]

    assert healthy(node) == [100, 70, 0, 100]
    assert healthy(node, GPU) == [0, 0, 1, 1]


def test_parts_are_nowhere() -> None:
    """A kubelet that aligns devices with NUMA nodes would take them from another card than was decided."""
    offered = Node().answers.offers()

    assert {one.numa_node for one in offered[PARTS]} == {None}
    assert [one.numa_node for one in offered[GPU]] == [0, 0, 1, 1]


def test_what_the_kubelet_gave_stays_healthy() -> None:
    """Another pod's part is taken off the rest."""
    node = Node()
    node.answers.listed = (given("asked", percents(0, 60)),)
    node.pods = [
        pod("asked", {PARTS: 40}, promised=[["GPU-0"]], core=40),
        pod("unasked", {CORE: 50}, promised=[["GPU-0"]], core=50),
    ]

    found = {device.id for device in node.answers.offers()[PARTS] if device.is_healthy}

    assert {one for one in found if uuid_of(one) == "GPU-0"} == {*percents(0, 0, 10), *percents(0, 60)}


def test_containers_that_follow_each_other_hold_their_part_once() -> None:
    """Those that run at the same time hold theirs together."""
    node = Node()
    node.pods = [pod("p", {CORE: 30}, {CORE: 30}, {CORE: 30}, promised=[["GPU-0"]] * 3, core=30, init=1)]

    assert healthy(node)[0] == 40


def test_memory_counts_as_well_as_compute() -> None:
    """Whichever is the larger part of the card."""
    node = Node(wire.Card("GPU-0", "gpu", 0, memory=20))
    node.pods = [pod("p", {CORE: 10}, promised=[["GPU-0"]], core=10)]  # With 7 of 20 bytes.

    assert healthy(node) == [70]  # A byte may be due to rounding.


def with_share(name: str, core: int, memory: int) -> watched_pod.Pod:
    """Return a pod that was promised this share of card 0, and asks the kubelet for nothing."""
    share = allocation.Share("GPU-0", 0, core, memory)
    text = allocation.encode(allocation.of("n1", {"main": {"gpu": [share]}}))
    return watched_pod.Pod(wire.Meta(name, "ml", name, annotations={names.ALLOCATION: text}))


@pytest.mark.parametrize("percent", range(1, 100))
def test_a_percentage_that_was_rounded_up_to_bytes_is_none_the_more(percent: int) -> None:
    """The rest of the card is promised to others, and the kubelet must have it for them."""
    memory = 85_198_045_183
    node = Node(wire.Card("GPU-0", "gpu", 0, memory=memory))
    node.pods = [with_share("p", percent, -(-memory * percent // 100))]

    assert healthy(node) == [100 - percent]


def test_compute_and_memory_are_added_up_apart() -> None:
    """As the scheduler does: two pods may each have much of one and little of the other."""
    node = Node(wire.Card("GPU-0", "gpu", 0, memory=101))
    node.pods = [with_share("a", 10, 51), with_share("b", 50, 11)]

    assert healthy(node) == [40]


def test_replicas_by_a_name_that_the_kubelet_does_not_count_take_no_more_than_they_are() -> None:
    """Where nvidia.com/gpu asks for replicas, those by their own name are given by another way."""
    node = Node()
    node.answers.state = NodeState((SPLIT,), gpu_stands_for=SHARED)
    node.pods = [pod("p", {SHARED: 1}, promised=[["GPU-s"]], replicas=1)]

    assert healthy(node, GPU) == [1]


def test_the_cache_of_pods_keeps_init_containers_apart() -> None:
    """They run before the others, so what they hold is not added."""
    known = pod_cache.PodCache(lambda _: None)
    known.upserted(pod("p", {CORE: 60}, {}, {CORE: 60}, promised=[["GPU-0"], [], ["GPU-0"]], core=60, init=1))
    node = Node()
    node.pods = list(known.pods())

    assert healthy(node)[0] == 40


def test_more_than_a_card_leaves_nothing() -> None:
    """Such as where its memory was asked for twice, by records that nobody should have written."""
    node = Node()
    node.pods = [pod(name, {CORE: 80}, promised=[["GPU-0"]], core=80) for name in "ab"]

    assert healthy(node)[0] == 0


def test_cards_that_stand_for_something_else_have_no_parts() -> None:
    """Shared ones and instances are given by what they are."""
    node = Node()
    node.answers.state = NodeState((wire.Card("GPU-s", "gpu", 0, sharing=wire.Sharing("mps", 4)),))

    assert PARTS not in node.answers.offers()


# ---------------------------------------------------------------- which devices a container gets


async def test_a_container_gets_the_part_of_its_bind() -> None:
    """And two cards for 200."""
    node = Node()
    node.pods = [
        pod("p", {PARTS: 30}, promised=[["GPU-2"]], core=30),
        pod("other", {PARTS: 70}, promised=[["GPU-2"]], core=70),
    ]
    node.admits(listed("p", ()), given("other", percents(2, 0, 70)))
    assert await preferred(node, 30) == {"GPU-2": 30}
    response = await node.answers.allocated(PARTS, percents(2, 70))
    assert response.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-2"}

    node.pods = [pod("two", {PARTS: 200}, promised=[["GPU-3", "GPU-1"]])]
    node.admits(listed("two", ()))
    assert await preferred(node, 200) == {"GPU-3": 100, "GPU-1": 100}


async def test_ten_cards_are_asked_for_by_a_thousand() -> None:
    """Which the API server writes as 1k."""
    cards = [wire.Card(f"GPU-{minor}", "gpu", minor) for minor in range(10)]
    node = Node(*cards)
    container = watched_pod.Container("c0", watched_pod.Resources(limits={PARTS: "1k"}))
    meta = wire.Meta(name="p", namespace="ml", uid="p")
    node.pods = [watched_pod.Pod(meta, watched_pod.PodSpec("n1", (container,)))]
    node.admits(listed("p", ()))

    assert await preferred(node, 1000) == {card.uuid: 100 for card in cards}


async def test_other_cards_than_promised_are_never_given() -> None:
    """A part is no part of two cards."""
    node = Node()
    node.pods = [pod("p", {PARTS: 30}, promised=[["GPU-2"]], core=30)]
    node.admits(listed("p", ()))

    with pytest.raises(AllocationRefused, match="the kubelet chose GPU-2, GPU-1 in place of GPU-2"):
        await node.answers.allocated(PARTS, (*percents(2, 0, 20), *percents(1, 0, 10)))


async def test_a_container_that_gets_percents_of_an_init_container_gets_its_card() -> None:
    """The kubelet hands them on in no order."""
    node = Node()
    promised = [["GPU-0", "GPU-1"], ["GPU-1"]]
    node.pods = [pod("p", {PARTS: 200}, {PARTS: 100}, promised=promised, init=1)]
    node.admits(listed("p", (), ()))

    await node.answers.allocated(PARTS, (*percents(0), *percents(1)))
    found = await node.answers.allocated(PARTS, (*percents(0, 50), *percents(1, 50)))

    assert found.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}


async def test_pods_of_others_get_parts_of_the_fullest_card_that_has_room() -> None:
    """So that whole cards stay whole."""
    node = Node()
    node.pods = [
        pod("stock", {PARTS: 40}),
        pod("given", {PARTS: 50}),
        pod("bound", {CORE: 70}, promised=[["GPU-2"]], core=70),
        pod("whole", {GPU: 1}, promised=[["GPU-3"]]),
    ]
    node.admits(listed("stock", ()), given("given", percents(1, 0, 50)))

    assert await preferred(node, 40) == {"GPU-1": 40}
    assert (await node.answers.allocated(PARTS, percents(1, 50, 90))).env


async def test_a_bind_that_the_kubelet_has_not_carried_out_counts() -> None:
    """Its pod is listed by no kubelet yet."""
    node = Node(*CARDS[:1])
    node.pods = [pod("stock", {PARTS: 40}), pod("bound", {PARTS: 70}, promised=[["GPU-0"]], core=70)]
    node.admits(listed("stock", ()))

    assert await preferred(node, 40) == {}
    with pytest.raises(AllocationRefused, match="40 % of GPU-0 were asked for, and 30 % are free"):
        await node.answers.allocated(PARTS, percents(0, 0, 40))


@pytest.mark.parametrize(("first", "then"), [(GPU, PARTS), (PARTS, GPU)])
async def test_a_card_of_an_init_container_is_nobody_elses(first: str, then: str) -> None:
    """The kubelet lists no init containers, but the agent gave the card itself."""
    node = Node(*CARDS[:1])
    amounts, ids = {GPU: 1, PARTS: 50}, {GPU: ("GPU-0",), PARTS: percents(0, 50)}
    node.pods = [pod("stock", {first: amounts[first]}, {}, init=1), pod("late", {then: amounts[then]})]
    node.admits(listed("stock", ()))
    await node.answers.allocated(first, ids[first])
    node.admits(listed("stock", ()), listed("late", ()))

    assert healthy(node, then) == [0]
    with pytest.raises(AllocationRefused, match="GPU-0, which is reserved for another pod"):
        await node.answers.allocated(then, ids[then])


@pytest.mark.parametrize("is_gone", [False, True])
async def test_what_a_pod_had_that_has_ended_is_free_at_once(*, is_gone: bool) -> None:
    """Though the kubelet was not asked since."""
    node = Node(*CARDS[:1])
    node.pods = [pod("old", {GPU: 1})]
    node.answers.listed = (listed("old", ["GPU-0"]),)
    node.answers.note_pods()
    assert healthy(node) == [0]

    ended = watched_pod.Pod(node.pods[0].metadata, node.pods[0].spec, watched_pod.PodStatus("Succeeded"))
    node.pods = [] if is_gone else [ended]
    node.answers.note_pods()

    assert healthy(node) == [100]


async def test_pods_of_others_get_whole_cards_by_hundreds() -> None:
    """Of those of which nobody has a part."""
    node = Node()
    node.pods = [pod("stock", {PARTS: 200}), pod("part", {CORE: 10}, promised=[["GPU-1"]], core=10)]
    node.admits(listed("stock", ()))

    assert await preferred(node, 200) == {"GPU-2": 100, "GPU-3": 100}
    for amount in (150, 400):
        node.pods[0] = pod("stock", {PARTS: amount})
        assert await preferred(node, amount) == {}


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        pytest.param(percents(0, 0, 60), "60 % of GPU-0 were asked for, and 50 %", id="too much"),
        pytest.param(
            (*percents(1, 0, 5), *percents(2, 0, 5)), "parts of 2 cards: GPU-1, GPU-2", id="of two cards"
        ),
        pytest.param(
            (*percents(1), *percents(2, 50)),
            "150 of berth.dev/gpu is neither a part of a card nor a number of cards: ask for 100 or 200",
            id="one card and a half",
        ),
        pytest.param(percents(3, 99), "GPU-3, which is reserved for another pod", id="of a card given whole"),
        pytest.param(percents(9, 99), "1 % of GPU-9 were asked for, and 0 %", id="of a card that is gone"),
    ],
)
async def test_what_is_not_free_is_refused(chosen: tuple[str, ...], why: str) -> None:
    """Where the kubelet chooses by itself, as the pod was not found out."""
    node = Node()
    node.pods = [
        pod("part", {CORE: 50}, promised=[["GPU-0"]], core=50),
        pod("whole", {GPU: 1}, promised=[["GPU-3"]]),
    ]

    with pytest.raises(AllocationRefused, match=why):
        await node.answers.allocated(PARTS, chosen)


async def test_a_record_that_cannot_be_read_keeps_parts_back() -> None:
    """As it does whole cards."""
    node = Node()
    node.pods = [pod("p", {PARTS: 10}, promised=[["GPU-0"]], core=10)]
    node.pods[0].metadata.annotations[names.ALLOCATION] = "{"

    assert healthy(node) == [0, 0, 0, 0]
    with pytest.raises(AllocationRefused, match="GPU-1, which is reserved for another pod"):
        await node.answers.allocated(PARTS, percents(1, 99))


def test_the_part_of_a_pod_stays_on_its_card() -> None:
    """What an init container had must be among it; and where that does not suffice, nothing is preferred."""
    ids, left = [*offers.percents("a"), *offers.percents("b")], {"a": 100, "b": 50}

    def best(size: int, *must: str) -> tuple[str, ...]:
        return part_choice.best_part(ids, must, size, left, card_of=uuid_of)

    assert best(2, "a::7") == ("a::7", "a::0")
    assert {uuid_of(one) for one in best(50)} == {"b"}
    assert best(3, "a::7", "b::7") == ()
    assert best(60, "b::7") == ()
