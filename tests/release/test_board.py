"""The board for Grafana asks for nothing that the programs do not measure."""

import json
import re
from typing import Any, Final

import prometheus_client.parser
import pytest

from agent.test_metrics import SAMPLE
from berth_agent import metrics as agent_metrics
from berth_agent import node_view
from berth_crds import wire
from berth_operator import metrics
from berth_operator.engine import inventory_metrics
from release import rendering
from support import clock, ledgers

BOARD: Final = json.loads((rendering.CHART / "files" / "board.json").read_text())
PANELS: Final = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES: Final = [target["expr"] for panel in PANELS for target in panel["targets"]]
OF_HISTOGRAMS: Final = {"le"}


def labels_by_metric() -> dict[str, set[str]]:
    """Return what both programs measure, and by which labels."""
    measured = metrics.Metrics()
    measured.registry.register(inventory_metrics.InventoryCollector(ledgers.with_nodes(1, 1), lambda: 0.0))
    measured.writes("POST", "/api/v1/namespaces/ml/events", 201)
    view = node_view.NodeView("n1")
    view.record_sample(SAMPLE, 0.0)
    view.record_tick(seconds=0.1, now=0.0)
    card = SAMPLE.cards[0].uuid
    view.xids[card, 79] += 1
    view.status = wire.DeviceStatus((wire.CardStatus(card, "Unhealthy", "XidCritical", 79),))
    held = wire.HoldingContainer("main", (wire.HeldCard(card, 0, "gpu", 100, 1),))
    view.gpupods = lambda: [wire.GpuPod(wire.Meta("p", "ns"), wire.GpuPodSpec("n1", "u", (held,)))]
    collector = agent_metrics.Collector([view], clock=clock.Clock())
    text = measured.text().decode() + agent_metrics.text(collector).decode().replace("# EOF", "")
    return {
        sample.name: set(sample.labels)
        for family in prometheus_client.parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_for_what_is_measured(query: str) -> None:
    """By labels that it has."""
    known = labels_by_metric()
    asked = set(re.findall(r"\bberth_[a-z_]+", query))

    assert asked
    assert asked <= set(known)
    labels = set(re.findall(r"(\w+)=~", query))
    for words in re.findall(r"by \(([^)]*)\)", query):
        labels |= {word.strip() for word in words.split(",")}
    for metric in asked:
        assert labels <= known[metric] | OF_HISTOGRAMS, metric


def test_each_panel_says_what_it_shows() -> None:
    """Somebody who looks at it at night did not build it; and no two lie upon each other."""
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        cells = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_legends_name_labels_of_their_query() -> None:
    """A name that Grafana does not find would stay as it is written."""
    for panel in PANELS:
        for target in panel["targets"]:
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            grouped = re.search(r"by \(([^)]*)\)", target["expr"])
            assert named <= set(re.split(r",\s*", grouped[1]) if grouped else ())


def test_the_chart_brings_it_where_it_is_wanted() -> None:
    """As it stands in the file, for that has braces that helm might take for its own."""

    def boards(*words: str) -> list[dict[str, Any]]:
        things = rendering.render(*words)
        return [
            one for one in things if one["kind"] == "ConfigMap" and one["metadata"]["name"] == "berth-board"
        ]

    (board,) = boards("--set", "grafanaBoard.enabled=true")
    assert json.loads(board["data"]["berth.json"]) == BOARD
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert boards() == []
