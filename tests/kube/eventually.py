"""Waits for plain conditions beside a loop that goes on."""

from collections.abc import Callable

from testbed import waiting


async def holds(condition: Callable[[], object], what: str, *, seconds: float = 15.0) -> None:
    """Wait until a condition holds."""

    async def check() -> bool:
        return bool(condition())

    await waiting.eventually(check, what=what, seconds=seconds)
