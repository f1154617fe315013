"""A bind is good for one revision of its pod, and a look makes it good again."""

import time

import pytest

from berth_crds import names
from berth_crds.client import api
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import queued_pods
from berth_operator.translate import pods as reading
from berth_operator.translate import raw
from kube.binding_writers import NODE, hand
from kube.conftest import RecordingApi
from support import manifests, pods


@pytest.fixture
def yard(admin: api.Api, namespace: str) -> pods.PodClient:
    """Lend a namespace for pods."""
    return pods.PodClient(admin, namespace)


def expecting(pod: raw.Pod) -> tuple[queued_pods.Candidate, Ledger]:
    """Make a ledger in which this pod waits, and give the pod as it is decided on."""
    ledger, candidate = Ledger(time.monotonic), reading.candidate(pod)
    ledger.pod_waiting(candidate, gated=False, version=pod.metadata.resource_version)
    return candidate, ledger


async def test_a_bind_is_good_for_one_revision(session: RecordingApi, yard: pods.PodClient) -> None:
    """A pod that was changed after it was decided on is not bound by that; a look makes it good again."""
    await yard.create(manifests.pod("p"))
    candidate, ledger = expecting(await yard.read("p"))
    await yard.patch("p", {"metadata": {"labels": {"x": "y"}}})
    bound = hand(session, ledger=ledger)

    refused = await bound.bind(candidate, pods.placement(NODE, pods.CARD))
    looked = await bound.read_pod(candidate)
    again = await bound.bind(candidate, pods.placement(NODE, pods.CARD))

    assert isinstance(refused, ports.Unknown)
    assert not refused.open
    assert "Precondition failed" in refused.message
    assert isinstance(looked, ports.Unbound)
    assert looked.same
    assert again == ports.Bound()


async def test_a_look_finds_out_that_the_pod_asks_for_something_else(
    session: RecordingApi, yard: pods.PodClient
) -> None:
    """What was decided is not right for it any more."""
    await yard.create(manifests.pod("p"))
    candidate, ledger = expecting(await yard.read("p"))
    await yard.patch("p", {"metadata": {"annotations": {names.MODEL: "t4"}}})

    looked = await hand(session, ledger=ledger).read_pod(candidate)

    assert isinstance(looked, ports.Unbound)
    assert not looked.same
