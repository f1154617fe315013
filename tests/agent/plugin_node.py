"""A node with cards, pods and a kubelet that is played, for tests of the device plugin."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from berth_agent.delivery.containers import DeviceNode, GivenCard, Undeliverable
from berth_agent.delivery.device_nodes import DeviceNodes
from berth_agent.delivery.driver_files import DriverFiles
from berth_agent.delivery.means import DirectMeans
from berth_agent.device_plugin.answers import AnswerRules, NodeState, PluginAnswers
from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import podresources
from berth_agent.kubelet.plugin_messages import Preference
from berth_agent.plugin_choices import PluginChoices
from berth_crds import allocation, names, wire

GPU, SHARED = names.NVIDIA_GPU, names.NVIDIA_GPU_SHARED
MIG = f"{names.NVIDIA_MIG_PREFIX}1g.10gb.me"
INSTANCE = wire.MigInstance("MIG-1", "1g.10gb+me", 10, gi=9, ci=0)
CARDS = tuple(
    wire.Card(f"GPU-{minor}", "gpu", minor, index=7 - minor, topology=wire.Topology(numa_node=minor // 2))
    for minor in range(4)
)
CUT = wire.Card("GPU-m", "gpu", 4, index=9, mig=wire.Mig(enabled=True, instances=(INSTANCE,)))
SPLIT = wire.Card("GPU-s", "gpu", 5, sharing=wire.Sharing("time-slicing", 2))


class Nodes(DeviceNodes):
    """Device nodes by minor; card 3 has none."""

    def __init__(self) -> None:
        """There is nothing to look at."""

    def of_driver(self) -> Any:
        """Yield the one that controls all."""
        yield DeviceNode("/dev/nvidiactl", 195, 255)

    def of_card(self, given: GivenCard) -> Any:
        """Yield that of the card."""
        if given.card.minor == 3:
            raise Undeliverable("there is no device node /dev/nvidia3")
        yield DeviceNode(f"/dev/nvidia{given.card.minor}", 195, given.card.minor)


MEANS = DirectMeans(Nodes(), DriverFiles(Path("/nowhere"), Path("/")))


def pod(
    name: str,
    *amounts: dict[str, int],
    promised: Sequence[Sequence[str]] = (),
    uid: str = "",
    replicas: int = 0,
    core: int = 100,
    init: int = 0,
) -> watched_pod.Pod:
    """Return a pod whose containers c0, c1, ... ask for these amounts and were promised these cards.

    The first `init` of them are init containers.
    """
    minors = {card.uuid: card.minor for card in (*CARDS, SPLIT)} | {"MIG-1": 4}
    shares = {
        f"c{number}": {
            "gpu": [allocation.Share(uuid, minors[uuid], core, 7, replicas=replicas) for uuid in uuids]
        }
        for number, uuids in enumerate(promised)
        if uuids
    }
    record = allocation.encode(allocation.of("n1", shares))
    text = {names.ALLOCATION: record} if shares else {}
    containers = tuple(
        watched_pod.Container(
            f"c{number}", watched_pod.Resources(limits={key: str(count) for key, count in each.items()})
        )
        for number, each in enumerate(amounts)
    )
    meta = wire.Meta(name=name, namespace="ml", uid=uid or name, annotations=text)
    return watched_pod.Pod(meta, watched_pod.PodSpec("n1", containers[init:], containers[:init]))


def _texts(amounts: dict[str, int]) -> dict[str, Any]:
    return {key: str(count) for key, count in amounts.items()}


def listed(name: str, *given: Sequence[str], resource: str = GPU) -> podresources.ListedPod:
    """Return a pod as the kubelet lists it, whose containers were given these devices."""
    return podresources.ListedPod(
        "ml",
        name,
        tuple(
            podresources.ListedContainer(
                f"c{number}", (podresources.ListedDevices(resource, tuple(ids)),) if ids else ()
            )
            for number, ids in enumerate(given)
        ),
    )


class Mps:
    """The daemon of MPS, which serves, or does not."""

    root = Path("/run/mps")

    def __init__(self, failure: str = "") -> None:
        self.failure = failure


class Kubelet:
    """Lists pods as a test says."""

    def __init__(self) -> None:
        self.pods_listed: tuple[podresources.ListedPod, ...] = ()

    async def pods(self) -> tuple[podresources.ListedPod, ...]:
        """Return them."""
        return self.pods_listed

    async def close(self) -> None:
        """There is nothing to close."""


class Pods:
    """The pods of a node, as far as they are known."""

    def __init__(self) -> None:
        self.all: list[watched_pod.Pod] = []
        self.are_current = True

    def pods(self) -> list[watched_pod.Pod]:
        """Return them."""
        return self.all


class Node:
    """A node with its pods and the answers for its kubelet."""

    def __init__(self, *cards: wire.Card, choices: PluginChoices = PluginChoices()) -> None:  # noqa: B008
        self.known = Pods()
        self.kubelet = Kubelet()
        self.answers = PluginAnswers("n1", AnswerRules(choices, MEANS), self.kubelet, self.known)
        self.answers.state = NodeState(cards or CARDS)

    @property
    def pods(self) -> list[watched_pod.Pod]:
        """The pods that are bound to it."""
        return self.known.all

    @pods.setter
    def pods(self, pods: list[watched_pod.Pod]) -> None:
        self.known.all = pods

    def admits(self, *listed_now: podresources.ListedPod) -> None:
        """Have the kubelet list these pods, as it does while it admits one of them."""
        self.kubelet.pods_listed = listed_now

    async def preferred(
        self, *available: str, size: int, resource: str = GPU, must: Sequence[str] = ()
    ) -> list[str]:
        """Return what is preferred of these devices."""
        return list(await self.answers.preferred(resource, Preference(available, tuple(must), size)))
