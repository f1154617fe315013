"""Masses of GpuPods: no step goes through all, few are kept of one node, and it costs others nothing."""

import logging
from collections.abc import AsyncIterator

import pytest

from berth_crds.client import api, resources
from berth_operator.kube import misplaced_gpupods, suspect_gpupods
from kube.cleaning import LISTED, NONE, Scene, gpupod
from support import counted, stub, timeless

MANY = resources.GPU_PODS.path(namespace="many")


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Lend a scene in which a node has at most three GpuPods."""
    monkeypatch.setattr(misplaced_gpupods, "MOST_OF_A_NODE", 3)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", MANY, stub.page(version="9"))
        yield Scene(server, session)


def write(scene: Scene, count: int, node: str = "n2") -> None:
    """Have an agent write so many GpuPods of pods that are not there."""
    for at in range(count):
        scene.knows(node, uid=f"g{at}", pod_uid=f"u{at}", title=f"many/{node}-{at:04d}")


def read(scene: Scene) -> list[str]:
    """Name the GpuPods that were read, in this order."""
    asked = [one.query.get("fieldSelector", "") for one in scene.server.requests]
    return [selector.removeprefix("metadata.name=") for selector in asked if selector]


async def test_no_step_goes_through_all(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many seem misplaced, others have their turn after a few of them."""
    for module, name in (
        (misplaced_gpupods, "YIELD_EVERY"),
        (suspect_gpupods, "MOST_CARRIED"),
        (suspect_gpupods, "MOST_READ"),
    ):
        monkeypatch.setattr(module, name, 10)
    monkeypatch.setattr(misplaced_gpupods, "MOST_OF_A_NODE", 10**6)
    for at in range(3000):
        scene.store.put(
            counted.Word(f"many/p{at}"), misplaced_gpupods.Record(f"g{at}", f"u{at}", f"n{at % 9}")
        )

    async def judged(_: str) -> bool:
        return True

    monkeypatch.setattr(scene.cleaner, "_try_check", judged)
    counted.taken()
    touched = []
    for _ in range(3):
        touched += [counted.taken() for _ in scene.cleaner.scan().__await__()] + [counted.taken()]

    assert len(touched) >= 900
    assert max(touched) < 500


async def test_whoever_finds_no_place_has_one_later(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that can never be judged do not keep the others from being read."""
    monkeypatch.setattr(suspect_gpupods, "MOST_CARRIED", 2)
    monkeypatch.setattr(suspect_gpupods, "MOST_READ", 1)
    scene.server.on("GET", MANY, stub.status(500, "always"))
    for at in range(6):
        write(scene, 1, f"n{at}")

    await scene.passes(20)

    assert {f"n{at}-0000" for at in range(6)} <= set(read(scene))


async def test_few_are_kept_of_a_node(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """The others stand by their names alone, one line tells of it, and other nodes lose nothing."""
    write(scene, 50)
    write(scene, 2, "n3")

    assert len(scene.store.records) == 3 + 2
    assert len(scene.store.crowded) == 47
    assert [one.message for one in caplog.records if one.levelno == logging.WARNING] == [
        "node n2 has more than 3 GpuPods: only the names of the others are kept for a check"
    ]


async def test_there_is_room_again_for_those_that_are_gone(scene: Scene) -> None:
    """What is gone is forgotten everywhere, and counts no more."""
    write(scene, 5)

    for title in [*scene.store.records, *scene.store.crowded]:
        scene.store.drop(title)
    left = len(scene.store.records), len(scene.store.crowded)
    write(scene, 3)

    assert left == (0, 0)
    assert len(scene.store.records) == 3


async def test_those_of_a_crowd_go_at_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """No second look is waited for, some are judged at a time, and each only once."""
    monkeypatch.setattr(misplaced_gpupods, "MOST_CROWDED_READ", 4)
    write(scene, 9)
    counts = []

    for _ in range(3):
        await scene.cleaner.check_crowded()
        counts.append(len(read(scene)))

    assert counts == [4, 6, 6]
    assert sorted(read(scene)) == [f"n2-{at:04d}" for at in range(3, 9)]


async def test_a_misplaced_one_beyond_the_limit_is_removed(scene: Scene) -> None:
    """Only its name is kept; what was read anew is what is deleted."""
    write(scene, 3)
    scene.knows("n2")
    scene.serves(gpupod("n2"), NONE)

    await scene.cleaner.check_crowded()

    assert scene.deletes == [{"preconditions": {"uid": "g1"}}]
    assert not scene.store.crowded


async def test_a_crowd_takes_no_turn_of_others(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is written for its node is judged apart: the passes are left to the other nodes."""
    monkeypatch.setattr(suspect_gpupods, "MOST_READ", 1)
    write(scene, 9)
    scene.knows("n3")
    scene.serves(gpupod("n3"), NONE)

    await scene.passes(2)
    passed = read(scene)
    await scene.cleaner.check_crowded()

    assert passed == ["train"]
    assert len(read(scene)) == 1 + 9


async def test_a_crowd_waits_for_no_look(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the cleaner has it judged by and by as it comes."""
    monkeypatch.setattr(misplaced_gpupods, "RECENT_SECONDS", 0.0)
    monkeypatch.setattr(misplaced_gpupods, "MOST_CROWDED_READ", 2)

    async with timeless.beside(scene.cleaner.run()):
        await timeless.passing(0)
        write(scene, 8)
        await timeless.until(lambda: not scene.store.crowded)

    assert sorted(read(scene)) == [f"n2-{at:04d}" for at in range(3, 8)]


async def test_one_that_is_right_is_not_even_read(scene: Scene) -> None:
    """What the agent of a crowded node writes of a pod that is bound there stands without a question."""
    write(scene, 4)
    await scene.cleaner.check_crowded()
    before = len(scene.server.requests)
    scene.bound("n2")

    scene.knows("n2")
    await scene.cleaner.check_crowded()

    assert "ml/train" not in scene.store.records, "its node has too many"
    assert len(scene.server.requests) == before


@pytest.mark.parametrize("answer", [pytest.param(stub.status(503, "busy"), id="no answer"), None])
async def test_one_that_cannot_be_judged_has_another_turn(scene: Scene, answer: stub.Answer | None) -> None:
    """A server that is busy, or a lead in doubt, is no reason to forget it."""
    write(scene, 3)
    scene.knows("n2")
    scene.serves(gpupod("n2"), NONE)
    if answer is not None:
        scene.server.on("GET", LISTED, answer)
    scene.leading = answer is not None

    await scene.cleaner.check_crowded()
    held = "ml/train" in scene.store.crowded
    scene.serves(gpupod("n2"), NONE)
    scene.leading = True
    await scene.cleaner.check_crowded()

    assert held
    assert scene.removed == 1


async def test_a_crowd_is_forgotten(scene: Scene) -> None:
    """After an hour a node is one like the others."""
    write(scene, 4)
    await scene.cleaner.check_crowded()
    for title in list(scene.store.records):
        scene.store.drop(title)

    scene.clock.advance(misplaced_gpupods.OFFENDER_SECONDS)
    await scene.passes(1)
    scene.knows("n2")

    assert not scene.store.crowded
