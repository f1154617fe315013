"""Whoever may write objects may make them large, and no list, no watch and no memory suffers from it."""

import asyncio
import types
from typing import Any
from unittest import mock

import msgspec
import pytest

from berth_crds.client import api, errors, informer, page_sizes, parser, watch
from client import informers
from client.informers import PATH, ConfigMap, InformerSetup, RecordingSink, config_map, until
from support import stub, timeless

CODEC = watch.Codec(ConfigMap)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the bounds such that small objects are large."""
    for name, most in {"LONGEST_PAGE": 4000, "USUAL_PAGE": 2000, "LONGEST_LINE": 9000}.items():
        monkeypatch.setattr(page_sizes, name, most)


def objects(count: int, large: dict[int, int], word: str = "x") -> list[dict[str, Any]]:
    """Return so many objects, of which some hold a word so many times."""
    return [
        config_map(f"o{number:03}", "7", **({"k": word * large[number]} if number in large else {}))
        for number in range(count)
    ]


async def listed(items: list[dict[str, Any]], size: int = 100) -> tuple[list[int], list[Any]]:
    """Read a whole list; return the sizes of pages that were asked for, and what was found."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", PATH, stub.paged(items, version="9"))
        found = await informers.list_all(session, PATH, CODEC, selectors={}, size=size)
    return limits(server), found.items


def limits(server: stub.Stub) -> list[int]:
    """Return the sizes of pages that were asked for."""
    return [int(request.query["limit"]) for request in server.requests if "limit" in request.query]


async def test_a_page_that_is_too_long_is_asked_for_in_smaller_ones() -> None:
    """Each object is read once and in order, though all of them together were too long for one page."""
    items = objects(40, dict.fromkeys(range(10, 20), 3500))

    sizes, found = await listed(items)

    assert found == [msgspec.convert(item, ConfigMap) for item in items]
    assert 1 in sizes
    assert len(sizes) < 40


async def test_pages_grow_again_behind_large_objects() -> None:
    """After large objects a page holds as many small ones as make the usual length."""
    sizes, _ = await listed(objects(400, {0: 5000}), size=16)

    assert sizes[:2] == [16, 1]
    assert 8 < max(sizes[2:]) <= 16


@pytest.mark.parametrize(
    ("where", "bound", "most"),
    [
        pytest.param(page_sizes, "LONGEST_LINE", 9000, id="bytes"),
        pytest.param(watch, "MOST_COMMAS", 1500, id="values"),
    ],
)
async def test_an_object_that_alone_is_too_large_is_unreadable(
    monkeypatch: pytest.MonkeyPatch, where: types.ModuleType, bound: str, most: int
) -> None:
    """Its metadata are read, nothing of it is kept, and all others are as ever."""
    monkeypatch.setattr(where, bound, most)
    items = objects(9, {4: 9000}, word=",")

    _, found = await listed(items, size=3)

    large = found.pop(4)
    assert isinstance(large, watch.Undecodable)
    assert (large.metadata.name, large.metadata.uid, large.metadata.resource_version) == (
        "o004",
        "uid-o004",
        "7",
    )
    assert (large.body, "more than" in large.detail) == (b"", True)
    assert found == [msgspec.convert(item, ConfigMap) for item in items[:4] + items[5:]]


async def test_one_whole_read_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a list must come as one page, that may be long, and what is too long is an error."""
    items = objects(4, {1: 8000, 2: 8000})

    sizes, found = await listed(items, size=0)

    assert (sizes, len(found)) == ([0], 4)
    monkeypatch.setattr(parser, "LONGEST_BODY", 9000)
    with pytest.raises(errors.TooLarge, match="more than 9000 bytes"):
        await listed(items, size=0)


# ---------------------------------------------------------------- informers


async def test_a_list_is_passed_on_page_by_page(setup: InformerSetup) -> None:
    """The objects of a page are passed on before the next one is read: no list is held whole."""
    held = asyncio.Event()
    first = stub.page(config_map("a", "1"), version="10", more="next")
    second = stub.later(held, stub.page(config_map("b", "2"), version="10"))
    setup.script([stub.by_query("continue", {"": first, "next": second})])

    async with timeless.beside(setup.informer.run()):
        await until(lambda: setup.lists == 2, "the second page")
        assert setup.sink.names("upserted") == ["a"]
        held.set()
        await setup.informer.wait_synced()

    assert setup.sink.names("upserted") == ["a", "b"]


async def test_an_informer_remembers_how_much_fits(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next list begins with pages of the size that the last one came to."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 64)
    setup.use(RecordingSink())
    setup.script([stub.paged(objects(4, dict.fromkeys(range(4), 3000)), version="9")])

    async with setup.synced():
        before = len(limits(setup.server))
        await setup.informer.refresh()

    sizes = limits(setup.server)
    assert (sizes[:3], set(sizes[before:])) == ([64, 4, 1], {1})
    assert len(setup.sink.calls) == 4


async def test_a_collection_that_was_empty_is_read_in_large_pages(setup: InformerSetup) -> None:
    """That there was nothing tells nothing of how large the objects are that come."""
    setup.script([stub.page(version="9"), stub.paged(objects(3, {}), version="12")])

    async with setup.synced():
        await setup.informer.refresh()

    assert limits(setup.server) == [informer.PAGE_SIZE] * 2


async def test_a_restore_that_a_later_page_proves_is_passed_on_from_the_start(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was passed on before the proof is passed on once more behind it."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 1)
    setup.use(RecordingSink())
    before = stub.paged([config_map("a", "5"), config_map("b", "9")], version="20")
    after = stub.paged([config_map("a", "5"), config_map("b", "7")], version="30")
    setup.script([before, before, after])

    async with setup.synced():
        await setup.informer.refresh()

    assert setup.sink.names("upserted") == ["a", "b", "a", "b"]
    assert setup.session.history.restores == 1


async def test_an_event_that_is_too_large_means_a_new_list(setup: InformerSetup) -> None:
    """The list has what the watch could not carry, at once and not after several attempts."""
    large = config_map("a", "12", k="x" * 1_000_000)
    setup.script(
        [stub.page(config_map("a", "1"), version="10"), stub.paged([large], version="12")],
        [stub.watch(stub.event("MODIFIED", large))],
    )

    await setup.follow_until(lambda: "12" in setup.watched_from, "a watch from the new list on")

    assert setup.watched_from == ["10", "12"]
    assert setup.sink.calls == [("upserted", "a", "uid-a")]


# ---------------------------------------------------------------- long lines of a watch


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED", "DELETED"])
def test_a_long_line_of_a_watch_is_read_once(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To find where its object ends would take as long again as to read that."""
    long = msgspec.json.encode(config_map("a", "12", k="x" * watch.LARGE_BYTES))
    frame = mock.Mock()
    monkeypatch.setattr(watch.Codec, "_frame", frame)

    event = CODEC.event(b'{"type":"%s","object":%s}' % (change.encode(), long))

    assert event == watch.Event(change, CODEC.decode_object(msgspec.Raw(long)))  # type: ignore[arg-type]
    frame.decode.assert_not_called()


@pytest.mark.parametrize("object_", [[], {"metadata": {"name": 7}}], ids=["no object", "no name"])
def test_a_long_undecodable_line_is_read_like_a_short_one(object_: object) -> None:
    """What cannot be read is unreadable, and nothing else."""
    short = msgspec.json.encode({"type": "ADDED", "object": object_})
    long = short[:-1] + b" " * watch.LARGE_BYTES + b"}"

    things = [event.thing for event in map(CODEC.event, (short, long)) if isinstance(event, watch.Event)]

    assert [isinstance(thing, watch.Undecodable) for thing in things] == [True, True]
    assert things[0].metadata == things[1].metadata


def test_a_long_line_that_is_no_event_is_refused() -> None:
    """Though it begins like one."""
    with pytest.raises(errors.DECODE_ERRORS):
        CODEC.event(b'{"type":"ADDED","object":' + b" " * watch.LARGE_BYTES + b"}")
