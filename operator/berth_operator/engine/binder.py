"""The binder: it carries out decisions to bind, and acts on their outcomes.

Each bind is assumed in the ledger before it is sent, and an assumed hold is never forgotten until it is
certain that the bind did not and will not happen. `bind_sender` sends and follows binds; `bind_refusals` says
when a refused one is tried again; `dry_runs` asks first where the server is likely to refuse;
`slow_namespaces` holds pods back whose binds take long; `volume_binder` gets the claims of a pod their
volumes before its bind is sent.
"""

from typing import Final, assert_never

from berth_operator.engine import (
    bind_sender,
    decision_records,
    dry_runs,
    ports,
    slow_namespaces,
    volume_binder,
)
from berth_operator.engine.decision_reporter import DecisionReporter
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, queued_pods

EDITED: Final = "the pod was edited while it was being bound; it will be scheduled again"


class Binder:
    """Binds pods, a limited number at once."""

    def __init__(
        self,
        ledger: Ledger,
        writer: ports.Writer,
        observer: DecisionReporter,
        *,
        clock: ports.Clock,
        limits: bind_sender.Limits,
        records: decision_records.DecisionRecords,
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._observer = observer
        self._clock = clock
        self._bind_sender = bind_sender.BindSender(ledger, writer, clock, limits, records)
        self._bind_sender.on_outcome = self._conclude
        self._bind_sender.on_delay = observer.bind_unconfirmed
        self._dry_runs = dry_runs.DryRuns(
            ledger, writer, records, self._bind_sender, clock=clock, failed=observer.bind_failed
        )
        self._volume_binder = volume_binder.VolumeBinder(ledger, writer, clock, records)
        self._volume_binder.on_outcome = self._volumes_concluded
        self._volume_binder.on_delay = observer.volumes_awaited
        self._slow_namespaces = slow_namespaces.SlowNamespaces(
            ledger, self._bind_sender, observer.bind_suspended
        )

    # ------------------------------------------------------------ what may be decided

    @property
    def busy(self) -> bool:
        """Whether binds are under way."""
        return self._bind_sender.busy

    @property
    def has_too_many_unanswered(self) -> bool:
        """Whether so many binds have no answer yet that no more should be decided."""
        return self._bind_sender.full

    def is_suspended(self, namespace: str) -> bool:
        """Whether the pods of a namespace must wait for binds of it that take long."""
        return self._slow_namespaces.is_suspended(namespace)

    async def wait_until_it_may_bind(self) -> None:
        """Wait until more binds may be decided."""
        await self._bind_sender.wait_for_room()
        await self._writer.wait_until_leading()

    def resume_due(self, now: float) -> None:
        """Repeat the dry runs and looks that are due, and let namespaces go on that were held up."""
        self._dry_runs.retry()
        self._bind_sender.follow_unseen(now)
        self._slow_namespaces.resume(now)
        self._volume_binder.resume_due(now)

    def next_due(self) -> float | None:
        """Return when `resume_due` has something to do; None if only an event can bring that about."""
        moments = (
            self._dry_runs.refusals.next_retry(),
            self._slow_namespaces.next_due(),
            self._volume_binder.next_due(),
            self._bind_sender.next_look(),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    # ------------------------------------------------------------ from a decision to its end

    def bind(self, decision: decisions.Bind) -> None:
        """Start to bind a pod, with a dry run first where the server is likely to refuse."""
        pod_info = self._ledger.backlog.get(decision.uid)
        if pod_info is not None and self._dry_runs.refusals.needs_dry_run(pod_info, self._clock()):
            self._dry_runs.start(pod_info, decision.placement)
            return
        pod_info = self._ledger.assume(decision)
        if self._volume_binder.is_needed(pod_info):
            self._volume_binder.start(pod_info, decision.placement)
        else:
            self._bind_sender.start(pod_info, decision.placement)

    async def drain(self) -> None:
        """Drop what is not sent, and wait for the binds under way; `bind` must not be called any more."""
        await self._dry_runs.stop()
        await self._volume_binder.stop()
        await self._bind_sender.drain()

    def _volumes_concluded(
        self,
        pod_info: queued_pods.PodInfo,
        placement: decisions.Placement,
        outcome: volume_binder.Outcome,
    ) -> None:
        """Send the bind of a pod whose volumes are there; otherwise it waits again, without its cards."""
        if self._ledger.state(pod_info.uid) is not State.ASSUMED:
            return  # It is gone, or another scheduler bound it.
        match outcome:
            case volume_binder.Ready():
                self._bind_sender.start(pod_info, placement)
            case volume_binder.Failed(message, claim):
                # The next decision finds another node, so the pod need not come after all others.
                self._volume_binder.pass_over(claim, placement.node)
                self._ledger.forget(pod_info.uid, refused=False)
                self._observer.volumes_failed(pod_info, placement, message)
            case ports.Refused(message):
                self._ledger.forget(pod_info.uid, refused=True)
                self._observer.volumes_failed(pod_info, placement, message)
            case ports.Unsent():
                self._take_back(pod_info, placement, outcome)
            case _:
                assert_never(outcome)

    def _conclude(
        self, pod_info: queued_pods.PodInfo, placement: decisions.Placement, outcome: ports.Outcome
    ) -> None:
        match outcome:
            case ports.Bound():
                self._dry_runs.refusals.forget(pod_info.uid)
                self._observer.bound(pod_info, placement)
            case ports.Gone():
                self._dry_runs.refusals.pod_deleted(pod_info.namespace, self._clock())
                self._ledger.pod_over(pod_info.uid)
            case ports.Refused() | ports.Throttled() | ports.Unsent():
                self._take_back(pod_info, placement, outcome)
            case ports.Unknown():
                raise AssertionError("a bind is followed until its outcome is clear")
            case _:
                assert_never(outcome)

    def _take_back(
        self,
        pod_info: queued_pods.PodInfo,
        placement: decisions.Placement,
        outcome: ports.Refused | ports.Throttled | ports.Unsent,
    ) -> None:
        if isinstance(outcome, ports.Throttled):
            self._bind_sender.back_off(pod_info.namespace, outcome)
        # The watch may have been faster than the answer, and then it is right.
        if self._ledger.state(pod_info.uid) is State.ASSUMED:
            message = self._fault(pod_info, outcome)
            self._ledger.forget(pod_info.uid, refused=bool(message))
            if message:
                self._dry_runs.refusals.bind_refused(pod_info, placement, self._clock())
                self._observer.bind_failed(pod_info, message)

    def _fault(self, pod_info: queued_pods.PodInfo, outcome: ports.Outcome) -> str:
        """Return why a bind failed if the pod itself is the cause, so that it must not keep its cards.

        A pod may be edited while it is bound; one that is edited all the time would keep a card from all
        others.
        """
        match outcome:
            case ports.Refused(message):
                return message
            case ports.Unsent(edited=True) if self._dry_runs.refusals.pod_edited(pod_info, self._clock()):
                return EDITED
        return ""
