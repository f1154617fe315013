"""A node whose devices cannot be searched to the end keeps no pod from what becomes free elsewhere."""

from collections.abc import Iterable
from typing import Final

import pytest

from berth_operator.scheduling import decisions, search
from berth_operator.scheduling.devices import allocator, device_view, requests
from berth_operator.scheduling.devices.search_effort import Effort
from engine.harness import Engine
from support import builders, irregular_topologies, timeless

GOOD, BAD = "n1", "n9"
SORT: Final = "all joined but for two pairs"
ASKED: Final = builders.request(requests.cards(2), *[requests.Gpus(1, core=40, ratio=40)] * 3)
WAITED: Final = 25.0


def publish(engine: Engine) -> None:
    """Have the bad node publish other links of the same sort."""
    engine.ledger.device_seen(irregular_topologies.device(BAD, SORT))


def engine_with_full_node() -> Engine:
    """Return an engine with one full node and one that is hard to search."""
    engine = Engine(nodes=1, cards=8)
    engine.ledger.pod_bound(builders.hold("old", GOOD, range(8)))
    engine.ledger.node_seen(builders.node(BAD))
    engine.ledger.agent_silent(BAD, silent=False)
    publish(engine)
    return engine


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the nodes that are searched for a place, as the test goes on; the bad one has no answer."""
    nodes, allocate = list[str](), search._allocate

    def noted(
        view: device_view.View, request: requests.DeviceRequest, first_slot: int | None, effort: Effort
    ) -> tuple[decisions.Grant, ...] | allocator.Shortfall:
        nodes.append(view.device.node)
        return allocate(view, request, first_slot, Effort(0) if view.device.node == BAD else effort)

    monkeypatch.setattr(search, "_allocate", noted)
    return nodes


def changes(every: float) -> Iterable[float]:
    """Return the moments before the end of the wait, so far apart."""
    return (at * every for at in range(1, int(WAITED / every))) if every else ()


@pytest.mark.parametrize("every", [0.0, 1.0], ids=["it stays", "it changes"])
@timeless.scenario
async def test_what_becomes_free_elsewhere_is_given_at_once(searched: list[str], every: float) -> None:
    """However long the pod has waited, and however long its pause has become."""
    engine = engine_with_full_node()
    engine.wait("p", request=ASKED)
    for moment in changes(every):
        await engine.advance(moment)
        publish(engine)
    await engine.advance(WAITED)
    assert BAD in searched

    engine.ledger.pod_over("uid-old")
    await engine.advance(lambda: engine.placed("p"))

    assert engine.bound_at("p") - WAITED <= 0.1


@timeless.scenario
async def test_what_becomes_free_elsewhere_has_it_searched_no_sooner(searched: list[str]) -> None:
    """The bad node is searched again when the pause is over, whatever comes and goes on others meanwhile."""
    engine = engine_with_full_node()
    engine.wait("p", request=ASKED)
    await engine.advance(WAITED)

    searched.clear()
    for at in range(40):
        engine.ledger.pod_over("uid-old" if at == 0 else f"uid-one-{at - 1}")
        engine.ledger.pod_bound(builders.hold(f"one-{at}", GOOD, range(8 - at % 2)))
        publish(engine)
        await engine.advance(WAITED + (at + 1) / 10)
    often = searched.count(BAD)
    await engine.advance(WAITED + 30.0)

    assert often <= 2
    assert searched.count(BAD) > often
