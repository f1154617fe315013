"""Objects that cannot be decoded: kept, reported to a sink that asks, and never mistaken for a delete."""

import asyncio
from typing import Any

import pytest

from berth_crds import wire
from berth_crds.client import watch
from client.informers import GONE, InformerSetup, RecordingSink, config_map, open_watch, until
from support import stub

Call = tuple[str, str, str]

READABLE = config_map("a", "1")
UNDECODABLE = config_map("a", "12") | {"data": 7}
SUCCESSOR = config_map("a", "14", uid="new") | {"data": 7}
NAMELESS = {"metadata": 7}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(UNDECODABLE, id="undecodable data"),
        pytest.param({"metadata": UNDECODABLE["metadata"] | {"labels": {"x": 1}}}, id="undecodable metadata"),
    ],
)
async def test_what_was_known_of_an_undecodable_object_stays(
    setup: InformerSetup, body: dict[str, Any]
) -> None:
    """A known object that becomes unreadable is neither forgotten nor deleted, by watch or by list."""
    setup.script(
        [stub.page(READABLE, version="10"), stub.page(body, version="40")],
        [stub.watch(stub.event("MODIFIED", body), GONE)],
    )

    await setup.follow_until(lambda: "40" in setup.watched_from, "the second list")

    assert setup.sink.calls == [("upserted", "a", "uid-a")]


async def test_beside_an_object_without_a_name_nobody_is_missing(setup: InformerSetup) -> None:
    """An object of which not even the name is readable may be any that a list seems to lack."""
    lists = [
        stub.page(READABLE, config_map("b", "2"), version="10"),
        stub.page(READABLE, NAMELESS, version="40"),
        stub.page(READABLE, version="50"),
    ]
    setup.script(lists, [stub.watch(GONE)] * 2)

    await setup.follow_until(lambda: "50" in setup.watched_from, "the third list")

    assert setup.sink.calls[2:] == [("deleted", "b", "uid-b")]
    assert setup.watched_from == ["10", "40", "50"]


async def test_an_undecodable_newcomer_is_logged(
    setup: InformerSetup, caplog: pytest.LogCaptureFixture
) -> None:
    """An object that was never readable is not passed on, but the log has its name."""
    setup.script([stub.page(UNDECODABLE, config_map("b", "2"), version="10")])

    async with setup.synced():
        assert setup.sink.names("upserted") == ["b"]

    (message,) = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert "configmaps ml/a cannot be read" in message


# ---------------------------------------------------------------- sinks that ask for them


class UndecodableSink(RecordingSink):
    """A sink that records undecodable objects too."""

    def undecodable(self, thing: watch.Undecodable) -> None:
        """Record an object that cannot be decoded."""
        self.calls.append(("undecodable", thing.metadata.name, thing.metadata.uid))

    def undecodable_deleted(self, meta: wire.Meta) -> None:
        """Record the delete of an object that was never decoded."""
        self.calls.append(("undecodable deleted", meta.name, meta.uid))


UPSERTED, DELETED = ("upserted", "a", "uid-a"), ("deleted", "a", "uid-a")
REPORTED, REPORTED_GONE = ("undecodable", "a", "uid-a"), ("undecodable deleted", "a", "uid-a")
NEW_REPORTED = ("undecodable", "a", "new")

LIVES = {
    "undecodable from the start, deleted while watched": (
        UNDECODABLE,
        [stub.event("DELETED", UNDECODABLE)],
        [],
        [REPORTED, REPORTED_GONE],
    ),
    "missing later": (UNDECODABLE, [], [], [REPORTED, REPORTED_GONE]),
    "still there, and not reported again": (UNDECODABLE, [], [UNDECODABLE], [REPORTED]),
    "readable later": (
        UNDECODABLE,
        [stub.event("MODIFIED", config_map("a", "13"))],
        [],
        [REPORTED, UPSERTED, DELETED],
    ),
    "unreadable later": (
        READABLE,
        [stub.event("MODIFIED", UNDECODABLE)],
        [],
        [UPSERTED, REPORTED, DELETED],
    ),
    "an undecodable successor": (READABLE, [], [SUCCESSOR], [UPSERTED, DELETED, NEW_REPORTED]),
    "undecodable, and an undecodable successor": (
        UNDECODABLE,
        [],
        [SUCCESSOR],
        [REPORTED, REPORTED_GONE, NEW_REPORTED],
    ),
}


@pytest.mark.parametrize(("before", "events", "after", "calls"), LIVES.values(), ids=LIVES)
async def test_undecodable_objects_reach_a_sink_that_asks_for_them(
    setup: InformerSetup,
    before: dict[str, Any],
    events: list[dict[str, Any]],
    after: list[dict[str, Any]],
    calls: list[Call],
) -> None:
    """A sink that must fail closed learns of each undecodable object, and of its end, exactly once."""
    setup.use(UndecodableSink())
    lists = [stub.page(before, version="10"), stub.page(*after, version="40")]
    setup.script(lists, [stub.watch(*events, GONE)])

    await setup.follow_until(lambda: "40" in setup.watched_from, "the second list")

    assert setup.sink.calls == calls


async def test_what_is_passed_on_once_more_is_what_is_known_now(setup: InformerSetup) -> None:
    """An object that was readable before and is not now must not come back as it was."""
    setup.use(UndecodableSink())
    lists = [stub.page(one, config_map("b", "2"), version="12") for one in (READABLE, UNDECODABLE)]
    setup.script(lists, [open_watch(stub.event("MODIFIED", UNDECODABLE))])

    async with setup.synced():
        await until(lambda: setup.sink.names("undecodable"), "the undecodable one")
        await setup.informer.resync()

    assert setup.sink.calls[3:] == [REPORTED, ("upserted", "b", "uid-b")]


@pytest.mark.parametrize(
    ("items", "missing"),
    [
        pytest.param([READABLE], {"uid-z"}, id="readable"),
        pytest.param([UNDECODABLE], {"uid-z"}, id="undecodable, and its uid is readable"),
        pytest.param([{"metadata": {"name": "a", "namespace": "ml", "uid": 7}}], set(), id="without a uid"),
        pytest.param([READABLE, NAMELESS], set(), id="beside one without a name"),
    ],
)
async def test_only_what_surely_is_not_there_is_missing(
    setup: InformerSetup, items: list[dict[str, Any]], missing: set[str]
) -> None:
    """What cannot be read is there all the same, and may be whoever seems to be gone."""
    setup.script([stub.page(*items, version="10")])

    async with setup.synced():
        assert setup.informer.missing(["uid-a", "uid-z"]) == missing


async def test_one_without_a_name_that_came_later_counts_too(setup: InformerSetup) -> None:
    """Until the next list shows that it is gone."""
    over = asyncio.Event()
    nameless = stub.watch(stub.event("ADDED", NAMELESS), until=over)
    setup.script([stub.page(READABLE, version="10")], [nameless, stub.watch(GONE)])

    async with setup.synced():
        await until(lambda: not setup.informer.missing(["z"]), "the nameless one")
        over.set()
        await until(lambda: setup.informer.missing(["z"]), "its end")
