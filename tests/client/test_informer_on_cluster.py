"""An informer in front of a real API server, behind a wire that is cut, held and refused."""

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator

import pytest

from berth_crds import wire
from berth_crds.client import api, connection, errors, informer, list_backoff, page_sizes, resources, watch
from client import informers
from client.informers import CONFIG_MAPS, ConfigMap, RecordingSink, of_config_maps, until
from support import thorough, timeless
from testbed import cluster as clusters
from testbed import proxy, waiting

CODEC = watch.Codec(ConfigMap)


class Setup:
    """An informer behind a proxy, and an administrator who is not."""

    def __init__(self, admin: api.Api, wire_: proxy.Proxy, session: api.Api, namespace: str) -> None:
        self.admin = admin
        self.wire = wire_
        self.namespace = namespace
        self.path = CONFIG_MAPS.path(namespace=namespace)
        self.sink = RecordingSink()
        self.informer = of_config_maps(session, self.sink, namespace)

    async def write(self, name: str, word: str = "") -> None:
        """Create or change an object."""
        thing = {"metadata": {"name": name, "namespace": self.namespace}, "data": {"word": word}}
        await self.admin.apply(CONFIG_MAPS, thing, manager="test")

    async def delete(self, name: str) -> None:
        """Delete an object."""
        await self.admin.delete(CONFIG_MAPS, name, namespace=self.namespace)

    async def change_everything(self) -> None:
        """Do all that may be missed: create, change, delete, and put another object in the place of one."""
        await self.write("new")
        await self.write("kept", "changed")
        await self.delete("gone")
        await self.delete("again")
        await self.write("again", "another")

    async def listed(self) -> watch.Collection[ConfigMap]:
        """Read the objects of the namespace."""
        selectors = {"fieldSelector": "metadata.name!=kube-root-ca.crt"}
        return await informers.list_all(self.admin, self.path, CODEC, selectors=selectors, size=0)

    async def agrees(self) -> bool:
        """Return whether what the sink knows is what is there, to the revision."""
        metas: list[wire.Meta] = [thing.metadata for thing in (await self.listed()).items]
        return self.sink.versions() == {meta.name: (meta.uid, meta.resource_version) for meta in metas}

    async def until_agreed(self) -> None:
        """Wait until what the sink knows is what is there."""
        await waiting.eventually(self.agrees, what="the informer to agree with the server", seconds=20.0)


@pytest.fixture
async def setup(cluster: clusters.Cluster, admin: api.Api, namespace: str) -> AsyncIterator[Setup]:
    """Yield an informer that already follows three objects."""
    link = connection.load(cluster.admin_kubeconfig)
    async with proxy.Proxy(cluster.port) as wire_:
        behind = dataclasses.replace(link, server=wire_.server)
        async with api.Api(behind, agent="test-informer") as session:
            made = Setup(admin, wire_, session, namespace)
            for name in ("kept", "again", "gone"):
                await made.write(name)
            async with timeless.beside(made.informer.run()):
                await made.until_agreed()
                yield made
        # A connection that was being made when the informer ended is still on its way into the proxy.
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("forgotten", [False, thorough.case(True)], ids=["history kept", "history compacted"])
async def test_nothing_is_lost_while_cut_off(
    setup: Setup, cluster: clusters.Cluster, *, forgotten: bool
) -> None:
    """After a time without connection every delete is passed on, whether the server still knows it or not."""
    setup.wire.refuse()
    setup.wire.cut()

    await setup.change_everything()
    if forgotten:
        await asyncio.to_thread(cluster.expire_history)
    assert setup.sink.names("deleted") == []
    await setup.wire.accept()

    await setup.until_agreed()
    assert sorted(setup.sink.names("deleted")) == ["again", "gone"]


async def test_connections_cut_again_and_again(setup: Setup) -> None:
    """Through a wire that keeps breaking, the end is right and nothing was passed on twice."""
    chance = random.Random(7)
    for step in range(60):
        name = chance.choice([f"n{at}" for at in range(6)])
        if name in setup.sink.objects and chance.random() < 0.4:
            with contextlib.suppress(errors.NotFound):
                await setup.delete(name)
        else:
            await setup.write(name, str(step))
        if chance.random() < 0.3:
            setup.wire.cut()

    await setup.until_agreed()


async def test_a_silent_partition_is_noticed(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that stays open and carries nothing is given up after a time, and nothing is lost."""
    monkeypatch.setattr(watch, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (0.05,))
    caplog.set_level("DEBUG", informer.log.name)
    before = setup.wire.connections
    setup.wire.cut()  # The watch that is open was opened with the long patience.
    await until(lambda: setup.wire.connections > before, "the new watch")
    await setup.write("new", "before")
    await setup.until_agreed()
    caplog.clear()

    setup.wire.hold()
    await setup.change_everything()
    await until(lambda: "nothing came" in caplog.text, "the informer to give the watch up")
    setup.wire.resume()

    await setup.until_agreed()
    assert sorted(setup.sink.names("deleted")) == ["again", "gone"]


@pytest.mark.thorough
async def test_a_server_that_went_away_and_came_back(setup: Setup, cluster: clusters.Cluster) -> None:
    """A crash of the API server is outlived, and what happened right after it is passed on."""
    await asyncio.to_thread(cluster.crash_apiserver)
    await asyncio.to_thread(cluster.restart_apiserver)

    await setup.change_everything()

    await setup.until_agreed()
    assert sorted(setup.sink.names("deleted")) == ["again", "gone"]


async def test_a_refresh_has_read_what_was_there(setup: Setup) -> None:
    """What was written before a refresh was asked for is known when it returns, though no event came."""
    setup.wire.hold(answers_only=True)
    await setup.change_everything()
    assert setup.sink.names("deleted") == []
    setup.wire.cut()
    setup.wire.resume()

    await setup.informer.refresh()

    assert await setup.agrees()


async def test_a_part_of_a_collection(setup: Setup) -> None:
    """An object that leaves the selection is passed on as a delete, one that enters it as new."""
    selected = RecordingSink()
    scope = resources.Scope(namespace=setup.namespace, labels="colour=red")
    part = informer.Informer(setup.admin, CONFIG_MAPS, ConfigMap, selected, scope=scope)

    async def paint(name: str, colour: str) -> None:
        meta = {"name": name, "namespace": setup.namespace, "labels": {"colour": colour}}
        await setup.admin.apply(CONFIG_MAPS, {"metadata": meta}, manager="painter")

    await paint("kept", "red")
    async with timeless.beside(part.run()):
        await part.wait_synced()
        await paint("gone", "red")
        await paint("kept", "blue")
        await until(lambda: "kept" in selected.names("deleted"), "the object to leave")

    assert list(selected.objects) == ["gone"]


async def test_of_an_object_that_is_too_large_the_server_gives_the_metadata(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked for alone, with the rest of the list as it is; so is the newest revision."""
    await setup.write("large", "<" * 200_000)
    monkeypatch.setattr(page_sizes, "LONGEST_PAGE", 100_000)
    monkeypatch.setattr(page_sizes, "LONGEST_LINE", 300_000)

    pages = informers.list_all(setup.admin, setup.path, CODEC, selectors={}, size=100)
    *readable, large = sorted((await pages).items, key=lambda thing: thing.metadata.name == "large")

    assert isinstance(large, watch.Undecodable)
    assert (large.metadata.name, large.metadata.namespace, large.body) == ("large", setup.namespace, b"")
    assert large.metadata.uid
    assert {thing.metadata.name for thing in readable} >= {"again", "gone", "kept"}
    newest = await watch.latest_revision(setup.admin, setup.path)
    assert int(newest) >= int(large.metadata.resource_version)
