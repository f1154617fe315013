"""An informer of many objects learns that it is up to date without reading them all again."""

import asyncio

import pytest
from aiohttp import web

from berth_crds.client import informer, page_sizes
from client.scenes import FOR_EVER, Scene, config_map
from support import mirror, stub


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make one object count as many, and shorten the waits."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 1)
    monkeypatch.setattr(informer, "SOON_SECONDS", 0.1)


def bookmark(version: str) -> dict[str, object]:
    """Make a frame that says how far a watch has come."""
    return stub.event("BOOKMARK", {"metadata": {"resourceVersion": version}})


def script(scene: Scene, newest: stub.Answer, *watches: stub.Answer) -> None:
    """Serve one object at revision 10, and set the answer to a read of the revision alone."""
    whole = stub.in_turn([stub.page(config_map("a", "9"), version="10"), stub.page(version="50")])

    async def listed(request: web.Request) -> web.StreamResponse:
        return await (newest if "resourceVersion" not in request.query and scene.lists == 2 else whole)(
            request
        )

    scene.script([listed], list(watches))


async def test_an_event_that_comes_by_itself_shows_it(scene: Scene) -> None:
    """Where events are frequent nothing is asked but the revision."""
    told = asyncio.Event()
    event = stub.later(told, stub.watch(stub.event("ADDED", config_map("b", "15")), until=FOR_EVER()))
    script(scene, stub.page(version="15"), event)
    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()

        catching_up = asyncio.create_task(scene.informer.catch_up())
        await scene.until(lambda: scene.lists == 2, "the question")
        told.set()
        await catching_up

        assert scene.mirror.names("upserted") == ["a", "b"]
    assert (scene.lists, scene.watches) == (2, 1)


async def test_a_short_watch_brings_a_bookmark(scene: Scene) -> None:
    """Where nothing happens a watch of a few seconds is opened, which ends with how far the server is."""
    silent = stub.watch(until=FOR_EVER())
    short = stub.watch(bookmark("12"), bookmark("15"), until=FOR_EVER())
    script(scene, stub.page(version="15"), silent, short)

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        await scene.until(lambda: scene.watches == 1, "the watch")
        await scene.informer.catch_up()

        assert repr(scene.informer).endswith("at revision 15>")
    assert [one.query["timeoutSeconds"] for one in scene.server.asked(watch="true")][1:] == ["3"]
    assert scene.resumed_from() == ["10", "10"], "nothing was listed in between"


async def test_without_a_bookmark_everything_is_listed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never says how far it is costs time, and no certainty."""
    monkeypatch.setattr(informer, "CATCH_UP_SECONDS", 0.3)
    script(scene, stub.page(version="15"), stub.watch(until=FOR_EVER()))

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        await scene.informer.catch_up()

    assert scene.mirror.names("deleted") == ["a"]


async def test_a_server_that_cannot_say_its_revision_is_listed(scene: Scene) -> None:
    """An error to the question is answered by reading everything."""
    script(scene, stub.status(500, "no"), stub.watch(until=FOR_EVER()))

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        await scene.informer.catch_up()

    assert scene.mirror.names("deleted") == ["a"]


async def test_an_earlier_revision_is_a_restore(scene: Scene) -> None:
    """Asked after a revision was seen, a server that names an earlier one has other data."""
    script(scene, stub.page(version="7"), stub.watch(until=FOR_EVER()))

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        await scene.informer.catch_up()

    assert scene.session.history.restores == 1
    assert scene.mirror.names("deleted") == ["a"]


async def test_few_objects_are_simply_read_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits into one page is sooner read than waited for."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 500)
    scene.script([stub.page(config_map("a", "9"), version="10"), stub.page(version="50")])

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        await scene.informer.catch_up()

    assert scene.mirror.names("deleted") == ["a"]


async def test_few_large_objects_are_not_read_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What took more than one page is sooner waited for, however few objects that are."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 500)
    monkeypatch.setattr(page_sizes, "LONGEST_PAGE", 2000)
    items = [config_map(name, "9", k="x" * 1500) for name in "ab"]
    event = stub.watch(stub.event("ADDED", config_map("c", "15")), until=FOR_EVER())
    scene.script([stub.paged(items, version="15")], [event])

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        read = scene.lists
        await scene.informer.catch_up()

    assert (scene.informer.lists, scene.lists) == (1, read + 1)
