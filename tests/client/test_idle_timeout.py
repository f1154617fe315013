"""A stream is ended when nothing came for too long, and goes on for as long as something comes."""

import asyncio
from unittest import mock

import aiohttp
import pytest
from aiohttp import base_protocol

from berth_crds.client import idle_timeout
from support import timeless

QUIET = 75.0


def stream() -> aiohttp.StreamReader:
    """Make a stream that is fed by the test."""
    protocol = mock.Mock(spec=base_protocol.BaseProtocol)
    return aiohttp.StreamReader(protocol, 1 << 16, loop=asyncio.get_running_loop())


@timeless.scenario
async def test_a_stream_ends_in_time_after_its_last_piece() -> None:
    """A piece within each period is enough, be it a blank one; then it lasts a fifth longer at most."""
    content = stream()

    with idle_timeout.limited(content, QUIET):
        for _ in range(20):
            await timeless.passing(QUIET - 1)
            content.feed_data(b"\n")
            assert await content.readany() == b"\n"
        last = timeless.clock()()
        with pytest.raises(TimeoutError):
            await content.readany()

    assert QUIET <= timeless.clock()() - last <= QUIET * 1.2


@timeless.scenario
async def test_a_stream_that_was_left_is_not_ended() -> None:
    """Once the block is left, nothing looks at the stream any more."""
    content = stream()
    with idle_timeout.limited(content, QUIET):
        pass

    await timeless.passing(10 * QUIET)

    assert content.exception() is None
