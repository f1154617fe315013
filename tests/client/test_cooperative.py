"""Long work lets all others have their turn by the clock, whatever its pieces cost."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import msgspec
import pytest

from berth_crds.client import api, cooperative, informer, watch
from client.scenes import FOR_EVER, PATH, Scene, config_map
from support import clock, mirror, stub, timeless

PIECES: Final = 12


class Bystander:
    """Somebody else, who counts the turns that it has."""

    def __init__(self) -> None:
        self.turns = 0

    async def run(self) -> None:
        """Have turn after turn."""
        for self.turns in itertools.count(1):
            await asyncio.sleep(0)


def pieces(bystander: Bystander) -> Iterator[int]:
    """Yield at each piece of work how many turns somebody else had so far."""
    for _ in range(PIECES):
        yield bystander.turns


async def through(bystander: Bystander, looks: cooperative.Clock) -> list[int]:
    """Go through the pieces."""
    found: list[int] = []

    def work() -> Iterator[None]:
        for one in pieces(bystander):
            found.append(one)
            yield

    await cooperative.run(work(), looks)
    return found


async def gathered(bystander: Bystander, looks: cooperative.Clock) -> list[int]:
    """Gather them."""
    return await cooperative.gather(pieces(bystander), looks)


async def each(bystander: Bystander, looks: cooperative.Clock) -> list[int]:
    """Gather them as they come, all at once."""

    async def come() -> AsyncIterator[int]:
        for one in pieces(bystander):
            yield one

    found: list[int] = []
    await cooperative.for_each(come(), found.append, looks)
    return found


@pytest.mark.parametrize("work", [through, gathered, each])
@pytest.mark.parametrize(
    ("cost", "at_once"),
    [
        pytest.param(cooperative.STEP_SECONDS * 2, 1, id="dear"),
        pytest.param(cooperative.STEP_SECONDS / 3, 3, id="usual"),
        pytest.param(0.0, PIECES, id="cheap"),
    ],
)
@timeless.scenario
async def test_others_have_their_turn_by_the_clock(
    work: Callable[..., Any], cost: float, at_once: int
) -> None:
    """After each dear piece, after some usual ones, and of cheap ones any number is done at once."""
    bystander = Bystander()

    async with timeless.beside(bystander.run()):
        found = await work(bystander, clock.Ticking(cost * 1.01))

    assert [len(list(some)) for _, some in itertools.groupby(found)] == [at_once] * (PIECES // at_once)


# ---------------------------------------------------------------- lists and watches


class Noticing(mirror.Mirror[mirror.ConfigMap]):
    """A mirror that notes how many turns somebody else had when it was told something."""

    def __init__(self, bystander: Bystander) -> None:
        super().__init__()
        self.bystander = bystander
        self.noted: list[int] = []

    def upserted(self, thing: mirror.ConfigMap) -> None:
        """Record the turn and the object."""
        self.noted.append(self.bystander.turns)
        super().upserted(thing)


@pytest.mark.parametrize("listed", [pytest.param(True, id="a list"), pytest.param(False, id="a watch")])
async def test_others_have_their_turn_between_any_two_dear_objects(scene: Scene, listed: bool) -> None:  # noqa: FBT001
    """However many come at once, as one page or as one piece of a watch."""
    items = [config_map(f"o{at:02}", str(at + 11)) for at in range(PIECES)]
    events = "".join(json.dumps(stub.event("ADDED", one)) + "\n" for one in items)
    scene.script(
        [stub.page(*items if listed else (), version="10")],
        [*(() if listed else [stub.raw(events.encode())]), stub.watch(until=FOR_EVER())],
    )
    told = Noticing(Bystander())
    dear = informer.Means(clock=clock.Ticking(cooperative.STEP_SECONDS * 1.01))
    following = informer.Informer(
        scene.session,
        mirror.CONFIG_MAPS,
        mirror.ConfigMap,
        told,
        scope=informer.Scope(namespace="ml"),
        means=dear,
    )

    async with timeless.beside(told.bystander.run()), mirror.following(following):
        await scene.until(lambda: len(told.noted) >= PIECES, "all objects")

    assert len(set(told.noted)) == PIECES


async def test_a_page_is_decoded_object_by_object(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have their turn between any two objects that take long to decode."""
    bystander, noted = Bystander(), set()
    codec = watch.Codec(mirror.ConfigMap)
    decode = codec.decode_object

    def noticed(raw: msgspec.Raw) -> Any:
        noted.add(bystander.turns)
        return decode(raw)

    monkeypatch.setattr(codec, "decode_object", noticed)
    items = [config_map(f"o{at}", "7") for at in range(PIECES)]
    server.on("GET", PATH, stub.page(*items, version="9"))
    looks = clock.Ticking(cooperative.STEP_SECONDS * 1.01)
    pages = watch.list_pages(session, PATH, codec, selectors={}, size=100, clock=looks)

    async with timeless.beside(bystander.run()):
        (page,) = [page async for page in pages]

    assert len(page.items) == len(noted) == PIECES
