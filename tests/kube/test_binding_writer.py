"""A bind is one write on a real API server, and whatever becomes of it is found out."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from berth_crds import aliases, allocation, names
from berth_crds.client import resources, watch
from berth_crds.vocabulary import PodRecords
from berth_operator.engine import ports
from berth_operator.kube import binding_writer
from berth_operator.scheduling import policy
from berth_operator.translate import bind_annotations, foreign_records, raw
from kube.binding_writers import NODE, TERM, Writer, waiting_pod
from kube.conftest import RecordingApi, Wired
from support import builders, manifests, pods

# ---------------------------------------------------------------- one write


async def test_everything_is_one_revision(session: RecordingApi, pod_client: pods.PodClient) -> None:
    """Node, allocation, minors, term and label appear together: no watcher ever sees a part of it."""
    pod_info = await pod_client.create(manifests.pod("p", 2))
    before = (await pod_client.read("p")).metadata.resource_version
    path = resources.PODS.path(namespace=pod_client.namespace)
    codec = watch.Codec(raw.Pod)

    async with watch.open_watch(
        pod_client.admin, path, codec, selectors={}, version=before, seconds=30
    ) as events:
        outcome = await Writer(session).bind_to(pod_info, pods.CARD, pods.OTHER_CARD)
        async with asyncio.timeout(10):
            event = await anext(events)

    assert outcome == ports.Bound()
    assert isinstance(event, watch.Event)
    pod = event.thing
    assert isinstance(pod, raw.Pod)
    assert pod.spec.node_name == NODE
    assert pod.metadata.labels[names.FENCED_LABEL] == "true"
    uuids = ["GPU-0001", "GPU-0002"]
    plain = {names.TERM: TERM, names.MINORS: "0,1", "main.devices.berth.dev/uuids": ",".join(uuids)}
    assert pod.metadata.annotations.items() >= plain.items()
    record = allocation.decode(pod.metadata.annotations[names.ALLOCATION])
    assert isinstance(record, allocation.Allocation)
    assert (record.node, [entry.share.uuid for entry in record.entries()]) == (NODE, uuids)
    assert session.sent == [("POST", resources.PODS.path("p", namespace=pod_client.namespace, sub="binding"))]


async def test_koordinators_record_is_written_by_policy(
    session: RecordingApi, pod_client: pods.PodClient
) -> None:
    """The record of another scheduler is in the same write as ours, from the moment the policy wants it."""
    await pod_client.create(manifests.pod("p", 2))
    pod_info, ledger = await waiting_pod(pod_client)
    ledger.policy_seen(policy.Policy(pod_records=PodRecords.KOORDINATOR))

    outcome = await Writer(session, ledger).bind_to(pod_info, pods.CARD, pods.OTHER_CARD)

    assert outcome == ports.Bound()
    assert len(session.sent) == 1
    written = (await pod_client.read("p")).metadata.annotations[aliases.KOORDINATOR_RECORD]
    assert foreign_records.minors(written) == frozenset({0, 1})


def test_a_pod_without_cards_has_no_allocation() -> None:
    """Who asked for no card gets the node and the term, nothing else."""
    assert bind_annotations.of(pods.placement(NODE), term=TERM) == {names.TERM: TERM}


async def test_a_dry_run_writes_nothing(session: RecordingApi, pod_client: pods.PodClient) -> None:
    """The server says what it would say of the bind, and the pod has no node afterwards."""
    pod_info = await pod_client.create(manifests.pod("p"))
    writer, placement = Writer(session), pods.placement(NODE, pods.CARD)
    before = await pod_client.read("p")

    accepted = await writer.dry_run(pod_info, placement)
    after = await pod_client.read("p")
    bound = await writer.bind(pod_info, placement)
    late = await writer.dry_run(pod_info, placement)

    assert (accepted, bound) == (ports.Bound(), ports.Bound())
    assert isinstance(late, ports.Unknown)
    assert after == before


# ---------------------------------------------------------------- what a real server refuses

Step = Callable[[pods.PodClient], Awaitable[object]]


async def bind(client: pods.PodClient) -> None:
    """Bind the pod as an earlier request of ours would."""
    await client.bind("p", NODE, {names.TERM: TERM})


async def delete(client: pods.PodClient) -> None:
    """Delete the pod."""
    await client.delete("p")


async def recreate(client: pods.PodClient) -> None:
    """Put another pod of the same name in its place."""
    await client.delete("p")
    await client.create(manifests.pod("p"))


async def keep(_: pods.PodClient) -> None:
    """Leave the pod as it is."""


@pytest.mark.parametrize(
    ("pod", "prepare", "seen"),
    [
        pytest.param(manifests.pod("p"), bind, ports.Bound, id="bound by us already"),
        pytest.param(manifests.pod("p"), recreate, ports.Gone, id="recreated"),
        pytest.param(manifests.pod("p"), delete, ports.Gone, id="not there"),
        pytest.param(
            manifests.pod("p", meta={"finalizers": ["example.com/keep"]}),
            delete,
            ports.Gone,
            id="being deleted",
        ),
        pytest.param(
            manifests.pod("p", schedulingGates=[{"name": "example.com/wait"}]),
            keep,
            ports.Unbound,
            id="gated",
        ),
    ],
)
async def test_a_pod_that_cannot_be_bound(
    session: RecordingApi, pod_client: pods.PodClient, pod: dict[str, Any], prepare: Step, seen: type
) -> None:
    """The server refuses for certain, nothing happens later, and the pod itself tells what became of it."""
    pod_info = await pod_client.create(pod)
    await prepare(pod_client)

    outcome = await Writer(session).bind_to(pod_info)

    assert isinstance(outcome, ports.Unknown)
    assert not outcome.open
    assert isinstance(await Writer(session).read_pod(pod_info), seen)


async def test_a_bind_is_good_for_one_revision(session: RecordingApi, pod_client: pods.PodClient) -> None:
    """A pod that was changed after it was decided on is not bound by that; a look makes it good again."""
    await pod_client.create(manifests.pod("p"))
    pod_info, ledger = await waiting_pod(pod_client)
    await pod_client.patch("p", {"metadata": {"labels": {"x": "y"}}})
    writer = Writer(session, ledger)

    refused = await writer.bind_to(pod_info)
    seen = await writer.read_pod(pod_info)

    assert isinstance(refused, ports.Unknown)
    assert not refused.open
    assert "Precondition failed" in refused.message
    assert isinstance(seen, ports.Unbound)
    assert seen.same
    assert await writer.bind_to(pod_info) == ports.Bound()


# ---------------------------------------------------------------- a wire in trouble


@pytest.mark.parametrize(
    ("answers_only", "seen"), [(True, ports.Bound), (False, ports.Unbound)], ids=["the answer", "the request"]
)
async def test_a_bind_of_which_something_is_lost_is_looked_up(
    wired: Wired,
    pod_client: pods.PodClient,
    monkeypatch: pytest.MonkeyPatch,
    *,
    answers_only: bool,
    seen: type,
) -> None:
    """It is unclear whether the server has bound the pod, until the pod itself is read."""
    monkeypatch.setattr(binding_writer, "CLIENT_SECONDS", 0.5)
    pod_info, writer = await pod_client.create(manifests.pod("p")), Writer(wired.session)
    # Have a connection that the bind uses again: one that cannot be made is a clear no.
    await writer.bind_to(builders.pod_info("nobody"))
    wired.wire.hold(answers_only=answers_only)

    outcome = await writer.bind_to(pod_info)
    wired.wire.cut()
    wired.wire.resume()

    assert isinstance(outcome, ports.Unknown)
    assert outcome.open
    assert isinstance(await writer.read_pod(pod_info), seen)
