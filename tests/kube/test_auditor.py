"""The audit finds what the ledger knows wrongly, says so, mends it, and raises no false alarm."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from berth_crds.client import api, errors
from berth_operator.engine import drift, ports
from berth_operator.engine.drift import Difference
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import auditor, feeds
from kube import auditing
from kube.conftest import Noted
from support import builders, clock, manifests, pods, stub, timeless

LOST, LATE = Difference("hold", "lost"), Difference("waiting", "late")


class Audited:
    """A ledger that follows the cluster, and its audit."""

    def __init__(self, session: api.Api) -> None:
        self.ledger = Ledger(time.monotonic)
        watchdog = Watchdog(self.ledger, clock=time.monotonic)
        self.feeds = feeds.Feeds(session, self.ledger, watchdog, auditor.NullObserver())
        self.reports: list[int] = []
        self.auditor = auditing.audit_of(session, self.ledger, self.feeds, report=self.reports.append)


@pytest.fixture
async def audited(session: Noted, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Audited]:
    """Lend a ledger that is up to date."""
    monkeypatch.setattr(auditor, "SECOND_COMPARISON_SECONDS", 0.3)
    lent = Audited(session)
    task = asyncio.create_task(lent.feeds.run())
    try:
        await asyncio.wait_for(lent.feeds.wait_synced(), 20)
        yield lent
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_ledger_that_is_right_has_no_drift(
    audited: Audited, admin: api.Api, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Waiting pods and those whose record is missing, as the feeds told them, are what the API has."""
    yard = pods.Yard(admin, namespace)
    await yard.create(manifests.pod("waits"))
    await yard.create(manifests.pod("withholds", nodeName="n-1"))
    await audited.feeds.catch_up()
    caplog.clear()

    assert await audited.auditor.audit() == ()
    assert audited.reports == [0]
    await yard.delete("withholds")
    assert "withholds" not in caplog.text, "what was warned of already is not warned of at every audit"


async def test_drift_is_told_and_mended(
    audited: Audited, admin: api.Api, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A waiting pod that the ledger lost is found by the audit, reported, and known again afterwards."""
    candidate = await pods.Yard(admin, namespace).create(manifests.pod("p"))
    await audited.feeds.catch_up()
    audited.ledger.pod_over(candidate.uid)

    found = await audited.auditor.audit()

    assert ("waiting", candidate.uid) in {(one.kind, one.name) for one in found}
    assert audited.reports == [len(found)]
    assert f"waiting {candidate.uid}" in caplog.text
    assert candidate.uid in audited.ledger.backlog
    assert await audited.auditor.audit() == ()
    assert audited.reports[-1] == 0


async def test_what_the_api_has_not_is_let_go(audited: Audited, admin: api.Api, namespace: str) -> None:
    """A hold whose pod's end was never heard withholds its cards no longer than to the next audit."""
    await pods.Yard(admin, namespace).create(manifests.pod("p"))
    await audited.feeds.catch_up()
    audited.ledger.pod_bound(builders.hold("ghost", "n-1", [0]))
    audited.ledger.pod_waiting(builders.candidate("lost"), gated=False)

    found = await audited.auditor.audit()

    assert {one.name for one in found} == {"uid-ghost", "uid-lost"}
    assert audited.ledger.state("uid-ghost") is State.FREE
    assert "uid-lost" not in audited.ledger.backlog
    assert await audited.auditor.audit() == ()


class Staged(auditor.Auditor):
    """An audit whose looks find what was laid out."""

    def __init__(self, *looks: tuple[Difference, ...] | errors.ClientError) -> None:
        self.looks = list(looks)
        self.reports: list[int] = []
        self.mended = 0
        # The session is not used: nothing is read.
        super().__init__(
            None,  # type: ignore[arg-type]
            Ledger(time.monotonic),
            clock=time.monotonic,
            report=self.reports.append,
            resync=self._note,
            revisions=lambda _: {},
        )

    async def _note(self, ghosts: Iterable[str]) -> None:
        assert not ghosts
        self.mended += 1

    async def _compare(self) -> tuple[drift.Difference, ...]:
        found = self.looks.pop(0)
        if isinstance(found, errors.ClientError):
            raise found
        return found


@timeless.scenario
async def test_what_differs_once_is_on_its_way() -> None:
    """Only what both looks find is drift: a pod that came in between is not."""
    staged = Staged((LOST, LATE), (LOST,))

    assert await staged.audit() == (LOST,)
    assert (staged.reports, staged.mended) == ([1], 1)


@timeless.scenario
async def test_two_passing_differences_are_no_alarm() -> None:
    """Each look finds something else: none of it has lasted."""
    staged = Staged((LATE,), (LOST,))

    assert await staged.audit() == ()
    assert (staged.reports, staged.mended) == ([0], 0)


@timeless.scenario
async def test_a_passing_difference_is_no_alarm() -> None:
    """Nothing is reported or read anew because of an event that had not come yet."""
    staged = Staged((LATE,), ())

    assert await staged.audit() == ()
    assert (staged.reports, staged.mended) == ([0], 0)


@timeless.scenario
async def test_an_audit_that_cannot_read_comes_later() -> None:
    """A server that is away ends nothing, and is no drift; the next audit is made in its time."""
    staged = Staged(errors.Unreachable("away", ambiguous=False), ())

    async with timeless.beside(staged.run(60.0)):
        await timeless.at(61.0)
        assert staged.reports == []
        await timeless.at(121.0)

    assert staged.reports == [0]


def test_a_crowd_of_differences_is_counted() -> None:
    """The log names some and counts the others."""
    many = tuple(Difference("hold", f"uid-{at}") for at in range(12))

    assert auditor.summarized(many).endswith("hold uid-9 and 2 more")
    assert auditor.summarized(many[:1]) == "hold uid-0"


async def test_all_is_read_and_compared_by_the_auditors_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """By it others have their turn, however dear the pods are to read and to compare."""
    given: list[ports.Clock] = []
    made, compared = feeds.Feeds, drift.portions
    looks = clock.Ticking(1.0)

    def read(*parts: Any) -> feeds.Feeds:
        given.append(parts[-1].clock)
        return made(*parts)

    def portions(ledger: Ledger, fresh: Ledger, clock: ports.Clock) -> Any:
        given.append(clock)
        return compared(ledger, fresh, clock)

    monkeypatch.setattr(feeds, "Feeds", read)
    monkeypatch.setattr(drift, "portions", portions)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        auditing.Cluster(server)
        audit = auditor.Auditor(
            session,
            Ledger(looks),
            clock=looks,
            report=lambda _: None,
            resync=None,  # type: ignore[arg-type]
            revisions=lambda _: {},
        )

        await audit._compare()

    assert given == [looks, looks]
