"""The words for changes: what would have to happen, as a clause after "would fit if".
"""

from collections.abc import Callable, Mapping
from typing import Final, assert_never

from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.explain import closely, findings, words
from berth_operator.scheduling.explain.findings import Condition, Unit

DROPPED: Final[Mapping[Condition, str]] = {
    Condition.MODELS: "the condition on models were dropped",
    Condition.PATTERN: "the pattern for models were dropped",
    Condition.AVOID_MODELS: "no model were avoided",
    Condition.UUIDS: "the list of wanted uuids were dropped",
    Condition.AVOID_UUIDS: "no uuid were avoided",
    Condition.MEMORY_AT_LEAST: "the least memory of each card were dropped",
    Condition.SCOPE: "the scope were dropped",
    Condition.JOINT: "devices needed not be joint",
    Condition.LABELS: "the labels of devices were dropped",
    Condition.FUNCTION_LABELS: "the labels of virtual functions were dropped",
    Condition.SELECTOR: "the node selector were dropped",
    Condition.AFFINITY: "the node affinity were dropped",
    Condition.TAINT: "the taint were tolerated",
}
