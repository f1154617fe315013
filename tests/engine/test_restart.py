"""After a restart everything is read anew, in whatever order it comes: the ledger is the same (I8)."""

from collections.abc import Callable

import hypothesis
from hypothesis import strategies as st

from berth_operator.engine.ledger import Ledger
from berth_operator.translate import raw
from support import builders, clock, ledgers, random_clusters

Event = Callable[[Ledger], None]

WAITING = st.builds(builders.pod, gpus=st.integers(0, 3), priority=st.integers(0, 2))
STARTING = st.builds(
    builders.pod,
    gpus=st.integers(0, 3),
    nodeName=st.sampled_from(random_clusters.NODES),
    schedulerName=st.sampled_from(["berth-scheduler", "other"]),
    phase=st.sampled_from(["Pending", "Pending", "Running", "Succeeded"]),
    nodeSelector=st.sampled_from([{}, {}, {"zone": "a"}]),
    overhead=st.sampled_from([{}, {}, {"cpu": "3"}, {"cpu": "5"}]),
    annotations=st.one_of(
        st.just({}),
        st.builds(
            builders.record,
            st.sampled_from(random_clusters.NODES),
            main=st.lists(st.integers(0, 5), min_size=1, unique=True),
        ),
    ),
)
BOUND = STARTING | STARTING.map(builders.admitted)


def news_of_node(world: random_clusters.ClusterState, name: str) -> list[Event]:
    """Return what there is to hear of a node; what is judged of its agent follows its Device."""

    def device(ledger: Ledger) -> None:
        ledger.device_seen(world.devices[name])
        ledger.agent_silent(name, silent=name not in world.reporting)

    found: list[Event] = [device] if name in world.devices else []
    if name in world.nodes:
        found.append(lambda ledger: ledger.node_seen(world.nodes[name]))
    return found


def news_of_pod(number: int, pod: raw.Pod) -> Event:
    """Return what there is to hear of a pod, under a name of its own."""
    renamed = builders.renamed(pod, f"p{number}")
    return lambda ledger: ledgers.pod_seen(ledger, renamed)


def ledger_of(events: list[Event]) -> Ledger:
    """Return a ledger that heard of these, in this order."""
    ledger = Ledger(clock.Clock())
    for event in events:
        event(ledger)
    return ledger


@random_clusters.PROPERTY
@hypothesis.given(
    world=random_clusters.clusters(), pods=st.lists(WAITING | BOUND, max_size=6), data=st.data()
)
def test_order_does_not_matter(
    world: random_clusters.ClusterState, pods: list[raw.Pod], data: st.DataObject
) -> None:
    """The same objects in any order make the same ledger, and the same next decisions (I11)."""
    events = [event for name in random_clusters.NODES for event in news_of_node(world, name)]
    events += [news_of_pod(number, pod) for number, pod in enumerate(pods)]
    one = ledger_of(events)

    other = ledger_of(data.draw(st.permutations(events)))

    assert ledgers.contents(other) == ledgers.contents(one)
    assert ledgers.decide(other) == ledgers.decide(one)
