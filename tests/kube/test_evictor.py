"""Evictions are sent one after another, refused ones again, and none for a pod that would come back."""

import dataclasses
import itertools
from typing import Any, cast

import pytest

from berth_crds import wire
from berth_crds.client import api, errors, resources
from berth_crds.vocabulary import Recovery
from berth_operator import metrics
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.rate_limiter import RateLimiter
from berth_operator.kube import events, evictor
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.policy import Policy
from support import builders, timeless

POLICY = dataclasses.replace(Policy(), evict_after_seconds=0.0)
BUDGET = errors.Throttled(429, "Cannot evict pod as it would violate the pod's disruption budget.")
DAEMON = wire.OwnerReference("apps/v1", "DaemonSet", "d", "u", controller=True)


class Server:
    """Keeps the pods on silent nodes, and takes evictions."""

    def __init__(self, *names: str, policy: Policy = POLICY, spare_nodes: int = 50) -> None:
        self.now = timeless.clock()
        self.ledger = Ledger(self.now)
        self.ledger.policy_seen(policy)
        self.pods = {name: evictor.HolderPod(meta(name), evictor.HolderSpec("silent")) for name in names}
        for at in ["silent", *(f"n{number}" for number in range(spare_nodes))]:
            self.ledger.node_seen(builders.node(at))
            self.ledger.device_seen(builders.device(at, 8))
            self.ledger.agent_silent(at, silent=at == "silent")
        for minor, name in enumerate(names):
            self.ledger.pod_bound(builders.hold(name, "silent", [minor]))
        self.answers: dict[str, list[errors.ClientError]] = {}
        self.read: list[str] = []
        self.sent: list[tuple[str, float]] = []
        self.bodies: list[dict[str, Any]] = []
        self.recorded: list[events.Event] = []
        self.metrics = metrics.Metrics()
        self.leads = True
        self.ready: set[str] = set()
        around = evictor.Surroundings(
            self.now,
            self.recorded.append,
            self.metrics.consequences,
            lambda: self.leads,
            self.ready.__contains__,
        )
        limiter = RateLimiter(self.now, lambda: evictor.EVICTIONS_PER_SECOND)
        self.evictor = evictor.Evictor(cast(api.Api, self), self.ledger, limiter, around)

    async def get(self, _kind: resources.Resource, name: str, **_: Any) -> evictor.HolderPod:
        """Return a pod."""
        self.read.append(name)
        if name not in self.pods:
            raise errors.NotFound(404, "no such pod", reason="NotFound")
        return self.pods[name]

    async def create(self, _kind: resources.Resource, body: dict[str, Any], **_: Any) -> bytes:
        """Take an eviction, or refuse it."""
        name = body["metadata"]["name"]
        self.sent.append((name, self.now()))
        self.bodies.append(body)
        if self.answers.get(name):
            raise self.answers[name].pop(0)
        return b"{}"

    def value(self, name: str, **labels: str) -> float | None:
        """Read a sample of the metrics."""
        return self.metrics.registry.get_sample_value(f"berth_{name}", labels)

    @property
    def names(self) -> list[str]:
        """Of which pods evictions were sent."""
        return [name for name, _ in self.sent]


def meta(name: str, **fields: Any) -> wire.Meta:
    """Return the metadata of a pod."""
    return wire.Meta(**{"name": name, "namespace": builders.NAMESPACE, "uid": f"uid-{name}"} | fields)


@timeless.scenario
async def test_pods_are_evicted_one_a_second() -> None:
    """Each once, by its uid and with its own grace period, and with one Event that says why."""
    server = Server("a", "b", "c")

    async with timeless.beside(server.evictor.run()):
        await timeless.at(100)

    moments = [moment for _, moment in server.sent]
    assert server.names == ["a", "b", "c"]
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(moments))
    assert server.bodies[0]["deleteOptions"] == {"preconditions": {"uid": "uid-a"}}
    assert [(one.involved.name, one.reason) for one in server.recorded] == [
        (name, "EvictedByBerth") for name in "abc"
    ]
    assert "the agent of node silent has been silent" in server.recorded[0].message
    assert server.value("evictions_total", cause="agent-silent") == 3


@timeless.scenario
async def test_what_a_budget_forbids_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    """After ten seconds at least, as often as it takes, with one line in the log; others go meanwhile."""
    server = Server("a", "b")
    server.answers["a"] = [BUDGET, BUDGET]

    async with timeless.beside(server.evictor.run()):
        await timeless.at(100)

    assert server.names == ["a", "b", "a", "a"]
    first, second, third = (moment for name, moment in server.sent if name == "a")
    assert second - first >= 10 and third - second >= 10
    assert len([one for one in caplog.records if "not evicted yet" in one.getMessage()]) == 1
    assert server.value("evictions_refused_total") == 2
    assert len(server.recorded) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"owner_references": (DAEMON,)},
        {"annotations": {"kubernetes.io/config.mirror": "x"}},
        {"owner_references": (wire.OwnerReference("v1", "Node", "silent", "u"),)},
        {"deletion_timestamp": "2026-01-01T00:00:00Z"},
        {"uid": "another"},
    ],
    ids=["of a DaemonSet", "of a file on the node", "of the node", "ends anyway", "another of its name"],
)
@timeless.scenario
async def test_a_pod_that_stays_or_goes_anyway_is_not_evicted(change: dict[str, Any]) -> None:
    """It is read once, and the others go."""
    server = Server("a", "b")
    server.pods["a"] = evictor.HolderPod(meta("a", **change), evictor.HolderSpec("silent"))

    async with timeless.beside(server.evictor.run()):
        await timeless.at(60)

    assert server.names == ["b"]


@timeless.scenario
async def test_a_pod_that_is_gone_is_no_fault() -> None:
    """Whether the read finds that or the eviction does."""
    server = Server("a", "b", "c")
    del server.pods["a"]
    server.answers["b"] = [errors.NotFound(404, "no such pod", reason="NotFound")]

    async with timeless.beside(server.evictor.run()):
        await timeless.at(60)

    assert server.names == ["b", "c"]
    assert server.value("evictions_refused_total") == 0


@timeless.scenario
async def test_a_conflict_is_tried_again() -> None:
    """It may be of the budget, which many change; another pod of that name is found by the read."""
    server = Server("a", "b")
    server.answers["a"] = [errors.Conflict(409, "the budget has changed")]

    async with timeless.beside(server.evictor.run()):
        await timeless.at(100)

    assert server.names == ["a", "b", "a"]


@timeless.scenario
async def test_many_pods_that_a_budget_holds_hold_up_no_other() -> None:
    """Though some of them may always be tried again by the time that another's turn comes."""
    held = [f"a{number:02}" for number in range(8)]
    server = Server(*held)
    server.ledger.pod_bound(builders.hold("z", "n0", [0]))
    server.pods["z"] = evictor.HolderPod(meta("z"), evictor.HolderSpec("n0"))
    server.ledger.agent_silent("n0", silent=True)
    for name in held:
        server.answers[name] = [BUDGET] * 100

    async with timeless.beside(server.evictor.run()):
        await timeless.at(100)

    assert server.names.count("z") == 1


@timeless.scenario
async def test_a_sick_card_counts_once_its_agent_is_ready() -> None:
    """What an agent said that may be dead by now evicts no pod."""
    server = Server("a", policy=dataclasses.replace(Policy(), evict_sick=True))
    sick = builders.card(0, at="silent", trouble=Reason.UNHEALTHY, recovery=Recovery.REPLACE)
    server.ledger.device_seen(builders.device("silent", [sick]))
    server.ledger.agent_silent("silent", silent=False)

    async with timeless.beside(server.evictor.run()):
        await timeless.at(400)
        assert server.names == []
        server.ready.add("silent")
        await timeless.at(800)

    assert server.names == ["a"]


@timeless.scenario
async def test_a_bind_under_way_is_waited_for() -> None:
    """The pod has no node yet, so nothing is evicted; later it has."""
    server = Server("a")
    server.pods["a"] = evictor.HolderPod(meta("a"))

    async with timeless.beside(server.evictor.run()):
        await timeless.at(30)
        assert server.names == []
        server.pods["a"] = evictor.HolderPod(meta("a"), evictor.HolderSpec("silent"))
        await timeless.at(60)

    assert server.names == ["a"]


@timeless.scenario
async def test_an_agent_that_is_back_ends_it_amid() -> None:
    """Between two evictions everything is judged anew; a policy that is withdrawn ends it likewise."""
    server = Server(*"abcdefgh")

    async with timeless.beside(server.evictor.run()):
        await timeless.until(lambda: len(server.sent) == 3)
        server.ledger.agent_silent("silent", silent=False)
        await timeless.passing(60)
        assert len(server.sent) == 3

        server.ledger.agent_silent("silent", silent=True)
        await timeless.until(lambda: len(server.sent) == 5)
        server.ledger.policy_seen(Policy())
        await timeless.passing(60)

    assert len(server.sent) == 5


@timeless.scenario
async def test_the_breaker_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """When it opens and when it closes, and by a metric."""
    server = Server("a", spare_nodes=8)
    for at in ("n0", "n1"):
        server.ledger.pod_bound(builders.hold(f"of-{at}", at, [0]))
        server.ledger.agent_silent(at, silent=True)

    async with timeless.beside(server.evictor.run()):
        await timeless.at(60)
        assert (server.names, server.value("eviction_breaker_open")) == ([], 1)
        server.ledger.agent_silent("n0", silent=False)
        server.ledger.agent_silent("n1", silent=False)
        await timeless.passing(60)

    assert (server.names, server.value("eviction_breaker_open")) == (["a"], 0)
    levels = [one.levelname for one in caplog.records if "evict" in one.getMessage()]
    assert levels == ["ERROR", "WARNING", "WARNING"]


def beside(server: Server, **of_node: dict[str, Any]) -> None:
    """Have pods with such metadata hold cards of further nodes, which fall silent."""
    for at, fields in of_node.items():
        server.ledger.pod_bound(builders.hold(f"of-{at}", at, [0]))
        server.pods[f"of-{at}"] = evictor.HolderPod(meta(f"of-{at}", **fields), evictor.HolderSpec(at))
        server.ledger.agent_silent(at, silent=True)


@timeless.scenario
async def test_pods_that_would_come_back_do_not_open_the_breaker_for_good() -> None:
    """They are read one by one while it is open; of the others no more are to go than may."""
    server = Server("a", spare_nodes=9)
    daemon = {"owner_references": (DAEMON,)}
    beside(server, n0=daemon, n1=daemon, n2=daemon)

    async with timeless.beside(server.evictor.run()):
        await timeless.until(lambda: server.value("eviction_breaker_open") == 1, every=0.1)
        assert server.names == []
        await timeless.passing(10)

    assert (server.names, server.value("eviction_breaker_open")) == (["a"], 0)


@timeless.scenario
async def test_pods_that_the_breaker_keeps_are_read_once_each() -> None:
    """And none of them goes, nor is any counted as refused."""
    server = Server("a", spare_nodes=9)
    beside(server, n0={}, n1={}, n2={"owner_references": (DAEMON,)})

    async with timeless.beside(server.evictor.run()):
        await timeless.at(200)

    assert (server.names, server.value("eviction_breaker_open")) == ([], 1)
    assert sorted(server.read) == ["a", "of-n0", "of-n1", "of-n2"]
    assert server.value("evictions_refused_total") == 0


@timeless.scenario
async def test_who_does_not_lead_evicts_nobody() -> None:
    """A process that was frozen learns first whether it still leads."""
    server = Server("a")
    server.leads = False

    async with timeless.beside(server.evictor.run()):
        await timeless.at(60)

    assert server.names == []
