"""What an explanation says is so: random clusters and pods against the search itself (I12)."""

import collections
import dataclasses

import hypothesis
from hypothesis import strategies as st

from berth_operator.scheduling import (
    explain,
    gpu_units,
    node_info,
    node_selection_reasons,
    queued_pods,
    signatures,
)
from berth_operator.scheduling.constraints import cards, reason_counts
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import NodeReason, Reason
from berth_operator.scheduling.deficits import Unit
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import affinity, taints
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.what_if import explanation_budget, node_survey
from scheduling.explain import clusters


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_node_is_listed_exactly_if_it_would_not_take_the_pod(
    inventory: Inventory, pod: queued_pods.PodInfo
) -> None:
    """Search and explanation agree on every node: no refusal without cause, no cause without refusal."""
    able = clusters.takers(inventory, pod)

    told = clusters.asked(inventory, pod)

    known = sorted(info.name for info in inventory.each() if info.node is not None)
    assert [finding.node for finding in told.nodes] == [name for name in known if name not in able]
    assert (told.total, told.fits) == (len(known), len(able))


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_counts_are_those_of_the_nodes(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """What is counted without looking closely equals the first reasons of the single nodes."""
    search = Search(inventory)
    signature = signatures.of(pod.request, pod.demand)
    fits = search.place(pod.request, pod.demand, policy=clusters.RULES) is not None
    searched = search.reasons_by_row(signature, clusters.RULES)
    cheap = reason_counts.count(Query.for_all_nodes(inventory, signature), searched)

    told = clusters.asked(inventory, pod, all_nodes=True)

    found = collections.Counter((finding.reason, finding.detail) for finding in told.nodes)
    assert {(one.reason, one.detail): one.nodes for one in told.counts} == dict(found)
    assert fits or not told.total or told.counts == cheap


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_reason_is_true_of_its_node(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """A node's reason is the first thing in the way: its place, its state, its devices, its resources."""
    for finding in clusters.asked(inventory, pod, all_nodes=True).nodes:
        info = inventory.node(finding.node)
        assert info is not None
        assert info.node is not None
        place = node_selection_reason(info.node, pod.demand.node_selection)
        state = _state(info) if pod.request else None
        if place is not None or finding.reason in node_survey.NODE_OBJECT_REASONS:
            assert (finding.reason, finding.detail) == place
        elif state is not None or (finding.reason in node_survey.NO_DEVICE_AT_ALL and not finding.never_fits):
            assert finding.reason is state
        elif finding.reason is Reason.NO_DEVICE:
            assert info.device is not None
            assert finding.detail not in {one.type for one in info.device.others}
        elif finding.reason is Reason.INSUFFICIENT_RESOURCE:
            assert finding.detail in {one.name for one in finding.deficits}
            assert all(one.missing for one in finding.deficits)
        elif finding.shortfall is None:
            # The search leaves withheld cards alone among those that match, the allocator among all.
            assert finding.reason is Reason.WITHHELD
        else:
            request = gpu_units.request_on_unit(pod.request, pod.demand, info.view().device.gpu_unit)
            assert isinstance(allocator.allocate_or_explain(info.view(), request), allocator.Shortfall)
            assert not finding.shortfall.verdicts or finding.shortfall.found < finding.shortfall.wanted


def node_selection_reason(node: nodes.Node, node_selection: nodes.NodeSelection) -> NodeReason | None:
    """Return why one node's taints, labels or name do not suit a pod, if so."""
    matches, missing = affinity.matches(node_selection, node), node_selection.missing_feature(node)
    tolerations = taints.TolerationCache(node_selection.tolerations)
    return node_selection_reasons.node_selection_reason(node, tolerations, missing, matches=matches)


def _state(info: node_info.NodeInfo) -> Reason | None:
    if info.device is None:
        return Reason.NOT_PUBLISHED
    if not (info.device.cards or info.device.others):
        return Reason.NO_DEVICE
    if info.agent_not_ready:
        return Reason.SILENT
    if info.device.failed:
        return Reason.SOURCE_FAILED
    return Reason.QUARANTINED if info.quarantine else None


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_never_means_not_even_if_empty(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """What is said never to fit does not fit a node with nothing used and nothing wrong."""
    anywhere = dataclasses.replace(
        pod.demand, node_selection=nodes.NodeSelection(tolerations=(nodes.Toleration(operator="Exists"),))
    )
    content = dataclasses.replace(pod, demand=anywhere)

    for finding in clusters.asked(inventory, pod, all_nodes=True).nodes:
        if finding.never_fits:
            assert not clusters.takes(_emptied(inventory, finding.node), content), finding


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_what_never_fits_is_not_full(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """Whoever reads that a node is full waits for it: so sums that tell never do not say full."""
    survey = node_survey.survey(
        Search(inventory), pod, clusters.RULES, explanation_budget.ExplanationBudget(Effort())
    )

    for at in survey.refusing_rows:
        assert not (survey.never_fits[at] and survey.reason(at)[0] in cards.USED), survey.reason(at)


def _emptied(inventory: Inventory, name: str) -> Inventory:
    info, made = inventory.node(name), Inventory()
    assert info is not None
    assert info.node is not None
    made.put_node(info.node)
    if info.device is not None:
        cards, others = (
            tuple(dataclasses.replace(one, trouble=None) for one in those)
            for those in (info.device.cards, info.device.others)
        )
        made.put_device(dataclasses.replace(info.device, cards=cards, others=others, failed=""))
        made.set_agent_not_ready(name, not_ready=False)
    return made


# ---------------------------------------------------------------- the nearest


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_figures_of_the_nearest_are_true(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """The card that is nearest has as much free as is said, and less than is wanted."""
    nearest = clusters.asked(inventory, pod).nearest
    info = inventory.node(nearest.node) if nearest is not None else None
    if nearest is None or info is None:
        return
    view = info.view()
    assert 0 < nearest.lack < 1 or (nearest.whys and not nearest.deficits)
    for card in (*view.device.cards, *view.device.others):
        if card.uuid == nearest.device:
            free = {Unit.PERCENT: view.free_core(card), Unit.BYTES: view.free_memory(card)}
            assert all(one.free == free[one.unit] < one.wanted for one in nearest.deficits)


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_nobody_is_left_without_a_word(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """Where no change helps, the nearest is told, unless all nodes refuse for the same one thing."""
    told = clusters.asked(inventory, pod)
    hypothesis.assume(told.total and not told.fits and not told.advice)

    assert told.nearest is not None or len(told.counts) == 1


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_all_that_is_in_the_way_is_true(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """Of the things in the way of the nearest node each is so, and one of them is the node's reason."""
    nearest = clusters.asked(inventory, pod).nearest
    hypothesis.assume(nearest is not None and nearest.whys)
    assert nearest is not None
    info = inventory.node(nearest.node)
    assert info is not None
    assert info.node is not None

    told = {reason for reason, _ in nearest.whys}

    place = node_selection_reason(info.node, pod.demand.node_selection)
    assert bool(told & node_survey.NODE_OBJECT_REASONS) == (place is not None)
    # The taint of a cordoned node is called what it means.
    assert place is None or place[0] in told or place[1] == nodes.UNSCHEDULABLE_TAINT
    assert (Reason.SILENT in told) == bool(pod.request and info.device is not None and info.agent_not_ready)


# ---------------------------------------------------------------- and nothing happens


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos(), all_nodes=st.booleans())
def test_nothing_changes(inventory: Inventory, pod: queued_pods.PodInfo, *, all_nodes: bool) -> None:
    """To explain is to read: not a number, not a name and not a version is another afterwards."""
    before = clusters.state(inventory)

    clusters.asked(inventory, pod, all_nodes=all_nodes)

    assert clusters.same(clusters.state(inventory), before)


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
@hypothesis.example(clusters.picture(clusters.Dice(447)), clusters.pod_info(clusters.Dice(447)))
def test_equal_clusters_give_equal_words(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """In whatever order nodes and pods become known (I11), if nvidia.com/gpu means other profiles, too."""
    again = Inventory()
    for info in reversed(list(inventory.each())):
        for hold in reversed(info.holds.values()):
            again.charge(hold)
        if info.device is not None:
            again.put_device(info.device)
            again.set_agent_not_ready(info.name, info.agent_not_ready)
            again.set_quarantine(info.name, info.quarantine)
        if info.node is not None:
            again.put_node(info.node)

    one, other = clusters.asked(inventory, pod), clusters.asked(again, pod)

    assert one == other
    assert explain.sentence(one, pod) == explain.sentence(other, pod)
    assert explain.table(one) == explain.table(other)


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos())
def test_remembering_search_changes_nothing(inventory: Inventory, pod: queued_pods.PodInfo) -> None:
    """An explanation by a search that has answered before, and seen pods go since, is the same."""
    search = Search(inventory)
    explain.explain(search, pod, policy=clusters.RULES)
    for info in list(inventory.each()):
        for uid in list(info.holds)[:1]:
            inventory.release(uid)

    told = explain.explain(search, pod, policy=clusters.RULES)

    assert told == clusters.asked(inventory, pod)


@clusters.PROPERTY
@hypothesis.given(inventory=clusters.pictures(), pod=clusters.pod_infos(), all_nodes=st.booleans())
def test_every_explanation_can_be_said(
    inventory: Inventory, pod: queued_pods.PodInfo, *, all_nodes: bool
) -> None:
    """Each has a sentence that an event can carry, a table, and a message for each refusal."""
    told = clusters.asked(inventory, pod, all_nodes=all_nodes)

    sentence, table = explain.sentence(told, pod), explain.table(told)

    assert 0 < len(sentence) <= 1024
    assert "\n" not in sentence
    assert table.endswith("\n")
    assert all(finding.node in table for finding in told.nodes if finding.diagnosed)
    assert all(refusal.detail for refusal in explain.refusals(told, pod))
