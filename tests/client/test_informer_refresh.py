"""A refresh is over when a list has been read that began after it was asked for, and not before."""

import asyncio

import pytest

from client.scenes import Scene, config_map
from support import mirror, stub


async def not_yet(*tasks: "asyncio.Task[None]") -> None:
    """Make sure that nothing has ended, and would not end by itself soon."""
    done, _ = await asyncio.wait(tasks, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
    assert not done


async def test_while_watching(scene: Scene) -> None:
    """The watch in progress is left for a new list, whose content is told before the refresh ends."""
    answered = asyncio.Event()
    scene.script(
        [
            stub.page(config_map("a", "1"), version="10"),
            stub.later(answered, stub.page(config_map("b", "2"), version="20")),
        ]
    )
    async with mirror.following(scene.informer):
        await scene.until(lambda: scene.watches == 1, "the watch")

        refresh = asyncio.create_task(scene.informer.refresh())
        await not_yet(refresh)
        answered.set()
        await refresh

        assert sorted(scene.mirror.things) == ["b"]
        await scene.until(lambda: scene.resumed_from() == ["10", "20"], "a watch from there on")


async def test_while_a_list_is_under_way(scene: Scene) -> None:
    """A list that began before the call does not count, even if it is answered after it."""
    early, late = asyncio.Event(), asyncio.Event()
    scene.script(
        [
            stub.later(early, stub.page(config_map("old", "1"), version="10")),
            stub.later(late, stub.page(config_map("new", "2"), version="20")),
        ]
    )
    async with mirror.following(scene.informer):
        await scene.until(lambda: scene.lists == 1, "the first list")

        refresh = asyncio.create_task(scene.informer.refresh())
        early.set()
        await not_yet(refresh)
        late.set()
        await refresh

    assert sorted(scene.mirror.things) == ["new"]


async def test_before_the_first_list(scene: Scene) -> None:
    """Asked before the informer runs, the first list is the one."""
    scene.script([stub.page(config_map("a", "1"), version="10")])

    refresh = asyncio.create_task(scene.informer.refresh())
    await not_yet(refresh)
    async with mirror.following(scene.informer):
        await refresh

    assert sorted(scene.mirror.things) == ["a"]


async def test_asked_twice(scene: Scene) -> None:
    """Who asks second gets a list that began after that; the first one is content with it too."""
    second, third = asyncio.Event(), asyncio.Event()
    scene.script(
        [
            stub.page(version="10"),
            stub.later(second, stub.page(config_map("old", "1"), version="20")),
            stub.later(third, stub.page(config_map("new", "2"), version="30")),
        ]
    )
    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        first_caller = asyncio.create_task(scene.informer.refresh())
        await scene.until(lambda: scene.lists == 2, "the second list")

        second_caller = asyncio.create_task(scene.informer.refresh())
        second.set()
        await not_yet(first_caller, second_caller)
        third.set()
        await asyncio.gather(first_caller, second_caller)

    assert sorted(scene.mirror.things) == ["new"]
    assert scene.lists == 3


async def test_asked_by_many_at_once(scene: Scene) -> None:
    """Callers in one turn of the loop share one list."""
    scene.script([stub.page(version="10"), stub.page(config_map("a", "1"), version="20")])
    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()

        await asyncio.gather(*(scene.informer.refresh() for _ in range(20)))

    assert sorted(scene.mirror.things) == ["a"]
    assert scene.lists == 2


async def test_a_server_in_trouble_is_waited_for(scene: Scene) -> None:
    """A refresh outlasts failures and ends with the first list that succeeds."""
    troubles = [stub.status(500, "no"), stub.reset(), stub.status(429, "no")]
    scene.script([stub.page(version="10"), *troubles, stub.page(config_map("a", "1"), version="20")])
    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()

        await scene.informer.refresh()

    assert sorted(scene.mirror.things) == ["a"]
    assert scene.lists == 5


async def test_a_caller_that_gives_up_harms_nobody(scene: Scene) -> None:
    """A cancelled refresh leaves the informer following, and the next refresh works."""
    slow = asyncio.Event()
    answers = [stub.page(version="10"), stub.later(slow, stub.page(version="20"))]
    scene.script([*answers, stub.page(config_map("a", "1"), version="30")])
    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scene.informer.refresh(), 0.05)

        await scene.informer.refresh()

    assert sorted(scene.mirror.things) == ["a"]
