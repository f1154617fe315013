"""The engine's ports in memory: a writer that answers as told, and a status writer that only listens.

A writer binds everything at once unless a reply was laid out for a pod. Replies are taken
in order; the last one is given again and again. Each says how long it takes, and may have
something happen on the way, such as the watch being faster than the answer.
"""

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable

from berth_operator import metrics
from berth_operator.engine import decision_records, ports
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.volumes import facts as volumes

Outcome = ports.Answer | ports.Unbound | Exception


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What the server says, after how many seconds, and what happens just before that."""

    outcome: Outcome = ports.Bound()  # noqa: RUF009  it cannot be changed
    takes: float = 0.01
    meanwhile: Callable[[], None] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call to the writer: which pod, and when."""

    name: str
    moment: float


class Claims:
    """A server that knows the claims and volumes that a ledger knows, and never one that it does not."""

    async def read_claim(self, claim: volumes.Claim) -> volumes.Claim | ports.Gone | ports.Unknown:
        """Find that nothing has changed."""
        return claim

    async def read_volume(self, name: str) -> volumes.Volume | ports.Gone | ports.Unknown:
        """Find no volume."""
        del name
        return ports.Gone()

    async def select_node(
        self, claim: volumes.Claim, node: str
    ) -> ports.Written | ports.Refused | ports.Unknown:
        """Refuse."""
        return ports.Refused(f"{claim.name} on {node}")

    async def reserve_volume(
        self, volume: volumes.Volume, claim: volumes.Claim
    ) -> ports.Written | ports.Refused | ports.Unknown:
        """Refuse."""
        return ports.Refused(f"{volume.name} for {claim.name}")


class Lead:
    """A lead that nobody disputes; pods have no claims."""

    volumes: ports.VolumeWriter = Claims()

    async def wait_until_leading(self) -> None:
        """Be sure."""

    async def permit(self, uid: str) -> None:
        """Permit everything."""

    async def touch(self, pod_info: queued_pods.PodInfo, version: str) -> None:
        """Leave the pod as it is."""


class Writer(Lead):
    """Carries decisions out, in memory."""

    def __init__(self, clock: ports.Clock) -> None:
        self._clock = clock
        self._replies: dict[tuple[str, str], list[Reply]] = {}
        self.now_open = 0
        self.most_open = 0
        self.binds: list[Call] = []
        self.dry_runs: list[Call] = []
        self.looks: list[Call] = []
        self.voided: list[Call] = []
        self.placements: dict[str, decisions.Placement] = {}

    def when_bound(self, name: str, *replies: Outcome | Reply) -> None:
        """Lay out how binds of a pod are answered."""
        self._lay_out("bind", name, replies)

    def when_dry_run(self, name: str, *replies: Outcome | Reply) -> None:
        """Lay out how dry runs of a pod's bind are answered, where that is not as its bind would be."""
        self._lay_out("dry run", name, replies)

    def when_looked_at(self, name: str, *replies: Outcome | Reply) -> None:
        """Lay out what looks at a pod find."""
        self._lay_out("look", name, replies)

    def _lay_out(self, what: str, name: str, replies: Iterable[Outcome | Reply]) -> None:
        self._replies[what, name] = [one if isinstance(one, Reply) else Reply(one) for one in replies]

    async def bind(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> ports.Answer:
        """Send one Binding."""
        self.placements[pod_info.name] = placement
        answer = await self._answer("bind", pod_info.name, self.binds)
        assert not isinstance(answer, ports.Unbound), "only a look finds that"
        return answer

    async def dry_run(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> ports.Answer:
        """Answer as a bind would be; one that would be accepted still will be."""
        del placement
        what = "dry run" if ("dry run", pod_info.name) in self._replies else "bind"
        replies = self._replies.get((what, pod_info.name), [])
        if what == "bind" and replies and replies[0].outcome == ports.Bound():
            replies.insert(0, replies[0])
        answer = await self._answer(what, pod_info.name, self.dry_runs)
        assert not isinstance(answer, ports.Unbound), "only a look finds that"
        return answer

    async def read_pod(self, pod_info: queued_pods.PodInfo) -> ports.ReadResult:
        """Read the pod."""
        return await self._look(pod_info.name, self.looks)

    async def void(self, pod_info: queued_pods.PodInfo) -> ports.ReadResult:
        """Change the pod and read it."""
        return await self._look(pod_info.name, self.voided)

    async def _look(self, name: str, calls: list[Call]) -> ports.ReadResult:
        answer = await self._answer("look", name, calls)
        assert not isinstance(answer, ports.Throttled), "a look that is throttled is unclear"
        return answer

    async def _answer(self, what: str, name: str, calls: list[Call]) -> ports.Answer | ports.Unbound:
        calls.append(Call(name, self._clock()))
        laid_out = self._replies.get((what, name), [Reply()])
        reply = laid_out.pop(0) if len(laid_out) > 1 else laid_out[0]
        self.now_open += 1
        self.most_open = max(self.most_open, self.now_open)
        try:
            await asyncio.sleep(reply.takes)
        finally:
            self.now_open -= 1
        if reply.meanwhile is not None:
            reply.meanwhile()
        if isinstance(reply.outcome, Exception):
            raise reply.outcome
        return reply.outcome


class PodStatusWriter:
    """Remembers what people were told: of each pod a list of sentences."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, str]] = []
        self.faults: list[tuple[str, decisions.Reason]] = []
        self.shows: dict[str, str] = {}  # What pods showed before anybody told anything, by uid.

    def bound(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        """Report that a pod has its node and cards."""
        self.reports.append((pod_info.name, f"placed on {placement.node}"))

    def unschedulable(
        self, pod_info: queued_pods.PodInfo, message: str, *, fault: decisions.Reason | None = None
    ) -> None:
        """Report that a pod does not fit, and why."""
        self.reports.append((pod_info.name, message))
        if fault is not None:
            self.faults.append((pod_info.name, fault))

    def shown_message(self, uid: str) -> str:
        """Return what a pod showed at first."""
        return self.shows.get(uid, "")

    def not_bound(self, pod_info: queued_pods.PodInfo, message: str) -> None:
        """Report why a pod that fits is not bound."""
        self.reports.append((pod_info.name, message))

    def of(self, name: str) -> list[str]:
        """Return what was told of one pod."""
        return [sentence for who, sentence in self.reports if who == name]


def discarded_records() -> decision_records.DecisionRecords:
    """Return records that no test reads."""
    return decision_records.DecisionRecords(
        metrics.Metrics().scheduling, wall=lambda: dt.datetime.min.replace(tzinfo=dt.UTC)
    )
