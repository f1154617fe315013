"""After a restore of the server's data nothing that was seen is true, and an informer finds that out."""

import asyncio

import pytest

from berth_crds.client import informer, list_backoff, watch
from client.informers import InformerSetup, RecordingSink, config_map, of_config_maps, open_watch, until
from support import stub, timeless

# ---------------------------------------------------------------- signs of a restore


class RestoreSink(RecordingSink):
    """A sink that compares revisions, and records that it must not."""

    def restored(self) -> None:
        """Record a restore."""
        self.calls.append(("restored", "", ""))


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("7", id="the collection's revision is lower"),
        pytest.param("30", id="an object's revision is lower, the collection's has passed"),
    ],
)
async def test_a_list_of_an_earlier_state_is_believed(setup: InformerSetup, version: str) -> None:
    """Its objects are passed on whatever their revisions, after a word to a sink that would compare those."""
    setup.use(RestoreSink())
    before = stub.page(config_map("a", "9"), config_map("b", "10"), version="20")
    setup.script([before, stub.page(config_map("a", "5"), version=version)])
    async with setup.synced():
        await setup.informer.refresh()

    assert setup.sink.calls[2:] == [
        ("restored", "", ""),
        ("upserted", "a", "uid-a"),
        ("deleted", "b", "uid-b"),
    ]
    assert setup.sink.versions() == {"a": ("uid-a", "5")}
    assert setup.session.history.restores == 1


async def test_all_informers_of_a_session_list_anew(setup: InformerSetup) -> None:
    """Where one finds a restore, each passes on what only seems unchanged as well."""
    other = RecordingSink()
    follower = of_config_maps(setup.session, other, "ml")
    setup.script([stub.page(config_map("a", "9", x="old"), version="20")])
    async with setup.synced(), timeless.beside(follower.run()):
        await follower.wait_synced()
        setup.script([stub.page(config_map("a", "9", x="new"), version="12")])

        await setup.informer.refresh()
        await follower.wait_listed(1)

    assert [sink.objects["a"].data for sink in (other, setup.sink)] == [{"x": "new"}] * 2


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(stub.event("BOOKMARK", {"metadata": {"resourceVersion": "7"}}), id="a bookmark"),
        pytest.param(stub.event("MODIFIED", config_map("a", "7")), id="an event"),
    ],
)
async def test_a_watch_that_goes_back_means_a_new_list(
    setup: InformerSetup, event: dict[str, object]
) -> None:
    """No watch has an event of a revision before the one it began at."""
    lists = [stub.page(config_map("a", "9"), version="20"), stub.page(config_map("a", "5"), version="8")]
    setup.script(lists, [open_watch(event)])

    await setup.follow_until(lambda: "8" in setup.watched_from, "a watch from the new list on")

    assert setup.sink.versions() == {"a": ("uid-a", "5")}
    assert setup.session.history.restores == 1


async def test_revisions_that_are_no_numbers_prove_nothing(setup: InformerSetup) -> None:
    """Where a server counts in another way, nothing is taken for a restore."""
    setup.script([stub.page(config_map("a", "z"), version="z"), stub.page(config_map("a", "b"), version="b")])
    async with setup.synced():
        await setup.informer.refresh()

    assert setup.session.history.restores == 0
    assert setup.sink.names("upserted") == ["a", "a"]


# ---------------------------------------------------------------- an outage


async def test_after_an_outage_everything_is_passed_on_anew(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was away may have come back with older data, in which a watch would be silent."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.1)
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (0.08,))
    away = stub.status(503, "away")
    old, new = (config_map("a", "9", x=word) for word in ("old", "new"))
    setup.script([stub.page(old, version="20"), away, stub.page(new, version="40")], [away] * 20)

    async with setup.synced():
        await until(lambda: not setup.informer.live, "the outage to show")
        await setup.informer.wait_listed(1)

        assert setup.informer.live
    assert setup.sink.objects["a"].data == {"x": "new"}
    assert setup.watched_from.count("20") < informer.MOST_WATCH_FAILURES, (
        "the outage counts, not the failures"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param("20", "23", id="numbers"), pytest.param("y", "z", id="what cannot be compared")],
)
async def test_a_watch_that_opened_late_is_not_believed(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    """A request that hung while the server started is answered by another server, so to speak."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.1)
    started = asyncio.Event()
    late = stub.later(started, open_watch(stub.event("ADDED", config_map("b", "21"))))
    lists = [stub.page(version=before), stub.page(config_map("c", "22"), version=after)]
    setup.script(lists, [late])

    async with setup.synced():
        await until(lambda: not setup.informer.live and setup.watched_from, "the watch to hang")
        started.set()
        await until(lambda: setup.informer.lists > 1 and setup.informer.live, "a watch after the new list")

    assert set(setup.sink.names("upserted")) == {"c"}


async def test_a_watch_that_is_never_answered_is_given_up(
    setup: InformerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that accepts a watch and does not answer is asked again, by a list."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.1)
    monkeypatch.setattr(watch, "HEAD_SECONDS", 0.2)
    setup.script(
        [stub.page(version="20"), stub.page(version="30")], [stub.later(asyncio.Event(), stub.watch())]
    )

    await setup.follow_until(lambda: "30" in setup.watched_from, "a watch from the new list on")
