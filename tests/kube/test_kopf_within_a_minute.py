"""A Kopf that hangs is told in `/readyz` within a minute, with the times as they are in production."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import kopf
import pytest

from berth_crds import names
from berth_operator.kube import kopf_lag, reconciler
from kube import eventually
from kube.reconcilers import running
from support import stub

MINUTE: Final = 60.0
END_SECONDS: Final = reconciler.END_SECONDS  # Before a test makes it short.
KNOWN: Final = kopf_lag.Revisions({names.DEVICES: {"n1": "5", "n2": "7"}, names.POLICIES: {}})


def nothing_comes(_: kopf_lag.KopfLag) -> None:
    """Deliver nothing at all."""


def the_same_comes(lag: kopf_lag.KopfLag) -> None:
    """Deliver one object again and again, and never the other."""
    lag.delivered(names.DEVICES, "n2", "7")


def old_ones_come(lag: kopf_lag.KopfLag) -> None:
    """Deliver revisions of the past."""
    lag.delivered(names.DEVICES, "n1", "4")
    lag.delivered(names.DEVICES, "n2", "6")


@pytest.mark.parametrize("deliver", [nothing_comes, the_same_comes, old_ones_come])
def test_a_fault_is_found_and_the_run_ended_within_a_minute(
    deliver: Callable[[kopf_lag.KopfLag], None],
) -> None:
    """It is checked each second, and a run may take some seconds to end before its fault is told."""
    lag = kopf_lag.KopfLag()

    while lag.check(KNOWN) is None and lag.checks < 1000:
        deliver(lag)

    assert lag.checks * kopf_lag.CHECK_SECONDS + END_SECONDS <= MINUTE


def starts_nothing(_: threading.Event) -> None:
    """Come to an end at once, with a task that waits for something that does not come."""


def blocks_its_loop(released: threading.Event) -> None:
    """Hang without a chance for anything else."""
    released.wait()


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Lend an event that ends what hangs; in the end no thread of Kopf is left."""
    lent = threading.Event()
    yield lent
    lent.set()
    for thread in threading.enumerate():
        if thread.name == "kopf":
            thread.join(10)
    assert "kopf" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("hang", [starts_nothing, blocks_its_loop])
async def test_a_hanging_kopf_is_told_after_so_many_checks(
    hang: Callable[[threading.Event], None],
    released: threading.Event,
    server: stub.Stub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault, which `/readyz` shows, is there within a minute of checks, one each second."""
    seconds = 0.0

    async def spawn_tasks(**_: Any) -> list[asyncio.Future[Any]]:
        hang(released)
        return [asyncio.ensure_future(asyncio.Event().wait())]

    monkeypatch.setattr(kopf, "spawn_tasks", spawn_tasks)
    monkeypatch.setattr(reconciler, "END_SECONDS", 0.05)  # What is waited for in real time.

    async with running(server.link) as reconciler_:
        while not is_ending(reconciler_) and seconds < 10 * MINUTE:
            await checked(reconciler_)
            seconds += kopf_lag.CHECK_SECONDS
        await eventually.holds(lambda: reconciler_.fault, "the fault", seconds=30)
        fault = reconciler_.fault

    assert fault.startswith("Kopf is ended: it shows no life")
    assert seconds + END_SECONDS <= MINUTE


async def checked(reconciler_: reconciler.Reconciler) -> None:
    """Have a reconciler compare once."""
    reconciler_.compare(KNOWN)
    assert reconciler_._loop is not None
    # Its loop does things in turn: after this it has compared.
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), reconciler_._loop))


def is_ending(reconciler_: reconciler.Reconciler) -> bool:
    """Whether a reconciler has found that its Kopf hangs."""
    return reconciler_._fault_found is not None and reconciler_._fault_found.done()
