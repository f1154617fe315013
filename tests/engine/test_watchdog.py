"""The watchdog tells silent agents from living ones, by what it saw on its own clock."""

from collections.abc import Callable
from functools import partial
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import INTERVAL_SECONDS, Watchdog
from berth_operator.scheduling.liveness import State
from berth_operator.scheduling.policy import Policy
from support import builders, clock, ledgers, timeless

GRACE = 40.0


class Cluster:
    """A ledger of a few nodes, the agents of which are watched."""

    names = ("n1", "n2", "n3")

    def __init__(self, kind: type[Watchdog] = Watchdog) -> None:
        self.clock = clock.Clock()
        self.ledger = Ledger(self.clock)
        self.watchdog = kind(self.ledger, clock=self.clock)
        for name in self.names:
            self.ledger.node_seen(builders.node(name))

    def silent(self, node: str = "n1") -> bool:
        """Whether the ledger was told that an agent is silent."""
        info = self.ledger.inventory.node(node)
        return info is not None and info.agent_not_ready


Step = Callable[[Cluster], object]


def device(cluster: Cluster, *, node: str = "n1", found_silent: bool = False) -> None:
    """Have a Device be seen, which may say that its agent is silent."""
    cluster.ledger.device_seen(builders.device(node))
    cluster.watchdog.device_seen(node, found_silent=found_silent)


def device_gone(cluster: Cluster) -> None:
    """Have the Device be gone."""
    cluster.watchdog.device_gone("n1")
    cluster.ledger.device_gone("n1")


def lease(renewal: str, version: str = "") -> Step:
    """Have the Lease be seen, in a revision."""
    return lambda cluster: cluster.watchdog.lease_seen("n1", renewal, version)


def inherits(stale_revision: int) -> Step:
    """Have the last leader be told of, when we take over."""
    return lambda cluster: cluster.watchdog.inherit(stale_revision)


def lease_gone(cluster: Cluster) -> None:
    """Have the Lease be gone."""
    cluster.watchdog.lease_gone("n1")


def passes(seconds: float) -> Step:
    """Let time pass, and judge."""

    def step(cluster: Cluster) -> None:
        cluster.clock.advance(seconds)
        cluster.watchdog.judge()

    return step


def restored(cluster: Cluster) -> None:
    """Have the cluster be restored from a backup."""
    cluster.watchdog.restored()


def shorter_grace(cluster: Cluster) -> None:
    """Have a policy come into force."""
    cluster.ledger.policy_seen(Policy(grace_seconds=5))
    cluster.watchdog.judge()


found_silent = partial(device, found_silent=True)
ALMOST: Final = passes(GRACE - 1)
# What happens, and whether the agent is silent after each of the last steps.
HISTORIES: dict[str, tuple[list[Step], list[bool]]] = {
    "a Device without a Lease": ([device], [True]),
    "the Lease comes first": ([lease("a"), device], [False]),
    "the Device comes first": ([device, lease("a")], [True, False]),
    "renewals in time": (
        [device, *(step for at in range(20) for step in (lease(str(at)), ALMOST))],
        [False] * 40,
    ),
    "the grace period is over": ([device, lease("a"), passes(GRACE), passes(0.1)], [False, True]),
    "the same renewal is listed again": ([device, lease("a"), ALMOST, lease("a"), passes(2)], [False, True]),
    "a renewal after a silence": ([device, lease("a"), passes(GRACE + 1), lease("b")], [True, False]),
    "renewals by other clocks": (
        [device, lease("2026-01-01"), ALMOST, lease("1999-01-01"), ALMOST, lease("2099-01-01"), ALMOST],
        [False] * 6,
    ),
    "found silent before we started": (
        [lease("old"), found_silent, passes(5), lease("new")],
        [True, True, False],
    ),
    "what we wrote of it ourselves": ([lease("a"), device, found_silent, passes(0)], [False] * 3),
    "the Lease is deleted": ([device, lease("a"), lease_gone, lease("b")], [True, False]),
    "the Device is deleted": (
        [device, lease("a"), device_gone, passes(GRACE + 1), device, lease("b")],
        [True, False],
    ),
    "a Lease long before its Device": ([lease("a"), ALMOST, device], [False]),
    "a policy with a shorter grace period": ([device, lease("a"), passes(10), shorter_grace], [False, True]),
    "after a restore only a renewal counts": (
        [device, lease("10:00:10"), passes(10), restored, lease("09:59:50"), passes(5), lease("10:00:20")],
        [False, True, True, True, False],
    ),
    "inherited as not ready": (
        [device, lease("a", "7"), inherits(7), ALMOST, lease("a", "7"), lease("b", "20")],
        [False, True, True, True, False],
    ),
    "inherited as not ready, and the Device comes later": (
        [lease("a", "7"), inherits(7), device, passes(1000), lease("b", "20")],
        [True, True, False],
    ),
    "renewed since the last leader knew of it": ([device, lease("a", "8"), inherits(7), ALMOST], [False] * 3),
    "renewed before we take over": ([device, lease("a", "7"), lease("b", "8"), inherits(8)], [False] * 3),
    "the last leader knew nothing": ([device, lease("a", "7"), inherits(0), ALMOST], [False] * 3),
    "a revision that is no number": ([device, lease("a", "x7"), inherits(7), ALMOST], [False] * 3),
    "what was inherited before a restore": (
        [
            device,
            lease("a", "70"),
            inherits(50),
            restored,
            lease("b", "20"),
            lease("c", "21"),
            lease("d", "22"),
        ],
        [True, True, False, False],
    ),
    "a Lease of after a restore, by another agent": (
        [inherits(50), restored, lease("a", "20"), device],
        [False],
    ),
    "a restore resurrects no dead agent": (
        [device, lease("10:00:10"), passes(100), restored, lease("09:00:00"), passes(1)],
        [True] * 4,
    ),
}


def longer_grace(cluster: Cluster) -> None:
    """Have another policy come into force."""
    cluster.ledger.policy_seen(Policy(grace_seconds=100))
    cluster.watchdog.judge()


STEPS: Final = (
    *(device, found_silent, device_gone, lease_gone, restored, shorter_grace, longer_grace),
    *(lease("a", "7"), lease("b", "9"), inherits(8), passes(3), passes(30), passes(GRACE)),
)


class LooksAtAll(Watchdog):
    """A watchdog that looks at each agent each second."""

    def judge(self) -> None:
        """Judge as if none had been ready."""
        self._quiet = set(self._doubts)
        super().judge()


@hypothesis.given(st.lists(st.sampled_from(STEPS), max_size=12))
def test_agents_that_are_not_looked_at_are_ready(steps: list[Step]) -> None:
    """Whatever happened before, all is known that it would be if each agent were judged."""
    found = []
    for kind in (Watchdog, LooksAtAll):
        cluster = Cluster(kind)
        for node in ("n2", "n3"):
            device(cluster, node=node)
        for at, step in enumerate(steps):
            cluster.watchdog.lease_seen("n2", f"{at}", f"{at + 1}")
            cluster.watchdog.lease_seen("n3", f"{at // 4}", f"{at + 1}")
            step(cluster)
        cluster.watchdog.judge()
        infos = map(cluster.ledger.inventory.node, cluster.names)
        agents = [(info.agent_not_ready, info.unknown) for info in infos if info is not None]
        found.append((agents, cluster.ledger.suspects, cluster.watchdog.stale_revision()))

    assert found[0] == found[1]


@pytest.mark.parametrize(("steps", "silent"), HISTORIES.values(), ids=HISTORIES.keys())
def test_an_agent_is_silent_without_a_renewal_that_we_saw(steps: list[Step], silent: list[bool]) -> None:
    """It lives for the grace period after each renewal, by our own clock; an old Lease is no sign of life."""
    cluster, found = Cluster(), []

    for step in steps:
        step(cluster)
        found.append(cluster.silent())

    assert found[-len(silent) :] == silent


def test_silence_of_one_is_not_that_of_another() -> None:
    """Each agent is judged by its own signs."""
    cluster = Cluster()

    for step in (device, partial(device, node="n2"), lease("a")):
        step(cluster)

    assert (cluster.silent("n1"), cluster.silent("n2")) == (False, True)


@timeless.scenario
async def test_time_is_watched() -> None:
    """Without any event an agent is found silent within a second after its grace period."""
    now = timeless.clock()
    ledger = ledgers.with_nodes()
    watchdog = Watchdog(ledger, clock=now)
    watchdog.lease_seen("n1", "a")
    watchdog.device_seen("n1", found_silent=False)
    info = ledger.inventory.node("n1")
    assert info is not None

    async with timeless.beside(watchdog.run()):
        await timeless.until(lambda: info.agent_not_ready)

    assert GRACE < now() <= GRACE + INTERVAL_SECONDS + 0.01


KNOWN: Final[dict[str, tuple[list[Step], State]]] = {
    "no Device": ([], State.UNKNOWN),
    "a Lease that nobody saw change": ([device, lease("a")], State.UNKNOWN),
    "a renewal": ([device, lease("a"), lease("b")], State.READY),
    "a renewal, and the grace period": ([device, lease("a"), lease("b"), passes(41)], State.UNKNOWN),
    "both periods": ([device, lease("a"), lease("b"), passes(61)], State.SILENT),
    "an old Lease, and both periods": ([device, lease("a"), passes(61)], State.SILENT),
    "found silent": ([partial(device, found_silent=True), lease("a")], State.UNKNOWN),
    "found silent, and the grace period": (
        [partial(device, found_silent=True), lease("a"), passes(41)],
        State.SILENT,
    ),
    "found silent, and a renewal": (
        [partial(device, found_silent=True), lease("a"), lease("b")],
        State.READY,
    ),
    "restored": ([device, lease("a"), lease("b"), restored], State.UNKNOWN),
    "inherited": ([device, lease("a", "7"), inherits(7)], State.UNKNOWN),
    "inherited, and a grace period": ([device, lease("a", "7"), inherits(7), passes(59)], State.UNKNOWN),
    "inherited, and both periods": ([device, lease("a", "7"), inherits(7), passes(61)], State.SILENT),
    "a Lease that came late, and no renewal": (
        [device, passes(30), lease("a", "7"), passes(41), passes(18)],
        State.UNKNOWN,
    ),
}


@pytest.mark.parametrize(("steps", "expected"), KNOWN.values(), ids=KNOWN)
def test_what_is_known_for_sure(steps: list[Step], expected: State) -> None:
    """What may be news on its way, or old news, is neither life nor death."""
    cluster = Cluster()

    for step in steps:
        step(cluster)

    assert cluster.watchdog.known_state("n1") is expected


def test_what_the_next_leader_inherits() -> None:
    """What we found and what we inherited ourselves; nothing before that, for then the last note stands."""
    cluster = Cluster()
    told = [cluster.watchdog.stale_revision()]

    for step in (
        *(device, partial(device, node="n2"), lease("a", "7"), inherits(5), passes(GRACE)),
        *(lambda cluster: cluster.watchdog.lease_seen("n2", "b", "30"), passes(1), lease("c", "31")),
        *(restored, lease("d", "3"), passes(1)),
    ):
        step(cluster)
        told.append(cluster.watchdog.stale_revision())

    assert told == [None, None, None, None, 5, 5, 5, 7, 7, 0, 0, 3]


def test_a_leader_logs_how_many_agents_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    """Those that the last one knew as not ready, and that have not renewed since; of none it says nothing."""
    cluster = Cluster()
    for step in (device, partial(device, node="n2"), lease("a", "7"), inherits(6)):
        step(cluster)
    assert not caplog.records

    cluster.watchdog.lease_seen("n2", "a", "5")
    cluster.watchdog.lease_seen("n2", "b", "8")
    inherits(8)(cluster)

    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("the cards of 1 agents get no new pods until these renew their Leases")


def test_nothing_is_kept_of_a_node_that_comes_and_goes() -> None:
    """Its Lease may go last."""
    cluster = Cluster()
    before = kept(cluster.watchdog)
    for step in (device, lease("a"), device_gone, lease_gone):
        step(cluster)

    assert kept(cluster.watchdog) == before


def kept(watchdog: Watchdog) -> dict[str, int]:
    """Return how much a watchdog keeps, by what it is."""
    return {name: len(value) for name, value in vars(watchdog).items() if isinstance(value, dict | set)}
