"""The watchdog tells silent agents from living ones, by what it saw on its own clock."""

import pytest

from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import INTERVAL_SECONDS, Watchdog
from berth_operator.scheduling.policy import Policy
from engine import books
from support import builders, clock, timeless

GRACE = 40.0


class Scene:
    """One node whose agent is watched."""

    def __init__(self) -> None:
        self.clock = clock.Clock()
        self.ledger = Ledger(self.clock)
        self.watchdog = Watchdog(self.ledger, clock=self.clock)
        self.ledger.node_seen(builders.node())

    def device(self, *, condemned: bool = False) -> None:
        """Have the Device be seen."""
        self.ledger.device_seen(builders.device())
        self.watchdog.device_seen("n1", found_silent=condemned)

    def lease(self, renewal: str, *, after: float = 0.0) -> None:
        """Have the Lease be seen, after so many seconds in which it was judged now and then."""
        self.pass_(after)
        self.watchdog.lease_seen("n1", renewal)

    def pass_(self, seconds: float) -> None:
        """Let time pass, and judge."""
        self.clock.advance(seconds)
        self.watchdog.judge()

    @property
    def silent(self) -> bool:
        """Whether the ledger was told that the agent is silent."""
        info = self.ledger.inventory.row("n1")
        assert info is not None
        return info.silent


@pytest.fixture
def scene() -> Scene:
    """Lend a node whose agent is watched."""
    return Scene()


def test_never_heard(scene: Scene) -> None:
    """A Device without a Lease is of a silent agent."""
    scene.device()

    scene.watchdog.judge()

    assert scene.silent


@pytest.mark.parametrize("order", ["lease first", "device first"])
def test_heard(scene: Scene, order: str) -> None:
    """An agent whose Lease is read is alive, whichever of the two objects comes first."""
    if order == "lease first":
        scene.lease("a")
    scene.device()
    if order == "device first":
        scene.lease("a")

    assert not scene.silent


def test_renewals_keep_it_alive(scene: Scene) -> None:
    """An agent that renews in time lives as long as it does so."""
    scene.device()
    scene.lease("0")

    lives = []
    for number in range(1, 20):
        scene.lease(str(number), after=GRACE - 1)
        lives.append(not scene.silent)

    assert all(lives)


def test_silence_begins_after_the_grace_period(scene: Scene) -> None:
    """Without a renewal the agent is alive for the grace period, and silent after it."""
    scene.device()
    scene.lease("a")

    scene.pass_(GRACE)
    within = scene.silent
    scene.pass_(0.1)

    assert not within
    assert scene.silent


def test_reading_the_same_renewal_again_is_no_life(scene: Scene) -> None:
    """A Lease that is listed anew without having changed does not help."""
    scene.device()
    scene.lease("a")

    scene.lease("a", after=GRACE - 1)
    scene.pass_(2)

    assert scene.silent


def test_silent_agent_speaks_again(scene: Scene) -> None:
    """The first renewal after a silence brings the cards back at once."""
    scene.device()
    scene.lease("a")
    scene.pass_(GRACE + 1)

    scene.lease("b")

    assert not scene.silent


def test_times_of_other_clocks_do_not_count(scene: Scene) -> None:
    """A renewal is life even if the time it names is long past, or far ahead."""
    scene.device()
    scene.lease("2026-01-01T12:00:00.000000Z")

    scene.lease("1999-01-01T00:00:00.000000Z", after=GRACE - 1)
    scene.lease("2099-01-01T00:00:00.000000Z", after=GRACE - 1)

    assert not scene.silent


def test_condemned_at_restart_stays_silent_until_it_renews(scene: Scene) -> None:
    """An agent that was found silent before we started must be seen to renew; an old Lease is not enough."""
    scene.lease("old")
    scene.device(condemned=True)
    at_first = scene.silent

    scene.lease("new", after=5)

    assert at_first
    assert not scene.silent


def test_what_we_wrote_ourselves_condemns_nobody(scene: Scene) -> None:
    """That a Device says of its agent what we found is no news about it."""
    scene.lease("a")
    scene.device(condemned=False)

    scene.watchdog.device_seen("n1", found_silent=True)
    scene.watchdog.judge()

    assert not scene.silent


def test_lease_deleted(scene: Scene) -> None:
    """With its Lease the last sign of life goes; a new Lease is a new one."""
    scene.device()
    scene.lease("a")

    scene.watchdog.lease_gone("n1")
    gone = scene.silent
    scene.lease("b")

    assert gone
    assert not scene.silent


def test_device_deleted(scene: Scene) -> None:
    """A node without a Device is not judged, and judged anew when it has one again."""
    scene.device()
    scene.lease("a")
    scene.watchdog.device_gone("n1")
    scene.ledger.device_gone("n1")
    scene.pass_(GRACE + 1)

    scene.device()
    before = scene.silent
    scene.lease("b")

    assert before
    assert not scene.silent


def test_lease_without_a_device_is_only_remembered(scene: Scene) -> None:
    """An agent that renews before it published counts as heard from the moment it did so."""
    scene.lease("a")

    scene.pass_(GRACE - 1)
    scene.device()

    assert not scene.silent


def test_grace_is_that_of_the_policy_in_force(scene: Scene) -> None:
    """A shorter grace period holds at the next judgement."""
    scene.device()
    scene.lease("a")
    scene.pass_(10)

    scene.ledger.policy_seen(Policy(grace_seconds=5))
    scene.watchdog.judge()

    assert scene.silent


def test_silence_of_one_is_not_that_of_another(scene: Scene) -> None:
    """Each agent is judged by its own signs."""
    scene.device()
    scene.ledger.device_seen(builders.device("n2"))
    scene.watchdog.device_seen("n2", found_silent=False)

    scene.lease("a")

    other = scene.ledger.inventory.row("n2")
    assert other is not None
    assert (scene.silent, other.silent) == (False, True)


@timeless.scenario
async def test_time_is_watched() -> None:
    """Without any event an agent is found silent within a second after its grace period."""
    now = timeless.clock()
    ledger = books.of()
    watchdog = Watchdog(ledger, clock=now)
    watchdog.lease_seen("n1", "a")
    watchdog.device_seen("n1", found_silent=False)
    info = ledger.inventory.row("n1")
    assert info is not None

    async with timeless.beside(watchdog.run()):
        await timeless.until(lambda: info.silent)

    assert GRACE < now() <= GRACE + INTERVAL_SECONDS + 0.01


# ---------------------------------------------------------------- after a restore


def test_after_a_restore_only_a_renewal_counts(scene: Scene) -> None:
    """The Lease that comes back is an old one, and so may be the verdicts in the Device."""
    scene.device()
    scene.lease("10:00:00")
    scene.lease("10:00:10", after=10.0)

    scene.watchdog.restored()
    at_once = scene.silent
    scene.lease("09:59:50")
    listed = scene.silent
    scene.lease("10:00:20", after=5.0)

    assert (at_once, listed, scene.silent) == (True, True, False)


def test_a_restore_resurrects_no_dead_agent(scene: Scene) -> None:
    """That its Lease says something else than before is no sign of life."""
    scene.device()
    scene.lease("10:00:10")
    scene.pass_(100.0)

    scene.watchdog.restored()
    scene.lease("09:00:00")
    scene.pass_(1.0)

    assert scene.silent
