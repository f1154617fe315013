"""A waiting pod shows why, in words that autoscalers and people know, and never after it was bound."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from berth_crds.client import resources
from berth_operator.kube import pod_status
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import raw
from kube import eventually, servers
from kube.conftest import RecordingApi
from support import builders, manifests, pods, timeless


class PodOnServer:
    """A pod that waits on the real server, and the writer of its status, as the feeds would tell it."""

    def __init__(self, session: RecordingApi, client: pods.PodClient) -> None:
        self.client = client
        self.writer = servers.StatusWriter(session)
        self.session = session
        self.pod_info: queued_pods.PodInfo

    async def see(self) -> None:
        """Have the writer see the pod as it is now."""
        self.writer.pod_waiting(await self.client.read("p"))

    async def transition(self) -> str:
        """Read when the condition began to hold."""
        pod = await self.client.admin.get(resources.PODS, "p", into=dict, namespace=self.client.namespace)
        found = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
        return str(found[0]["lastTransitionTime"])

    @property
    def writes(self) -> int:
        """Count what was sent about the pod's status."""
        path = resources.PODS.path("p", namespace=self.client.namespace, sub="status")
        return self.session.sent.count(("PATCH", path))

    async def until_written(self, count: int) -> raw.PodCondition:
        """Wait for a write, and read the condition."""
        await eventually.holds(lambda: self.writes >= count and not self.writer._due, f"write {count}")
        return pods.scheduled(await self.client.read("p"))


@pytest.fixture
async def pod(
    session: RecordingApi, pod_client: pods.PodClient, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PodOnServer]:
    """Lend a pod that was seen by a writer that runs."""
    monkeypatch.setattr(pod_status, "RETRY_SECONDS", 0.05)
    lent = PodOnServer(session, pod_client)
    lent.pod_info = await pod_client.create(manifests.pod("p"))
    await lent.see()
    async with timeless.beside(lent.writer.run()):
        yield lent


# ---------------------------------------------------------------- conditions


async def test_a_refusal_is_a_condition_and_an_event(pod: PodOnServer) -> None:
    """The condition has the word that autoscalers wait for, and a sentence; the event has the same."""
    pod.writer.unschedulable(pod.pod_info, "all full")

    shown = await pod.until_written(1)

    assert (shown.status, shown.reason, shown.message) == ("False", "Unschedulable", "all full")
    assert pod.writer.events.recorded == [("FailedScheduling", "all full")]


async def test_what_no_further_node_could_cure_has_words_of_its_own(pod: PodOnServer) -> None:
    """For Unschedulable an autoscaler would add nodes for ever: a fault and a failed bind are others."""
    pod.writer.unschedulable(pod.pod_info, "asks for 150", fault=Reason.INVALID_REQUEST)
    fault = await pod.until_written(1)
    await pod.see()

    pod.writer.not_bound(pod.pod_info, "The bind failed: a webhook says no")
    failure = await pod.until_written(2)

    assert (fault.status, fault.reason) == ("False", "InvalidRequest")
    assert (failure.status, failure.reason) == ("False", "SchedulerError")
    assert failure.message == "The bind failed: a webhook says no"
    assert pod.writer.events.recorded[-1] == ("FailedBinding", "The bind failed: a webhook says no")
    assert pod.writer.shown_message(pod.pod_info.uid) == ""


async def test_a_change_is_written(pod: PodOnServer) -> None:
    """Another sentence is another write; the moment of the transition stays, as the truth has not changed."""
    pod.writer.unschedulable(pod.pod_info, "all full")
    await pod.until_written(1)
    before = await pod.transition()
    pod.writer.time.advance(100)
    await pod.see()

    pod.writer.unschedulable(pod.pod_info, "all unhealthy")
    shown = await pod.until_written(2)

    assert shown.message == "all unhealthy"
    assert [before, await pod.transition()] == ["1970-01-01T00:16:40Z"] * 2
    assert len(pod.writer.events.recorded) == 2


async def test_a_bound_pod_is_never_written_over(pod: PodOnServer) -> None:
    """A verdict on a revision that is no more is refused by the server, and dropped once that is known."""
    await pod.client.bind("p", "somewhere")

    pod.writer.unschedulable(pod.pod_info, "all full")
    await eventually.holds(lambda: pod.writes >= 2, "a second try")
    pod.writer.pod_left(pod.pod_info.uid)
    tries = pod.writes
    await asyncio.sleep(0.2)

    assert pods.scheduled(await pod.client.read("p")).status == "True"
    assert pod.writes <= tries + 1


# ---------------------------------------------------------------- where a pod went

PARTS: dict[str, tuple[tuple[decisions.Share, ...], str]] = {
    "nothing": ((), ""),
    "a whole card": ((decisions.Share("GPU-0", 0, 100, 8 << 30),), " with card 0"),
    "no more than it was given": (
        (decisions.Share("GPU-0", 0, 0, 8000 << 20), decisions.Share("GPU-1", 1, 0, 2000 << 20)),
        " with 7.8 GiB of card 0 and 1.9 GiB of card 1",
    ),
    "a part": ((decisions.Share("GPU-0", 0, 40, 3 << 30),), " with 40 % of card 0"),
    "compute and more memory": (
        (decisions.Share("GPU-0", 0, 10, 60 << 30, card_memory=80 << 30),),
        " with 10 % and 60 GiB of card 0",
    ),
    "compute and all memory": (
        (decisions.Share("GPU-0", 0, 30, 80 << 30, card_memory=80 << 30),),
        " with 30 % and 80 GiB of card 0",
    ),
    "all compute and half the memory": (
        (decisions.Share("GPU-0", 0, 100, 40 << 30, card_memory=80 << 30),),
        " with 100 % and 40 GiB of card 0",
    ),
    "one part of both": (
        (decisions.Share("GPU-0", 0, 33, -(-(80 << 30) * 33 // 100), card_memory=80 << 30),),
        " with 33 % of card 0",
    ),
    "memory alone": ((decisions.Share("GPU-0", 0, 0, 3 << 29),), " with 1.5 GiB of card 0"),
    "an instance": (
        (decisions.Share("MIG-0", 2, 14, 5 << 30, profile="1g.5gb"),),
        " with 1g.5gb of card 2",
    ),
    "some of each": (
        (
            decisions.Share("GPU-3", 3, 40, 3 << 30),
            decisions.Share("GPU-1", 1, 100, 8 << 30),
            decisions.Share("GPU-0", 0, 100, 8 << 30),
        ),
        " with cards 0,1 and 40 % of card 3",
    ),
    "another device": ((decisions.Share("rdma-0", 0, 100, 0, type="rdma"),), ""),
}


@pytest.mark.parametrize(("shares", "text"), PARTS.values(), ids=PARTS.keys())
def test_where_a_pod_went_tells_how_much_of_each_card(shares: tuple[decisions.Share, ...], text: str) -> None:
    """A part is not called a card."""
    placement = decisions.Placement("n1", (decisions.Grant("main", shares),))

    assert pod_status.placement_text(builders.pod_info(), placement) == f"ml/p to n1{text}"
    enforced = decisions.Placement("n1", placement.grants, "enforced by MPS")
    part = any(word in text for word in ("%", "GiB"))
    more = ", enforced by MPS" if part else ""
    assert pod_status.placement_text(builders.pod_info(), enforced) == f"ml/p to n1{text}{more}"
