"""Few calls are under way at once, and a namespace with very many of them delays no other for long."""

import asyncio

from berth_operator.engine.slots_in_turns import SlotsInTurns


class Calls:
    """Calls that end when they are told to, and the order in which they began."""

    def __init__(self, slots: SlotsInTurns) -> None:
        self._slots = slots
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def make(self, *names: str) -> None:
        """Make calls, whose namespace is the first letter of their name."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._call(name))
        await asyncio.sleep(0)

    async def _call(self, name: str) -> None:
        async with self._slots.slot(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> list[str]:
        """End calls one after another; return which ones have begun by that."""
        before = len(self.begun)
        for name in names:
            self._ends[name].set()
            await self.tasks[name]
            await asyncio.sleep(0)
        return self.begun[before:]


async def test_no_more_than_the_slots_are_under_way() -> None:
    """The next one begins when one ends, and in the end all slots are free again."""
    calls = Calls(SlotsInTurns(2))
    await calls.make("a1", "a2", "a3", "a4")

    assert calls.begun == ["a1", "a2"]
    assert await calls.end("a2") == ["a3"]
    assert await calls.end("a1", "a3", "a4") == ["a4"]
    await calls.make("a5", "a6", "a7")
    assert calls.begun[-2:] == ["a5", "a6"]
    assert await calls.end("a5", "a6", "a7") == ["a7"]


async def test_namespaces_have_turns() -> None:
    """Whoever comes last has to wait for no more than those that are under way."""
    calls = Calls(SlotsInTurns(1))
    await calls.make(*(f"a{at}" for at in range(1000)), "b1", "b2")

    assert await calls.end("a0", "a1", "b1", "a2") == ["a1", "b1", "a2", "b2"]
    for task in calls.tasks.values():
        task.cancel()
    await asyncio.gather(*calls.tasks.values(), return_exceptions=True)


async def test_who_stops_waiting_takes_no_slot_along() -> None:
    """Neither before it is his turn nor in the same moment."""
    calls = Calls(SlotsInTurns(1))
    await calls.make("a1", "a2", "b1", "c1")
    calls.tasks["a2"].cancel()
    assert await calls.end("a1") == ["b1"]

    calls._ends["b1"].set()
    await asyncio.sleep(0)  # The slot is c1's now, which does not know yet.
    calls.tasks["c1"].cancel()
    await asyncio.sleep(0)
    await calls.make("d1")
    await asyncio.sleep(0)

    assert calls.begun[-1] == "d1"
    await calls.end("d1")
