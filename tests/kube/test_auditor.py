"""The audit finds what the ledger knows wrongly, says so, mends it, and raises no false alarm."""

import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from berth_crds.client import api, errors
from berth_operator.engine import drift, ports
from berth_operator.engine.drift import Difference
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import auditor, feeds
from kube import following
from support import builders, clock, manifests, pods, stub, timeless

LOST, LATE = Difference("hold", "lost"), Difference("waiting", "late")


@pytest.fixture
async def follower(session: api.Api, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[following.Follower]:
    """Lend a ledger that follows the real cluster."""
    monkeypatch.setattr(auditor, "SECOND_COMPARISON_SECONDS", 0.3)
    lent = following.Follower(session)
    async with lent.following():
        yield lent


async def test_a_ledger_that_is_right_has_no_drift(
    follower: following.Follower, pod_client: pods.PodClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Waiting pods and those whose record is missing are to the feeds what the API has."""
    await pod_client.create(manifests.pod("waits"))
    await pod_client.create(manifests.pod("withholds", nodeName="n-1"))
    await follower.feeds.catch_up()
    caplog.clear()

    assert await follower.auditor.audit() == ()
    assert follower.reports == [0]
    await pod_client.delete("withholds")
    assert "withholds" not in caplog.text, "what was warned of already is not warned of at every audit"


async def test_drift_is_reported_and_mended(
    follower: following.Follower, pod_client: pods.PodClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A waiting pod that the ledger lost is known again after an audit, and what the API has not is gone."""
    pod_info = await pod_client.create(manifests.pod("p"))
    await follower.feeds.catch_up()
    follower.ledger.pod_over(pod_info.uid)
    follower.ledger.pod_bound(builders.hold("ghost", "n-1", [0]))
    follower.ledger.pod_waiting(builders.pod_info("lost"), gated=False)

    found = await follower.auditor.audit()

    assert {difference.name for difference in found} == {pod_info.uid, "uid-ghost", "uid-lost"}
    assert f"waiting {pod_info.uid}" in caplog.text
    assert follower.ledger.backlog.get(pod_info.uid) is not None
    assert follower.ledger.backlog.get("uid-lost") is None
    assert follower.ledger.state("uid-ghost") is State.FREE
    assert await follower.auditor.audit() == ()
    assert follower.reports == [len(found), 0]


class StagedAuditor(auditor.Auditor):
    """An audit whose comparisons find what they are given."""

    def __init__(self, *comparisons: tuple[Difference, ...] | errors.ClientError) -> None:
        self.comparisons = list(comparisons)
        self.reports: list[int] = []
        self.resyncs = 0
        super().__init__(
            None,  # type: ignore[arg-type]  # nothing is read
            Ledger(time.monotonic),
            feeds.DEFAULTS,
            report=self.reports.append,
            resync=self._count_resync,
            revisions=lambda _: {},
        )

    async def _count_resync(self, ghosts: Iterable[str]) -> None:
        assert not ghosts
        self.resyncs += 1

    async def _compare(self) -> tuple[drift.Difference, ...]:
        found = self.comparisons.pop(0)
        if isinstance(found, errors.ClientError):
            raise found
        return found


@pytest.mark.parametrize(
    ("first", "second", "lasting"),
    [
        pytest.param((LOST, LATE), (LOST,), (LOST,), id="one that lasts and one that passes"),
        pytest.param((LATE,), (LOST,), (), id="two that pass"),
        pytest.param((LATE,), (), (), id="one that passes"),
    ],
)
@timeless.scenario
async def test_only_what_both_comparisons_find_is_drift(
    first: tuple[Difference, ...], second: tuple[Difference, ...], lasting: tuple[Difference, ...]
) -> None:
    """Nothing is reported or read anew because of an event that had not come yet."""
    staged = StagedAuditor(first, second)

    assert await staged.audit() == lasting
    assert (staged.reports, staged.resyncs) == ([len(lasting)], len(lasting))


@timeless.scenario
async def test_an_audit_that_cannot_read_comes_later() -> None:
    """A server that is away ends nothing, and is no drift; the next audit is made in its time."""
    staged = StagedAuditor(errors.Unreachable("away", ambiguous=False), ())

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


async def test_all_is_read_and_compared_by_the_auditors_clock(
    server: stub.Stub, stub_session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By it others have their turn, however dear the pods are to read and to compare."""
    following.Cluster(server)
    ticking, ledger = clock.Ticking(1.0), Ledger(time.monotonic)
    given: list[ports.Clock] = []
    made, compared = feeds.Feeds, drift.portions

    def read(*parts: Any) -> feeds.Feeds:
        given.append(parts[-1].clock)
        return made(*parts)

    def portions(ledger: Ledger, fresh: Ledger, clock: ports.Clock) -> Any:
        given.append(clock)
        return compared(ledger, fresh, clock)

    monkeypatch.setattr(feeds, "Feeds", read)
    monkeypatch.setattr(drift, "portions", portions)
    audit = auditor.Auditor(
        stub_session,
        ledger,
        feeds.Options(clock=ticking),
        report=lambda _: None,
        resync=None,  # type: ignore[arg-type]
        revisions=lambda _: {},
    )

    await audit._compare()

    assert given == [ticking, ticking]
