"""Objects that cannot be read: kept, told to who wants to know, and never mistaken for a delete."""

import asyncio
from typing import Any

import pytest

from berth_crds import wire
from berth_crds.client import watch
from client.scenes import FOR_EVER, GONE, Scene, config_map
from support import mirror, stub

UNDECODABLE = {
    "metadata": {"name": "a", "namespace": "ml", "uid": "uid-a", "resourceVersion": "12"},
    "data": 7,
}
NAMELESS = {"metadata": 7}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(UNDECODABLE, id="undecodable data"),
        pytest.param({"metadata": UNDECODABLE["metadata"] | {"labels": {"x": 1}}}, id="undecodable metadata"),  # type: ignore[operator]
    ],
)
async def test_what_was_known_of_an_undecodable_object_stays(scene: Scene, body: dict[str, Any]) -> None:
    """A known object that becomes unreadable is neither forgotten nor deleted, by watch or by list."""
    changed = stub.event("MODIFIED", body)
    gone = stub.event("ERROR", GONE)
    scene.script(
        [stub.page(config_map("a", "1"), version="10"), stub.page(body, version="40")],
        [stub.watch(changed, gone), stub.watch(until=FOR_EVER())],
    )

    await scene.follow_until(lambda: scene.resumed_from()[-1:] == ["40"], "the second list")

    assert scene.mirror.told == [("upserted", "a", "uid-a")]


async def test_beside_an_object_without_a_name_nobody_is_missing(scene: Scene) -> None:
    """An object of which not even the name is readable may be any that a list seems to lack."""
    lists = [
        stub.page(config_map("a", "1"), config_map("b", "2"), version="10"),
        stub.page(config_map("a", "1"), NAMELESS, version="40"),
        stub.page(config_map("a", "1"), version="50"),
    ]
    gone = stub.watch(stub.event("ERROR", GONE))
    scene.script(lists, [gone, gone, stub.watch(until=FOR_EVER())])

    await scene.follow_until(lambda: scene.resumed_from()[-1:] == ["50"], "the third list")

    assert scene.mirror.told == [
        ("upserted", "a", "uid-a"),
        ("upserted", "b", "uid-b"),
        ("deleted", "b", "uid-b"),
    ]


async def test_an_undecodable_object_is_still_deleted(scene: Scene) -> None:
    """A delete is told with the last that was readable."""
    events = [stub.event("MODIFIED", UNDECODABLE), stub.event("DELETED", UNDECODABLE)]
    scene.script([stub.page(config_map("a", "1"), version="10")], [stub.watch(*events, until=FOR_EVER())])

    await scene.follow_until(lambda: scene.mirror.names("deleted"), "the delete")

    assert scene.mirror.things == {}


async def test_an_undecodable_newcomer_is_reported(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """An object that was never readable is not told, but it is said, with its name."""
    scene.script([stub.page(UNDECODABLE, config_map("b", "2"), version="10")])

    await scene.follow_until_synced()

    assert scene.mirror.names("upserted") == ["b"]
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "configmaps ml/a cannot be read" in record.message


# ---------------------------------------------------------------- sinks that want to know


class UndecodableMirror(mirror.Mirror[mirror.ConfigMap]):
    """A mirror that is told of undecodable objects too."""

    def undecodable(self, thing: watch.Undecodable) -> None:
        """Report an object that cannot be read."""
        self.told.append(("undecodable", thing.metadata.name, thing.metadata.uid))

    def undecodable_deleted(self, meta: wire.Meta) -> None:
        """Record the delete of an object that was never decoded."""
        self.told.append(("undecodable deleted", meta.name, meta.uid))


NEW_UNDECODABLE = {
    "metadata": {"name": "a", "namespace": "ml", "uid": "new", "resourceVersion": "14"},
    "data": 7,
}


@pytest.mark.parametrize(
    ("before", "frames", "after", "told"),
    [
        pytest.param(
            [UNDECODABLE],
            [stub.event("DELETED", UNDECODABLE)],
            [],
            [("undecodable", "a", "uid-a"), ("undecodable deleted", "a", "uid-a")],
            id="undecodable from the start, deleted while watched",
        ),
        pytest.param(
            [UNDECODABLE],
            [],
            [],
            [("undecodable", "a", "uid-a"), ("undecodable deleted", "a", "uid-a")],
            id="missing later",
        ),
        pytest.param(
            [UNDECODABLE],
            [],
            [UNDECODABLE],
            [("undecodable", "a", "uid-a")],
            id="still there, and not told again",
        ),
        pytest.param(
            [UNDECODABLE],
            [stub.event("MODIFIED", config_map("a", "13"))],
            [],
            [("undecodable", "a", "uid-a"), ("upserted", "a", "uid-a"), ("deleted", "a", "uid-a")],
            id="readable later",
        ),
        pytest.param(
            [config_map("a", "1")],
            [stub.event("MODIFIED", UNDECODABLE)],
            [],
            [("upserted", "a", "uid-a"), ("undecodable", "a", "uid-a"), ("deleted", "a", "uid-a")],
            id="unreadable later",
        ),
        pytest.param(
            [config_map("a", "1")],
            [],
            [NEW_UNDECODABLE],
            [("upserted", "a", "uid-a"), ("deleted", "a", "uid-a"), ("undecodable", "a", "new")],
            id="an undecodable successor",
        ),
        pytest.param(
            [UNDECODABLE],
            [],
            [NEW_UNDECODABLE],
            [
                ("undecodable", "a", "uid-a"),
                ("undecodable deleted", "a", "uid-a"),
                ("undecodable", "a", "new"),
            ],
            id="undecodable, and an undecodable successor",
        ),
    ],
)
async def test_undecodable_objects_reach_a_sink_that_asks_for_them(
    scene: Scene,
    before: list[dict[str, Any]],
    frames: list[dict[str, Any]],
    after: list[dict[str, Any]],
    told: list[tuple[str, str, str]],
) -> None:
    """A sink that must fail closed learns of each undecodable object, and of its end, exactly once."""
    scene.deliver_to(UndecodableMirror())
    lists = [stub.page(*before, version="10"), stub.page(*after, version="40")]
    gone = stub.event("ERROR", GONE)
    scene.script(lists, [stub.watch(*frames, gone), stub.watch(until=FOR_EVER())])

    await scene.follow_until(lambda: scene.resumed_from()[-1:] == ["40"], "the second list")

    assert scene.mirror.told == told


async def test_what_is_told_once_more_is_what_is_known_now(scene: Scene) -> None:
    """An object that was readable before and is not now must not come back as it was."""
    scene.deliver_to(UndecodableMirror())
    changed = stub.watch(stub.event("MODIFIED", UNDECODABLE), until=FOR_EVER())
    lists = [
        stub.page(config_map("a", "1"), config_map("b", "2"), version="10"),
        stub.page(UNDECODABLE, config_map("b", "2"), version="12"),
    ]
    scene.script(lists, [changed])

    async with mirror.following(scene.informer):
        await scene.until(lambda: scene.mirror.names("undecodable"), "the undecodable one")
        del scene.mirror.told[:]
        await scene.informer.resync()

    assert scene.mirror.told == [("undecodable", "a", "uid-a"), ("upserted", "b", "uid-b")]


@pytest.mark.parametrize(
    ("items", "missing"),
    [
        pytest.param([config_map("a", "1")], {"uid-z"}, id="readable"),
        pytest.param([UNDECODABLE], {"uid-z"}, id="undecodable, and its uid is readable"),
        pytest.param([{"metadata": {"name": "a", "namespace": "ml", "uid": 7}}], set(), id="without a uid"),
        pytest.param([config_map("a", "1"), NAMELESS], set(), id="beside one without a name"),
    ],
)
async def test_only_what_surely_is_not_there_is_missing(
    scene: Scene, items: list[dict[str, Any]], missing: set[str]
) -> None:
    """What cannot be read is there all the same, and may be whoever seems to be gone."""
    scene.script([stub.page(*items, version="10")])

    async with mirror.following(scene.informer):
        await scene.until(lambda: scene.informer.synced, "the list")

        assert scene.informer.missing(["uid-a", "uid-z"]) == missing


async def test_one_without_a_name_that_came_later_counts_too(scene: Scene) -> None:
    """Until the next list shows that it is gone."""
    gone = stub.event("ERROR", GONE)
    lists = [stub.page(config_map("a", "1"), version="10"), stub.page(config_map("a", "1"), version="40")]
    over = asyncio.Event()
    watches = [
        stub.watch(stub.event("ADDED", NAMELESS), until=over),
        stub.watch(gone),
        stub.watch(until=FOR_EVER()),
    ]
    scene.script(lists, watches)

    async with mirror.following(scene.informer):
        await scene.until(
            lambda: scene.informer.synced and not scene.informer.missing(["z"]), "the nameless one"
        )
        over.set()
        await scene.until(lambda: scene.informer.missing(["z"]), "its end")
