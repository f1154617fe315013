"""Whatever the decoder lets through is understood somehow: no object can stop the operator."""

import hypothesis
from hypothesis import strategies as st

from berth_crds import wire
from berth_operator.scheduling import cycle, decisions, explain, queued_pods
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.translate import devices, nodes, pods, policies, raw
from support import builders, inventories, random_clusters, shapes


def reason_of(
    search: Search, pod_info: queued_pods.PodInfo, answer: decisions.Wait | decisions.Reject
) -> str:
    """Return why a pod does not fit, looked at closely."""
    if isinstance(answer, decisions.Reject):
        return explain.sentence(answer, pod_info)
    assert explain.brief(answer.counts, pod_info)
    return explain.sentence(explain.explain(search, pod_info, policy=Policy()), pod_info)


CLUSTER = (*builders.nodes(2), builders.hold("x", shares=(0,)))


@random_clusters.PROPERTY
@hypothesis.given(shapes.objects(raw.Pod))
def test_every_pod_is_decided(pod: raw.Pod) -> None:
    """A pod of any shape waits, holds or is over; if it waits it gets an answer, and a refusal has words."""
    pod_info, backlog, inventory = pods.pod_info(pod), Backlog(), builders.inventory(*CLUSTER)
    backlog.push(pod_info)
    before, search = inventories.contents(inventory), Search(inventory)

    (answer,) = cycle.simulate(search, backlog, 0.0, Policy())

    assert isinstance(pods.classify(pod), pods.WaitingPod | pods.BoundPod | pods.IgnoredPod)
    assert answer.uid == pod_info.uid
    assert isinstance(answer, decisions.Bind) or reason_of(search, pod_info, answer)
    assert inventories.contents(inventory) == before


@random_clusters.PROPERTY
@hypothesis.given(shapes.objects(raw.Pod))
def test_every_hold_is_charged_and_released(pod: raw.Pod) -> None:
    """A bound pod of any shape takes something off the node, gives it back, and never adds to it."""
    hold = pods.read_bound(pod).hold
    inventory = builders.inventory(*CLUSTER)
    before = inventories.contents(inventory)

    inventory.charge(hold)
    charged = inventories.contents(inventory)
    inventory.release(hold.uid)

    assert all(0 <= amount <= facts.LARGEST for _, amount in hold.amounts)
    assert charged["n1"]["free cards"] <= before["n1"]["free cards"]
    assert inventories.contents(inventory) == before


@random_clusters.PROPERTY
@hypothesis.given(st.lists(shapes.objects(raw.Node), max_size=3))
def test_every_node_is_taken(things: list[raw.Node]) -> None:
    """A node of any shape finds its place in the inventory."""
    inventory = builders.inventory(*(nodes.read(thing) for thing in things))

    found = inventories.contents(inventory)

    assert set(found) == {thing.metadata.name for thing in things}


@random_clusters.PROPERTY
@hypothesis.given(shapes.objects(wire.Device))
def test_every_device_is_taken(thing: wire.Device) -> None:
    """A Device of any shape finds its place in the inventory, and only sound cards are free."""
    device = devices.read(thing)
    inventory = builders.inventory(builders.node(device.node), device)

    found = inventories.contents(inventory)[device.node]

    sound = [
        card.uuid for card in device.cards if card.trouble is None and not card.mig and card.replicas <= 1
    ]
    assert found["free"] == ([] if device.failed else sound)


@random_clusters.PROPERTY
@hypothesis.given(shapes.objects(wire.PlacementPolicy))
def test_every_policy_is_judged(thing: wire.PlacementPolicy) -> None:
    """A policy of any shape is in force or refused with a reason."""
    found = policies.read(thing)

    assert isinstance(found, Policy) or found.startswith("spec.")
