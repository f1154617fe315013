"""Berth and a real kube-scheduler let pods on the same nodes; `make parity` goes on for longer."""

from pathlib import Path
from typing import Final

from parity import __main__ as program
from parity import comparing, corpus, scenes, stock

SEED: Final = 20
CLUSTERS: Final = 15
PODS: Final = 150


async def test_both_let_pods_on_the_same_nodes(oracle: stock.Stock, tmp_path: Path) -> None:
    """No pod of a short run is let on other nodes than kube-scheduler would take."""
    run = program.Run(oracle, SEED, tmp_path)

    await program.compare(run, CLUSTERS, PODS)

    assert run.tally.differing == 0, corpus.files(tmp_path)
    assert run.tally.compared > PODS / 2, list(run.tally.lines())
    assert run.tally.sizes["some"] > PODS / 8, "most questions tell nothing"


async def test_kube_scheduler_still_answers_so(oracle: stock.Stock) -> None:
    """What is recorded is what both answer on a real API server."""
    for case in map(corpus.read, corpus.files()):
        found = await comparing.compare_one(oracle, case.question)

        assert found is not None, case.title
        assert (scenes.expected(found.stock, found.question), found.differs) == (case.stock, False), (
            case.title
        )
