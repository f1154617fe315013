"""A little of `make fuzz`: known bad pods and their like neither hang nor break the loop."""

import asyncio
from collections.abc import Iterator

import pytest

from bench import absurd, delivery, fuzz
from berth_operator.scheduling import cycle

NODES = 200
PODS = 80
HANGS = 1.0  # Seconds of this thread, far above any noise: without bounds, some of these take many.


@pytest.fixture
def arena() -> Iterator[delivery.Arena]:
    """Give a cluster and a loop over it."""
    made = delivery.Arena(NODES)
    yield made
    made.close()


def test_no_pod_hangs_the_loop(arena: delivery.Arena) -> None:
    """Pods of every kind come, are decided and leave again, and none keeps the loop for long."""

    async def play() -> fuzz.Broken | None:
        run = fuzz.Run(arena, seed=7, most=HANGS)
        broken = None
        while broken is None and run.count < PODS:
            broken = await run.burst()
        return broken

    assert asyncio.run(play()) is None
    assert {"bound", "waits", "InvalidRequest", "UnsupportedRequest"} <= arena.teller.answers.keys()


def test_what_breaks_a_bound_is_told(arena: delivery.Arena) -> None:
    """A pod that takes longer than is allowed is named with what it took, after it was tried again."""

    async def play() -> fuzz.Broken | None:
        return await fuzz.Run(arena, seed=7, most=0.0).confirmed(absurd.pod(absurd.ONE_CARD))

    broken = asyncio.run(play())

    assert broken is not None
    assert broken.pod == absurd.pod(absurd.ONE_CARD)
    assert "ms of the loop (translated " in broken.what


def test_equal_seeds_draw_equal_pods(arena: delivery.Arena) -> None:
    """A seed plays the same pods again, as long as none was slow."""
    draws = [fuzz.Run(arena, seed=3).draw for _ in range(2)]

    first, second = ([draw.next() for _ in range(30)] for draw in draws)

    assert first == second


def test_measuring_ends() -> None:
    """What is measured for one arena is not measured after it is closed."""
    before = cycle.answer_for
    arena = delivery.Arena(1)
    meanwhile = cycle.answer_for

    arena.close()

    assert meanwhile is not before
    assert cycle.answer_for is before
