"""Who makes misplaced GpuPods again and again: each is removed as it comes, some at a time, few are told."""

import logging
from collections.abc import AsyncIterator

import pytest

from berth_crds import logs
from berth_crds.client import api, resources
from berth_operator.kube import misplaced_gpupods
from berth_operator.scheduling import holds
from kube.cleaning import Scene, gpupod, pod
from support import stub


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """Lend a scene."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        yield Scene(server, session)


async def removed_once(scene: Scene) -> None:
    """Have one of n2 removed, which is bound on n1, and its news come."""
    scene.bound("n1")
    scene.serves(gpupod("n2"), pod())
    scene.knows("n2")
    await scene.passes()
    scene.store.drop("ml/train")


async def test_what_comes_for_a_node_with_a_history_is_looked_at_as_it_comes(scene: Scene) -> None:
    """No pass is waited for; what its agent writes rightly is not even read, nor what others write."""
    await removed_once(scene)
    before = len(scene.server.requests)

    scene.ledger.pod_bound(holds.Hold("u7", "ml/right", "n2"))
    scene.knows("n2", uid="g7", pod_uid="u7", title="ml/right")
    scene.knows("n3", uid="g8", pod_uid="u8", title="ml/other")
    await scene.cleaner.check_recent()
    idle = len(scene.server.requests)
    scene.knows("n2", uid="g2")
    scene.serves(gpupod("n2", uid="g2"), pod())
    await scene.cleaner.check_recent()

    assert idle == before
    assert scene.deletes == [{"preconditions": {"uid": "g1"}}, {"preconditions": {"uid": "g2"}}]


async def test_a_history_ends(scene: Scene) -> None:
    """After an hour without a removal a node is looked at like all others."""
    await removed_once(scene)
    before = len(scene.server.requests)

    scene.clock.advance(misplaced_gpupods.OFFENDER_SECONDS)
    scene.knows("n2", uid="g2")
    await scene.cleaner.check_recent()

    assert len(scene.server.requests) == before


async def test_a_node_with_a_history_takes_no_more_than_its_share(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are written, some are read at a time, and few wait: passes find the others."""
    monkeypatch.setattr(misplaced_gpupods, "MOST_RECENT", 3)
    monkeypatch.setattr(misplaced_gpupods, "MOST_RECENT_READ", 2)
    await removed_once(scene)
    before = len(scene.server.requests)

    for at in range(50):
        scene.knows("n2", uid=f"g{at}", pod_uid=f"u{at}", title=f"many/p{at}")
    scene.server.on("GET", resources.GPU_PODS.path(namespace="many"), stub.page(version="9"))
    counts = []
    for _ in range(3):
        await scene.cleaner.check_recent()
        counts.append(len(scene.server.requests) - before)

    assert counts == [2, 3, 3]


async def test_a_flood_of_removals_is_told_in_few_lines(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Under ever new names or not: what is done for one node is about that node; a metric counts all."""
    caplog.set_level(logging.INFO, misplaced_gpupods.__name__)
    await removed_once(scene)

    for _ in range(9):
        scene.knows("n2")
        await scene.cleaner.check_recent()
        scene.store.drop("ml/train")

    limiter = logs.Limiter(scene.clock)
    told = [record for record in caplog.records if record.name == misplaced_gpupods.__name__]
    assert len([one for record in told for one in limiter.admitted(record)]) == logs.MOST_ABOUT_ONE
    assert scene.removed == 10
