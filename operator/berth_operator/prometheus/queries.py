"""The queries for the load of cards: one for each metric, for all cards of the cluster together.

The time that an answer names beside each value is that of the query. When a value was measured only the
function `timestamp` tells, so a query asks for both and marks with a label of our own which is which. The
labels of the scraped target are kept: where two exporters measure one card, what belongs together stays so.
Series of MIG instances, which have the label GPU_I_ID, say nothing of the whole card.
"""

from collections.abc import Mapping
from typing import Final

from berth_crds.vocabulary import MetricNames
from berth_operator.engine.sampled_loads import Metric

PATH: Final = "/api/v1/query"
MARK: Final = "berth"
VALUE: Final = "value"
TIME: Final = "time"

NAMES: Final[Mapping[MetricNames, Mapping[Metric, str]]] = {
    MetricNames.DCGM: {metric: f"DCGM_FI_DEV_{metric}" for metric in Metric},
    MetricNames.BERTH: {metric: f"berth_dev_{metric.lower()}" for metric in Metric},
}


def query(name: str, metric: Metric) -> str:
    """Return the query for the values and the times of a metric that Prometheus has by this name."""
    chosen = "min" if metric is Metric.FREE_MEMORY else "max"  # Of series that differ in other labels.
    series = f'{name}{{UUID!="",GPU_I_ID=""}}'
    return (
        f"{chosen} by (UUID, job, instance, {MARK}) ("
        f"{_marked(series, VALUE)} or {_marked(f'timestamp({series})', TIME)})"
    )


def _marked(vector: str, mark: str) -> str:
    return f'label_replace({vector}, "{MARK}", "{mark}", "", "")'
