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
    loop = asyncio.get_running_loop()
    return aiohttp.StreamReader(mock.Mock(spec=base_protocol.BaseProtocol), 1 << 16, loop=loop)


@timeless.scenario
async def test_a_lively_stream_goes_on() -> None:
    """However long it goes on, a piece within each period is enough, be it a blank one."""
    content = stream()

    with idle_timeout.limited(content, QUIET):
        for at in range(20):
            await timeless.at((at + 1) * (QUIET - 1))
            content.feed_data(b"\n")

            assert await content.readany() == b"\n"


@timeless.scenario
async def test_a_silent_stream_ends_in_time() -> None:
    """After the last piece it is as long as agreed, and by a fifth longer at most."""
    content = stream()
    with idle_timeout.limited(content, QUIET):
        await timeless.at(50)
        content.feed_data(b"\n")
        await content.readany()

        with pytest.raises(TimeoutError):
            await content.readany()

        assert QUIET <= timeless.clock()() - 50 <= QUIET * 1.2


@timeless.scenario
async def test_nobody_looks_at_a_stream_that_was_left() -> None:
    """Once the block is left, nothing is said of the stream any more."""
    content = stream()
    with idle_timeout.limited(content, QUIET):
        pass

    await timeless.at(10 * QUIET)

    assert content.exception() is None
