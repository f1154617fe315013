"""The lead is kept by a thread that nothing stalls, and that keeps nothing for a program that hangs."""

import asyncio
import datetime as dt
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from berth_crds.client import api, connection
from berth_operator.kube import elector, leadership
from kube.elections import QUICK, candidate, change, read, until_written
from support import timeless

pytestmark = pytest.mark.usefixtures("no_leader")


class Losses:
    """Records why the lead was lost, and in which thread that was reported."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str]] = []
        self.any = threading.Event()

    def __call__(self, why: str) -> None:
        """Record a loss."""
        self.reported.append((why, threading.current_thread().name))
        self.any.set()


@pytest.fixture
def losses() -> Losses:
    """Lend what records losses."""
    return Losses()


@pytest.fixture
async def leading(account: Path, losses: Losses) -> AsyncIterator[leadership.LeaderElection]:
    """Lend what leads."""
    link = connection.load(account)

    def make(session: api.Api, idle: leadership.HungSeconds) -> elector.Elector:
        environment = elector.Environment(
            time.monotonic, lambda: dt.datetime.now(dt.UTC), idle, session.history.restored
        )
        return elector.Elector(session, "a_x", QUICK, environment)

    lent = leadership.LeaderElection(
        lambda: api.Api(link, agent="test-lead"), make, clock=time.monotonic, lost=losses
    )
    await lent.start()
    async with timeless.beside(lent.heartbeat()):
        await lent.campaign()
        yield lent
    await lent.stop()


async def test_a_loop_that_is_busy_does_not_cost_the_lead(
    leading: leadership.LeaderElection, losses: Losses, admin: api.Api
) -> None:
    """The Lease is renewed while the main loop does nothing but work, for longer than the Lease lasts."""
    before = await read(admin)
    until = time.monotonic() + 2 * QUICK.duration
    while time.monotonic() < until:
        sum(range(100_000))
    after = await read(admin)

    assert after.spec.renew_time != before.spec.renew_time
    assert (after.spec.holder_identity, after.spec.lease_transitions) == ("a_x", 1)
    assert leading.leads()
    assert losses.reported == []


@pytest.mark.usefixtures("no_leader", "leading")
async def test_a_program_that_hangs_loses_the_lead(losses: Losses, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that does not turn any more cannot be told, so the thread itself says so."""
    monkeypatch.setattr(elector, "HUNG_SECONDS", 0.5)

    losses.any.wait(10)

    ((why, thread),) = losses.reported
    assert "the program has hung" in why
    assert thread == "lead"


@pytest.mark.usefixtures("no_leader", "leading")
async def test_a_stolen_lease_is_reported_by_the_thread(losses: Losses, admin: api.Api) -> None:
    """Whatever the main loop does meanwhile."""
    await change(admin, holder_identity="thief")

    await asyncio.to_thread(losses.any.wait, 10)

    assert losses.reported == [("thief holds the Lease now", "lead")]


async def test_a_declaration_and_a_doubt_cross_into_the_thread(
    leading: leadership.LeaderElection, admin: api.Api
) -> None:
    """Both return once the Lease was written after they were asked for."""
    await asyncio.wait_for(leading.declare("x"), 5)
    declared = await read(admin)
    leading.doubt()
    await until_written(admin, declared)
    await asyncio.wait_for(leading.wait_confirmed(), 5)

    assert "x" in declared.metadata.annotations.values()


async def test_a_release_lets_the_next_one_in(leading: leadership.LeaderElection, session: api.Api) -> None:
    """The thread gives the Lease up in order."""
    await leading.release(clean=True)

    assert (await candidate(session, "b_x").campaign()).clean
