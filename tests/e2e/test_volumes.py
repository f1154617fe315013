"""Pods with persistent volume claims, on a real API server with the controllers that bind claims."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from berth_crds.client import errors
from e2e import provisioner
from e2e.provisioner import HOST, Storage, nodes, using
from e2e.stage import Stage
from support import manifests, storage

pytestmark = pytest.mark.usefixtures("leader")


@pytest.fixture
async def late(stage: Stage) -> AsyncIterator[Storage]:
    """Yield storage for claims that wait for their first pods."""
    async with provisioner.lent(stage) as made:
        yield made


async def test_a_claim_that_waits_for_its_pod_is_provisioned_on_the_pods_node(
    stage: Stage, late: Storage
) -> None:
    """The node is selected, the volume made and bound, and then the pod is bound to that node with a card."""
    await nodes(stage, v1="a", v2="b")
    await late.start()
    await late.claim()
    await stage.create(using("p"))

    assert await late.selected() in {"v1", "v2"}
    await stage.until_told("p", "Not bound yet: the volume of claim data is being made for node")
    assert await stage.bound() == {}
    node = await late.provide()
    await stage.until_bound("p")

    assert await stage.bound() == {"p": node}
    assert (await late.read())["status"]["phase"] == "Bound"
    await stage.assert_sound("p")


async def test_a_provisioner_that_says_no_sends_the_pod_to_another_node(stage: Stage, late: Storage) -> None:
    """Its card is free for others meanwhile, and the pod is not sent there again for a time."""
    await nodes(stage, v3="a", v4="b")
    await late.start()
    await late.claim()
    await stage.create(using("p"))
    first = await late.selected()

    await late.refuse()
    other = {"v3": "v4", "v4": "v3"}[first]
    assert await late.selected(other) == other
    assert await late.provide() == other
    await stage.until_bound("p")
    await stage.placed(manifests.pod("q"))

    assert await stage.bound() == {"p": other, "q": first}


async def test_a_bound_claim_keeps_its_pod_to_the_zone_of_its_volume(stage: Stage, late: Storage) -> None:
    """Where that zone is full, the pod waits and says so, and other zones stay free."""
    await nodes(stage, v5="a", v6="b")
    await late.start()
    volume = await late.volume({storage.ZONE: "b"})
    await late.claim(volume=volume)
    await late.bound()

    await stage.placed(using("p"))
    told = await stage.waiting_pod(using("q"), "1 has no free card")

    assert await stage.bound() == {"p": "v6"}
    assert "1 does not match the node affinity of the volume of claim data" in told["message"]


async def test_a_local_volume_is_bound_to_the_claim_of_the_pod(stage: Stage, late: Storage) -> None:
    """A class without a provisioner has volumes that exist: the pod goes where one is."""
    await nodes(stage, v7="a", v8="b")
    await late.start("kubernetes.io/no-provisioner")
    await late.claim()
    await stage.create(using("p"))
    await stage.until_told("p", "2 have no available persistent volume for claim data")

    await late.volume({HOST: "v8"})
    await stage.until_bound("p")

    assert await stage.bound() == {"p": "v8"}
    await late.bound()


async def test_a_pod_waits_for_a_claim_that_is_missing_and_for_one_that_is_unbound(
    stage: Stage, late: Storage
) -> None:
    """The sentences begin as those of kube-scheduler do; as soon as the claim is there, the pod goes on."""
    await nodes(stage, v9="a")
    await late.start(volumeBindingMode="Immediate")
    await stage.waiting_pod(using("p"), 'persistentvolumeclaim "data" not found')

    await late.claim()
    await stage.until_told("p", "pod has unbound immediate PersistentVolumeClaims")
    await late.volume({HOST: "v9"}, of=await late.read())
    await stage.until_bound("p")


async def test_an_ephemeral_claim_belongs_to_its_pod(stage: Stage, late: Storage) -> None:
    """The controller makes it, for this pod; a claim of that name by somebody else is not used."""
    await nodes(stage, v10="a")
    await late.start()
    template = {"spec": storage.claim("x", late.name)["spec"]}
    ephemeral = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    await late.claim("thief-scratch")

    await stage.waiting_pod(
        manifests.pod("thief", volumes=ephemeral), "was not created for this pod (pod is not owner)"
    )
    await stage.create(manifests.pod("p", volumes=ephemeral))
    await stage.until("the claim to be made", lambda: _is_there(late, "p-scratch"))
    assert await late.provide("p-scratch") == "v10"
    await stage.until_bound("p")


async def _is_there(late: Storage, name: str) -> bool:
    with contextlib.suppress(errors.NotFound):
        return bool(await late.read(name))
    return False
