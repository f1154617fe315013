"""Behind several API servers an old leader's binds may be late by any time: none is carried out (I1, I7)."""

import functools

import pytest

from e2e import disasters
from e2e.stage import Stage
from e2e.test_chaos import play
from support import thorough
from testbed.interceptor import Deed


@pytest.mark.slow
@pytest.mark.parametrize("how", ["frozen", thorough.case("cut off"), thorough.case("slow")])
async def test_a_bind_that_a_second_server_carries_out_late_is_void(stage: Stage, how: str) -> None:
    """The binds lay in its connections, and its copy of the Lease is old.

    While the second server starts, a leader of two seconds could be late: it has the usual terms.
    """
    on = await play(stage, functools.partial(disasters.two_servers, how=how), flags=())

    late = [one for replica in on.replicas for one in replica.wire.seen if one.deed is Deed.DETOUR]
    assert len(late) >= 32
    assert {one.status for one in late} <= {0, 403, 409, 500, 503, 504}
