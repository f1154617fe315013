"""A refresh is over when a list has been read that began after it was asked for, and not before."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from berth_crds.client import informer
from client.informers import InformerSetup, config_map, until
from support import stub, timeless

BUSY: Final = stub.status(429, "slow down", reason="TooManyRequests", headers={"Retry-After": "60"})


async def not_yet(*tasks: "asyncio.Task[None]") -> None:
    """Make sure that nothing has ended, and would not end by itself soon."""
    done, _ = await asyncio.wait(tasks, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
    assert not done


async def give_up(work: Coroutine[Any, Any, None]) -> None:
    """Wait for something for a moment only, in which it does not end."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work, 0.1)


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
    """A list that began before a call is let end, and does not count; all who called late share the next."""
    second, third = asyncio.Event(), asyncio.Event()
    old = stub.later(second, stub.page(config_map("old", "1"), version="20"))
    new = stub.later(third, stub.page(config_map("new", "2"), version="30"))
    setup.script([stub.page(version="10"), old, new])
    async with setup.synced():
        first_caller = asyncio.create_task(setup.informer.refresh())
        await until(lambda: setup.lists == 2, "the second list")

        others = [asyncio.create_task(setup.informer.refresh()) for _ in range(3)]
        await not_yet(first_caller, *others)
        second.set()
        await until(first_caller.done, "the list that began before the others called")
        await not_yet(*others)
        third.set()
        await asyncio.gather(*others)

    assert (list(setup.sink.objects), setup.lists) == (["new"], 3)


async def test_asked_by_many_at_once(setup: InformerSetup) -> None:
    """Callers in one turn of the loop share one list."""
    setup.script([stub.page(version="10"), stub.page(config_map("a", "1"), version="20")])
    async with setup.synced():
        await asyncio.gather(*(setup.informer.refresh() for _ in range(20)))

    assert (list(setup.sink.objects), setup.lists) == (["a"], 2)


async def test_a_caller_that_gives_up_harms_nobody(setup: InformerSetup) -> None:
    """A cancelled refresh leaves the informer following, and the next refresh works."""
    answered = asyncio.Event()
    slow = stub.later(answered, stub.page(version="20"))
    setup.script([stub.page(version="10"), slow, stub.page(config_map("a", "1"), version="30")])
    async with setup.synced():
        await give_up(setup.informer.refresh())

        answered.set()
        await setup.informer.refresh()

    assert (list(setup.sink.objects), setup.lists) == (["a"], 3)


async def test_impatient_callers_let_a_long_list_end(setup: InformerSetup) -> None:
    """However often they give up and ask again: who joins the list need not wait for another."""
    answered = asyncio.Event()
    slow = stub.later(answered, stub.page(config_map("a", "1"), version="20"))
    setup.script([stub.page(version="10"), slow])
    async with setup.synced():
        for _ in range(3):
            await give_up(setup.informer.resync(join=True))
        answered.set()
        await setup.informer.resync(join=True)

        assert (list(setup.sink.objects), setup.lists) == (["a"], 2)


async def test_who_wants_everything_does_not_join_a_list_of_what_differs(setup: InformerSetup) -> None:
    """What only seems unchanged is passed on by the next one."""
    answered = asyncio.Event()
    old, new = (stub.page(config_map("a", "1", x=word), version="10") for word in ("old", "new"))
    setup.script([old, stub.later(answered, old), new])
    async with setup.synced():
        refresh = asyncio.create_task(setup.informer.refresh())
        await until(lambda: setup.lists == 2, "the second list")
        again = asyncio.create_task(setup.informer.resync(join=True))
        await not_yet(refresh, again)
        answered.set()
        await asyncio.gather(refresh, again)

    assert setup.sink.objects["a"].data == {"x": "new"}


@pytest.mark.parametrize(
    ("lists", "watches"),
    [
        pytest.param([stub.page(version="10"), BUSY], [], id="for lists"),
        pytest.param([stub.page(version="10")], [BUSY], id="for watches"),
    ],
)
async def test_a_pause_that_the_server_asked_for_is_kept(
    setup: InformerSetup,
    caplog: pytest.LogCaptureFixture,
    lists: list[stub.Answer],
    watches: list[stub.Answer],
) -> None:
    """Whoever asks, and however often, waits for its end."""
    caplog.set_level("INFO", informer.log.name)
    setup.script(lists, watches)
    async with setup.synced():
        await until(lambda: setup.watched_from, "the watch")
        await until(lambda: not watches or "the watch failed" in caplog.text, "the refusal")
        for _ in range(3):
            await give_up(setup.informer.refresh())

    assert setup.lists == len(lists)
