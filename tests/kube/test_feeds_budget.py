"""Of waiting pods that say too much together some are not kept, and are read again when there is room."""

import asyncio
from typing import Any

import pytest

from berth_crds import names, wire
from berth_crds.client import api, connection, errors, watch
from berth_operator.engine import pod_memory
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import auditor, feeds
from berth_operator.scheduling import decisions, explain, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import raw
from kube.sinks import Sinks, feed, read
from support import clock, ledgers, manifests, timeless

UUIDS = 400


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make room for what one such pod says."""
    monkeypatch.setattr(pod_memory, "NAMESPACE_BYTES", 100 << 10)


def pod(uid: str, **spec: Any) -> raw.Pod:
    """Return a pod as the informer reads it, that names very many cards of its own."""
    annotations = {names.AVOID_UUIDS: ",".join(f"GPU-{uid}-{number}" for number in range(UUIDS))}
    body = manifests.pod(uid, namespace="ml", annotations=annotations, meta={"uid": uid}, **spec)
    found = read(body, raw.Pod)
    assert isinstance(found, raw.Pod)
    return found


def waiting(sinks: Sinks, uid: str) -> queued_pods.PodInfo:
    """Return a pod that waits."""
    pod_info = sinks.ledger.backlog.get(uid)
    assert pod_info is not None
    return pod_info


def test_a_pod_beyond_the_budget_waits_with_a_fault_and_nothing_else() -> None:
    """It is refused with that fault when its turn comes, and what it said is not kept."""
    sinks = Sinks()
    feed(sinks.pods, pod("a"), pod("b"))

    refused = waiting(sinks, "b")
    assert waiting(sinks, "a").faults == ()
    assert [fault.reason for fault in refused.faults] == [Reason.TOO_MUCH_TOGETHER]
    assert not refused.request.conditions.avoid_uuids
    assert explain.sentence(decisions.Reject("b", refused.faults), refused).startswith(
        "the pending pods of this namespace together exceed Berth's limit of "
    )


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(wire.Meta("a", "ml", "a"), id="it is gone"),
        pytest.param(pod("a", nodeName="n1"), id="it is bound"),
        pytest.param(
            watch.Undecodable(wire.Meta("a", "ml", "a"), "odd", b'{"spec":{"nodeName":"n1"}}'),
            id="it is bound and cannot be read",
        ),
    ],
)
def test_a_pod_that_waits_no_more_makes_room(end: wire.Meta | raw.Pod | watch.Undecodable) -> None:
    """The next time that the sink is fed with the other, that is served."""
    sinks = Sinks()
    feed(sinks.pods, pod("a"), pod("b"))
    full = sinks.pods.budget.next_unkept()

    feed(sinks.pods, end)

    assert (full, sinks.pods.budget.next_unkept()) == (None, ("ml", "b"))
    feed(sinks.pods, pod("b"))
    assert waiting(sinks, "b").faults == ()


def test_which_pod_has_found_no_room_is_no_drift() -> None:
    """Fed in another order, others are kept: the audit has nothing to mend there."""
    sinks, other = Sinks(), Sinks()
    feed(sinks.pods, pod("a"), pod("b"))
    feed(other.pods, pod("b"), pod("a"))

    assert ledgers.differences(sinks.ledger, other.ledger) == ()


class Informer:
    """Stands for the informer of pods, and notes which it is to read again, and when."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, str]] = []
        self.trouble: list[errors.ClientError] = []

    async def resync_object(self, key: tuple[str, str]) -> None:
        """Note it, and fail if told to."""
        self.asked.append((timeless.clock()(), "/".join(key)))
        if self.trouble:
            raise self.trouble.pop()

    @property
    def names(self) -> list[str]:
        """The pods that were to be read again so far."""
        return [name for _, name in self.asked]


def unconnected(options: feeds.Options = feeds.DEFAULTS) -> feeds.Feeds:
    """Return feeds that have nobody to ask."""
    unused: Any = None
    session = api.Api(connection.Connection(server="http://nowhere"), agent="test")
    return feeds.Feeds(session, Ledger(clock.Clock()), unused, auditor.NullObserver(), options)


@pytest.fixture
def informer() -> Any:
    """Lend an informer of pods."""
    return Informer()


@pytest.fixture
def following(informer: Any) -> feeds.Feeds:
    """Lend feeds whose only informer that is."""
    made = unconnected()
    made._informers = (informer,)
    return made


@timeless.scenario
async def test_what_was_not_kept_is_read_again_only_where_there_is_room(
    following: feeds.Feeds, informer: Any
) -> None:
    """Not before something has gone, and soon after that."""
    found = []

    async with timeless.beside(following._read_again(informer, following._pods.budget.next_unkept)):
        feed(following._pods, pod("a"), pod("b"))
        await asyncio.sleep(100)
        found.append(informer.names)
        feed(following._pods, wire.Meta("a", "ml", "a"))
        await timeless.until(lambda: informer.asked, most=feeds.CHECK_SECONDS + 0.1)
        feed(following._pods, pod("b"))
        found.append(informer.names)
        await asyncio.sleep(100)
        found.append(informer.names)

    assert found == [[], ["ml/b"], ["ml/b"]]


@timeless.scenario
async def test_pods_are_read_again_one_by_one(following: feeds.Feeds, informer: Any) -> None:
    """However many there is room for, some in a second; where that fails, it goes on a while later."""
    feed(following._pods, *map(pod, "abcd"), wire.Meta("a", "ml", "a"))
    informer.trouble.append(errors.Unreachable("away", ambiguous=False))

    async with timeless.beside(following._read_again(informer, following._pods.budget.next_unkept)):
        await timeless.until(lambda: len(informer.asked) == 4)

    between, rest = feeds.READ_AGAIN_SECONDS, feeds.CHECK_SECONDS
    assert informer.names == ["ml/b", "ml/c", "ml/d", "ml/b"]
    assert [when for when, _ in informer.asked] == pytest.approx(
        [0, rest, rest + between, rest + 2 * between]
    )


def test_gpupods_are_known_before_pods() -> None:
    """They are read before pods: no decision is made on a pod without what names its cards."""
    order = [str(one).split(":")[0].removeprefix("<Informer of ") for one in unconnected()._informers]

    assert order.index("gpupods.berth.dev") < order.index("pods")
    assert order[-1] == "pods"


def test_all_is_read_by_the_clock_that_is_given() -> None:
    """Of every kind: by it others have their turn while a list is read."""
    time = clock.Clock()

    assert {one._clock for one in unconnected(feeds.Options(clock=time))._informers} == {time}
