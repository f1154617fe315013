"""Reports to pods what was decided for them, and what became of their binds.

The reasons are worked out by `waiting_reasons` and written by the pod status writer, both as far as
time allows.
"""

from collections.abc import Iterable
from typing import assert_never

from berth_operator.engine import ports, waiting_reasons
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, queued_pods


class DecisionReporter:
    """Gives decisions and the outcomes of binds to the status writer; observes a binder."""

    def __init__(
        self,
        ledger: Ledger,
        status_writer: ports.PodStatusWriter,
        *,
        clock: ports.Clock,
        cpu_clock: ports.Clock,
    ) -> None:
        self._ledger = ledger
        self._status_writer = status_writer
        self._clock, self.cpu_clock = clock, cpu_clock
        self.reasons = waiting_reasons.WaitingReasons(
            ledger, status_writer.shown_message, clock=clock, cpu_clock=cpu_clock
        )

    def next_explanation_due(self) -> float | None:
        """Return when some reasons are to be renewed, if any pod waits."""
        return self.reasons.next_due(self._clock())

    def requeue_and_report(self, made: Iterable[decisions.Decision], *, until: float) -> None:
        """Report the decisions of a round, and renew some older reasons, in the time until this moment."""
        made = tuple(made)
        self.reasons.new_round(until=until)
        # Before the new ones, which else would take all diagnoses where there are some in each round.
        for pod_info, message in self.reasons.renewed(
            self._clock(), explanations=1 if made else waiting_reasons.EXPLANATIONS_PER_ROUND
        ):
            self._status_writer.unschedulable(pod_info, message)
        for decision in made:
            self._report(decision)

    def _report(self, decision: decisions.Decision) -> None:
        match decision:
            case decisions.Bind() if decision.uid in self._ledger.backlog:
                # A dry run of its bind is under way, and what the pod shows stays until that is answered.
                self._ledger.backlog.back_off(decision.uid, now=self._clock())
            case decisions.Bind():
                self.reasons.pod_placed(decision.uid)  # Reported once it is bound.
            case decisions.Wait() | decisions.Reject():
                self._requeue(decision)
            case _:
                assert_never(decision)

    def _requeue(self, decision: decisions.Wait | decisions.Reject) -> None:
        if (pod_info := self._ledger.backlog.get(decision.uid)) is not None:
            wait = decision if isinstance(decision, decisions.Wait) else None
            self._ledger.backlog.requeue(
                decision.uid,
                now=self._clock(),
                awaited=decision.awaited,
                demoted=wait is not None and wait.cut_short,
                unsearched=wait.unsearched if wait is not None else 0,
                undecided=wait.undecided if wait is not None else frozenset(),
            )
            self._status_writer.unschedulable(
                pod_info,
                self.reasons.message(pod_info, decision),
                fault=decision.refusals[0].reason if isinstance(decision, decisions.Reject) else None,
            )

    # ------------------------------------------------------------ what became of binds

    def bound(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        """Report that a pod was bound."""
        self._status_writer.bound(pod_info, placement)

    def bind_failed(self, pod_info: queued_pods.PodInfo, message: str) -> None:
        """Report why the bind of a pod failed."""
        self._not_bound(pod_info, f"The bind failed: {message}")

    def volumes_awaited(self, pod_info: queued_pods.PodInfo, message: str) -> None:
        """Report which volume a pod waits for, whose cards are held meanwhile."""
        self._not_bound(pod_info, f"Not bound yet: {message}")

    def volumes_failed(
        self, pod_info: queued_pods.PodInfo, placement: decisions.Placement, message: str
    ) -> None:
        """Report why a pod did not get its volumes on a node."""
        self._not_bound(pod_info, f"Not bound to {placement.node}: {message}")

    def bind_unconfirmed(self, pod_info: queued_pods.PodInfo, message: str) -> None:
        """Report that it is not yet clear whether a bind was carried out, given its last answer."""
        self._not_bound(pod_info, f"Bind not confirmed yet, retrying: {message}")

    def bind_suspended(self, pod_info: queued_pods.PodInfo, message: str) -> None:
        """Report why a pod waits before its bind is decided, unless it already shows a reason."""
        if not self._status_writer.shown_message(pod_info.uid):
            self._not_bound(pod_info, f"Not bound yet: {message}")

    def _not_bound(self, pod_info: queued_pods.PodInfo, sentence: str) -> None:
        self.reasons.not_bound(pod_info.uid, sentence)
        self._status_writer.not_bound(pod_info, sentence)
