"""A connection that is lost while it is made is no fatal error in a log; whatever else goes wrong is told."""

import asyncio
import gc
import logging
import ssl
from typing import Any

import pytest

from berth_crds.client import lost_connections

CLOSED = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
REFUSED = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] not ours (_ssl.c:1006)")


async def reported(caplog: pytest.LogCaptureFixture, **context: Any) -> list[tuple[str, int]]:
    """Return the records of a fault that the event loop reports."""
    loop = asyncio.get_running_loop()
    lost_connections.report_quietly(loop)
    with caplog.at_level(logging.DEBUG):
        loop.call_exception_handler({"message": "it says", **context})
    return [(one.name, one.levelno) for one in caplog.records]


@pytest.mark.parametrize("error", [CLOSED, REFUSED, ConnectionResetError(104, "reset")], ids=repr)
async def test_the_end_of_a_connection_is_told_quietly(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """In one line, for whoever looks for it."""
    assert await reported(caplog, exception=error, transport=object(), protocol=object()) == [
        (lost_connections.__name__, logging.DEBUG)
    ]
    assert caplog.messages[0].startswith("it says: ")


async def test_a_greeting_that_nobody_waits_for_any_more_is_told_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its exception is found when it is collected."""
    loop = asyncio.get_running_loop()
    lost_connections.report_quietly(loop)
    greeting = loop.create_future()
    greeting.set_exception(REFUSED)

    with caplog.at_level(logging.DEBUG):
        del greeting
        gc.collect()

    (record,) = (one for one in caplog.records if one.name != "asyncio" or one.levelno > logging.DEBUG)
    assert (record.name, record.levelno) == (lost_connections.__name__, logging.DEBUG)


@pytest.mark.parametrize(
    "context",
    [
        pytest.param({"exception": ValueError("x"), "transport": object()}, id="another error"),
        pytest.param({"exception": RuntimeError("x"), "transport": object()}, id="another RuntimeError"),
        pytest.param({"exception": OSError("x"), "handle": object()}, id="a callback"),
        pytest.param({}, id="no error"),
    ],
)
async def test_whatever_else_fails_is_told_as_before(
    caplog: pytest.LogCaptureFixture, context: dict[str, Any]
) -> None:
    """By the loop itself, as an error."""
    assert await reported(caplog, **context) == [("asyncio", logging.ERROR)]


async def test_a_task_that_fails_is_told_as_before(caplog: pytest.LogCaptureFixture) -> None:
    """It is somebody's work, whatever its error is."""

    async def fail() -> None:
        raise ConnectionResetError

    task = asyncio.get_running_loop().create_task(fail())
    await asyncio.wait([task])

    assert await reported(caplog, exception=task.exception(), future=task) == [("asyncio", logging.ERROR)]
