"""What is read again and again instead of watched: no watch is opened, and every difference is passed on."""

import pytest

from berth_crds.client import poller, resources
from client.informers import CONFIG_MAPS, ConfigMap, InformerSetup, config_map
from support import stub


@pytest.fixture
def polled(setup: InformerSetup, monkeypatch: pytest.MonkeyPatch) -> InformerSetup:
    """Return a poller in front of the stub server, with short pauses."""
    monkeypatch.setattr(poller, "SHORTEST_SECONDS", 0.02)
    monkeypatch.setattr(poller, "LONGEST_SECONDS", 0.02)
    scope = resources.Scope(namespace="ml")
    setup.informer = poller.Poller(setup.session, CONFIG_MAPS, ConfigMap, setup.sink, scope=scope)
    return setup


async def test_what_differs_from_the_last_list_is_passed_on(polled: InformerSetup) -> None:
    """Objects that were made, changed or deleted meanwhile; nothing is said of the others."""
    before = [config_map("kept", "1"), config_map("changed", "2"), config_map("gone", "3")]
    after = [config_map("kept", "1"), config_map("changed", "12"), config_map("new", "13")]
    polled.script([stub.page(*before, version="10"), stub.page(*after, version="20")])

    await polled.follow_until(lambda: polled.lists > 3, "some lists more")

    assert [(call, name) for call, name, _ in polled.sink.calls[3:]] == [
        ("upserted", "changed"),
        ("upserted", "new"),
        ("deleted", "gone"),
    ]
    assert polled.watched_from == []


async def test_it_may_be_asked_to_read_at_once(
    polled: InformerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an outage: it need not wait for its pause to end, and passes everything on again."""
    monkeypatch.setattr(poller, "SHORTEST_SECONDS", 3600.0)
    monkeypatch.setattr(poller, "LONGEST_SECONDS", 3600.0)
    polled.script([stub.page(config_map("a", "1"), version="10")])

    async with polled.synced():
        await polled.informer.resync()

    assert polled.lists == 2
    assert polled.sink.names("upserted") == ["a", "a"]


@pytest.mark.parametrize(
    ("took", "pause"),
    [
        pytest.param(0.0, poller.SHORTEST_SECONDS, id="few objects"),
        pytest.param(0.005, 100.0, id="more"),
        pytest.param(1.0, poller.LONGEST_SECONDS, id="very many, or a slow server"),
    ],
)
def test_the_longer_a_list_takes_the_longer_is_the_pause(took: float, pause: float) -> None:
    """So that all who read together do not keep the server busy."""
    assert poller.pause(took) == pause
