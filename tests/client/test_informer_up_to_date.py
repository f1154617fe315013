"""An informer of many objects learns that it is up to date without reading them all again."""

import asyncio

import pytest
from aiohttp import web

from berth_crds.client import informer, list_backoff, page_sizes
from client.informers import InformerSetup, config_map, open_watch, until
from support import stub, timeless


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make one object count as many, and shorten the waits; on a busy machine a watch opens late."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 1)
    monkeypatch.setattr(informer, "SOON_SECONDS", 0.1)
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 60.0)


def script(setup: InformerSetup, newest: stub.Answer, *watches: stub.Answer) -> None:
    """Serve one object at revision 10, and set the answer to a read of the revision alone."""
    whole = stub.in_turn([stub.page(config_map("a", "9"), version="10"), stub.page(version="50")])

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (newest if setup.lists == 2 else whole)(request)

    setup.script([answer], watches)


def seconds_of_watches(setup: InformerSetup) -> list[str]:
    """Return how long each watch was asked to last."""
    return [request.query["timeoutSeconds"] for request in setup.server.asked(watch="true")]


async def expect_catch_up(setup: InformerSetup) -> None:
    """Tell the informer that it is to catch up soon, and wait until it has asked for another watch."""
    await until(lambda: setup.watched_from, "the watch")
    setup.informer.expect_catch_up()
    await until(lambda: len(setup.watched_from) == 2, "another watch")


async def catch_up_while_it_opens(setup: InformerSetup, opened: asyncio.Event) -> None:
    """Catch up; the watch that was asked for opens only when the server has told its revision."""
    catching_up = asyncio.create_task(setup.informer.catch_up())
    await until(lambda: setup.lists == 2, "the question")
    await asyncio.sleep(0.2)
    opened.set()
    await catching_up


async def test_an_event_that_comes_by_itself_is_enough(setup: InformerSetup) -> None:
    """Where events are frequent nothing is asked but the revision."""
    asked = asyncio.Event()
    first, second = (stub.event("ADDED", config_map(name, at)) for name, at in (("b", "12"), ("c", "15")))
    script(setup, stub.page(version="15"), stub.watch(first, until=asked), open_watch(second))
    async with setup.synced():
        await until(lambda: setup.sink.names("upserted") == ["a", "b"], "an event")
        catching_up = asyncio.create_task(setup.informer.catch_up())
        await until(lambda: setup.lists == 2, "the question")
        asked.set()
        await catching_up

        assert setup.sink.names("upserted") == ["a", "b", "c"]
    assert (setup.lists, setup.watched_from) == (2, ["10", "12"])
    assert "3" not in seconds_of_watches(setup)


async def test_a_short_watch_brings_a_bookmark(setup: InformerSetup) -> None:
    """Where nothing happens a watch of a few seconds is opened, which ends with how far the server is."""
    bookmarks = [stub.event("BOOKMARK", {"metadata": {"resourceVersion": at}}) for at in ("12", "15")]
    script(setup, stub.page(version="15"), open_watch(), open_watch(*bookmarks))

    async with setup.synced():
        await until(lambda: setup.watched_from, "the watch")
        await setup.informer.catch_up()

        assert repr(setup.informer).endswith("at revision 15>")
    assert seconds_of_watches(setup)[1:] == ["3"]
    assert setup.watched_from == ["10", "10"], "nothing was listed in between"


async def test_a_bookmark_that_is_wanted_while_a_watch_is_being_opened_comes_from_the_next(
    setup: InformerSetup,
) -> None:
    """The watch that was asked for already is a long one, and may be silent for minutes."""
    opened = asyncio.Event()
    bookmark = stub.event("BOOKMARK", {"metadata": {"resourceVersion": "15"}})
    script(setup, stub.page(version="15"), stub.later(opened, open_watch()), open_watch(bookmark))

    async with setup.synced():
        await until(lambda: setup.watched_from, "the watch to be asked for")
        await catch_up_while_it_opens(setup, opened)

    assert seconds_of_watches(setup)[1:] == ["3"]
    assert (setup.lists, setup.watched_from) == (2, ["10", "10"]), "nothing was listed again"


async def test_who_is_expected_to_catch_up_soon_has_the_bookmark_on_its_way(setup: InformerSetup) -> None:
    """Else a new leader of a large cluster decides a second later."""
    opened = asyncio.Event()
    bookmark = stub.event("BOOKMARK", {"metadata": {"resourceVersion": "15"}})
    script(setup, stub.page(version="15"), open_watch(), stub.later(opened, open_watch(bookmark)))

    async with setup.synced():
        await expect_catch_up(setup)
        await catch_up_while_it_opens(setup, opened)

    assert seconds_of_watches(setup)[1:] == ["3"]


async def test_a_bookmark_that_came_too_early_is_followed_by_another(setup: InformerSetup) -> None:
    """It was on its way before anybody asked how far the server is."""
    opened = asyncio.Event()
    early, late = (stub.event("BOOKMARK", {"metadata": {"resourceVersion": at}}) for at in ("12", "15"))
    script(
        setup, stub.page(version="15"), open_watch(), stub.later(opened, open_watch(early)), open_watch(late)
    )

    async with setup.synced():
        await expect_catch_up(setup)
        await catch_up_while_it_opens(setup, opened)

    assert seconds_of_watches(setup)[1:] == ["3", "3"]
    assert (setup.lists, setup.watched_from) == (2, ["10", "10", "12"]), "nothing was listed again"


async def test_where_nobody_catches_up_after_all_watches_are_long_again(setup: InformerSetup) -> None:
    """The leader renewed its Lease at the last moment."""
    ended = asyncio.Event()
    bookmark = stub.event("BOOKMARK", {"metadata": {"resourceVersion": "12"}})
    short = stub.watch(bookmark, until=ended)
    script(setup, stub.page(version="15"), open_watch(), short, open_watch())

    async with setup.synced():
        await expect_catch_up(setup)
        await until(lambda: repr(setup.informer).endswith("at revision 12>"), "the bookmark")
        ended.set()
        await until(lambda: len(setup.watched_from) == 3, "the next watch")

    assert seconds_of_watches(setup)[1] == "3"
    assert int(seconds_of_watches(setup)[2]) >= 300


@pytest.mark.parametrize(
    "useless",
    [
        pytest.param(stub.watch(), id="nothing"),
        pytest.param(
            open_watch(stub.event("BOOKMARK", {"metadata": {"resourceVersion": "10"}})), id="no news"
        ),
    ],
)
async def test_a_server_that_has_nothing_to_say_is_not_asked_without_end(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch, useless: stub.Answer
) -> None:
    """However much a bookmark is wanted: the pauses between watches grow."""
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (0.01, 3600.0))
    script(setup, stub.page(version="15"), open_watch(), *[useless] * 50)

    async with setup.synced():
        await until(lambda: setup.watched_from, "the watch")
        async with timeless.beside(setup.informer.catch_up()):
            await until(lambda: len(setup.watched_from) == 3, "the third watch")
            await asyncio.sleep(0.1)

    assert len(setup.watched_from) == 3


@pytest.mark.parametrize(
    ("newest", "page_size", "lists", "restores"),
    [
        pytest.param(stub.page(version="15"), 1, 3, 0, id="no bookmark comes"),
        pytest.param(stub.status(500, "no"), 1, 3, 0, id="the server cannot tell its revision"),
        pytest.param(stub.page(version="7"), 1, 3, 1, id="an earlier revision is a restore"),
        pytest.param(stub.page(version="50"), 500, 2, 0, id="few objects are sooner read than waited for"),
    ],
)
async def test_else_everything_is_listed(
    setup: InformerSetup,
    monkeypatch: pytest.MonkeyPatch,
    newest: stub.Answer,
    page_size: int,
    lists: int,
    restores: int,
) -> None:
    """What a server does not tell costs time, and no certainty."""
    monkeypatch.setattr(informer, "CATCH_UP_SECONDS", 0.3)
    monkeypatch.setattr(informer, "PAGE_SIZE", page_size)
    script(setup, newest)

    async with setup.synced():
        await setup.informer.catch_up()

    assert setup.sink.names("deleted") == ["a"]
    assert (setup.lists, setup.session.history.restores) == (lists, restores)


async def test_few_large_objects_are_not_read_again(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What took more than one page is sooner waited for, however few objects that are."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 500)
    monkeypatch.setattr(page_sizes, "LONGEST_PAGE", 2000)
    items = [config_map(name, "9", k="x" * 1500) for name in "ab"]
    event = open_watch(stub.event("ADDED", config_map("c", "15")))
    setup.script([stub.paged(items, version="15")], [event])

    async with setup.synced():
        before = setup.lists
        await setup.informer.catch_up()

    assert (setup.informer.lists, setup.lists) == (1, before + 1)
