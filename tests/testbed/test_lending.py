"""Clusters that tests share: in which order their files come, and when each cluster ends."""

import types
from pathlib import Path
from typing import Any

import pytest

from testbed import lending

AGENT, E2E, FAST = Path("agent.py"), Path("e2e.py"), Path("fast.py")


class Cluster:
    """A cluster that only notes whether it runs."""

    def __init__(self) -> None:
        self.runs = True

    def stop(self) -> None:
        """Stop."""
        self.runs = False


def item(path: Path, *fixtures: str) -> Any:
    """Return a test of a file that uses some fixtures."""
    return types.SimpleNamespace(path=path, fixturenames=fixtures, config=CONFIG)


CONFIG: Any = types.SimpleNamespace(stash=pytest.Stash())


def test_files_come_in_the_order_of_their_clusters() -> None:
    """A file has one turn, whatever else is in it; those without a shared cluster come last."""
    items = [item(FAST), item(E2E, "own_cluster", "stage"), item(AGENT), item(AGENT, "cluster")]

    turns = lending.turns(items)

    assert sorted(turns, key=turns.__getitem__) == [AGENT, E2E, FAST]
    assert turns[FAST] == len(lending.SHARED)


def test_a_cluster_ends_with_the_last_file_that_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on while a test of its turn follows; a later one, or one that uses none, ends it."""
    monkeypatch.setattr(lending, "lend", lambda cluster, _: iter([cluster]))
    agent, e2e, fast = item(AGENT, "cluster"), item(E2E, "own_cluster"), item(FAST)
    lending.turns([agent, e2e, fast])
    first, second = Cluster(), Cluster()
    for name, cluster in (("cluster", first), ("own_cluster", second)):
        assert next(lending.share(name, cluster, CONFIG)) is cluster  # type: ignore[arg-type, comparison-overlap]

    for following, running in ((agent, (True, True)), (e2e, (False, True)), (fast, (False, False))):
        lending.stop_unused(CONFIG, following)
        assert (first.runs, second.runs) == running
