"""One object is read again beside the watch, which goes on; an event of the watch has precedence."""

import asyncio
from typing import Any

import pytest

from berth_crds.client import errors
from client.informers import GONE, PATH, InformerSetup, config_map, open_watch, until
from support import stub, timeless

KEY = ("ml", "a")
KNOWN = ("upserted", "a", "uid-a")


def script(setup: InformerSetup, single: stub.Answer, *watches: stub.Answer) -> None:
    """Serve one object at revision 9, and set the answer to a read of it alone."""
    setup.script([stub.page(config_map("a", "9"), version="10")], watches)
    setup.server.on("GET", f"{PATH}/a", single)


async def test_an_object_is_passed_on_once_more(setup: InformerSetup) -> None:
    """In the revision that is known, without a list, and the watch is not opened anew."""
    script(setup, stub.thing(config_map("a", "9")))

    async with timeless.beside(setup.informer.run()):
        await until(lambda: setup.watched_from, "the watch")
        await setup.informer.resync_object(KEY)

        assert [request.path for request in setup.server.requests] == [PATH, PATH, f"{PATH}/a"]
    assert setup.sink.calls == [KNOWN] * 2


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(config_map("a", "8"), id="an older revision"),
        pytest.param(config_map("a", "15"), id="a newer revision, of which the watch has an event to come"),
        pytest.param(config_map("a", "9", uid="other"), id="another one of the same name"),
        pytest.param({"metadata": 7}, id="nothing that can be read"),
    ],
)
async def test_what_is_not_known_is_left_to_the_watch(setup: InformerSetup, found: dict[str, Any]) -> None:
    """No object is taken back to an older revision, nor passed on before its time."""
    script(setup, stub.thing(found))

    async with setup.synced():
        await setup.informer.resync_object(KEY)

    assert setup.sink.versions() == {"a": ("uid-a", "9")}
    assert setup.sink.calls == [KNOWN]


@pytest.mark.parametrize(
    ("event", "news"),
    [
        pytest.param(stub.event("MODIFIED", config_map("a", "12")), [KNOWN], id="changed"),
        pytest.param(stub.event("DELETED", config_map("a", "12")), [("deleted", "a", "uid-a")], id="gone"),
        pytest.param(GONE, [("deleted", "a", "uid-a")], id="gone by a new list"),
        pytest.param(
            stub.event("ADDED", config_map("b", "12")),
            [("upserted", "b", "uid-b"), KNOWN],
            id="of another object",
        ),
    ],
)
async def test_the_watch_goes_on_meanwhile(
    setup: InformerSetup, event: dict[str, Any], news: list[tuple[str, str, str]]
) -> None:
    """However long the answer takes, events are passed on; an answer that they overtook is dropped."""
    asked, answered = asyncio.Event(), asyncio.Event()
    watched = stub.watch(event) if event is GONE else open_watch(event)
    script(setup, stub.later(answered, stub.thing(config_map("a", "9"))), stub.later(asked, watched))

    async with timeless.beside(setup.informer.run()):
        await until(lambda: setup.watched_from, "the watch")
        setup.script([stub.page(version="40")])
        again = asyncio.create_task(setup.informer.resync_object(KEY))
        await until(lambda: len(setup.server.requests) == 3, "the object to be asked for")
        asked.set()
        await until(lambda: len(setup.sink.calls) == 2, "the news")
        answered.set()
        await again

    assert setup.sink.calls == [KNOWN, *news]


async def test_the_caller_learns_that_an_object_is_gone(setup: InformerSetup) -> None:
    """The delete itself is passed on by the watch alone."""
    script(setup, stub.status(404, "it is not there", reason="NotFound"))

    async with setup.synced():
        with pytest.raises(errors.NotFound):
            await setup.informer.resync_object(KEY)

    assert setup.sink.calls == [KNOWN]
