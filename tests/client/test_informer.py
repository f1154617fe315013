"""What an informer makes of a server's every mood: no delete is lost, and nothing is told twice."""

import asyncio
import contextlib

import pytest

from berth_crds.client import informer, watch
from client.scenes import FOR_EVER, GONE, Scene, config_map
from support import mirror, stub

# ---------------------------------------------------------------- the usual


async def test_a_list_is_told_and_then_every_change(scene: Scene) -> None:
    """What is there is told first, then what happens, in order; a repeated revision is not told again."""
    events = [
        stub.event("ADDED", config_map("b", "11")),
        stub.event("MODIFIED", config_map("a", "12")),
        stub.event("MODIFIED", config_map("a", "12")),
        stub.event("DELETED", config_map("b", "13")),
    ]
    scene.script([stub.page(config_map("a", "9"), version="10")], [stub.watch(*events, until=FOR_EVER())])

    await scene.follow_until(lambda: "b" in scene.mirror.names("deleted"), "the delete")

    assert [(told, name) for told, name, _ in scene.mirror.told] == [
        ("upserted", "a"),
        ("upserted", "b"),
        ("upserted", "a"),
        ("deleted", "b"),
    ]
    assert repr(scene.informer) == "<Informer of configmaps: 1 known, at revision 13>"


async def test_it_tells_the_revisions_that_it_knows(scene: Scene) -> None:
    """Each object that there is, in the revision that was seen last."""
    events = [
        stub.event("ADDED", config_map("b", "11")),
        stub.event("ADDED", config_map("c", "12")),
        stub.event("MODIFIED", config_map("a", "13")),
        stub.event("DELETED", config_map("b", "14")),
    ]
    scene.script([stub.page(config_map("a", "9"), version="10")], [stub.watch(*events, until=FOR_EVER())])

    async with mirror.following(scene.informer):
        await scene.until(lambda: "b" in scene.mirror.names("deleted"), "the delete")

        assert scene.informer.revisions() == {"a": "13", "c": "12"}


async def test_a_watch_that_ends_is_resumed_where_it_was(scene: Scene) -> None:
    """The next watch begins at the last revision seen, of an object or of a bookmark, without a list."""
    bookmark = {"metadata": {"resourceVersion": "40"}}
    watches = [
        stub.watch(stub.event("ADDED", config_map("a", "11"))),
        stub.watch(stub.event("BOOKMARK", bookmark)),
        stub.watch(until=FOR_EVER()),
    ]
    scene.script([stub.page(version="10")], watches)

    await scene.follow_until(lambda: scene.watches == 3, "the third watch")

    assert scene.resumed_from() == ["10", "11", "40"]
    assert scene.lists == 1
    asked = scene.server.asked(watch="true")[0].query
    assert asked["allowWatchBookmarks"] == "true"
    assert 300 <= int(asked["timeoutSeconds"]) <= 600


async def test_it_ends_when_told_to(scene: Scene) -> None:
    """A cancelled informer ends with its requests, and tells nothing more."""
    scene.script([stub.page(config_map("a", "9"), version="10")])
    task = asyncio.create_task(scene.informer.run())
    await scene.informer.wait_synced()

    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert task.cancelled()
    assert not [one for one in asyncio.all_tasks() if "follow" in one.get_name()]


# ---------------------------------------------------------------- 410


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(stub.thing(GONE, code=410), id="as an answer"),
        pytest.param(stub.watch(stub.event("ERROR", GONE), until=FOR_EVER()), id="inside the stream"),
    ],
)
async def test_a_revision_that_is_gone_means_a_new_list(scene: Scene, refusal: stub.Answer) -> None:
    """What was deleted, recreated or changed meanwhile is found by comparing the new list with the old."""
    before = [
        config_map("kept", "1"),
        config_map("gone", "2"),
        config_map("again", "3"),
        config_map("new", "4"),
    ]
    after = [config_map("kept", "1"), config_map("again", "22", uid="other"), config_map("new", "23")]
    scene.script(
        [stub.page(*before, version="10"), stub.page(*after, version="40")],
        [refusal, stub.watch(until=FOR_EVER())],
    )

    await scene.follow_until(lambda: scene.resumed_from()[-1:] == ["40"], "a watch from the new list on")

    assert scene.mirror.told[4:] == [
        ("deleted", "again", "uid-again"),
        ("upserted", "again", "other"),
        ("upserted", "new", "uid-new"),
        ("deleted", "gone", "uid-gone"),
    ]


async def test_an_expired_page_token_means_a_whole_read(scene: Scene) -> None:
    """When the history is gone between two pages, one read gets everything, and says what is gone."""
    one, two = config_map("a", "1"), config_map("b", "2")
    paged = stub.by_query(
        "continue", {"": stub.page(one, version="10", more="next"), "next": stub.thing(GONE, code=410)}
    )
    whole = stub.page(two, version="40")
    by_limit = stub.by_query("limit", {"500": paged, "0": whole})
    scene.script([by_limit])

    await scene.follow_until_synced()

    assert scene.mirror.names("upserted") == ["a", "b"]
    assert scene.mirror.names("deleted") == ["a"]


# ---------------------------------------------------------------- a server in trouble


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(stub.status(500, "etcd is away"), id="500"),
        pytest.param(stub.status(403, "not any more"), id="403"),
        pytest.param(stub.reset(), id="reset"),
        pytest.param(
            stub.watch({"type": "ERROR", "object": stub.failure(500, "no")}), id="error in the stream"
        ),
        pytest.param(stub.raw(b"<html>\n"), id="garbage"),
        pytest.param(stub.raw(b""), id="nothing at all"),
    ],
)
async def test_a_watch_that_keeps_failing_means_a_new_list(scene: Scene, trouble: stub.Answer) -> None:
    """After a few failures in a row the list is read again, for something may have been missed."""
    lists = [stub.page(config_map("a", "1"), version="10"), stub.page(version="40")]
    scene.script(lists, [trouble])

    await scene.follow_until(lambda: scene.mirror.names("deleted") == ["a"], "the second list")

    # A connection that breaks is tried twice by the HTTP library, for a read does no harm.
    assert scene.resumed_from().count("10") in {
        informer.MOST_WATCH_FAILURES,
        2 * informer.MOST_WATCH_FAILURES,
    }


async def test_a_watch_of_which_nothing_comes_is_no_news(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing may happen for long: it is opened anew, from where it was, and nobody reads of a failure."""
    monkeypatch.setattr(watch, "IDLE_SECONDS", 0.05)
    caplog.set_level("INFO", informer.log.name)
    added = stub.event("ADDED", config_map("a", "11"))
    watches = [stub.watch(until=FOR_EVER()), stub.watch(added, until=FOR_EVER())]
    scene.script([stub.page(version="10")], watches)

    await scene.follow_until(lambda: scene.mirror.names("upserted") == ["a"], "the second watch")

    assert (scene.lists, scene.resumed_from()[:2]) == (1, ["10", "10"])
    assert "the watch failed" not in caplog.text


async def test_a_server_that_ends_watches_at_once_is_not_hammered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that says nothing and ends is a failure like others, and is waited out."""
    monkeypatch.setattr(informer, "BACKOFF_SECONDS", (0.2,))
    scene.script([stub.page(version="10")], [stub.watch()])

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        await asyncio.sleep(0.5)

    assert scene.watches <= 6


async def test_lists_are_tried_until_one_succeeds(scene: Scene) -> None:
    """A list that fails, in whatever way, is read again; nothing counts as synced before."""
    troubles = [stub.status(503, "starting"), stub.reset(), stub.raw(b"<html>"), stub.status(401, "who?")]
    scene.script([*troubles, stub.page(config_map("a", "1"), version="10")])
    assert not scene.informer.synced

    await scene.follow_until_synced()

    assert scene.lists == 5
    assert scene.mirror.names("upserted") == ["a"]


async def test_the_server_says_how_long_to_wait(scene: Scene) -> None:
    """Retry-After is kept, however short our own pauses are."""
    busy = stub.status(429, "slow down", headers={"Retry-After": "0.4"})
    scene.script([busy, stub.page(version="10")])
    started = asyncio.get_running_loop().time()

    await scene.follow_until_synced()

    assert asyncio.get_running_loop().time() - started >= 0.4


async def test_another_uid_is_another_object(scene: Scene) -> None:
    """Should the delete between two objects of one name be missing, it is told all the same."""
    replaced = stub.event("MODIFIED", config_map("a", "12", uid="other"))
    scene.script([stub.page(config_map("a", "1"), version="10")], [stub.watch(replaced, until=FOR_EVER())])

    await scene.follow_until(lambda: len(scene.mirror.told) == 3, "delete and newcomer")

    assert scene.mirror.told[1:] == [("deleted", "a", "uid-a"), ("upserted", "a", "other")]
