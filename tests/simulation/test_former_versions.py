"""What each version stored is read for ever: its pods hold the cards that it gave them.

`tests/golden/versions` has a folder for each version: the objects of a cluster as its operator's
`/debug/snapshot` told them, and what its `/debug/ledger` said at that moment.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from berth_operator.http_api import views
from berth_operator.simulation import files, placing
from berth_operator.simulation.cluster import Cluster
from berth_operator.simulation.scenario import Scenario

VERSIONS: Final = sorted((Path(__file__).parents[1] / "golden" / "versions").iterdir())


@pytest.fixture(params=VERSIONS, ids=[version.name for version in VERSIONS])
def version(request: pytest.FixtureRequest) -> Path:
    """Lend the folder of each version."""
    folder = request.param
    assert isinstance(folder, Path)
    return folder


def cards(nodes: Iterator[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the cards of all nodes by uuid: what they are, and how much of them is used."""
    kept = ("type", "minor", "model", "memory", "used", "instances", "replicas")
    return {
        device["uuid"]: {key: device[key] for key in kept} for node in nodes for device in node["devices"]
    }


def test_its_pods_hold_the_cards_that_it_gave_them(version: Path) -> None:
    """Card by card, in percent and bytes."""
    scenario, cluster, notes = Scenario(), Cluster(), list[str]()
    scenario.add(files.read([f"{version / 'snapshot.yaml'}"]))
    placing.apply_objects(scenario, cluster)
    for number, (manifest, pod) in enumerate(scenario.pods()):
        placing.add_pod(cluster, manifest, pod, order=f"{number:09}", notes=notes)

    then = json.loads((version / "ledger.json").read_text())
    assert sum(card["used"]["pods"] for card in cards(then).values()) > 0
    assert cards(views.nodes(cluster.ledger)) == cards(then)
    assert notes == []
