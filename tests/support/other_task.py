"""A task that has a turn whenever others let it: it shows where long work pauses."""

import asyncio
import itertools


class OtherTask:
    """Counts the turns that it has."""

    def __init__(self) -> None:
        self.turns = 0

    async def run(self) -> None:
        """Have turn after turn."""
        for self.turns in itertools.count(1):
            await asyncio.sleep(0)
