"""A close look has an end: what was not looked at is called so, and never counted among what fits."""

import dataclasses
from collections.abc import Callable
from typing import Any
from unittest import mock

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from berth_operator.scheduling import explain, queued_pods, search, signatures
from berth_operator.scheduling.changes import Scenario
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_view, requests, search_effort, verdicts
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.what_if import explanation_budget, node_survey, trials
from scheduling.explain import clusters, scenes
from support import builders

NODES = 60
LITTLE = 200  # Steps, enough for a few of the nodes.


def crowd(core: int) -> Inventory:
    """Make nodes on each of whose cards so much is used."""
    inventory = Inventory()
    for at in range(NODES):
        name = f"n{at}"
        inventory.put_node(builders.node(name))
        inventory.put_device(builders.device(name, 4))
        inventory.set_agent_not_ready(name, not_ready=False)
        shares = (builders.share(minor, at=name, core=core, memory=10 * builders.GIB) for minor in range(4))
        inventory.charge(builders.hold(f"h{at}", name, shares))
    return inventory


def puzzling() -> queued_pods.PodInfo:
    """Make a pod whose place sums cannot tell: two kinds of shares that do not add up."""
    pod = scenes.pod(requests.Gpus(1, core=40, memory=builders.GIB))
    (one,) = pod.request.containers
    many = tuple(dataclasses.replace(one, name=f"c{at}") for at in range(5))
    return dataclasses.replace(pod, request=dataclasses.replace(pod.request, containers=many))


def asked(inventory: Inventory, effort: Effort) -> explain.Explanation:
    """Explain with little time."""
    return explain.explain(Search(inventory), puzzling(), policy=Policy(), effort=effort)


def undecided(told: explain.Explanation) -> int:
    """Count the nodes that nobody has looked at."""
    return sum(one.nodes for one in told.counts if one.reason is Reason.UNDECIDED)


def test_what_was_not_looked_at_does_not_fit() -> None:
    """Sums let it in everywhere and no node takes it: none is said to fit, looked at or not."""
    told = asked(crowd(40), Effort(LITTLE))

    assert 0 < undecided(told) < NODES
    assert (told.fits, sum(one.nodes for one in told.counts)) == (0, told.total)
    said = explain.sentence(told, puzzling())
    assert said.startswith(f"0/{NODES} nodes are available: ")
    assert f"{undecided(told)} were not fully evaluated (time limit)" in said


def test_more_nodes_may_fit_than_were_looked_at() -> None:
    """Where all would take it, those are counted that were looked at, and the others may fit as well."""
    told = asked(crowd(10), Effort(LITTLE))

    assert 0 < told.fits == NODES - undecided(told) < NODES
    assert explain.sentence(told, puzzling()).startswith(
        f"at least {told.fits}/{NODES} nodes are available: "
    )
    assert f"fits on at least {told.fits} of {NODES} nodes" in explain.table(told)


@pytest.mark.parametrize("steps", [1, 50, LITTLE, 1000])
def test_effort_is_kept(steps: int) -> None:
    """Everything together takes no more than was given, but for what was under way when it ran out."""
    effort = Effort(steps)

    asked(crowd(40), effort)

    assert effort.left > -search.STEPS_PER_NODE // 5


def ports(count: int) -> dict[str, Any]:
    """Return what a pod has that holds so many host ports."""
    return {"host_ports": [facts.HostPort(number) for number in range(1, count + 1)]}


def monitors(count: int) -> dict[str, Any]:
    """Return what a pod has that holds one disk of so many monitors."""
    return {"disks": (facts.Disk("rbd", monitors=frozenset(map(str, range(count)))),)}


def names(count: int) -> dict[str, Any]:
    """Return what a pod has whose anti-affinity names so many values."""
    expression = facts.LabelExpression("app", "In", tuple(map(str, range(count))))
    return {"anti_affinity": (facts.PodTerm(facts.PodSelector(("ml",), (expression,)), "zone"),)}


@pytest.mark.parametrize("held", [ports, monitors, names])
def test_a_node_whose_pods_hold_very_much_is_not_copied(
    held: Callable[[int], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that somebody put there may have a thousand ports; each copy of the node would have them, too."""
    copied = list[Scenario]()
    copy = trials.inventory_of

    def noted(survey: node_survey.NodeSurvey, scenario: Scenario) -> Inventory:
        copied.append(scenario)
        return copy(survey, scenario)

    monkeypatch.setattr(trials, "inventory_of", noted)
    told = dict[bool, explain.Explanation]()
    for crowded in (False, True):
        inventory = builders.inventory(builders.node("n1", cpu=1000), builders.device("n1", 1))
        for at in range(50):
            inventory.charge(builders.hold(f"h{at}", "n1", **held(1000 if crowded else 1)))
        copied.clear()
        pod = builders.pod_info(request=builders.request(1), demand=builders.demand(cpu=2000))
        effort = Effort(search_effort.MOST_STEPS // 8)
        told[crowded] = explain.explain(Search(inventory), pod, policy=Policy(), effort=effort)
        assert bool(copied) is not crowded

    assert told[True].counts == told[False].counts


@pytest.mark.parametrize("crowd", [1, 3])
def test_a_node_with_very_many_pods_is_no_example_of_what_would_help(
    crowd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever puts pods on a node would make the explanations of others slow; another node will do."""
    monkeypatch.setattr(explanation_budget, "MOST_PODS_ON_A_NODE", 2)
    nodes = [builders.node(name, unschedulable=True) for name in ("n1", "n2")]
    devices = [builders.device(name) for name in ("n1", "n2")]
    holds = [builders.hold(f"h{at}", "n1") for at in range(crowd)]

    said = scenes.said(builders.inventory(*nodes, *devices, *holds), scenes.cards())
    alone = scenes.told(builders.inventory(nodes[0], devices[0], *holds), scenes.cards())

    assert said.endswith(f"Would fit if n{2 if crowd > 2 else 1} were uncordoned.")
    assert (bool(alone.advice), alone.cut) == (crowd == 1, False)
    assert [(one.reason, one.nodes) for one in alone.counts] == [(Reason.NODE_CORDONED, 1)]


@pytest.mark.parametrize("steps", [1, 50, LITTLE, 400, 1000])
def test_little_effort_tells_nothing_empty(steps: int) -> None:
    """However early it ends, what is called nearest says what it lacks."""
    told = asked(crowd(40), Effort(steps))

    assert told.nearest is None or told.nearest.whys or told.nearest.deficits
    pod = puzzling()
    before = Scenario(pod.request, pod.demand)
    assert not any(
        one.changes_pod_only and clusters.after(before, one).request == pod.request for one in told.advice
    )


def test_time_ends_a_look_as_well() -> None:
    """Whoever waits for the answer has a clock: where that says so, whatever is left is not looked at."""
    asked_for_time = []

    def expired() -> bool:
        asked_for_time.append(True)
        return len(asked_for_time) > 50

    told = asked(crowd(40), Effort(expired=expired))

    assert 0 < undecided(told) < NODES
    assert len(asked_for_time) < 200


def test_what_is_read_for_the_first_look_takes_time_as_well() -> None:
    """The clock runs from the first look on, not from its end: what takes all the time is looked at alone."""
    now, place = [0.0], allocator.allocate_or_explain

    def slowly(*args: Any, **more: Any) -> Any:
        now[0] += 1
        return place(*args, **more)

    with mock.patch.object(allocator, "allocate_or_explain", slowly):
        asked(crowd(40), Effort(expired=search_effort.timer(lambda: now[0], 0.5)))

    assert now[0] == 1


@pytest.mark.parametrize("most", [0, 1, 2])
def test_no_more_changes_are_looked_for_than_there_is_time(most: int) -> None:
    """Constraints read all pods of a node to propose something: once the time is over, of no further node."""
    read: list[str] = []

    def remedies(before: Scenario, _: object) -> list[Any]:
        read.append(before.node.name)
        return []

    with mock.patch.object(registry, "remedies", remedies):
        asked(crowd(100), Effort(expired=lambda: len(read) >= most))

    assert len(read) == most


ASKS = st.builds(
    requests.Gpus,
    st.integers(1, 5),
    core=st.sampled_from([0, 10, 70, 100]),
    ratio=st.sampled_from([1, 30, 80, 100]),
) | st.builds(requests.Gpus, st.integers(1, 5), core=st.just(30), memory=st.integers(1, 9 * builders.GIB))


@hypothesis.given(st.lists(ASKS, min_size=1, max_size=8))
def test_a_node_lacks_what_it_lacks_most(asks: list[requests.Gpus]) -> None:
    """Only asks that no other contains are compared with all nodes, and the others would change nothing."""
    inventory = crowd(40)

    def lacks(*some: requests.Gpus) -> Any:
        pod = scenes.pod(*some)
        query = Query.for_all_nodes(inventory, signatures.of(pod.request, pod.demand))
        return registry.gaps(query)

    together = sum(ask.count for ask in asks if ask.is_whole)
    singly = [lacks(ask) for ask in asks if not ask.is_whole]
    assert lacks(*asks) == pytest.approx(np.max([*singly, lacks(requests.cards(together))], axis=0))


def test_looking_at_all_nodes_has_an_end() -> None:
    """Where every card is wanted, hard pods are looked at for some time and not for ever."""
    search = Search(crowd(40))

    with mock.patch.object(explanation_budget, "STEPS_FOR_ALL_NODES", LITTLE):
        told = explain.explain(search, puzzling(), policy=Policy(), all_nodes=True)

    assert 0 < undecided(told) < NODES


def test_a_node_is_read_no_longer_than_there_is_time() -> None:
    """However many things are asked of however many different cards, the clock is looked at soon."""
    view = device_view.View(
        builders.device(cards=64),
        {
            builders.uuid("n1", minor): device_view.Usage(minor, minor * builders.GIB // 8, 1)
            for minor in range(64)
        },
    )
    asks = [requests.Gpus(1, core=1 + at, memory=builders.GIB) for at in range(50)]
    judged, against = [0], verdicts.reason_against

    def counted(*args: Any, **more: Any) -> Any:
        judged[0] += 1
        return against(*args, **more)

    with mock.patch.object(verdicts, "reason_against", counted):
        effort = Effort(expired=lambda: judged[0] > 100)
        answer = allocator.allocate_or_explain(view, scenes.pod(*asks).request, effort=effort)

    assert isinstance(answer, allocator.Shortfall)
    assert answer.reason is Reason.UNDECIDED
    assert judged[0] <= 2 * 64
