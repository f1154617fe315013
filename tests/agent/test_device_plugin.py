"""What the device plugin offers and answers, beside a kubelet that is played (N1 to N4, N13, N19 to N23)."""

import asyncio
from pathlib import Path

import pytest

from agent.plugin_node import CARDS, CUT, GPU, INSTANCE, MEANS, MIG, SHARED, SPLIT, Node, listed, pod
from berth_agent.cdi import specs
from berth_agent.delivery.containers import GivenCard
from berth_agent.device_plugin import answers, offers, responses
from berth_agent.device_plugin.answers import NodeState
from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import plugin_messages, podresources
from berth_agent.kubelet.plugin_messages import ContainerResponse, OfferedDevice, PluginMount, Preference
from berth_agent.kubelet.plugin_server import AllocationRefused
from berth_agent.plugin_choices import PluginChoices
from berth_crds import names, wire
from support.podresources import field

FREE = tuple(card.uuid for card in CARDS)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "FOUND_SECONDS", 0.15)
    monkeypatch.setattr(answers, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(answers, "SETTLE_SECONDS", 0.05)


# ---------------------------------------------------------------- what the kubelet counts


def test_each_card_is_counted() -> None:
    """Whole cards, which are counted in percent, too; instances by their profile, and replicas."""
    found = offers.offers(
        offers.countable((*CARDS[:2], CUT, SPLIT, wire.Card("nic", "rdma", 0))), {"GPU-1", "GPU-m"}, {}
    )

    assert found == {
        GPU: (OfferedDevice("GPU-0", numa_node=0), OfferedDevice("GPU-1", is_healthy=False, numa_node=0)),
        MIG: (OfferedDevice("MIG-1", is_healthy=False),),
        SHARED: (OfferedDevice("GPU-s::0"), OfferedDevice("GPU-s::1")),
        names.GPU: (
            *(OfferedDevice(f"GPU-0::{number}") for number in range(100)),
            *(OfferedDevice(f"GPU-1::{number}", is_healthy=False) for number in range(100)),
        ),
    }


def test_what_is_held_by_another_name_is_no_device() -> None:
    """A share of Berth's, and what the kubelet gave by another resource; by its own name it stays one."""
    node = Node()
    node.pods = [pod("share", {}, promised=[["GPU-0"]]), pod("whole", {GPU: 1}, promised=[["GPU-1"]])]
    node.answers.listed = (listed("other", ["GPU-2"]), listed("odd", ["GPU-3"], resource=SHARED))
    node.answers.state = NodeState((*CARDS, SPLIT))

    healthy = {device.id for device in node.answers.offers()[GPU] if device.is_healthy}

    assert healthy == {"GPU-1", "GPU-2"}


# ---------------------------------------------------------------- which devices a container gets


async def test_a_container_gets_what_its_bind_promised() -> None:
    """Each of a pod in turn, though others would be as good; a pod that waits for nothing is not meant."""
    node = Node()
    node.pods = [
        pod("p", {GPU: 2}, {}, {GPU: 1}, promised=[["GPU-3", "GPU-1"], [], ["GPU-2"]]),
        pod("idle", {}),
        pod("has", {GPU: 1}, promised=[["GPU-0"]]),
    ]
    node.admits(listed("p", (), (), ()), listed("idle", ()), listed("has", ["GPU-0"]))

    assert await node.preferred(*FREE, size=2) == ["GPU-3", "GPU-1"]
    await node.answers.allocated(GPU, ("GPU-1", "GPU-3"))
    assert await node.preferred("GPU-0", "GPU-2", size=1) == ["GPU-2"]
    await node.answers.allocated(GPU, ("GPU-2",))
    assert await node.preferred("GPU-0", size=1) == []


async def test_a_container_sees_its_cards_in_order() -> None:
    """In that of the annotation, and those of a stock pod by their minors; the kubelet names them in none."""
    node = Node()
    node.pods = [pod("p", {GPU: 2}, promised=[["GPU-3", "GPU-1"]])]
    node.admits(listed("p", ()))
    ours = await node.answers.allocated(GPU, ("GPU-1", "GPU-3"))
    node.pods = [pod("stock", {GPU: 2})]
    node.admits(listed("stock", ()))
    theirs = await node.answers.allocated(GPU, ("GPU-2", "GPU-0"))

    assert ours.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-3,GPU-1"}
    assert theirs.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-2"}


async def test_two_replicas_of_one_card_are_two_of_its_devices() -> None:
    """The bind names a card once, however many of its replicas a container gets."""
    node = Node(SPLIT)
    node.pods = [pod("p", {SHARED: 2}, promised=[["GPU-s"]])]
    node.admits(listed("p", ()))

    assert await node.preferred("GPU-s::0", "GPU-s::1", size=2, resource=SHARED) == ["GPU-s::0", "GPU-s::1"]


async def test_each_resource_of_a_container_is_asked_for_by_itself() -> None:
    """One that was given does not stand for the other."""
    node = Node(*CARDS, CUT)
    node.pods = [pod("p", {GPU: 1, MIG: 1}, promised=[["GPU-2", "MIG-1"]])]
    node.admits(listed("p", ()))

    await node.answers.allocated(GPU, ("GPU-2",))
    assert await node.preferred("MIG-1", size=1, resource=MIG) == ["MIG-1"]


async def test_a_pod_that_runs_is_not_meant() -> None:
    """Its init container is listed by no kubelet, and an agent that is new remembers nothing of it."""
    node = Node()
    running = pod("old", {GPU: 1}, {GPU: 1}, promised=[["GPU-0"], ["GPU-0"]])
    started = watched_pod.ContainerStatus("c1", "containerd://1")
    node.pods = [
        watched_pod.Pod(running.metadata, running.spec, watched_pod.PodStatus("Running", (started,))),
        pod("half", {GPU: 1}, {GPU: 1}, promised=[["GPU-1"], ["GPU-1"]]),
        pod("p", {GPU: 1}, promised=[["GPU-3"]]),
    ]
    node.admits(listed("old", (), ["GPU-0"]), listed("half", (), ["GPU-1"]), listed("p", ()))

    assert await node.preferred("GPU-2", "GPU-3", size=1) == ["GPU-3"]


async def test_containers_that_get_cards_of_an_init_container_get_the_right_ones() -> None:
    """The kubelet hands them on in no order, and does not ask which are preferred."""
    node = Node()
    node.pods = [pod("p", {GPU: 2}, {GPU: 1}, {GPU: 1}, promised=[["GPU-0", "GPU-1"], ["GPU-0"], ["GPU-1"]])]
    node.admits(listed("p", (), (), ()))

    await node.answers.allocated(GPU, ("GPU-0", "GPU-1"))
    found = [(await node.answers.allocated(GPU, (uuid,))).env for uuid in ("GPU-1", "GPU-0")]

    assert found == [{"NVIDIA_VISIBLE_DEVICES": "GPU-0"}, {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}]


async def test_while_promises_are_not_known_nothing_else_is_given() -> None:
    """A card that looks free may be somebody's; who was promised his gets them."""
    node = Node()
    node.known.are_current = False
    node.pods = [pod("p", {GPU: 1}, promised=[["GPU-0"]])]
    node.admits(listed("p", ()))
    assert (await node.answers.allocated(GPU, ("GPU-0",))).env == {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}

    node.pods = [pod("stock", {GPU: 1})]
    node.admits(listed("stock", ()))
    with pytest.raises(AllocationRefused, match="it is not known yet which cards are reserved"):
        await node.answers.allocated(GPU, ("GPU-1",))


def test_a_record_that_cannot_be_read_keeps_every_card_back() -> None:
    """As the scheduler does; and what the kubelet gave by another name counts, whatever that is."""
    node = Node()
    spoiled = pod("p", {GPU: 1}, promised=[["GPU-0"]])
    spoiled.metadata.annotations[names.ALLOCATION] = "{"
    node.pods = [spoiled]
    assert not any(device.is_healthy for device in node.answers.offers()[GPU])

    node.pods = []
    node.answers.listed = (listed("other", ["GPU-0"], resource="example.com/gpu"),)
    assert [device.is_healthy for device in node.answers.offers()[GPU]] == [False, True, True, True]


async def test_of_a_shared_card_a_free_replica_is_given() -> None:
    """And of MIG the instance itself."""
    node = Node(*CARDS, CUT, SPLIT)
    node.pods = [pod("p", {SHARED: 1, MIG: 1}, promised=[["GPU-s", "MIG-1"]])]
    node.admits(listed("p", ()))

    assert await node.preferred("GPU-s::1", size=1, resource=SHARED) == ["GPU-s::1"]
    assert await node.preferred("MIG-1", size=1, resource=MIG) == ["MIG-1"]


async def test_a_container_sees_what_it_gets_by_each_resource() -> None:
    """The kubelet asks about each apart, and keeps one of the variables that it is told."""
    node = Node(*CARDS, CUT, SPLIT)
    node.pods = [
        pod("p", {MIG: 1, SHARED: 1}, promised=[["GPU-s", "MIG-1"]]),
        pod("q", {GPU: 1}, promised=[["GPU-0"]]),
    ]
    node.admits(listed("p", ()))

    first = await node.answers.allocated(SHARED, ("GPU-s::0",))
    second = await node.answers.allocated(MIG, ("MIG-1",))

    assert first.env == second.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-s,MIG-1"}
    node.admits(listed("q", ()))
    assert (await node.answers.allocated(GPU, ("GPU-1",))).env == {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}


async def test_pods_of_others_get_what_is_promised_to_nobody() -> None:
    """The best set of that; and none if there is too little."""
    node = Node()
    node.pods = [pod("stock", {GPU: 2}), pod("ours", {GPU: 1}, promised=[["GPU-0"]])]
    node.admits(listed("stock", ()))

    assert await node.preferred(*FREE, size=2) == ["GPU-2", "GPU-3"]
    assert await node.preferred("GPU-0", "GPU-1", size=2) == []
    assert await node.preferred("GPU-1", "GPU-2", "GPU-3", size=2, must=["GPU-1"]) == ["GPU-1", "GPU-2"]


async def test_a_pod_that_is_gone_keeps_no_card() -> None:
    """Though it was listed the last time that the kubelet was asked."""
    node = Node()
    node.pods = [pod("p", {GPU: 1}, promised=[["GPU-0"]])]
    node.answers.listed = (listed("old", ["GPU-0"]),)
    node.admits(listed("p", ()))

    assert (await node.answers.allocated(GPU, ("GPU-0",))).env == {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}


async def test_a_pod_of_others_waits_for_binds_under_way() -> None:
    """The scheduler may have chosen a card before it knew of the pod, and the bind comes a moment later."""
    node = Node()
    node.pods = [pod("stock", {GPU: 1})]
    node.answers.note_pods()
    node.admits(listed("stock", ()))
    bound = pod("share", {}, promised=[["GPU-0"]])
    asyncio.get_running_loop().call_later(0.03, node.pods.append, bound)

    assert await node.preferred(*FREE, size=1) == ["GPU-1"]


@pytest.mark.parametrize(
    "listed_now",
    [
        pytest.param((), id="no pod is listed"),
        pytest.param((listed("p", ()), listed("q", ())), id="two could be meant"),
        pytest.param((listed("stranger", ()),), id="one that is not known yet"),
    ],
)
async def test_where_the_pod_is_not_found_out_the_kubelet_chooses(
    listed_now: tuple[podresources.ListedPod, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """It gets that, unless a card was promised to somebody."""
    node = Node()
    node.pods = [pod("p", {GPU: 1}, promised=[["GPU-0"]]), pod("q", {GPU: 1})]
    node.admits(*listed_now)

    assert await node.preferred(*FREE, size=1) == []
    assert (await node.answers.allocated(GPU, ("GPU-1",))).env == {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}
    with pytest.raises(AllocationRefused, match="GPU-0, which is reserved for another pod"):
        await node.answers.allocated(GPU, ("GPU-0",))
    assert "could not be found" in caplog.text


async def test_a_pod_that_is_known_a_moment_later_is_found() -> None:
    """The kubelet may hear of a pod before we do."""
    node = Node()
    node.admits(listed("p", ()))
    asyncio.get_running_loop().call_later(0.05, node.pods.append, pod("p", {GPU: 1}, promised=[["GPU-3"]]))

    assert await node.preferred(*FREE, size=1) == ["GPU-3"]


async def test_another_card_than_promised_is_given_only_if_it_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A swap is told; a card of another pod is refused."""
    node = Node()
    node.pods = [pod("p", {GPU: 1}, promised=[["GPU-0"]]), pod("q", {}, promised=[["GPU-1"]])]
    node.admits(listed("p", ()))

    with pytest.raises(AllocationRefused, match="GPU-1, which is reserved for another pod"):
        await node.answers.allocated(GPU, ("GPU-1",))
    given = await node.answers.allocated(GPU, ("GPU-2",))
    assert given.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-2"}
    assert "gives ['GPU-2'] in place of ['GPU-0']" in caplog.text


async def test_what_is_not_there_is_refused() -> None:
    """A card that is gone, or, where the kubelet shall open it, one without a device node."""
    node = Node(choices=PluginChoices(pass_device_specs=True))
    node.pods = [pod("p", {GPU: 1})]
    node.admits(listed("p", ()))

    with pytest.raises(AllocationRefused, match="the node has no card GPU-9 now"):
        await node.answers.allocated(GPU, ("GPU-9",))
    with pytest.raises(AllocationRefused, match="there is no device node /dev/nvidia3"):
        await node.answers.allocated(GPU, ("GPU-3",))


async def test_pods_that_ended_claim_nothing() -> None:
    """And what was allocated to one that is gone is forgotten."""
    node = Node()
    ended = pod("old", {GPU: 1}, promised=[["GPU-0"]])
    node.pods = [
        watched_pod.Pod(ended.metadata, ended.spec, watched_pod.PodStatus("Succeeded")),
        pod("p", {GPU: 1}, promised=[["GPU-0"]]),
    ]
    node.admits(listed("p", ()))

    assert await node.preferred(*FREE, size=1) == ["GPU-0"]
    await node.answers.allocated(GPU, ("GPU-0",))
    node.pods = [pod("p", {GPU: 1}, promised=[["GPU-1"]], uid="another")]
    node.answers.note_pods()
    assert await node.preferred(*FREE, size=1) == ["GPU-1"]


# ---------------------------------------------------------------- how a container learns of them

GIVEN = [GivenCard(CARDS[1]), GivenCard(CUT, INSTANCE)]
FOLDER = "/var/run/nvidia-container-devices"
CDI = ("berth.dev/gpu=GPU-1", "berth.dev/gpu=MIG-1")


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        pytest.param(
            PluginChoices(), ContainerResponse({"NVIDIA_VISIBLE_DEVICES": "GPU-1,MIG-1"}), id="by environment"
        ),
        pytest.param(
            PluginChoices(id_strategy="index"),
            ContainerResponse({"NVIDIA_VISIBLE_DEVICES": "6,9:0"}),
            id="by index",
        ),
        pytest.param(
            PluginChoices(("envvar", "volume-mounts")),
            ContainerResponse(
                {"NVIDIA_VISIBLE_DEVICES": FOLDER},
                (PluginMount(f"{FOLDER}/GPU-1", "/dev/null"), PluginMount(f"{FOLDER}/MIG-1", "/dev/null")),
            ),
            id="by mounts, which win over the environment",
        ),
        pytest.param(PluginChoices(("cdi-cri",)), ContainerResponse(cdi_devices=CDI), id="by CDI"),
        pytest.param(
            PluginChoices(("cdi-annotations",), pass_device_specs=True),
            ContainerResponse(annotations={"cdi.k8s.io/berth_1": ",".join(CDI)}),
            id="by annotation, where nothing else is given",
        ),
        pytest.param(
            PluginChoices(("envvar", "cdi-cri"), pass_device_specs=True),
            ContainerResponse(
                {"NVIDIA_VISIBLE_DEVICES": "GPU-1,MIG-1"},
                device_nodes=tuple(
                    (path, f"/host{path}") for path in ("/dev/nvidia1", "/dev/nvidia4", "/dev/nvidiactl")
                ),
                cdi_devices=CDI,
            ),
            id="with device nodes",
        ),
    ],
)
def test_each_strategy_of_nvidias_plugin(choices: PluginChoices, expected: ContainerResponse) -> None:
    """As that plugin answers."""
    found = responses.response(GIVEN, choices, MEANS, host_dev=Path("/host/dev"), unique=lambda: 1)

    assert found == expected
    assert specs.KIND == "berth.dev/gpu"


def test_a_card_without_an_index_keeps_its_uuid() -> None:
    """Simulated ones have none."""
    found = responses.response([GivenCard(SPLIT)], PluginChoices(id_strategy="index"), MEANS)

    assert found.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-s"}


def test_messages_are_those_of_the_api() -> None:
    """Written by hand for a second opinion."""
    response = ContainerResponse(
        {"A": "b"}, (PluginMount("/in", "/out"),), (("/dev/x", "/host/x"),), {"k": "v"}, ("kind=name",)
    )
    node = field(1, "/dev/x") + field(2, "/host/x") + field(3, "rw")

    assert plugin_messages.allocated([response]) == field(
        1,
        field(1, field(1, "A") + field(2, "b"))
        + field(2, field(1, "/in") + field(2, "/out") + b"\x18\x01")
        + field(3, node)
        + field(4, field(1, "k") + field(2, "v"))
        + field(5, field(1, "kind=name")),
    )
    assert plugin_messages.listed([OfferedDevice("a", numa_node=0), OfferedDevice("b", False, 3)]) == field(
        1, field(1, "a") + field(2, "Healthy") + field(3, field(1, ""))
    ) + field(1, field(1, "b") + field(2, "Unhealthy") + field(3, field(1, b"\x08\x03")))
    asked = field(1, field(1, "a") + field(1, "b") + field(2, "a") + b"\x18\x02")
    assert plugin_messages.preferences(asked) == [Preference(("a", "b"), ("a",), 2)]
    assert plugin_messages.preferred([["a"], []]) == field(1, field(1, "a")) + field(1, "")
    assert plugin_messages.allocations(field(1, field(1, "a") + field(1, "b"))) == [("a", "b")]
