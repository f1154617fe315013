"""A leader that ends gives the Lease up in order, whatever the wire does."""

import asyncio

import pytest

from berth_crds.client import api
from berth_operator.kube import elector
from kube.conftest import Wired
from kube.elections import QUICK, candidate, change, holding, read, until_written

pytestmark = pytest.mark.usefixtures("no_leader")

# ---------------------------------------------------------------- giving up


async def test_a_release_during_a_renewal_is_in_order(wired: Wired, admin: api.Api) -> None:
    """A renewal under way neither keeps the Lease from being released nor takes the release for a theft."""
    leader = candidate(wired.session, "a_x", timing=elector.Timing(6.0, 4.0, 0.1))
    await leader.campaign()
    before = await read(admin)

    async with holding(leader) as task:
        wired.wire.hold(answers_only=True)
        await until_written(admin, before)
        release = asyncio.create_task(leader.release())
        done, _ = await asyncio.wait([release], timeout=0.3)
        wired.wire.resume()
        await release
        await asyncio.wait_for(task, 5)

    assert not done
    assert (await read(admin)).spec.holder_identity in {None, ""}


async def test_a_release_after_an_unheard_renewal_is_in_order(wired: Wired, admin: api.Api) -> None:
    """When the last renewal went through unheard, the release finds the new revision by itself."""
    leader = candidate(wired.session, "a_x")
    await leader.campaign()
    await change(admin, renew_time="2030-01-01T00:00:00.000000Z")

    await leader.release()

    assert (await read(admin)).spec.holder_identity in {None, ""}


async def test_a_release_leaves_the_lease_of_others_alone(session: api.Api, admin: api.Api) -> None:
    """Who has lost the Lease without noticing does not free the winner's."""
    leader = candidate(session, "a_x")
    await leader.campaign()
    await change(admin, holder_identity="winner")

    await leader.release()

    assert (await read(admin)).spec.holder_identity == "winner"


async def test_a_release_that_cannot_be_written_ends_all_the_same(wired: Wired) -> None:
    """Without a server the release gives up in time, and the Lease lapses by itself."""
    leader = candidate(wired.session, "a_x", timing=QUICK)
    await leader.campaign()
    wired.wire.hold()

    await asyncio.wait_for(leader.release(), QUICK.renew_deadline + 1)
