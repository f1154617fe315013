"""An informer in front of a real API server, behind a wire that is cut, held and refused."""

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator, Callable

import pytest

from berth_crds import wire
from berth_crds.client import api, connection, errors, informer, page_sizes, watch
from support import mirror
from testbed import cluster as clusters
from testbed import proxy, waiting

MAPS = mirror.CONFIG_MAPS
SOON = 20.0


class Scene:
    """An informer behind a proxy, and an administrator who is not."""

    def __init__(self, admin: api.Api, wire_: proxy.Proxy, session: api.Api, namespace: str) -> None:
        self.admin = admin
        self.wire = wire_
        self.namespace = namespace
        self.mirror: mirror.Mirror[mirror.ConfigMap] = mirror.Mirror()
        self.informer = mirror.config_maps(session, self.mirror, namespace)

    async def write(self, name: str, word: str = "") -> None:
        """Create or change an object."""
        thing = {"metadata": {"name": name, "namespace": self.namespace}, "data": {"word": word}}
        await self.admin.apply(MAPS, thing, manager="test")

    async def delete(self, name: str) -> None:
        """Delete an object."""
        await self.admin.delete(MAPS, name, namespace=self.namespace)

    async def agrees(self) -> bool:
        """Return whether what was told is what is there, to the revision."""
        codec = watch.Codec(mirror.ConfigMap)
        path = MAPS.path(namespace=self.namespace)
        selectors = {"fieldSelector": "metadata.name!=kube-root-ca.crt"}
        there = await watch.list_all(self.admin, path, codec, selectors=selectors, size=0)
        metas: list[wire.Meta] = [thing.metadata for thing in there.items]
        return self.mirror.versions() == {meta.name: (meta.uid, meta.resource_version) for meta in metas}

    async def until_agreed(self) -> None:
        """Wait until what was told is what is there."""
        await waiting.eventually(self.agrees, what="the informer to agree with the server", seconds=SOON)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something holds."""

        async def holds() -> bool:
            return bool(condition())

        await waiting.eventually(holds, what=what, seconds=SOON)


@pytest.fixture
async def scene(cluster: clusters.Cluster, admin: api.Api, namespace: str) -> AsyncIterator[Scene]:
    """Yield a scene whose informer already follows three objects."""
    link = connection.load(cluster.admin_kubeconfig)
    async with proxy.Proxy(cluster.port) as wire_:
        behind = dataclasses.replace(link, server=wire_.server)
        async with api.Api(behind, agent="test-informer") as session:
            scene = Scene(admin, wire_, session, namespace)
            for name in ("kept", "again", "gone"):
                await scene.write(name)
            async with mirror.following(scene.informer):
                await scene.until_agreed()
                yield scene
        # A connection that was being made when the informer ended is still on its way into the proxy.
        await asyncio.sleep(0.05)


async def test_follows_every_change(scene: Scene) -> None:
    """Created, changed, deleted and recreated objects are told as they are."""
    await scene.write("new")
    await scene.write("new", "changed")
    await scene.delete("again")
    await scene.write("again")

    await scene.until_agreed()
    assert scene.mirror.names("deleted") == ["again"]


async def change_everything(scene: Scene) -> None:
    """Do all that may be missed: create, change, delete, and put another object in the place of one."""
    await scene.write("new")
    await scene.write("kept", "changed")
    await scene.delete("gone")
    await scene.delete("again")
    await scene.write("again", "another")


@pytest.mark.parametrize("forgotten", [False, True], ids=["history kept", "history compacted"])
async def test_nothing_is_lost_while_cut_off(
    scene: Scene, cluster: clusters.Cluster, *, forgotten: bool
) -> None:
    """After a time without connection every delete is told, whether the server still knows it or not."""
    scene.wire.refuse()
    scene.wire.cut()

    await change_everything(scene)
    if forgotten:
        await asyncio.to_thread(cluster.expire_history)
    assert scene.mirror.names("deleted") == []
    await scene.wire.accept()

    await scene.until_agreed()
    assert sorted(scene.mirror.names("deleted")) == ["again", "gone"]


async def test_connections_cut_again_and_again(scene: Scene) -> None:
    """Through a wire that keeps breaking, the end is right and nothing was told twice."""
    chance = random.Random(7)
    names = [f"n{at}" for at in range(6)]
    for step in range(60):
        name = chance.choice(names)
        if name in scene.mirror.things and chance.random() < 0.4:
            await _delete_if_there(scene, name)
        else:
            await scene.write(name, str(step))
        if chance.random() < 0.3:
            scene.wire.cut()

    await scene.until_agreed()


async def _delete_if_there(scene: Scene, name: str) -> None:
    try:
        await scene.delete(name)
    except errors.NotFound:
        return


async def test_a_silent_partition_is_noticed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that stays open and says nothing is given up after a time, and nothing is lost."""
    monkeypatch.setattr(watch, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(informer, "BACKOFF_SECONDS", (0.05,))
    caplog.set_level("DEBUG", informer.log.name)
    before = scene.wire.connections
    scene.wire.cut()  # The watch that is open was opened with the long patience.
    await scene.until(lambda: scene.wire.connections > before, "the new watch")
    await scene.write("new", "before")
    await scene.until_agreed()
    caplog.clear()

    scene.wire.hold()
    await change_everything(scene)
    await scene.until(lambda: "nothing came" in caplog.text, "the informer to give the watch up")
    scene.wire.resume()

    await scene.until_agreed()
    assert sorted(scene.mirror.names("deleted")) == ["again", "gone"]


async def test_a_server_that_went_away_and_came_back(scene: Scene, cluster: clusters.Cluster) -> None:
    """A crash of the API server is outlived, and what happened right after it is told."""
    await asyncio.to_thread(cluster.crash_apiserver)
    await asyncio.to_thread(cluster.restart_apiserver)

    await change_everything(scene)

    await scene.until_agreed()
    assert sorted(scene.mirror.names("deleted")) == ["again", "gone"]


async def test_a_refresh_has_read_what_was_there(scene: Scene) -> None:
    """What was written before a refresh was asked for is told when it returns, though no event came."""
    scene.wire.hold(answers_only=True)
    await change_everything(scene)
    assert scene.mirror.names("deleted") == []
    scene.wire.cut()
    scene.wire.resume()

    await scene.informer.refresh()

    assert await scene.agrees()


async def test_refreshes_in_a_crowd(scene: Scene) -> None:
    """Each of many refreshes, asked while others are under way, returns with its own caller's writes told."""

    async def write_and_look(name: str) -> None:
        await scene.write(name)
        await scene.informer.refresh()
        assert name in scene.mirror.things

    async with asyncio.TaskGroup() as group:
        for at in range(10):
            group.create_task(write_and_look(f"crowd-{at}"))
            await asyncio.sleep(0.01)

    await scene.until_agreed()


async def test_a_part_of_a_collection(scene: Scene) -> None:
    """An object that leaves the selection is told as a delete, one that enters it as new."""
    selected: mirror.Mirror[mirror.ConfigMap] = mirror.Mirror()
    scope = informer.Scope(namespace=scene.namespace, labels="colour=red")
    part = informer.Informer(scene.admin, MAPS, mirror.ConfigMap, selected, scope=scope)

    async def paint(name: str, colour: str) -> None:
        meta = {"name": name, "namespace": scene.namespace, "labels": {"colour": colour}}
        await scene.admin.apply(MAPS, {"metadata": meta}, manager="painter")

    await paint("kept", "red")
    async with mirror.following(part):
        await part.wait_synced()
        await paint("gone", "red")
        await paint("kept", "blue")
        await scene.until(lambda: "kept" in selected.names("deleted"), "the object to leave")

    assert sorted(selected.things) == ["gone"]


async def test_of_an_object_that_is_too_large_the_server_gives_the_metadata(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked for alone, with the rest of the list as it is; so is the newest revision."""
    await scene.write("large", "<" * 200_000)
    for name, most in {"LONGEST_PAGE": 100_000, "LONGEST_LINE": 300_000}.items():
        monkeypatch.setattr(page_sizes, name, most)
    path, codec = MAPS.path(namespace=scene.namespace), watch.Codec(mirror.ConfigMap)
    selectors = {"fieldSelector": "metadata.name!=kube-root-ca.crt"}

    found = await watch.list_all(scene.admin, path, codec, selectors=selectors, size=100)

    (odd,) = [one for one in found.items if isinstance(one, watch.Undecodable)]
    assert (odd.metadata.name, odd.metadata.namespace, odd.body) == ("large", scene.namespace, b"")
    assert odd.metadata.uid
    assert odd.metadata.resource_version
    assert [one.metadata.name for one in found.items] == ["again", "gone", "kept", "large"]
    assert int(await watch.latest_revision(scene.admin, path)) >= int(found.version)
