"""Where watches are slow, refused or of no use, an informer does not burden the server with lists."""

import asyncio

import pytest

from berth_crds.client import informer, list_backoff
from client.informers import GONE, InformerSetup, config_map, open_watch, until
from support import stub

BUSY = stub.status(429, "slow down", reason="TooManyRequests", headers={"Retry-After": "0.01"})
EARLIER = stub.event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each watch count as opened late."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", -1.0)


# ---------------------------------------------------------------- watches of no use


@pytest.mark.parametrize(
    "useless",
    [
        pytest.param(stub.thing(GONE["object"], code=410), id="410 as an answer"),
        pytest.param(stub.watch(GONE), id="410 inside the stream"),
        pytest.param(open_watch(EARLIER), id="another history"),
    ],
)
async def test_lists_pause_until_a_watch_is_useful(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch, useless: stub.Answer
) -> None:
    """One list comes at once, which others may wait for; the pauses before further ones grow."""
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (0.01, 3600.0))
    setup.script([stub.page(version="10")], [useless] * 50)

    async with setup.synced():
        await until(lambda: len(setup.watched_from) == 3, "the third watch")
        await asyncio.sleep(0.1)

        assert (setup.lists, len(setup.watched_from)) == (3, 3)


async def test_a_watch_that_passed_something_on_was_useful(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it a list comes at once, however many there were before."""
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (3600.0,))
    lists = [stub.page(version=str(at)) for at in (10, 20, 30, 40)]
    watches = [stub.watch(stub.event("ADDED", config_map("a", str(at))), GONE) for at in (11, 21, 31)]
    setup.script(lists, watches)

    await setup.follow_until(lambda: "40" in setup.watched_from, "the fourth list")


async def test_who_asks_for_a_list_need_not_wait_for_a_better_watch(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ends all watches may be well otherwise."""
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (3600.0,))
    setup.script([stub.page(version="10")], [stub.watch(GONE)] * 50)

    async with setup.synced():
        await until(lambda: setup.lists == 2, "the second list")
        await setup.informer.refresh()

    assert setup.lists == 3


# ---------------------------------------------------------------- watches that open late


@pytest.mark.usefixtures("slow")
async def test_a_slow_server_is_listed_once_while_the_watch_is_open(setup: InformerSetup) -> None:
    """What came before that list is not passed on from the watch, what came later is, and no list follows."""
    later = asyncio.Event()
    first = stub.event("ADDED", config_map("gone", "21")), stub.event("MODIFIED", config_map("a", "22"))
    last = stub.event("ADDED", config_map("b", "31"))
    events = stub.watch(*first, last, until=later)
    lists = [stub.page(config_map("a", "9"), version="20"), stub.page(config_map("a", "22"), version="30")]
    setup.script(lists, [events])

    async with setup.synced():
        await until(lambda: "b" in setup.sink.objects, "the event after the list")
        assert setup.informer.live

    assert setup.sink.names("upserted") == ["a", "a", "b"]
    assert (setup.lists, setup.watched_from) == (2, ["20"])


@pytest.mark.usefixtures("slow")
async def test_an_event_of_an_unknown_revision_may_be_later(setup: InformerSetup) -> None:
    """An object of which nothing can be read is reported, though a list may have had it."""
    unreadable = stub.event("ADDED", {"metadata": 7})
    setup.script([stub.page(version="20")], [open_watch(unreadable)])

    async with setup.synced():
        await until(lambda: setup.informer.missing({"u"}) == set(), "the object")


@pytest.mark.usefixtures("slow")
async def test_a_late_watch_of_a_restored_server_is_left(setup: InformerSetup) -> None:
    """It began at a revision that the history has yet to reach, so it would leave out what comes before."""
    lists = [stub.page(config_map("a", "9"), version="20"), stub.page(config_map("a", "5"), version="8")]
    added = stub.event("ADDED", config_map("b", "21"))
    setup.script(lists, [open_watch(added)])

    await setup.follow_until(lambda: "8" in setup.watched_from, "a watch from the new list on")

    assert setup.sink.versions() == {"a": ("uid-a", "5")}
    assert setup.session.history.restores == 1


@pytest.mark.usefixtures("slow")
async def test_after_a_pause_that_the_server_asked_for_one_list_is_enough(setup: InformerSetup) -> None:
    """It is read once a watch is open again, for the server may have been restored meanwhile."""
    old, new = (config_map("a", "9", x=word) for word in ("old", "new"))
    setup.script([stub.page(old, version="20"), stub.page(new, version="40")], [BUSY, BUSY])

    await setup.follow_until(lambda: setup.sink.names("upserted") == ["a", "a"], "the list")

    assert setup.sink.objects["a"].data == {"x": "new"}
    assert (setup.lists, setup.watched_from) == (2, ["20"] * 3)
