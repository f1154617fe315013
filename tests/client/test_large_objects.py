"""Whoever may write objects may make them large, and no list, no watch and no memory suffers from it."""

import asyncio
import types
from typing import Any

import msgspec
import pytest

from berth_crds.client import api, errors, informer, page_sizes, watch
from client.scenes import FOR_EVER, GONE, PATH, Scene, config_map
from support import mirror, stub

CODEC = watch.Codec(mirror.ConfigMap)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the bounds such that small objects are large."""
    for name, most in {"LONGEST_PAGE": 4000, "USUAL_PAGE": 2000, "LONGEST_LINE": 9000}.items():
        monkeypatch.setattr(page_sizes, name, most)


def crowd(count: int, large: dict[int, int], word: str = "x") -> list[dict[str, Any]]:
    """Make so many objects, of which some hold a word so many times."""
    return [
        config_map(f"o{number:03}", "7", **({"k": word * large[number]} if number in large else {}))
        for number in range(count)
    ]


async def listed(items: list[dict[str, Any]], size: int = 100) -> tuple[stub.Stub, list[Any]]:
    """Read a whole list; tell what was asked, and what was found."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", PATH, stub.paged(items, version="9"))
        found = await watch.list_all(session, PATH, CODEC, selectors={}, size=size)
    return server, found.items


def limits(server: stub.Stub) -> list[int]:
    """Return the sizes of pages that were asked for."""
    return [int(one.query["limit"]) for one in server.requests]


async def test_a_page_that_is_too_long_is_asked_for_in_smaller_ones() -> None:
    """Each object is read once and in order, though all of them together were too long for one page."""
    items = crowd(40, dict.fromkeys(range(10, 20), 3500))

    server, found = await listed(items)

    assert [one.metadata.name for one in found] == [one["metadata"]["name"] for one in items]
    assert not [one for one in found if isinstance(one, watch.Undecodable)]
    assert 1 in limits(server)
    assert len(server.requests) < 40


async def test_pages_grow_again_behind_large_objects() -> None:
    """After large objects a page holds as many small ones as make the usual length."""
    server, _ = await listed(crowd(400, {0: 5000}), size=16)

    assert limits(server)[:2] == [16, 1]
    assert max(limits(server)[2:]) > 8
    assert max(limits(server)) == 16


async def test_commas_in_words_keep_no_list_from_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like many values is read in smaller pages."""
    monkeypatch.setattr(watch, "MOST_COMMAS", 1500)

    _, found = await listed(crowd(6, dict.fromkeys(range(6), 1000), word=","), size=3)

    assert [len(one.data["k"]) for one in found] == [1000] * 6


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

    _, found = await listed(crowd(9, {4: 9000}, word=","), size=3)

    (odd,) = [one for one in found if isinstance(one, watch.Undecodable)]
    assert (odd.metadata.name, odd.metadata.uid, odd.metadata.resource_version) == ("o004", "uid-o004", "7")
    assert (odd.body, "more than" in odd.detail) == (b"", True)
    assert [one.metadata.name for one in found] == [f"o{number:03}" for number in range(9)]


async def test_one_whole_read_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a list must come as one page, that may be long, and what is too long is an error."""
    items = crowd(4, {1: 8000, 2: 8000})

    server, found = await listed(items, size=0)

    assert (len(server.requests), len(found)) == (1, 4)
    monkeypatch.setattr("berth_crds.client.parser.LONGEST_BODY", 9000)
    with pytest.raises(errors.TooLarge, match="more than 9000 bytes"):
        await listed(items, size=0)


# ---------------------------------------------------------------- informers


async def test_a_list_is_told_page_by_page(scene: Scene) -> None:
    """What a page says is told before the next one is read: no list is held whole."""
    told: list[int] = []
    held = asyncio.Event()
    first = stub.page(config_map("a", "1"), version="10", more="next")
    second = stub.later(held, stub.page(config_map("b", "2"), version="10"))
    scene.script([stub.by_query("continue", {"": first, "next": second})])

    async with mirror.following(scene.informer):
        await scene.until(lambda: len(scene.server.requests) == 2, "the second page")
        told.append(len(scene.mirror.told))
        held.set()
        await scene.informer.wait_synced()

    assert [*told, len(scene.mirror.told)] == [1, 2]


async def test_an_informer_remembers_how_much_fits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next list begins with pages of the size that the last one came to."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 64)
    scene.deliver_to(mirror.Mirror())
    scene.script([stub.paged(crowd(4, dict.fromkeys(range(4), 3000)), version="9")])

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        before = len(scene.server.requests)
        await scene.informer.refresh()

    sizes = [int(one.query["limit"]) for one in scene.server.requests if "limit" in one.query]
    assert sizes[:3] == [64, 4, 1]
    assert set(sizes[before:]) == {1}
    assert len(scene.mirror.told) == 4


async def test_a_collection_that_was_empty_is_read_in_large_pages(scene: Scene) -> None:
    """That there was nothing says nothing of how large the objects are that come."""
    scene.script([stub.page(version="9"), stub.paged(crowd(3, {}), version="12")])

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        await scene.informer.refresh()

    sizes = [int(one.query["limit"]) for one in scene.server.requests if "limit" in one.query]
    assert sizes == [informer.PAGE_SIZE] * 2


async def test_a_restore_that_a_later_page_proves_is_told_from_the_start(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was told before the proof is told once more behind it."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 1)
    scene.deliver_to(mirror.Mirror())
    before = stub.paged([config_map("a", "5"), config_map("b", "9")], version="20")
    after = stub.paged([config_map("a", "5"), config_map("b", "7")], version="30")
    scene.script([before, before, after])

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        del scene.mirror.told[:]
        await scene.informer.refresh()

    assert scene.mirror.told == [("upserted", "a", "uid-a"), ("upserted", "b", "uid-b")]
    assert scene.session.history.restores == 1


async def test_an_event_that_is_too_large_means_a_new_list(scene: Scene) -> None:
    """The list says what the watch could not, at once and not after several attempts."""
    large = config_map("a", "12", k="x" * 1_000_000)
    lists = [stub.page(config_map("a", "1"), version="10"), stub.paged([large], version="12")]
    scene.script(
        [lists[0], *[lists[1]] * 9], [stub.watch(stub.event("MODIFIED", large)), stub.watch(until=FOR_EVER())]
    )

    await scene.follow_until(lambda: scene.resumed_from()[-1:] == ["12"], "a watch from the new list on")

    assert scene.resumed_from() == ["10", "12"]
    assert scene.mirror.told == [("upserted", "a", "uid-a")]


async def test_the_end_of_a_large_object_is_told(scene: Scene) -> None:
    """One that was never readable is forgotten with the list that lacks it."""
    large = config_map("a", "7", k="x" * 20_000)
    gone = stub.watch(stub.event("ERROR", GONE))
    first = stub.paged([config_map("0", "7"), large], version="9")
    scene.script([*[first] * 6, stub.page(config_map("0", "7"), version="40")], [gone])

    await scene.follow_until(lambda: scene.informer.lists > 2, "more lists")

    assert scene.mirror.told == [("upserted", "0", "uid-0")]
    assert scene.informer.missing(["uid-a"]) == {"uid-a"}


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED", "DELETED"])
def test_a_long_line_of_a_watch_is_read_once(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To find where its object ends would take as long again as to read that."""
    long = config_map("a", "12", k="x" * watch.LARGE_BYTES)
    frames: list[bytes] = []
    monkeypatch.setattr(watch.Codec, "_frame", Frames(frames))

    told = CODEC.event(msgspec.json.encode({"type": change, "object": long}))

    assert isinstance(told, watch.Event)
    assert (told.change, told.thing, frames) == (change, CODEC.decode_object(raw(long)), [])


@pytest.mark.parametrize("object_", [[], {"metadata": {"name": 7}}], ids=["no object", "odd"])
def test_a_long_line_that_is_odd_is_told_as_a_short_one(object_: object) -> None:
    """What cannot be read is unreadable, and nothing else."""
    short = msgspec.json.encode({"type": "ADDED", "object": object_})

    told, known = CODEC.event(short[:-1] + b" " * watch.LARGE_BYTES + b"}"), CODEC.event(short)

    assert isinstance(told, watch.Event) and isinstance(known, watch.Event)
    assert isinstance(told.thing, watch.Undecodable) and isinstance(known.thing, watch.Undecodable)
    assert told.thing.metadata == known.thing.metadata


def test_a_long_line_that_is_no_event_is_refused() -> None:
    """Though it begins like one."""
    with pytest.raises(errors.DECODE_ERRORS):
        CODEC.event(b'{"type":"ADDED","object":' + b" " * watch.LARGE_BYTES + b"}")


class Frames:
    """Counts the lines that are read as frames."""

    def __init__(self, seen: list[bytes]) -> None:
        self._seen = seen

    def decode(self, line: bytes) -> object:
        """Record it."""
        self._seen.append(line)
        raise AssertionError("a long line was read as a frame")


def raw(thing: dict[str, Any]) -> msgspec.Raw:
    """Write an object as it stands in a list."""
    return msgspec.Raw(msgspec.json.encode(thing))
