"""Pods with persistent volume claims whose operator ends, or has the rights of an older version."""

import json
from collections.abc import AsyncIterator

import pytest

from berth_crds import names
from e2e import provisioner
from e2e.provisioner import Storage, nodes, using
from e2e.stage import Stage
from support import manifests


@pytest.fixture
async def late(stage: Stage) -> AsyncIterator[Storage]:
    """Yield storage for claims that wait for their first pods."""
    async with provisioner.lent(stage) as made:
        yield made


async def test_the_next_leader_goes_on_with_a_node_that_is_selected(stage: Stage, late: Storage) -> None:
    """A process that is killed while a volume is made has lost nothing: the claim says where it is made."""
    first = await stage.deciding_operator()
    await nodes(stage, v11="a", v12="b")
    await late.start()
    await late.claim()
    await stage.create(using("p"))
    node = await late.selected()

    first.kill()
    await stage.vacate()
    await stage.deciding_operator()
    assert await late.provide() == node
    await stage.until_bound("p")

    assert await stage.bound() == {"p": node}
    await stage.assert_sound("p")


async def test_with_the_rights_of_an_older_version_only_pods_with_claims_wait(
    stage: Stage, late: Storage
) -> None:
    """All others are placed as ever."""
    role = f"clusterrole/{names.OPERATOR_ACCOUNT}"
    before = stage.cluster.kubectl("get", role, "-o", "json")
    whole = json.loads(before)["rules"]
    rules = [one for one in whole if "persistentvolumeclaims" not in one["resources"]]
    stage.cluster.kubectl("patch", role, "--type=merge", "-p", json.dumps({"rules": rules}))
    try:
        await stage.deciding_operator()
        await nodes(stage, v13="a", v14="a")
        await late.start()
        await late.claim()
        await stage.placed(manifests.pod("other"))
        await stage.waiting_pod(using("p"), "the claims of pods have not been read from the API server yet")
    finally:
        stage.cluster.kubectl("patch", role, "--type=merge", "-p", json.dumps({"rules": whole}))
    await late.selected()
