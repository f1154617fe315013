"""A round decides pod after pod, each one seeing what the ones before it were given."""

import dataclasses
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Scope, Strategy
from berth_operator.scheduling import cycle, decisions, queued_pods, round_limits, search_memory, signatures
from berth_operator.scheduling.constraints import reason_counts
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Bind, Count, Reason, Refusal, Reject, Wait
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy, PreferenceWeights
from berth_operator.scheduling.search import STEPS_PER_NODE, Search
from scheduling import second_opinion
from scheduling.placements import RULES, THOROUGH, place
from support import backlogs, builders, clock, inventories, random_clusters


def decide(
    inventory: Inventory, *waiting: queued_pods.PodInfo, policy: Policy = RULES, limit: int = 256
) -> list[decisions.Decision]:
    """Make one round for these pods."""
    return cycle.simulate(Search(inventory), backlogs.of(*waiting), 0.0, policy, limit=limit)


def test_each_sees_what_the_ones_before_got() -> None:
    """Two pods of one round never get the same card, and the third is told that none is left."""
    inventory = builders.inventory(*builders.nodes(1, cards=2))
    pods = [builders.pod_info(name) for name in ("a", "b", "c")]

    first, second, third = decide(inventory, *pods)

    assert random_clusters.shares_of([first, second]) == ["GPU-n1-0", "GPU-n1-1"]
    full = (Count(Reason.FULL, "", 1),)
    assert third == Wait("uid-c", full, decisions.awaited_events(full))


def test_resources_run_out_within_a_round() -> None:
    """Not cards alone: cpu that one pod of the round takes is gone for the next."""
    inventory = builders.inventory(builders.node(cpu=1500))
    pods = [builders.pod_info(name, cards=0) for name in ("a", "b")]

    first, second = decide(inventory, *pods)

    assert isinstance(first, Bind)
    assert isinstance(second, Wait)
    assert second.counts == (Count(Reason.INSUFFICIENT_RESOURCE, "cpu", 1),)


def test_last_pod_of_a_simulation_changes_nothing() -> None:
    """No pod comes after it to see what it got, so that no node has to be scored again."""
    inventory = builders.inventory(*builders.nodes(2, cards=2))
    before = inventory.table.version

    (answer,) = decide(inventory, builders.pod_info())

    assert isinstance(answer, Bind)
    assert inventory.table.version == before


def test_faulty_pod_is_rejected_without_a_search() -> None:
    """A request that cannot be served is refused with its faults, even where there is room."""
    fault = Refusal(Reason.INVALID_REQUEST, detail="nonsense")
    pod = builders.pod_info(faults=(fault,))

    assert decide(builders.inventory(*builders.nodes(1)), pod) == [Reject("uid-p", (fault,))]


def test_round_takes_so_many_and_no_more() -> None:
    """A round ends after its limit; the first in order are taken."""
    inventory = builders.inventory(*builders.nodes(1))
    pods = [builders.pod_info(name) for name in ("c", "a", "b")]

    found = decide(inventory, *pods, limit=2)

    assert [answer.uid for answer in found] == ["uid-a", "uid-b"]


def test_one_crowd_is_explained_once() -> None:
    """Hopeless pods of one kind cost one search, so that they do not keep the others waiting."""
    inventory = builders.inventory(*builders.nodes(3))
    crowd = [builders.pod_info(f"p{number}", cards=9) for number in range(20)]

    with mock.patch.object(reason_counts, "count", wraps=reason_counts.count) as asked:
        found = decide(inventory, *crowd)

    assert asked.call_count == 1
    assert {(type(answer), answer.uid) for answer in found} == {(Wait, pod.uid) for pod in crowd}


def test_what_was_said_is_said_anew_after_a_placement() -> None:
    """A pod is told of the cluster as it is when its turn comes, not as it was for others of its kind."""
    inventory = builders.inventory(*builders.nodes(1, cards=3), builders.hold("x", withheld=1))
    first, last = (builders.pod_info(name, cards=3, priority=level) for name, level in (("a", 3), ("z", 1)))
    between = builders.pod_info("m", cards=1, priority=2)

    found = decide(inventory, first, between, last)

    counts = [answer.counts for answer in found if isinstance(answer, Wait)]
    assert [type(answer) for answer in found] == [Wait, Bind, Wait]
    assert counts == [(Count(Reason.WITHHELD, "", 1),), (Count(Reason.FULL, "", 1),)]


def test_inventory_is_left_as_found_even_by_a_failure() -> None:
    """A round that fails half-way gives everything back."""
    inventory = builders.inventory(*builders.nodes(2))
    before = inventories.contents(inventory)
    fits, hopeless = builders.pod_info("a", cards=2), builders.pod_info("b", cards=9)

    with (
        mock.patch.object(reason_counts, "count", side_effect=RuntimeError("broken")),
        pytest.raises(RuntimeError, match="broken"),
    ):
        decide(inventory, fits, hopeless)

    assert inventories.contents(inventory) == before


WEIGHTS = (
    PreferenceWeights(),
    PreferenceWeights(strategy=0, unstated=1),
    PreferenceWeights(node_affinity=100, taints=0, images=3),
)
PODS = st.lists(st.integers(0, 5), unique=True, max_size=5).flatmap(
    lambda numbers: st.tuples(*(random_clusters.pod_infos(f"p{number}") for number in numbers))
)


@THOROUGH
@hypothesis.given(
    cluster=random_clusters.clusters(),
    pods=PODS,
    strategy=st.sampled_from(list(Strategy)),
    weights=st.sampled_from(WEIGHTS),
)
def test_second_opinion_agrees_pod_by_pod(
    cluster: random_clusters.ClusterState,
    pods: tuple[queued_pods.PodInfo, ...],
    strategy: Strategy,
    weights: PreferenceWeights,
) -> None:
    """A round equals brute force for each pod in turn, with all that was given charged (I1)."""
    policy, by_uid = Policy(strategy, preferences=weights), {pod.uid: pod for pod in pods}

    answers = decide(cluster.inventory(), *pods, policy=policy)

    for answer in answers:
        pod = by_uid[answer.uid]
        bound = answer.placement if isinstance(answer, Bind) else None
        assert bound == second_opinion.best(cluster, pod, policy)
        if bound is not None:
            cluster.holds[pod.uid] = cycle.hold_for(pod, bound)


@THOROUGH
@hypothesis.given(cluster=random_clusters.clusters(), pod=random_clusters.pod_infos())
def test_second_opinion_agrees_on_every_node(
    cluster: random_clusters.ClusterState, pod: queued_pods.PodInfo
) -> None:
    """Not only the best node: alone, each one takes the pod exactly when brute force says so."""
    alone = {name: dataclasses.replace(cluster, nodes={name: node}) for name, node in cluster.nodes.items()}

    found = [name for name, state in alone.items() if place(state.inventory(), pod) is not None]

    assert sorted(found) == second_opinion.able(cluster, pod)


@random_clusters.PROPERTY
@hypothesis.given(cluster=random_clusters.clusters(), pods=PODS, data=st.data())
def test_equal_inputs_give_equal_decisions(
    cluster: random_clusters.ClusterState, pods: tuple[queued_pods.PodInfo, ...], data: st.DataObject
) -> None:
    """Neither the order in which nodes came nor that in which pods came changes a decision (I11)."""
    expected = decide(cluster.inventory(), *pods)
    inventory = cluster.inventory(data.draw(st.permutations(random_clusters.NODES)))

    assert decide(inventory, *data.draw(st.permutations(pods))) == expected


@random_clusters.PROPERTY
@hypothesis.given(cluster=random_clusters.clusters(), pods=PODS)
def test_every_round_leaves_no_trace(
    cluster: random_clusters.ClusterState, pods: tuple[queued_pods.PodInfo, ...]
) -> None:
    """Whatever a round decides, the inventory is as it was."""
    inventory = cluster.inventory()
    before = inventories.contents(inventory)

    decide(inventory, *pods)

    assert inventories.contents(inventory) == before


# ---------------------------------------------------------------- requests that few nodes can serve

UNKNOWN: dict[str, requests.Ask] = {
    "a profile": requests.Instances("9g.999gb", 1),
    "a type": requests.OtherDevices("fpga", 1, 100),
}
CUT = builders.card(0, mig=True, instances=builders.instances("n1", 0, 1))


@pytest.mark.parametrize("ask", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize(
    "device",
    [builders.device(), builders.device(cards=[CUT], others=[builders.nic()])],
    ids=["nothing of the kind", "others of the kind"],
)
def test_what_no_node_ever_had_is_refused(ask: requests.Ask, device: device_facts.Device) -> None:
    """A profile or a type that is unknown is missing there as any other, and asking leaves no trace."""
    inventory = builders.inventory(builders.node(), device)
    table = inventory.table
    before = dict(table.profiles.of), dict(table.types.of), inventories.contents(inventory)

    (answer,) = decide(inventory, builders.pod_info(cards=ask))

    assert isinstance(answer, Wait)
    assert (table.profiles.of, table.types.of, inventories.contents(inventory)) == before


# Two of them fit on a card, and yet sums would let twenty onto eight cards.
TWO_FIFTHS = requests.Gpus(1, core=40, memory=builders.GIB)
TIGHT = builders.request(*[TWO_FIFTHS] * 17)


def crowd(count: int) -> requests.DeviceRequest:
    """Ask for shares of many sizes that nearly fill eight cards: hard to pack."""
    asks = (
        requests.Gpus(1, core=23 + 7 * at % 19, memory=(9 + 5 * at % 17) * builders.GIB)
        for at in range(count)
    )
    return builders.request(*asks)


def test_hard_pods_do_not_hold_a_round_up() -> None:
    """All searches of a round share their effort: pods that got none of it wait, the easy ones do not."""
    inventory = builders.inventory(*builders.nodes(30, cards=8))
    hard = [builders.pod_info(f"hard-{at:02}", request=crowd(24)) for at in range(20)]
    easy = builders.pod_info("easy", created="later")

    with mock.patch.object(round_limits, "STEPS_PER_ROUND", 300):
        answers = decide(inventory, *hard, easy)

    tried = [answer.uid for answer in answers]
    assert tried == [one.uid for one in hard[: len(tried) - 1]] + [easy.uid]
    assert len(tried) < len(hard)
    assert isinstance(answers[-1], Bind)


def test_search_for_which_others_left_too_little_is_made_again() -> None:
    """A node is not given up for a search that ended early because of others: with time, the pod fits."""
    search = Search(builders.inventory(*builders.nodes(1, cards=8)))

    found = [
        search.place(crowd(16), builders.demand(), policy=RULES, effort=Effort(steps))
        for steps in (1, 5, 10, STEPS_PER_NODE)
    ]

    assert [placement is not None for placement in found] == [False, False, False, True]


def test_what_was_not_looked_at_is_looked_at_the_next_time() -> None:
    """A pod whose search was cut short is told so, and ends where it fits.

    It waits for time, and for events of nodes that are not undecided.
    """
    search = Search(builders.inventory(*builders.nodes(30, cards=8)))
    queue = backlogs.of(builders.pod_info(request=TIGHT))

    with (
        mock.patch("berth_operator.scheduling.search.STEPS_PER_NODE", 20),
        mock.patch.object(round_limits, "STEPS_PER_ROUND", 100),
    ):
        (first,) = cycle.simulate(search, queue, 0.0, RULES)
        later = [cycle.simulate(search, queue, 0.0, RULES)[0] for _ in range(40)]

    assert isinstance(first, Wait)
    assert (first.counts, len(first.undecided)) == ((Count(Reason.UNDECIDED, "", 30),), 30)
    assert first.awaited == decisions.LIFTED_BY[Reason.UNDECIDED] | {decisions.ClusterEvent.NODE_CHANGED}
    assert len(search.reasons_by_row(signatures.of(TIGHT, builders.demand()), RULES)) == 30
    assert isinstance(later[-1], Wait)


def left(search: Search, pod_info: queued_pods.PodInfo) -> int:
    """Return how many nodes the next part of a pod's search leaves to the one after it."""
    found = cycle.place_or_count_reasons(search, pod_info, RULES, {}, Effort(300))
    assert isinstance(found, Wait)
    return found.unsearched


@pytest.mark.parametrize("preferred", [True, False])
def test_each_part_of_a_search_leaves_fewer_nodes(*, preferred: bool) -> None:
    """Those that are left are counted, where a scope is preferred for each round of nodes that is asked."""
    grouping = requests.Grouping(scope=Scope.NUMA, required=False) if preferred else requests.NO_GROUPING
    pod_info = builders.pod_info(request=dataclasses.replace(TIGHT, grouping=grouping))
    search = Search(unlike(10))

    found = [left(search, pod_info) for _ in range(50)]

    falling = found[: found.index(0)]
    assert len(falling) > 3
    assert falling == sorted(set(falling), reverse=True)


# ---------------------------------------------------------------- time


def unlike(count: int) -> Inventory:
    """Return nodes of which no two are alike."""
    names = [f"n{at}" for at in range(1, count + 1)]
    used = [builders.share(0, at=name, core=0, memory=at) for at, name in enumerate(names, 1)]
    holds = [builders.hold(name, name, [share]) for name, share in zip(names, used, strict=True)]
    return builders.inventory(*builders.nodes(count, cards=8), *holds)


def timed(now: clock.Ticking, *waiting: queued_pods.PodInfo, ends: float = 9.0) -> list[decisions.Decision]:
    """Make one round that has so much time, and a second for each search, and charge nothing."""
    limits = round_limits.RoundLimits(deadlines=round_limits.RoundDeadlines(now, ends, 1.0))
    return list(cycle.schedule(Search(unlike(30)), backlogs.of(*waiting), 0.0, RULES, limits))


# They fit on no node, which only long searches would tell.
A, B = (builders.pod_info(name, request=TIGHT) for name in "ab")


def test_round_ends_when_its_time_is_over() -> None:
    """What is left comes in the next round; the first pod always has its turn."""
    pods = [builders.pod_info(name) for name in "abcdefgh"]

    all_of_them, some, first = (len(timed(clock.Ticking(tick), *pods, ends=1.0)) for tick in (0.0, 0.1, 9.0))

    assert first == 1 < some < all_of_them == len(pods)


def test_search_ends_when_its_time_is_over() -> None:
    """A pod whose search took all the time of one pod is told so: nobody knows what was not looked at."""
    (answer,) = timed(clock.Ticking(0.01), A)

    assert isinstance(answer, Wait)
    assert (answer.cut_short, answer.undecided != set()) == (True, True)
    assert answer.awaited == decisions.LIFTED_BY[Reason.UNDECIDED] | {decisions.ClusterEvent.NODE_CHANGED}
    assert sum(one.nodes for one in answer.counts if one.reason is Reason.UNDECIDED) > 0


def test_no_search_is_begun_with_less_time_than_is_its_due() -> None:
    """The second hard pod waits for a round of its own, and an easy one behind it does not."""
    other, easy = dataclasses.replace(B, namespace="other"), builders.pod_info("c", namespace="other")
    answers = timed(clock.Ticking(0.01), A, other, easy, ends=1.5)

    assert [answer.uid for answer in answers] == ["uid-a", "uid-c"]


def test_pods_of_one_kind_share_that_they_were_cut_short() -> None:
    """What was not found out for the first was not found out for the second."""
    answers = timed(clock.Ticking(0.001), A, B)

    assert [answer.cut_short for answer in answers if isinstance(answer, Wait)] == [True, True]


def test_node_that_takes_all_the_time_is_given_up() -> None:
    """Or the next search would begin with it again, and no other node would ever be asked."""
    search = Search(builders.inventory(*builders.nodes(3, cards=8)))

    for _ in range(3):
        effort = Effort(expired=lambda: True)
        assert search.place(TIGHT, builders.demand(), policy=RULES, effort=effort) is None

    closer = search.reasons_by_row(signatures.of(TIGHT, builders.demand()), RULES)
    assert [reason for reason, _ in closer.values()] == [Reason.UNDECIDED] * 3


def test_a_node_that_was_not_searched_to_the_end_may_take_the_pod() -> None:
    """Until it has been searched a few times: so it stays reserved, and nobody else takes it meanwhile."""
    search = Search(builders.inventory(*builders.nodes(1, cards=8)))
    query = Query.for_all_nodes(search.inventory, signatures.of(TIGHT, builders.demand()))
    found = []

    for _ in range(search_memory.MOST_RETRIES + 1):
        search.place(TIGHT, builders.demand(), policy=RULES, effort=Effort(expired=lambda: True))
        found.append(search.might_fit(query, RULES, {"n1"}))

    assert found == [True, True, True, False]
