"""Every change that an explanation advises helps, and none asks for more than is needed."""

import dataclasses

import hypothesis
from hypothesis import strategies as st

from berth_operator.scheduling import (
    explain,
    queued_pods,
)
from berth_operator.scheduling.changes import (
    DropCondition,
    FreeDevices,
    Precedence,
    RemovePods,
    Scenario,
)
from berth_operator.scheduling.constraints import asks
from berth_operator.scheduling.inventory import Inventory
from scheduling.explain import clusters, spoken


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos(), all_nodes=st.booleans())
@hypothesis.example(
    # Here pods withhold cards of a node that has too many pods: if others ended, no card would be left.
    inventory=clusters.picture(clusters.Dice(576460752303423488)),
    pod=clusters.pod_info(clusters.Dice(10829914)),
    all_nodes=False,
)
@hypothesis.example(
    # Here more of a card's compute is held than there is, and a share of its memory alone still fits.
    inventory=clusters.picture(clusters.Dice(4496)),
    pod=clusters.pod_info(clusters.Dice(12128015)),
    all_nodes=False,
)
def test_every_change_helps(inventory: Inventory, pod: queued_pods.PodInfo, *, all_nodes: bool) -> None:
    """After each proposed change the pod really fits, and on as many nodes as was said."""
    for advice in clusters.asked(inventory, pod, all_nodes=all_nodes).advice:
        after = clusters.after(Scenario(pod.request, pod.demand), advice)
        then = dataclasses.replace(pod, request=after.request, demand=after.demand)
        if advice.changes_pod_only:
            able = clusters.takers(inventory, then)
            assert len(able) == advice.nodes if advice.exact else len(able) >= advice.nodes
        else:
            assert clusters.takes(_applied(inventory, advice, pod), then), advice
            sentence = explain.would_fit(advice)
            if len(advice.changes) == 1 and advice.changes[0].precedence <= Precedence.END_PODS:
                assert clusters.takes(spoken.done(inventory, sentence), pod), sentence


def _applied(inventory: Inventory, advice: explain.Advice, pod: queued_pods.PodInfo) -> Inventory:
    """Return the node of the advice alone, after its changes."""
    (name,) = {one.node for one in advice.changes if one.node}
    info, made = inventory.node(name), Inventory()
    assert info is not None
    assert info.node is not None
    holds = tuple(info.holds.values())
    before = Scenario(
        pod.request, pod.demand, info.node, info.device, info.agent_not_ready, holds, info.quarantine
    )
    after = clusters.after(before, advice)
    made.put_node(after.node)
    if after.device is not None:
        made.put_device(after.device)
        made.set_agent_not_ready(after.device.node, after.agent_not_ready)
        made.set_quarantine(after.device.node, after.quarantine)
    for hold in after.holds:
        made.charge(hold)
    return made


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_every_condition_that_helps_is_told(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """Of the conditions on devices exactly those are proposed to be dropped that alone stand in the way."""
    told = clusters.asked(inventory, pod, all_nodes=True)
    hypothesis.assume(not told.fits)

    single = [one.changes[0] for one in told.advice if len(one.changes) == 1]
    dropped = {change.field for change in single if isinstance(change, DropCondition)}

    assert dropped == {field for field in _FIELDS if clusters.takers(inventory, _relaxed(pod, field))}


_FIELDS = {
    **dict.fromkeys(["models", "avoid_models", "uuids", "avoid_uuids"], ("conditions", frozenset())),
    **dict.fromkeys(["pattern", "avoid_pattern"], ("conditions", "")),
    **dict.fromkeys(["memory_at_least", "free_memory_at_least"], ("conditions", 0)),
    "scope": ("grouping", None),
    **dict.fromkeys(["joint", "exclusive", "labels", "function_labels"], ("grouping", ())),
    "card_labels": ("conditions", ()),
}


def _relaxed(pod: queued_pods.PodInfo, field: str) -> queued_pods.PodInfo:
    part, nothing = _FIELDS[field]
    changed = dataclasses.replace(getattr(pod.request, part), **{field: nothing})
    return dataclasses.replace(pod, request=dataclasses.replace(pod.request, **{part: changed}))


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
@hypothesis.example(
    # Here the largest node had one card when nodes were last compared, and has three now.
    inventory=clusters.picture(clusters.Dice(1100757919)),
    pod=clusters.pod_info(clusters.Dice(1219129)),
)
def test_fewer_cards_are_as_many_as_fit(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """The number that is proposed in place of a larger one is the largest that fits."""
    hypothesis.assume(len(pod.request.containers) == 1 and len(pod.request.containers[0].asks) == 1)
    ask = pod.request.containers[0].asks[0]
    for (change, *_), advice in (
        (one.changes, one) for one in clusters.asked(inventory, pod, all_nodes=True).advice
    ):
        if len(advice.changes) == 1 and isinstance(change, asks.AskLess) and change.field == "count":
            for count in range(change.deficit.free + 1, ask.count):
                larger = dataclasses.replace(ask, count=count)
                container = dataclasses.replace(pod.request.containers[0], asks=(larger,))
                request = dataclasses.replace(pod.request, containers=(container,))
                served = tuple((name, count) for name, _ in pod.demand.device_resources)
                demand = dataclasses.replace(pod.demand, device_resources=served)
                assert not clusters.takers(
                    inventory, dataclasses.replace(pod, request=request, demand=demand)
                )


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
@hypothesis.example(
    # Here a victim is needed only beside another that is not: a card that is unused is withheld.
    inventory=clusters.picture(clusters.Dice(644818)),
    pod=clusters.pod_info(clusters.Dice(9478)),
)
@hypothesis.example(
    inventory=clusters.picture(clusters.Dice(644818)),
    pod=clusters.pod_info(clusters.Dice(75014)),
)
def test_no_pod_is_ended_without_need(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """Of the pods that would have to end, none can be left out."""
    for advice in clusters.asked(inventory, pod).advice:
        (change, *others) = advice.changes
        if isinstance(change, RemovePods | FreeDevices) and not others:
            for needed in change.holds:
                made = clusters.alone(inventory, change.node)
                for hold in change.holds:
                    if hold is not needed:
                        made.release(hold.uid)
                assert not clusters.takes(made, pod)
