"""Pods with very many resources: what they hold is added up once, not for each resource that is asked for."""

from collections.abc import Iterator
from typing import Any

from berth_operator.scheduling.changes import Scenario
from berth_operator.scheduling.constraints import resources
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.explain import diagnosis
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.what_if import node_survey
from berth_operator.scheduling.what_if.explanation_budget import ExplanationBudget
from scheduling.placements import RULES
from support import builders

NAMES = [f"example.com/r{at}" for at in range(20)]


class Counted(tuple[Any, ...]):
    """Amounts that count how often they are read."""

    __slots__ = ()
    times_read = 0

    def __iter__(self) -> Iterator[Any]:
        """Count, and yield them."""
        Counted.times_read += 1
        return super().__iter__()


def held() -> Counted:
    """Return one of each resource."""
    return Counted((name, 1) for name in NAMES)


def test_what_pods_hold_is_added_up_once() -> None:
    """However many resources are short on their node."""
    holds = tuple(builders.hold(f"h{at}", amounts=held()) for at in range(3))
    node = facts.Node("n1", allocatable=tuple((name, 4) for name in NAMES))
    demand = facts.NodeDemand(tuple((name, 2) for name in NAMES))
    Counted.times_read = 0

    proposed = list(resources.remedies(Scenario(requests.NO_DEVICES, demand, node=node, holds=holds), None))

    assert len(proposed) == len(NAMES)
    assert Counted.times_read <= len(holds)


def test_a_diagnosis_reads_no_pod_of_the_node_for_what_is_left() -> None:
    """The inventory has the sums, and says the same as the pods would."""
    inventory = builders.inventory(
        builders.node(extra=dict.fromkeys(NAMES, 4)),
        *(builders.hold(f"h{at}", amounts=held()) for at in range(3)),
    )
    pod = builders.pod_info(cards=0, demand=builders.demand(extra=dict.fromkeys(NAMES, 2)))
    search = Search(inventory)
    budget = ExplanationBudget(Effort())
    survey = node_survey.survey(search, pod, RULES, budget)
    Counted.times_read = 0

    (found,) = diagnosis.findings_of(survey)

    assert {(one.name, one.wanted, one.free) for one in found.deficits} == {(name, 2, 1) for name in NAMES}
    assert Counted.times_read == 0
