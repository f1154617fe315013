"""A bind is one write, and whatever the server says to it becomes the right outcome."""

import asyncio
from typing import Any

import pytest

from berth_crds import allocation, names
from berth_crds.client import api, connection, resources, watch
from berth_operator.engine import ports
from berth_operator.kube import binding_writer
from berth_operator.scheduling import queued_pods
from berth_operator.translate import raw
from kube.binding_writers import NODE, TERM, Lead, bound_by, hand
from kube.conftest import RecordingApi, Wired
from support import builders, manifests, pods
from testbed import cluster as clusters


@pytest.fixture
def yard(admin: api.Api, namespace: str) -> pods.PodClient:
    """Lend a namespace for pods."""
    return pods.PodClient(admin, namespace)


# ---------------------------------------------------------------- one write


async def test_everything_is_one_revision(session: RecordingApi, yard: pods.PodClient) -> None:
    """Node, allocation, minors, term and label appear together: no watcher ever sees a part of it."""
    candidate = await yard.create(manifests.pod("p", 2))
    before = (await yard.read("p")).metadata.resource_version
    path = resources.PODS.path(namespace=yard.namespace)
    codec = watch.Codec(raw.Pod)

    async with watch.open_watch(yard.admin, path, codec, selectors={}, version=before, seconds=30) as events:
        outcome = await bound_by(session, candidate, pods.CARD, pods.OTHER_CARD)
        async with asyncio.timeout(10):
            event = await anext(events)

    assert outcome == ports.Bound()
    assert isinstance(event, watch.Event)
    pod = event.thing
    assert isinstance(pod, raw.Pod)
    assert pod.spec.node_name == NODE
    assert pod.metadata.labels[names.FENCED_LABEL] == "true"
    said = pod.metadata.annotations
    assert said[names.TERM] == TERM
    assert said[names.MINORS] == "0,1"
    assert said["main.devices.berth.dev/uuids"] == "GPU-0001,GPU-0002"
    record = allocation.decode(said[names.ALLOCATION])
    assert isinstance(record, allocation.Allocation)
    assert record.node == NODE
    assert [entry.share.uuid for entry in record.entries()] == ["GPU-0001", "GPU-0002"]
    assert session.sent == [("POST", resources.PODS.path("p", namespace=yard.namespace, sub="binding"))]


async def test_a_pod_without_cards_has_no_allocation(session: RecordingApi, yard: pods.PodClient) -> None:
    """Who asked for no card gets the node and the term, nothing else."""
    candidate = await yard.create(manifests.pod("p", 0))

    await bound_by(session, candidate)

    assert (await yard.read("p")).metadata.annotations == {names.TERM: TERM}


async def test_a_term_that_is_over_writes_nothing(session: RecordingApi, yard: pods.PodClient) -> None:
    """Once the lead is in doubt no Binding leaves, and the pod is surely not bound by us."""
    candidate = await yard.create(manifests.pod("p"))

    outcome = await hand(session, Lead(leads=False)).bind(candidate, pods.placement(NODE, pods.CARD))

    assert outcome == ports.Refused("the term is over")
    assert session.sent == []


async def test_a_dry_run_writes_nothing(session: RecordingApi, yard: pods.PodClient) -> None:
    """The server says what it would say of the bind, and the pod has no node afterwards."""
    candidate = await yard.create(manifests.pod("p"))
    placement = pods.placement(NODE, pods.CARD)
    before = (await yard.read("p")).metadata.resource_version

    accepted = await hand(session).dry_run(candidate, placement)
    after = await yard.read("p")
    bound = await hand(session).bind(candidate, placement)
    late = await hand(session).dry_run(candidate, placement)

    assert (accepted, bound) == (ports.Bound(), ports.Bound())
    assert isinstance(late, ports.Unknown)
    assert (after.spec.node_name, after.metadata.resource_version) == ("", before)


# ---------------------------------------------------------------- what a real server refuses


async def test_a_recreated_pod_is_not_the_one_that_was_meant(
    session: RecordingApi, yard: pods.PodClient
) -> None:
    """The uid is a precondition: another pod of the same name is left alone, and ours is gone."""
    candidate = await yard.create(manifests.pod("p"))
    await yard.delete("p")
    await yard.create(manifests.pod("p"))

    outcome = await bound_by(session, candidate, pods.CARD)
    looked = await hand(session).read_pod(candidate)

    assert isinstance(outcome, ports.Unknown)
    assert not outcome.open
    assert looked == ports.Gone()
    assert (await yard.read("p")).spec.node_name == ""


async def test_a_pod_that_we_bound_already(session: RecordingApi, yard: pods.PodClient) -> None:
    """A second bind changes nothing, and the pod itself tells that it is bound, and by us."""
    candidate = await yard.create(manifests.pod("p"))
    await bound_by(session, candidate, pods.CARD)
    before = await yard.read("p")

    outcome = await bound_by(session, candidate, pods.OTHER_CARD)

    assert isinstance(outcome, ports.Unknown)
    assert not outcome.open
    assert await hand(session).read_pod(candidate) == ports.Bound()
    assert await yard.read("p") == before


@pytest.mark.parametrize(
    "obstacle",
    [
        pytest.param({"schedulingGates": [{"name": "example.com/wait"}]}, id="gated"),
        pytest.param({}, id="being deleted"),
    ],
)
async def test_a_pod_that_may_not_be_bound(
    session: RecordingApi, yard: pods.PodClient, obstacle: dict[str, Any]
) -> None:
    """A gated pod and one that is being deleted are refused for certain: nothing happens later."""
    pod = manifests.pod("p", **obstacle)
    pod["metadata"]["finalizers"] = ["example.com/keep"]
    candidate = await yard.create(pod)
    if not obstacle:
        await yard.delete("p")

    outcome = await bound_by(session, candidate, pods.CARD)
    looked = await hand(session).read_pod(candidate)

    assert isinstance(outcome, ports.Unknown)
    assert not outcome.open
    assert isinstance(looked, ports.Unbound if obstacle else ports.Gone)
    await yard.patch("p", {"metadata": {"finalizers": None}})


async def test_a_pod_that_is_not_there(session: RecordingApi, namespace: str) -> None:
    """Binding and looking for a pod that does not exist is Gone."""
    nobody = queued_pods.Candidate(uid="none", namespace=namespace, name="nobody")

    assert isinstance(await bound_by(session, nobody, pods.CARD), ports.Unknown)
    assert await hand(session).read_pod(nobody) == ports.Gone()


async def test_somebody_without_the_right(berth: clusters.Cluster, yard: pods.PodClient) -> None:
    """Without the right to bind the answer is a clear no."""
    candidate = await yard.create(manifests.pod("p"))
    stranger = connection.load(berth.kubeconfig_for(yard.namespace, "default"))

    async with api.Api(stranger, agent="test-stranger") as session:
        outcome = await bound_by(session, candidate, pods.CARD)

    assert isinstance(outcome, ports.Refused)
    assert "cannot create resource" in outcome.message


# ---------------------------------------------------------------- a wire in trouble


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the writer give up soon."""
    monkeypatch.setattr(binding_writer, "CLIENT_SECONDS", 0.5)


async def warm(session: api.Api) -> None:
    """Have a connection that the next bind uses again: one that cannot be made is a clear no."""
    await bound_by(session, builders.candidate("nobody"), pods.CARD)


@pytest.mark.usefixtures("hurried")
async def test_an_answer_that_is_lost_is_looked_up(wired: Wired, yard: pods.PodClient) -> None:
    """The server bound the pod and we did not hear: unclear, and a look finds that it is bound."""
    candidate = await yard.create(manifests.pod("p"))
    await warm(wired.session)
    wired.wire.hold(answers_only=True)

    outcome = await bound_by(wired.session, candidate, pods.CARD)
    wired.wire.cut()
    wired.wire.resume()

    assert isinstance(outcome, ports.Unknown)
    assert outcome.open
    assert await hand(wired.session).read_pod(candidate) == ports.Bound()


@pytest.mark.usefixtures("hurried")
async def test_a_request_that_is_lost_is_looked_up(wired: Wired, yard: pods.PodClient) -> None:
    """The request never arrived: unclear just the same, and a look finds that nothing happened."""
    candidate = await yard.create(manifests.pod("p"))
    await warm(wired.session)
    wired.wire.hold()

    outcome = await bound_by(wired.session, candidate, pods.CARD)
    wired.wire.cut()
    wired.wire.resume()

    assert isinstance(outcome, ports.Unknown)
    assert outcome.open
    assert isinstance(await hand(wired.session).read_pod(candidate), ports.Unbound)
