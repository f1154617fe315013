"""Faults of connections that an event loop reports, though the request that failed tells of them already.

uvloop calls it a fatal error, with a traceback, if a connection ends while TLS begins. And if whoever waited
for that connection gives up at the same moment, nobody retrieves its exception. Neither is news to a person:
what they see is the line of the request. So these reports become records of level DEBUG, of one line.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from berth_crds import text

log = logging.getLogger(__name__)

CLOSED: Final = "the handler is closed"  # What uvloop says of a connection that has ended.


def report_quietly(loop: asyncio.AbstractEventLoop) -> None:
    """Have a loop report such faults quietly, and all others as before."""
    loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if _of_connection(error) and (_fatal(context) or _not_retrieved(context)):
        log.debug("%s: %s", context["message"], text.cause(error))
    else:
        loop.default_exception_handler(context)


def _of_connection(error: object) -> TypeGuard[OSError | RuntimeError]:
    return isinstance(error, OSError) or (isinstance(error, RuntimeError) and CLOSED in str(error))


def _fatal(context: Mapping[str, Any]) -> bool:
    return "transport" in context


def _not_retrieved(context: Mapping[str, Any]) -> bool:
    """Whether it is the exception of a bare future, as that of a greeting is; a task is somebody's work."""
    return "future" in context and not isinstance(context["future"], asyncio.Task)
