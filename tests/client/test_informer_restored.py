"""After a restore of the server's data nothing that was seen is true, and an informer finds that out."""

import asyncio

import pytest

from berth_crds.client import informer, watch
from client.scenes import FOR_EVER, Scene, config_map
from support import mirror, stub


class RestoreMirror(mirror.Mirror[mirror.ConfigMap]):
    """A mirror that is told of a restore, too."""

    def restored(self) -> None:
        """Record it."""
        self.told.append(("restored", "", ""))


@pytest.fixture
def comparing(scene: Scene) -> Scene:
    """Return a scene whose sink compares revisions."""
    scene.deliver_to(RestoreMirror())
    return scene


# ---------------------------------------------------------------- signs of a restore

LOWER = [
    pytest.param([config_map("a", "5")], "7", id="the collection's revision is lower"),
    pytest.param(
        [config_map("a", "5")], "30", id="an object's revision is lower, the collection's has passed"
    ),
]


@pytest.mark.parametrize(("items", "version"), LOWER)
async def test_a_list_of_an_earlier_state_is_believed(
    comparing: Scene, items: list[dict[str, object]], version: str
) -> None:
    """Its objects are told whatever their revisions, after a word to a sink that would compare those."""
    again = stub.page(*items, version=version)
    comparing.script([stub.page(config_map("a", "9"), config_map("b", "10"), version="20"), again])
    async with mirror.following(comparing.informer):
        await comparing.informer.wait_synced()
        del comparing.mirror.told[:]

        await comparing.informer.refresh()

    assert comparing.mirror.told == [
        ("restored", "", ""),
        ("upserted", "a", "uid-a"),
        ("deleted", "b", "uid-b"),
    ]
    assert comparing.mirror.versions() == {"a": ("uid-a", "5")}
    assert comparing.session.history.restores == 1


async def test_who_finds_out_tells_all_others(scene: Scene) -> None:
    """Every informer of the session lists anew, and tells what only seems unchanged as well."""
    other = mirror.Mirror[mirror.ConfigMap]()
    follower = mirror.config_maps(scene.session, other, "ml")
    scene.script([stub.page(config_map("a", "9", x="old"), version="20")])
    async with mirror.following(scene.informer), mirror.following(follower):
        await asyncio.gather(scene.informer.wait_synced(), follower.wait_synced())
        scene.script([stub.page(config_map("a", "9", x="new"), version="12")])

        await scene.informer.refresh()
        await follower.wait_listed(1)

    assert other.things["a"].data == {"x": "new"}
    assert scene.mirror.things["a"].data == {"x": "new"}


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(stub.event("BOOKMARK", {"metadata": {"resourceVersion": "7"}}), id="a bookmark"),
        pytest.param(stub.event("MODIFIED", config_map("a", "7")), id="an event"),
    ],
)
async def test_a_watch_that_goes_back_means_a_new_list(scene: Scene, event: dict[str, object]) -> None:
    """No watch says anything of a revision before the one it began at."""
    lists = [stub.page(config_map("a", "9"), version="20"), stub.page(config_map("a", "5"), version="8")]
    scene.script(lists, [stub.watch(event, until=FOR_EVER()), stub.watch(until=FOR_EVER())])

    await scene.follow_until(lambda: scene.resumed_from()[-1:] == ["8"], "a watch from the new list on")

    assert scene.mirror.versions() == {"a": ("uid-a", "5")}
    assert scene.session.history.restores == 1


async def test_revisions_that_are_no_numbers_prove_nothing(scene: Scene) -> None:
    """Where a server counts in another way, nothing is taken for a restore."""
    scene.script([stub.page(config_map("a", "z"), version="z"), stub.page(config_map("a", "b"), version="b")])
    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()

        await scene.informer.refresh()

    assert scene.session.history.restores == 0
    assert scene.mirror.names("upserted") == ["a", "a"]


# ---------------------------------------------------------------- an outage


async def test_after_an_outage_everything_is_told_anew(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was away may have come back with older data, in which a watch would be silent."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.1)
    monkeypatch.setattr(informer, "BACKOFF_SECONDS", (0.08,))
    away = stub.status(503, "away")
    lists = [stub.page(config_map("a", "9", x="old"), version="20"), away]
    scene.script([*lists, stub.page(config_map("a", "9", x="new"), version="40")], [away])

    async with mirror.following(scene.informer):
        await scene.informer.wait_synced()
        await scene.until(lambda: not scene.informer.live, "the outage to show")
        await scene.informer.wait_listed(1)
        live = scene.informer.live

    assert live
    assert scene.mirror.things["a"].data == {"x": "new"}
    assert scene.resumed_from().count("20") < informer.MOST_WATCH_FAILURES, (
        "the outage counts, not the failures"
    )


async def test_a_watch_that_opened_late_is_not_believed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that hung while the server started is answered by another server, so to speak."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.1)
    started = asyncio.Event()
    late = stub.later(started, stub.watch(stub.event("ADDED", config_map("b", "21")), until=FOR_EVER()))
    lists = [stub.page(config_map("a", "9"), version="20"), stub.page(config_map("c", "22"), version="23")]
    scene.script(lists, [late, stub.watch(until=FOR_EVER())])

    async with mirror.following(scene.informer):
        await scene.until(lambda: not scene.informer.live and scene.watches, "the watch to hang")
        started.set()
        await scene.until(lambda: scene.resumed_from()[-1:] == ["23"], "a watch from the new list on")

    assert scene.mirror.names("upserted") == ["a", "c"]


async def test_a_watch_that_is_never_answered_is_given_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that accepts a watch and does not answer is asked again, by a list."""
    monkeypatch.setattr(informer, "OUTAGE_SECONDS", 0.1)
    monkeypatch.setattr(watch, "HEAD_SECONDS", 0.2)
    lists = [stub.page(version="20"), stub.page(config_map("a", "21"), version="30")]
    scene.script(lists, [stub.later(FOR_EVER(), stub.watch()), stub.watch(until=FOR_EVER())])

    await scene.follow_until(lambda: scene.resumed_from()[-1:] == ["30"], "a watch from the new list on")

    assert scene.mirror.names("upserted") == ["a"]
