"""A refresh is over when a list has been read that began after it was asked for, and not before."""

import asyncio

import pytest

from client.informers import InformerSetup, config_map, until
from support import stub, timeless


async def not_yet(*tasks: "asyncio.Task[None]") -> None:
    """Make sure that nothing has ended, and would not end by itself soon."""
    done, _ = await asyncio.wait(tasks, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
    assert not done


async def test_while_watching(setup: InformerSetup) -> None:
    """The watch in progress is left for a new list, whose content is passed on before the refresh ends."""
    answered = asyncio.Event()
    later = stub.later(answered, stub.page(config_map("b", "2"), version="20"))
    setup.script([stub.page(config_map("a", "1"), version="10"), later])
    async with timeless.beside(setup.informer.run()):
        await until(lambda: setup.watched_from, "the watch")

        refresh = asyncio.create_task(setup.informer.refresh())
        await not_yet(refresh)
        answered.set()
        await refresh

        assert list(setup.sink.objects) == ["b"]
        await until(lambda: setup.watched_from == ["10", "20"], "a watch from there on")


async def test_before_the_first_list(setup: InformerSetup) -> None:
    """Asked before the informer runs, the first list is the one."""
    setup.script([stub.page(config_map("a", "1"), version="10")])

    refresh = asyncio.create_task(setup.informer.refresh())
    await not_yet(refresh)
    async with timeless.beside(setup.informer.run()):
        await refresh

    assert (list(setup.sink.objects), setup.lists) == (["a"], 1)


async def test_while_a_list_is_under_way(setup: InformerSetup) -> None:
    """A list that began before a call does not count, even if it is answered after it; all share the next."""
    second, third = asyncio.Event(), asyncio.Event()
    old = stub.later(second, stub.page(config_map("old", "1"), version="20"))
    new = stub.later(third, stub.page(config_map("new", "2"), version="30"))
    setup.script([stub.page(version="10"), old, new])
    async with setup.synced():
        first_caller = asyncio.create_task(setup.informer.refresh())
        await until(lambda: setup.lists == 2, "the second list")

        second_caller = asyncio.create_task(setup.informer.refresh())
        second.set()
        await not_yet(first_caller, second_caller)
        third.set()
        await asyncio.gather(first_caller, second_caller)

    assert (list(setup.sink.objects), setup.lists) == (["new"], 3)


async def test_asked_by_many_at_once(setup: InformerSetup) -> None:
    """Callers in one turn of the loop share one list."""
    setup.script([stub.page(version="10"), stub.page(config_map("a", "1"), version="20")])
    async with setup.synced():
        await asyncio.gather(*(setup.informer.refresh() for _ in range(20)))

    assert (list(setup.sink.objects), setup.lists) == (["a"], 2)


async def test_a_caller_that_gives_up_harms_nobody(setup: InformerSetup) -> None:
    """A cancelled refresh leaves the informer following, and the next refresh works."""
    slow = stub.later(asyncio.Event(), stub.page(version="20"))
    setup.script([stub.page(version="10"), slow, stub.page(config_map("a", "1"), version="30")])
    async with setup.synced():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(setup.informer.refresh(), 0.05)

        await setup.informer.refresh()

    assert list(setup.sink.objects) == ["a"]
