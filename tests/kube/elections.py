"""Candidates for the lead, and access to the Lease past them."""

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec

from berth_crds import names
from berth_crds.client import api, errors, lease, resources
from berth_operator.kube import elector
from support import clock
from testbed import waiting

TIMING: Final = elector.Timing(duration=6.0, renew_deadline=4.0, retry=1.0)
QUICK: Final = elector.Timing(duration=1.5, renew_deadline=0.9, retry=0.1)
PATIENT: Final = elector.Timing(duration=60.0, renew_deadline=40.0, retry=0.1)


def candidate(
    session: api.Api,
    name: str,
    *,
    time_: clock.Clock | None = None,
    timing: elector.Timing = TIMING,
    stale_revision: Callable[[], int | None] = lambda: None,
    lapsing: Callable[[float], object] = lambda _seconds: None,
) -> elector.Elector:
    """Make a candidate; without a clock it lives in real time."""
    now = time_ or time.monotonic
    wall = time_.wall if time_ else lambda: dt.datetime.now(dt.UTC)
    environment = elector.Environment(
        now, wall, lambda: 0.0, session.history.restored, stale_revision=stale_revision, lapsing=lapsing
    )
    return elector.Elector(session, name, timing, environment)


async def leader(session: api.Api, name: str = "a_x", **options: Any) -> elector.Elector:
    """Make a candidate that has won the lead."""
    made = candidate(session, name, **options)
    await made.campaign()
    return made


async def renew(leader: elector.Elector) -> None:
    """Renew the Lease once."""
    assert leader._held is not None
    await leader._renew(leader._held)


async def read(admin: api.Api) -> lease.Lease:
    """Read the leader's Lease."""
    where = names.SYSTEM_NAMESPACE
    return await admin.get(resources.LEASES, names.LEADER_LEASE, into=lease.Lease, namespace=where)


async def until_written(admin: api.Api, since: lease.Lease) -> lease.Lease:
    """Wait until the leader's Lease has another revision, and return that."""

    async def another() -> lease.Lease | None:
        found = await read(admin)
        return found if found.metadata.resource_version != since.metadata.resource_version else None

    return await waiting.eventually(another, what="a renewal at the server", seconds=5)


async def change(admin: api.Api, **spec: str | int) -> None:
    """Edit the spec of the leader's Lease, which may be renewed meanwhile."""

    async def edited() -> bool:
        current = await read(admin)
        changed = msgspec.structs.replace(current, spec=msgspec.structs.replace(current.spec, **spec))
        where = names.SYSTEM_NAMESPACE
        with contextlib.suppress(errors.Conflict):
            await admin.replace(resources.LEASES, names.LEADER_LEASE, changed, namespace=where)
            return True
        return False

    await waiting.eventually(edited, what="the Lease to be edited", seconds=5)


@contextlib.asynccontextmanager
async def holding(leader: elector.Elector) -> AsyncIterator[asyncio.Task[None]]:
    """Renew beside the block."""
    task = asyncio.create_task(leader.keep_renewing())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
