"""What a verdict costs the API server is the whole pod, so large pods are not told at the pace of others."""

from typing import Any, cast

from berth_crds import wire
from berth_crds.client import api
from berth_operator.engine import rate_limiter
from berth_operator.kube import condition_budget, pod_status
from berth_operator.scheduling import queued_pods
from berth_operator.translate import raw
from kube.telling import Notes
from support import clock, timeless

MIB = 1 << 20


class Server:
    """Accepts verdicts on pods of some size, each by its name, and counts the bytes it had to store."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = sizes
        self.taken: list[tuple[float, str]] = []
        self._now = timeless.clock()

    async def send(self, _method: str, path: str, **_: Any) -> bytes:
        """Answer with a pod of its size."""
        name = path.split("/")[-2]
        self.taken.append((self._now(), name))
        return b'{"metadata":{"resourceVersion":"6"}}'.ljust(self.sizes[name])

    def stored(self, *names: str, since: float) -> int:
        """Count the bytes that were stored of some pods from a moment on."""
        return sum(self.sizes[name] for at, name in self.taken if at >= since and name in names)

    def writer(self) -> pod_status.PodStatusWriter:
        """Make a status writer that writes here."""
        session = cast(api.Api, self)
        return pod_status.PodStatusWriter(
            session, Notes(session), rate_limiter.unlimited(), wall=clock.Clock().wall
        )


def candidate(name: str, namespace: str) -> queued_pods.Candidate:
    """Make a pod that waits."""
    return queued_pods.Candidate(uid=name, namespace=namespace, name=name)


def seen(status_writer: pod_status.PodStatusWriter, *names: str) -> None:
    """Have pods seen that show nothing yet."""
    for name in names:
        status_writer.pod_waiting(raw.Pod(wire.Meta(uid=name, resource_version="5")))


@timeless.scenario
async def test_large_pods_are_told_anew_at_their_own_pace() -> None:
    """Their first verdict comes at once; news of them keeps within the bytes, and delays nobody else."""
    large = [f"large-{at}" for at in range(40)]
    server = Server(**dict.fromkeys(large, MIB), small=4096)
    status_writer, now = server.writer(), timeless.clock()
    seen(status_writer, *large, "small")
    async with timeless.beside(status_writer.run()):
        for name in large:
            status_writer.unschedulable(candidate(name, "mallory"), "at first")
        await timeless.passing(0.5)
        assert server.stored(*large, since=0.0) == 40 * MIB

        began = now()
        for turn in range(100):  # As others' binds come and go, ten a second.
            for name in large:
                status_writer.unschedulable(candidate(name, "mallory"), f"after {turn} binds")
            status_writer.unschedulable(candidate("small", "vic"), f"after {turn} binds")
            await timeless.passing(0.1)
        took = now() - began

    most = condition_budget.NAMESPACE_BYTES * (took + condition_budget.AT_ONCE_SECONDS) + MIB
    assert 0.5 * most <= server.stored(*large, since=began) <= most
    assert [name for _, name in server.taken].count("small") == 100
    assert len({name for at, name in server.taken if at >= began}) > 8  # They take turns.


@timeless.scenario
async def test_many_namespaces_together_keep_within_the_bytes_of_all() -> None:
    """What one namespace may not write, forty may not either; each of them has its turn."""
    names = [f"pod-{at}" for at in range(40)]
    server = Server(**dict.fromkeys(names, MIB))
    status_writer, now = server.writer(), timeless.clock()
    seen(status_writer, *names)
    async with timeless.beside(status_writer.run()):
        for turn in range(100):
            for name in names:
                status_writer.unschedulable(candidate(name, f"of-{name}"), f"after {turn} binds")
            await timeless.passing(0.2)
        took = now()

    rewritten = server.stored(*names, since=0.0) - 40 * MIB
    assert (
        0.5 * condition_budget.BYTES * took
        <= rewritten
        <= condition_budget.BYTES * (took + condition_budget.AT_ONCE_SECONDS) + MIB
    )
    assert min([name for _, name in server.taken].count(each) for each in names) >= 2


@timeless.scenario
async def test_a_write_that_failed_is_not_paid_for() -> None:
    """The server stored nothing, so the next try may come at once."""
    accounts = condition_budget.ConditionBudget(timeless.clock())
    accounts.spend("ml", 3 * MIB)
    assert accounts.exhausted("ml")
    assert not accounts.exhausted("another")
    accounts.spend("ml", -3 * MIB)
    assert not accounts.exhausted("ml")


@timeless.scenario
async def test_namespaces_that_owe_nothing_are_forgotten() -> None:
    """However many there were, only so many are remembered."""
    accounts = condition_budget.ConditionBudget(timeless.clock())
    for at in range(10 * condition_budget.MOST_REMEMBERED):
        accounts.spend(f"ml-{at}", 1)
    assert len(accounts._budgets) <= condition_budget.MOST_REMEMBERED
