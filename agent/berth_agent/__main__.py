"""The agent as a program: `python -m berth_agent` or `berth-agent`.

Reads the settings, wires one loop for each node, and turns signals into a clean end. The
clock, chance and the name of this process enter here and nowhere else.

On a clean end the Lease is left as it is. To release it would say nothing true: the last
Device is still the best that is known, and whether its silence matters is for the
operator's watchdog to judge, which a quick restart then never notices.
"""

import asyncio
import datetime as dt
import logging
import os
import random
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

from berth_agent import loop, patience, settings, simulated
from berth_crds import vocabulary
from berth_crds.client import api, connection, errors

log = logging.getLogger("berth_agent")

EXIT_UNUSABLE: Final = 2
LAST_WORD_SECONDS: Final = 1.5
MOST_PAUSE_SECONDS: Final = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; 0 is a clean end, 2 a setting that cannot be used."""
    try:
        chosen = settings.parse(
            sys.argv[1:] if arguments is None else arguments, os.environ, host=socket.gethostname()
        )
        _start_logging(chosen.log_level)
        subjects = _subjects(chosen)
        link = connection.load(chosen.kubeconfig, context=chosen.context)
    except (settings.Refused, simulated.BadShape, errors.Unusable) as refusal:
        print(f"{settings.PROGRAM}: {refusal}", file=sys.stderr)
        return EXIT_UNUSABLE
    asyncio.run(_serve(link, subjects, chosen))
    return 0


def _start_logging(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr
    )


def _subjects(chosen: settings.Settings) -> tuple[loop.Subject, ...]:
    return tuple(
        loop.Subject(
            node=node.name,
            probe=simulated.SimulatedProbe(
                simulated.machine(node.name, node.shape), simulated.FaultFile(chosen.faults, node.name)
            ),
            grants=vocabulary.GrantSource.SIMULATED,
        )
        for node in chosen.nodes
    )


async def _serve(
    link: connection.Connection, subjects: Sequence[loop.Subject], chosen: settings.Settings
) -> None:
    """Run every node until a signal comes."""
    pace = loop.Pace(chosen.interval, chosen.deadline, chosen.lease_seconds)
    means = loop.Means(clock=_now, chance=random.random, identity=_identity())
    stop = _on_signals()
    log.info("%s speaks for %s at %s", means.identity, _listed(subjects), link.server)
    async with api.Api(link, agent=settings.PROGRAM) as session:
        tasks = [asyncio.create_task(_keep(session, each, pace, means)) for each in subjects]
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    log.info("stopped")


async def _keep(session: api.Api, subject: loop.Subject, pace: loop.Pace, means: loop.Means) -> None:
    """Run one node; should it fail on a fault of ours, start it anew and leave the others alone."""
    failures = 0
    while True:
        try:
            await loop.run_node(session, subject, pace, means)
        except Exception as error:
            failures += 1
            log.exception("node %s: the agent failed, starting it anew", subject.node)
            pause = patience.pause(error, failures, most=MOST_PAUSE_SECONDS, chance=means.chance())
            await asyncio.sleep(pause)


def _on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop(stop))
    return stop


def _stop(event: asyncio.Event) -> Callable[[], None]:
    def stop() -> None:
        event.set()
        # Threads of the event loop (names being resolved, a token file on a dead disk) are
        # waited for at its end. The end is clean either way: nothing is left to write.
        last_word = threading.Timer(LAST_WORD_SECONDS, os._exit, [0])
        last_word.daemon = True
        last_word.start()

    return stop


def _identity() -> str:
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _listed(subjects: Sequence[loop.Subject]) -> str:
    return ", ".join(subject.node for subject in subjects)


if __name__ == "__main__":
    sys.exit(main())
