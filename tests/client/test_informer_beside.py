"""One object is read again beside the watch, which goes on; what that says counts before it."""

import asyncio
from typing import Any

import pytest

from berth_crds.client import errors
from client.scenes import FOR_EVER, GONE, PATH, Scene, config_map
from support import mirror, stub

KEY = ("ml", "a")


def script(scene: Scene, single: stub.Answer, *watches: stub.Answer) -> None:
    """Serve one object at revision 9, and set the answer to a read of it alone."""
    scene.script([stub.page(config_map("a", "9"), version="10")], [*watches, stub.watch(until=FOR_EVER())])
    scene.server.on("GET", f"{PATH}/a", single)


async def test_an_object_is_told_once_more(scene: Scene) -> None:
    """In the revision that is known, without a list, and the watch is not opened anew."""
    script(scene, stub.thing(config_map("a", "9")))

    async with mirror.following(scene.informer):
        await scene.until(lambda: scene.watches == 1, "the watch")
        await scene.informer.resync_object(KEY)
        asked = [one.path for one in scene.server.requests]

    assert scene.mirror.told == [("upserted", "a", "uid-a")] * 2
    assert asked == [PATH, PATH, f"{PATH}/a"]
    assert scene.informer.lists == 1


async def test_the_watch_is_heard_meanwhile(scene: Scene) -> None:
    """However long the one object takes, new objects and ends of others are told as they happen."""
    asked, answered = asyncio.Event(), asyncio.Event()
    events = [stub.event("ADDED", config_map("b", "11")), stub.event("DELETED", config_map("b", "12"))]
    script(
        scene,
        stub.later(answered, stub.thing(config_map("a", "9"))),
        stub.later(asked, stub.watch(*events, until=FOR_EVER())),
    )

    async with mirror.following(scene.informer):
        await scene.until(lambda: scene.watches == 1, "the watch")
        again = asyncio.create_task(scene.informer.resync_object(KEY))
        await scene.until(lambda: len(scene.server.requests) == 3, "the object to be asked for")
        asked.set()
        await scene.until(lambda: scene.mirror.names("deleted") == ["b"], "the end of another one")
        early = again.done()
        answered.set()
        await again

    assert not early
    assert scene.mirror.names("upserted") == ["a", "b", "a"]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(config_map("a", "8"), id="an older revision"),
        pytest.param(config_map("a", "15"), id="a newer revision, which the watch is about to tell"),
        pytest.param(config_map("a", "9", uid="other"), id="another one of the same name"),
        pytest.param({"metadata": 7}, id="nothing that can be read"),
    ],
)
async def test_what_is_not_known_is_left_to_the_watch(scene: Scene, found: dict[str, Any]) -> None:
    """No object is taken back to an older revision, nor told before its time."""
    script(scene, stub.thing(found))

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        await scene.informer.resync_object(KEY)

    assert scene.mirror.versions() == {"a": ("uid-a", "9")}
    assert len(scene.mirror.told) == 1


@pytest.mark.parametrize(
    ("event", "told"),
    [
        pytest.param(stub.event("MODIFIED", config_map("a", "12")), ("upserted", "a", "uid-a"), id="changed"),
        pytest.param(stub.event("DELETED", config_map("a", "12")), ("deleted", "a", "uid-a"), id="gone"),
        pytest.param(stub.event("ERROR", GONE), ("deleted", "a", "uid-a"), id="gone by a new list"),
    ],
)
async def test_what_the_watch_told_meanwhile_stays(
    scene: Scene, event: dict[str, Any], told: tuple[str, str, str]
) -> None:
    """An answer that has been overtaken is dropped, and nobody comes back who was gone."""
    asked, answered = asyncio.Event(), asyncio.Event()
    news = stub.later(asked, stub.watch(event, until=None if event["type"] == "ERROR" else FOR_EVER()))
    script(scene, stub.later(answered, stub.thing(config_map("a", "9"))), news)

    async with mirror.following(scene.informer):
        await scene.until(lambda: scene.watches == 1, "the watch")
        scene.script([stub.page(version="40")], [stub.watch(until=FOR_EVER())])
        again = asyncio.create_task(scene.informer.resync_object(KEY))
        await scene.until(lambda: len(scene.server.requests) == 3, "the object to be asked for")
        asked.set()
        await scene.until(lambda: len(scene.mirror.told) == 2, "the news")
        answered.set()
        await again

    assert scene.mirror.told == [("upserted", "a", "uid-a"), told]


async def test_who_is_gone_by_then_is_the_callers_to_know(scene: Scene) -> None:
    """The end itself is told by the watch alone."""
    script(scene, stub.status(404, "it is not there", reason="NotFound"))

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        with pytest.raises(errors.NotFound):
            await scene.informer.resync_object(KEY)

    assert scene.mirror.told == [("upserted", "a", "uid-a")]
