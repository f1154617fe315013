"""The watchdog tells silent agents from living ones, by what it saw on its own clock."""

from collections.abc import Callable
from typing import Final

import pytest

from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import INTERVAL_SECONDS, Watchdog
from berth_operator.scheduling.policy import Policy
from support import builders, clock, ledgers, timeless

GRACE = 40.0


class Scene:
    """One node whose agent is watched."""

    def __init__(self) -> None:
        self.clock = clock.Clock()
        self.ledger = Ledger(self.clock)
        self.watchdog = Watchdog(self.ledger, clock=self.clock)
        self.ledger.node_seen(builders.node())

    def device(self, *, found_silent: bool = False) -> None:
        """Have the Device be seen."""
        self.ledger.device_seen(builders.device())
        self.watchdog.device_seen("n1", found_silent=found_silent)

    def device_gone(self) -> None:
        """Have the Device be gone."""
        self.watchdog.device_gone("n1")
        self.ledger.device_gone("n1")

    def passing(self, seconds: float) -> None:
        """Let time pass, and judge."""
        self.clock.advance(seconds)
        self.watchdog.judge()

    @property
    def silent(self) -> bool:
        """Whether the ledger was told that the agent is silent."""
        info = self.ledger.inventory.node("n1")
        return info is not None and info.silent


Step = Callable[[Scene], None]


def lease(renewal: str) -> Step:
    """Have the Lease be seen."""
    return lambda scene: scene.watchdog.lease_seen("n1", renewal)


def passes(seconds: float) -> Step:
    """Let time pass."""
    return lambda scene: scene.passing(seconds)


def lease_gone(scene: Scene) -> None:
    """Have the Lease be gone."""
    scene.watchdog.lease_gone("n1")


def found_silent(scene: Scene) -> None:
    """Have the Device be seen, which says that its agent is silent."""
    scene.device(found_silent=True)


def restored(scene: Scene) -> None:
    """Have the cluster be restored from a backup."""
    scene.watchdog.restored()


def shorter_grace(scene: Scene) -> None:
    """Have a policy come into force."""
    scene.ledger.policy_seen(Policy(grace_seconds=5))
    scene.watchdog.judge()


DEVICE: Final = Scene.device
ALMOST: Final = passes(GRACE - 1)
# What happens, and whether the agent is silent after each of the last steps.
HISTORIES: dict[str, tuple[list[Step], list[bool]]] = {
    "a Device without a Lease": ([DEVICE], [True]),
    "the Lease comes first": ([lease("a"), DEVICE], [False]),
    "the Device comes first": ([DEVICE, lease("a")], [True, False]),
    "renewals in time": (
        [DEVICE, *(step for at in range(20) for step in (lease(str(at)), ALMOST))],
        [False] * 40,
    ),
    "the grace period is over": ([DEVICE, lease("a"), passes(GRACE), passes(0.1)], [False, True]),
    "the same renewal is listed again": ([DEVICE, lease("a"), ALMOST, lease("a"), passes(2)], [False, True]),
    "a renewal after a silence": ([DEVICE, lease("a"), passes(GRACE + 1), lease("b")], [True, False]),
    "renewals by other clocks": (
        [DEVICE, lease("2026-01-01"), ALMOST, lease("1999-01-01"), ALMOST, lease("2099-01-01"), ALMOST],
        [False] * 6,
    ),
    "found silent before we started": (
        [lease("old"), found_silent, passes(5), lease("new")],
        [True, True, False],
    ),
    "what we wrote of it ourselves": ([lease("a"), DEVICE, found_silent, passes(0)], [False] * 3),
    "the Lease is deleted": ([DEVICE, lease("a"), lease_gone, lease("b")], [True, False]),
    "the Device is deleted": (
        [DEVICE, lease("a"), Scene.device_gone, passes(GRACE + 1), DEVICE, lease("b")],
        [True, False],
    ),
    "a Lease long before its Device": ([lease("a"), ALMOST, DEVICE], [False]),
    "a policy with a shorter grace period": ([DEVICE, lease("a"), passes(10), shorter_grace], [False, True]),
    "after a restore only a renewal counts": (
        [DEVICE, lease("10:00:10"), passes(10), restored, lease("09:59:50"), passes(5), lease("10:00:20")],
        [False, True, True, True, False],
    ),
    "a restore resurrects no dead agent": (
        [DEVICE, lease("10:00:10"), passes(100), restored, lease("09:00:00"), passes(1)],
        [True] * 4,
    ),
}


@pytest.mark.parametrize(("steps", "silent"), HISTORIES.values(), ids=HISTORIES.keys())
def test_an_agent_is_silent_without_a_renewal_that_we_saw(steps: list[Step], silent: list[bool]) -> None:
    """It lives for the grace period after each renewal, by our own clock; an old Lease is no sign of life."""
    scene, found = Scene(), []

    for step in steps:
        step(scene)
        found.append(scene.silent)

    assert found[-len(silent) :] == silent


def test_silence_of_one_is_not_that_of_another() -> None:
    """Each agent is judged by its own signs."""
    scene = Scene()
    scene.device()
    scene.ledger.device_seen(builders.device("n2"))
    scene.watchdog.device_seen("n2", found_silent=False)

    lease("a")(scene)

    other = scene.ledger.inventory.node("n2")
    assert other is not None
    assert (scene.silent, other.silent) == (False, True)


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
        await timeless.until(lambda: info.silent)

    assert GRACE < now() <= GRACE + INTERVAL_SECONDS + 0.01
