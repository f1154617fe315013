"""A request summed up says what is necessary on any node, however many containers it has."""

import hypothesis
from hypothesis import strategies as st

from berth_operator.scheduling import container_peaks, cycle, decisions
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import packing_problems, requests
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import builders

ASKS = st.one_of(
    st.integers(1, 3).map(requests.cards),
    st.builds(requests.Gpus, st.integers(1, 3), core=st.integers(0, 100), ratio=st.integers(1, 99)),
    st.builds(requests.Gpus, st.integers(1, 3), core=st.integers(0, 100), memory=st.integers(1, 9)),
    st.builds(requests.Instances, st.sampled_from(["1g.10gb", "2g.20gb"]), st.integers(1, 3)),
    st.builds(requests.Replicas, st.integers(1, 3)),
    st.builds(requests.OtherDevices, st.just("rdma"), st.integers(1, 2)),
)
CONTAINERS = st.builds(
    builders.container_request, st.just("c"), st.lists(ASKS, min_size=1, max_size=3), runs=st.booleans()
)
PODS = st.lists(CONTAINERS, max_size=6).map(lambda containers: builders.request(*containers))


def shares(request: requests.DeviceRequest) -> list[list[requests.Gpus]]:
    """List what is asked of plain cards, by what runs at one time."""
    return [
        [ask for one in phase for ask in one.asks if isinstance(ask, requests.Gpus)]
        for phase in container_peaks.phases(request.containers)
    ]


@hypothesis.given(PODS)
def test_sums_are_those_of_the_fullest_moment(request_: requests.DeviceRequest) -> None:
    """Of each kind as much is needed as runs together at any one time."""
    need, together = request_.need, shares(request_)

    assert need.whole_cards == max(sum(ask.count for ask in asks if ask.is_whole) for asks in together)
    assert need.core == max(sum(ask.count * ask.core for ask in asks) for asks in together)
    assert need.ratio == max(
        sum(ask.count * ask.ratio for ask in asks if not ask.is_whole) for asks in together
    )
    assert need.memory == max(sum(ask.count * ask.memory for ask in asks) for asks in together)
    for one in need.instances:
        counts = (
            sum(ask.count for container in phase for ask in container.asks if profile(ask) == one.profile)
            for phase in container_peaks.phases(request_.containers)
        )
        assert one.count == max(counts)


def profile(ask: requests.Ask) -> str:
    """Return the profile of which an ask wants instances."""
    return ask.profile if isinstance(ask, requests.Instances) else ""


@hypothesis.given(PODS)
def test_containers_run_in_the_phases_that_are_listed(request_: requests.DeviceRequest) -> None:
    """What keeps running takes part in everything after its start, an init container in one moment."""
    problem = packing_problems.NodeProblem(builders.view([]), request_)
    together = list(container_peaks.phases(request_.containers))

    assert problem.phase_count == len(together)
    assert problem.phases == tuple(
        tuple(at for at, phase in enumerate(together) if any(one is container for one in phase))
        for container in request_.containers
    )


SHARES = st.builds(
    requests.Gpus,
    st.integers(1, 8),
    core=st.integers(0, 99),
    ratio=st.integers(0, 99),
    memory=st.integers(0, 9),
)


@hypothesis.given(st.lists(SHARES, max_size=40))
def test_of_many_shares_the_largest_are_asked(asks: list[requests.Gpus]) -> None:
    """A few stand for all: each is one of them, and none of them is contained in another."""
    largest = builders.request(*asks).need.largest_shares

    assert len(largest) <= requests.FEW_SHARES
    assert set(largest) <= set(asks)
    if len(asks) <= requests.FEW_SHARES:
        assert set(largest) == {ask for ask in asks if not ask.is_whole}
    elif len(largest) < requests.FEW_SHARES:
        assert all(any(requests._contains(one, ask) for one in largest) for ask in asks)


def test_shares_that_are_too_much_together_need_no_search() -> None:
    """However many containers there are, adding up is enough to say how many cards it would take."""
    search = Search(builders.inventory(*builders.nodes(50, cards=8)))
    asks = (requests.Gpus(2 + at % 7, ratio=1 + at % 17) for at in range(60))
    pod_info, effort = builders.pod_info(request=builders.request(*asks)), Effort(100)

    answer = cycle.place_or_count_reasons(search, pod_info, Policy(), {}, effort)

    assert isinstance(answer, decisions.Wait)
    assert answer.counts == (decisions.Count(Reason.TOO_FEW_CARDS, "", 50),)
    assert effort.left == 100
    assert pod_info.request.need.min_cards == 25


def test_requests_that_differ_cannot_be_made_to_have_one_hash() -> None:
    """Of numbers alone such pairs can be computed; a table of requests would compare all with all."""
    one, other = (44, 62, 37758542839385, 0), (7, 31, 1099511627776, 0)
    assert hash(one) == hash(other)

    assert hash(requests.Gpus(*one)) != hash(requests.Gpus(*other))
    assert hash(requests.Gpus(*one)) == hash(requests.Gpus(*one))
