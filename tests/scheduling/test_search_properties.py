"""The search agrees with brute force, and what it remembers is as true as what it works out afresh."""

import dataclasses
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import (
    cycle,
    decisions,
    node_table,
    queued_pods,
    search_memory,
)
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import REMEMBERED_BYTES, Search, rank
from scheduling import second_opinion
from scheduling.placements import RULES, THOROUGH, place
from support import builders, worlds

# ---------------------------------------------------------------- against brute force


@THOROUGH
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates(), strategy=st.sampled_from(list(Strategy)))
def test_second_opinion_agrees(world: worlds.World, pod: queued_pods.Candidate, strategy: Strategy) -> None:
    """Brute force finds the same node and the same devices, or none as well."""
    policy = Policy(strategy)
    expected = second_opinion.best(world, pod, policy)

    found = place(world.paint(), pod, policy)

    assert found == expected


@THOROUGH
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_second_opinion_agrees_on_every_node(world: worlds.World, pod: queued_pods.Candidate) -> None:
    """Not only the best node: alone, each one takes the pod exactly when brute force says so."""
    expected = second_opinion.able(world, pod)

    found = []
    for name in world.nodes:
        alone = dataclasses.replace(world, nodes={name: world.nodes[name]})
        if place(alone.paint(), pod) is not None:
            found.append(name)

    assert sorted(found) == expected


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_only_sound_devices_are_given(world: worlds.World, pod: queued_pods.Candidate) -> None:
    """Whatever is given is well, there, and of a node whose agent is heard (I6)."""
    found = place(world.paint(), pod)

    if found is not None:
        assert {share.uuid for share in worlds.given(found)} <= second_opinion.sound(world, found.node)


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates())
def test_grants_are_what_was_asked(world: worlds.World, pod: queued_pods.Candidate) -> None:
    """Each container gets as many whole cards and shares of cards as it asks for, all of one node (I2)."""
    found = place(world.paint(), pod)

    if found is None:
        return
    counted = requests.Gpus | requests.Instances
    asked = {one.name: one.asks[0] for one in pod.request.containers}
    counts = {grant.container: len(grant.shares) for grant in found.grants}
    assert set(counts) == set(asked)
    assert all(counts[name] == ask.count for name, ask in asked.items() if isinstance(ask, counted))
    assert all(f"-{found.node}" in share.uuid for grant in found.grants for share in grant.shares)


# ---------------------------------------------------------------- what is remembered

CHANGES = (
    *("charge", "charge", "charge", "release", "release"),
    *("put node", "drop node", "put device", "drop device", "hear", "teach"),
)


def change(world: worlds.World, inventory: Inventory, data: st.DataObject) -> None:
    """Change the truth and the picture of it alike."""
    at = data.draw(st.sampled_from(worlds.NODES))
    match data.draw(st.sampled_from(CHANGES)):
        case "charge":
            hold = data.draw(worlds.held(f"h{data.draw(st.integers(0, 5))}"))
            if hold.uid not in world.holds:
                world.holds[hold.uid] = hold
                inventory.charge(hold)
        case "release" if world.holds:
            uid = data.draw(st.sampled_from(sorted(world.holds)))
            del world.holds[uid]
            inventory.release(uid)
        case "teach":
            uid, sample = data.draw(st.sampled_from(["t1", "t2"])), data.draw(worlds.SAMPLES)
            world.samples[uid] = sample
            inventory.workload.see(uid, sample)
        case what:
            change_node(world, inventory, data, what, at)


def change_node(world: worlds.World, inventory: Inventory, data: st.DataObject, what: str, at: str) -> None:
    """Change a node, its devices or its agent."""
    match what:
        case "put node":
            world.nodes[at] = data.draw(worlds.nodes(at))
            inventory.put_node(world.nodes[at])
        case "drop node":
            world.nodes.pop(at, None)
            inventory.drop_node(at)
        case "put device":
            world.devices[at] = data.draw(worlds.devices(at))
            inventory.put_device(world.devices[at])
            inventory.set_silent(at, at not in world.heard)
        case "drop device":
            world.devices.pop(at, None)
            world.heard.discard(at)
            inventory.drop_device(at)
        case "hear" if at in world.devices:
            heard = data.draw(st.booleans())
            (world.heard.add if heard else world.heard.discard)(at)
            inventory.set_silent(at, not heard)


def decide(search: Search, pod: queued_pods.Candidate, policy: Policy) -> decisions.Decision:
    """Decide for one pod."""
    backlog = Backlog()
    backlog.push(pod)
    (answer,) = cycle.decide(search, backlog, 0.0, policy)
    return answer


@THOROUGH
@hypothesis.given(
    world=worlds.worlds(),
    pods=st.lists(worlds.candidates(), min_size=1, max_size=3),
    strategy=st.sampled_from(list(Strategy)),
    data=st.data(),
)
def test_remembered_answers_are_true(
    world: worlds.World, pods: list[queued_pods.Candidate], strategy: Strategy, data: st.DataObject
) -> None:
    """After any changes a search that remembers answers as one that has just begun."""
    policy = Policy(strategy)
    search = Search(world.paint())

    for _ in range(data.draw(st.integers(1, 12))):
        for pod in pods:
            fresh = decide(Search(world.paint()), pod, policy)
            assert decide(search, pod, policy) == fresh
        for _ in range(data.draw(st.integers(0, 3))):
            change(world, search.inventory, data)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods with a thousand different requests do not fill the memory."""
    monkeypatch.setattr("berth_operator.scheduling.search.MOST_REMEMBERED", 4)
    search = Search(builders.inventory(*builders.nodes(1)))

    for cpu in range(1, 20):
        search.place(builders.request(1), builders.demand(cpu), policy=RULES)

    assert len(search._answers) <= 4


def test_log_that_was_cut_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not known any more what has changed, all nodes are asked again."""
    inventory = builders.inventory(*builders.nodes(3, cards=1))
    search = Search(inventory)
    before = search.place(builders.request(1), builders.demand(), policy=RULES)

    monkeypatch.setattr(node_table, "LOG_KEPT", 1)
    for at in (1, 2, 3):
        inventory.charge(builders.hold(f"h{at}", f"n{at}", (0,)))

    assert before is not None
    assert search.place(builders.request(1), builders.demand(), policy=RULES) is None


def test_one_change_asks_one_node_anew() -> None:
    """A pod with a question that was asked before looks only at the nodes that changed."""
    inventory, rows = asked_anew()

    at = inventory.index["n4"]
    assert rows == slice(at, at + 1)


def test_a_constraint_on_other_nodes_has_all_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a node's answer depends on pods elsewhere, a change of one node voids the answers of all."""
    monkeypatch.setattr("berth_operator.scheduling.constraints.registry._CLUSTER_WIDE", (lambda _: True,))

    inventory, rows = asked_anew()

    assert rows == inventory.everything


def asked_anew() -> tuple[Inventory, object]:
    """Ask nine nodes, change one and ask again; return which rows the second time was put to."""
    inventory = builders.inventory(*builders.nodes(9))
    search = Search(inventory)
    search.place(builders.request(1), builders.demand(), policy=RULES)
    inventory.charge(builders.hold("a", "n4", (0,)))

    with mock.patch("berth_operator.scheduling.search.rank", wraps=rank) as asked:
        search.place(builders.request(1), builders.demand(), policy=RULES)

    ((_, rows, *_), _) = asked.call_args
    return inventory, rows


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates(), order=st.permutations(worlds.NODES))
def test_order_of_arrival_finds_the_same(
    world: worlds.World, pod: queued_pods.Candidate, order: list[str]
) -> None:
    """Equal clusters give equal places, whichever node came first (I11)."""
    expected = place(world.paint(), pod)

    found = place(world.paint(order), pod)

    assert found == expected


def test_node_without_room_takes_nothing() -> None:
    """Free cards alone are not enough."""
    inventory = builders.inventory(builders.node(cpu=0), builders.device())

    found = place(inventory, builders.candidate(demand=facts.Demand(((facts.CPU, 1),))))

    assert found is None


def test_what_is_remembered_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long lists count by their length: fewer of them are kept, and nothing is left when they are gone."""
    monkeypatch.setattr("berth_operator.scheduling.search.REMEMBERED_BYTES", 100_000)
    search = Search(builders.inventory(*builders.nodes(1)))
    long = [frozenset(f"GPU-{at}-{each}" for each in range(200)) for at in range(20)]

    for uuids in long:
        conditions = requests.Conditions(uuids=uuids)
        search.place(builders.request(1, conditions=conditions), builders.demand(), policy=RULES)
    kept = len(search._answers)
    for cpu in range(1, 200):
        search.place(builders.request(1), builders.demand(cpu), policy=RULES)

    assert kept == 3
    assert search._bytes == sum(one.bytes(key[0]) for key, one in search._answers.items())
    assert search._bytes <= REMEMBERED_BYTES


def test_what_closer_looks_showed_is_weighed() -> None:
    """What is remembered of single nodes counts, until they change."""
    search = Search(builders.inventory(*builders.nodes(3, cards=1)))
    two = builders.request(
        requests.Gpus(1, core=60), requests.Gpus(1, core=30, ratio=90), requests.Gpus(1, core=9)
    )
    assert search.place(two, builders.demand(), policy=RULES) is not None
    ((key, answer),) = search._answers.items()
    answer.closer[0] = decisions.Reason.FULL, ""
    search._bytes += search_memory.BYTES_A_REASON

    search.inventory.charge(builders.hold("a", "n1"))
    search.place(two, builders.demand(), policy=RULES)

    assert not answer.closer
    assert search._bytes == answer.bytes(key[0])
