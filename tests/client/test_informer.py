"""What an informer does, whatever its server answers: no delete is lost, and nothing is passed on twice."""

import asyncio

import pytest

from berth_crds.client import informer, list_backoff, watch
from client.informers import GONE, InformerSetup, config_map, open_watch
from support import stub

# ---------------------------------------------------------------- the usual


async def test_a_list_is_passed_on_and_then_every_change(setup: InformerSetup) -> None:
    """Objects come first, then events in order; a repeated revision is dropped, the last one is known."""
    watch_events = [
        stub.event("ADDED", config_map("b", "11")),
        stub.event("MODIFIED", config_map("a", "12")),
        stub.event("MODIFIED", config_map("a", "12")),
        stub.event("DELETED", config_map("b", "13")),
    ]
    setup.script([stub.page(config_map("a", "9"), version="10")], [open_watch(*watch_events)])

    await setup.follow_until(lambda: "b" in setup.sink.names("deleted"), "the delete")

    assert [(call, name) for call, name, _ in setup.sink.calls] == [
        ("upserted", "a"),
        ("upserted", "b"),
        ("upserted", "a"),
        ("deleted", "b"),
    ]
    assert repr(setup.informer) == "<Informer of configmaps: 1 known, at revision 13>"
    assert setup.informer.revisions() == {"a": "12"}


async def test_a_watch_that_ends_is_resumed_where_it_was(setup: InformerSetup) -> None:
    """The next watch begins at the last revision seen, of an object or of a bookmark, without a list."""
    bookmark = stub.event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})
    added = stub.event("ADDED", config_map("a", "11"))
    setup.script([stub.page(version="10")], [stub.watch(added), stub.watch(bookmark)])

    await setup.follow_until(lambda: len(setup.watched_from) == 3, "the third watch")

    assert (setup.watched_from, setup.lists) == (["10", "11", "40"], 1)
    query = setup.server.asked(watch="true")[0].query
    assert query["allowWatchBookmarks"] == "true"
    assert 300 <= int(query["timeoutSeconds"]) <= 600


async def test_a_cancelled_informer_ends(setup: InformerSetup) -> None:
    """Its requests end with it."""
    setup.script([stub.page(version="10")])

    async with setup.synced():
        assert [task for task in asyncio.all_tasks() if "follow" in task.get_name()]

    assert not [task for task in asyncio.all_tasks() if "follow" in task.get_name()]


# ---------------------------------------------------------------- 410


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(stub.thing(GONE["object"], code=410), id="as an answer"),
        pytest.param(open_watch(GONE), id="inside the stream"),
    ],
)
async def test_a_revision_that_is_gone_means_a_new_list(setup: InformerSetup, refusal: stub.Answer) -> None:
    """What was deleted, recreated or changed meanwhile is found by comparing the new list with the old."""
    before = [config_map(name, str(at)) for at, name in enumerate(("kept", "gone", "again", "new"), start=1)]
    after = [config_map("kept", "1"), config_map("again", "22", uid="other"), config_map("new", "23")]
    setup.script([stub.page(*before, version="10"), stub.page(*after, version="40")], [refusal])

    await setup.follow_until(lambda: "40" in setup.watched_from, "a watch from the new list on")

    assert setup.sink.calls[4:] == [
        ("deleted", "again", "uid-again"),
        ("upserted", "again", "other"),
        ("upserted", "new", "uid-new"),
        ("deleted", "gone", "uid-gone"),
    ]


async def test_an_expired_page_token_means_a_whole_read(setup: InformerSetup) -> None:
    """When the history is gone between two pages, one read gets everything, and finds what is gone."""
    first = stub.page(config_map("a", "1"), version="10", more="next")
    paged = stub.by_query("continue", {"": first, "next": stub.thing(GONE["object"], code=410)})
    whole = stub.page(config_map("b", "2"), version="40")
    setup.script([stub.by_query("limit", {"500": paged, "0": whole})])

    async with setup.synced():
        assert (setup.sink.names("upserted"), setup.sink.names("deleted")) == (["a", "b"], ["a"])


# ---------------------------------------------------------------- a server in trouble


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(stub.status(500, "etcd is away"), id="500"),
        pytest.param(stub.status(403, "not any more"), id="403"),
        pytest.param(stub.reset(), id="reset"),
        pytest.param(stub.watch(stub.event("ERROR", stub.failure(500, "no"))), id="error in the stream"),
        pytest.param(stub.raw(b"<html>\n"), id="garbage"),
        pytest.param(stub.raw(b""), id="nothing at all"),
    ],
)
async def test_a_watch_that_keeps_failing_means_a_new_list(
    setup: InformerSetup, trouble: stub.Answer
) -> None:
    """After a few failures in a row the list is read again, for something may have been missed."""
    lists = [stub.page(config_map("a", "1"), version="10"), stub.page(version="40")]
    setup.script(lists, [trouble] * 20)

    await setup.follow_until(lambda: setup.sink.names("deleted") == ["a"], "the second list")

    assert setup.watched_from.count("10") == informer.MOST_WATCH_FAILURES


async def test_a_watch_of_which_nothing_comes_is_no_news(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing may happen for long: it is opened anew, from where it was, and nobody reads of a failure."""
    monkeypatch.setattr(watch, "IDLE_SECONDS", 0.05)
    caplog.set_level("INFO", informer.log.name)
    added = stub.event("ADDED", config_map("a", "11"))
    setup.script([stub.page(version="10")], [open_watch(), open_watch(added)])

    await setup.follow_until(lambda: setup.sink.names("upserted") == ["a"], "the second watch")

    assert (setup.lists, setup.watched_from[:2]) == (1, ["10", "10"])
    assert "the watch failed" not in caplog.text


async def test_watches_that_fail_are_opened_anew_after_a_pause(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ends each watch at once is not asked without end: the pauses grow."""
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (0.01, 3600.0))
    setup.script([stub.page(version="10")], [stub.watch()] * 20)

    async with setup.synced():
        await asyncio.sleep(0.5)

    assert len(setup.watched_from) <= 2


async def test_lists_are_tried_until_one_succeeds(setup: InformerSetup) -> None:
    """A list that fails, in whatever way, is read again; nothing counts as synced before."""
    troubles = [stub.status(503, "starting"), stub.reset(), stub.raw(b"<html>"), stub.status(401, "who?")]
    setup.script([*troubles, stub.page(config_map("a", "1"), version="10")])
    assert not setup.informer.synced

    async with setup.synced():
        assert (setup.lists, setup.sink.names("upserted")) == (5, ["a"])


async def test_retry_after_is_kept(setup: InformerSetup) -> None:
    """Retry-After is kept, however short our own pauses are."""
    busy = stub.status(429, "slow down", headers={"Retry-After": "0.4"})
    setup.script([busy, stub.page(version="10")])
    started = asyncio.get_running_loop().time()

    async with setup.synced():
        assert asyncio.get_running_loop().time() - started >= 0.4


async def test_another_uid_is_another_object(setup: InformerSetup) -> None:
    """Should the delete between two objects of one name be missing, it is passed on all the same."""
    replaced = stub.event("MODIFIED", config_map("a", "12", uid="other"))
    setup.script([stub.page(config_map("a", "1"), version="10")], [open_watch(replaced)])

    await setup.follow_until(lambda: len(setup.sink.calls) == 3, "delete and newcomer")

    assert setup.sink.calls[1:] == [("deleted", "a", "uid-a"), ("upserted", "a", "other")]
