"""Nodes are summed up a few at a time, and whoever shows them hears of each portion."""

import asyncio
import logging

import pytest

from berth_operator.engine import node_summaries
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import node_log, summary_reporter
from support import clock, ledgers, timeless


class Scene:
    """A ledger of some nodes, each of which takes a millisecond, and what was told of them."""

    def __init__(self, nodes: int) -> None:
        self.ledger = ledgers.with_nodes(nodes)
        self.shown: list[list[str]] = []
        news = node_log.NodeLog(lambda _: None, str)
        ticking = clock.Ticking(0.001)
        self.reporter = summary_reporter.SummaryReporter(self.ledger, self.show, news, clock=ticking)

    def show(self, found: list[node_summaries.NodeSummary]) -> None:
        """Note which nodes were shown together."""
        self.shown.append([summary.node for summary in found])

    @property
    def names(self) -> list[str]:
        """The nodes that were shown, in this order."""
        return [name for portion in self.shown for name in portion]


@timeless.scenario
async def test_others_have_their_turn_between_portions() -> None:
    """However many nodes are touched, the loop is held for some milliseconds at a time."""
    scene, turns = Scene(100), 0

    async def other() -> None:
        nonlocal turns
        while len(scene.names) < 100:
            turns += 1
            await asyncio.sleep(0)

    async with timeless.beside(scene.reporter.run()):
        await other()

    assert sorted(scene.names) == sorted(info.name for info in scene.ledger.inventory.each())
    assert max(map(len, scene.shown)) <= 1000 * node_summaries.PORTION_SECONDS + 1
    assert turns >= len(scene.shown) - 1 >= 15


@pytest.mark.parametrize("nodes", [0, 1, 40])
def test_how_all_nodes_stand_is_told_once(nodes: int, caplog: pytest.LogCaptureFixture) -> None:
    """In one line, after all portions, and of what comes later each change."""
    caplog.set_level(logging.INFO, node_log.__name__)
    scene = Scene(nodes)

    @timeless.scenario
    async def tell() -> None:
        async with timeless.beside(scene.reporter.run()):
            await timeless.at(1.1)
            silence(scene.ledger)
            await timeless.at(2.1)

    tell()

    first, *later = [record.getMessage() for record in caplog.records if record.name == node_log.__name__]
    assert f"nodes with devices: {nodes}; with a silent agent: 0;" in first
    assert len(later) == nodes
    assert all("its agent is silent" in line for line in later)
    assert len(scene.names) == 2 * nodes


def silence(ledger: Ledger) -> None:
    """Have all agents fall silent."""
    for info in ledger.inventory.each():
        ledger.agent_silent(info.name, silent=True)


@timeless.scenario
async def test_only_what_was_touched_is_summed_up_again() -> None:
    """What is touched while others are summed up is summed up with the next."""
    scene = Scene(20)

    async with timeless.beside(scene.reporter.run()):
        await timeless.until(lambda: scene.shown)
        scene.ledger.agent_silent("n1", silent=True)
        await timeless.at(2.1)

    assert scene.names.count("n1") == 2
    assert len(scene.names) == 20 + 1
