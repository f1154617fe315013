"""Long work lets all others have their turn by the clock, whatever its pieces cost."""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import msgspec
import pytest

from berth_crds.client import cooperative, informer, resources, watch
from client.informers import CONFIG_MAPS, ConfigMap, InformerSetup, RecordingSink, config_map, until
from support import clock, stub, timeless
from support.other_task import OtherTask

PIECES: Final = 12


def pieces(other: OtherTask) -> Iterator[int]:
    """Yield at each piece of work how many turns another task had so far."""
    for _ in range(PIECES):
        yield other.turns


async def run(other: OtherTask, seconds: cooperative.Clock) -> list[int]:
    """Do the pieces as they are iterated over."""
    found: list[int] = []
    await cooperative.run(map(found.append, pieces(other)), seconds)
    return found


async def for_each(other: OtherTask, seconds: cooperative.Clock) -> list[int]:
    """Gather the pieces as they come, all at once."""

    async def come() -> AsyncIterator[int]:
        for piece in pieces(other):
            yield piece

    found: list[int] = []
    await cooperative.for_each(come(), found.append, seconds)
    return found


@pytest.mark.parametrize("work", [run, for_each])
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
    other = OtherTask()

    async with timeless.beside(other.run()):
        found = await work(other, clock.Ticking(cost * 1.01))

    assert [len(list(some)) for _, some in itertools.groupby(found)] == [at_once] * (PIECES // at_once)


# ---------------------------------------------------------------- lists and watches

ITEMS: Final = [config_map(f"o{at:02}", str(at + 11)) for at in range(PIECES)]
EVENTS: Final = "".join(json.dumps(stub.event("ADDED", item)) + "\n" for item in ITEMS).encode()


@pytest.mark.parametrize(
    ("listed", "watched"),
    [
        pytest.param(stub.page(*ITEMS, version="30"), [], id="a list"),
        pytest.param(stub.page(version="10"), [stub.raw(EVENTS)], id="a watch"),
    ],
)
async def test_others_have_their_turn_between_any_two_dear_objects(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch, listed: stub.Answer, watched: list[stub.Answer]
) -> None:
    """However many come at once, each is decoded and passed on in a turn of its own."""
    other, decoded, passed_on = OtherTask(), set[int](), set[int]()
    decode, upserted = watch.Codec.decode_object, RecordingSink.upserted

    def decode_and_record(codec: watch.Codec[Any], raw: msgspec.Raw) -> Any:
        decoded.add(other.turns)
        return decode(codec, raw)

    def record(sink: RecordingSink, thing: ConfigMap) -> None:
        passed_on.add(other.turns)
        upserted(sink, thing)

    monkeypatch.setattr(watch.Codec, "decode_object", decode_and_record)
    monkeypatch.setattr(RecordingSink, "upserted", record)
    setup.script([listed], watched)
    ticking = clock.Ticking(cooperative.STEP_SECONDS * 1.01)
    following = informer.Informer(
        setup.session,
        CONFIG_MAPS,
        ConfigMap,
        setup.sink,
        scope=resources.Scope(namespace="ml"),
        clock=ticking,
    )

    async with timeless.beside(other.run()), timeless.beside(following.run()):
        await until(lambda: len(setup.sink.calls) == PIECES, "all objects")

    assert len(decoded) == len(passed_on) == PIECES
