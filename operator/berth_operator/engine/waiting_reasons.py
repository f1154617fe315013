"""The reasons why pods wait: one sentence for each, with an explanation if there is time.

The counts of a failing decision are cheap and always there; an explanation of the nodes, with what would
help, takes milliseconds, so a round makes only a few, in the time that is left after deciding. Pods with the
same request share one. An explanation is current until the inventory changes, because its sentence names
nodes and figures. Without time for one, a pod keeps its message while its counts are those that the message
was given for; otherwise it gets the counts in words. A message of an earlier leader is kept until the first
explanation, or until other nodes refuse. `renewed` makes up for explanations that were left out or are of an
older inventory, without any decision: at least one a second, however many pods are new. Tens of thousands of
pods may share one that has changed, and each is a write: so they learn it in turns. An explanation that
was cut short is repeated after all others, with more time and after longer and longer pauses. One that is cut
short for the first time does not replace complete advice found before: it may only have been a busy moment.
How long one may take is counted in CPU time: where other programs take turns on the core, each explanation
would be cut short by the clock, and no pod be told.
"""

import collections
import dataclasses
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, explain, known_models, policy_rules, queued_pods
from berth_operator.scheduling.devices import requests, search_effort
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.nodes import facts

EXPLANATIONS_PER_ROUND: Final = 2  # Each may take some milliseconds.
EXPLANATION_STEPS: Final = 2000  # Of one explanation; a limit where there is no clock, too.
EXPLANATION_SECONDS: Final = 0.008  # From the first step on; before that all nodes are examined at once.
LONGEST_EXPLANATION_SECONDS: Final = 0.024  # Of one that was cut short more than once.
LEAST_SECONDS: Final = 0.015  # With less than that left of a round, none is started.
RENEWAL_SECONDS: Final = 1.0  # Between the rounds that renew reasons.
MOST_TOLD: Final = 1000  # Pods that get a new message at once; each takes some microseconds.
TURN_SECONDS: Final = 0.1  # Until the next ones get theirs.
LONGEST_PAUSE_SECONDS: Final = 60.0  # Between two explanations that are cut short.
# A reason may change so often at once, and then again after so many seconds each: all pods that show it are
# written then.
MOST_CHANGES: Final = 4
CHANGE_SECONDS: Final = 10.0
NEVER: Final = -1

Kind = tuple[requests.DeviceRequest, facts.NodeDemand, str]  # `PodInfo.kind`.


@dataclasses.dataclass(slots=True, eq=False)
class ReasonGroup:
    """Why pods with the same request wait: the last counts, and the last explanation.

    The explanation is current for one version of the inventory; a changed count makes it void. `last_serial`
    is that of the last explanation, or of the group before it has one. `times_cut_short` counts the
    explanations in a row that were cut short; `retry_at` is when the next one may be made. `complete_for` are
    the counts for which the messages were found without being cut short, if they were. `changes_left` is how
    often the messages may change, as of `counted_at`: where nodes change all the time, not all of it is worth
    a write for each pod. `shown` has the uids of the pods by their namespace and the message that they were
    given last, the oldest first.
    """

    pod_info: queued_pods.PodInfo
    last_serial: int
    counts: tuple[decisions.Count, ...] = ()
    version: int = NEVER
    messages: Mapping[str, str] = dataclasses.field(default_factory=dict)  # See `explain.by_namespace`.
    complete_for: tuple[decisions.Count, ...] = ()
    times_cut_short: int = 0
    retry_at: float = math.inf
    changes_left: float = MOST_CHANGES
    counted_at: float = 0.0
    shown: dict[tuple[str, str], dict[str, None]] = dataclasses.field(default_factory=dict)

    def refill_changes(self, now: float) -> bool:
        """Add to `changes_left` what has been gained since; return whether there may be new messages now."""
        gained = max(0.0, now - self.counted_at) / CHANGE_SECONDS
        self.changes_left, self.counted_at = min(MOST_CHANGES, self.changes_left + gained), now
        return not self.messages or self.changes_left >= 1

    @property
    def is_complete(self) -> bool:
        """Whether there are messages for the counts of now that were not cut short."""
        return bool(self.messages) and self.complete_for == self.counts

    def message(self, namespace: str) -> str:
        """Return the message of the last explanation for a namespace, which names no pods of other ones."""
        return self.messages.get(namespace, self.messages.get("", ""))

    def with_old_message(self) -> Iterator[str]:
        """Yield the pods that were given another message than the explanation has, unless that is void."""
        if self.version != NEVER and self.messages:
            for (namespace, message), uids in self.shown.items():
                if message != self.message(namespace):
                    yield from uids


@dataclasses.dataclass(frozen=True, slots=True)
class GivenReason:
    """The message that was given for a pod, and the group and counts that it was given for."""

    group: ReasonGroup
    namespace: str
    message: str
    counts: tuple[decisions.Count, ...]

    def holds_for(self, group: ReasonGroup) -> bool:
        """Whether a group and its counts still are those that the message was given for.

        Nodes that are undecided now may have been decided then: so only the number of nodes counts.
        """
        if any(count.reason is decisions.Reason.UNDECIDED for count in group.counts):
            return self.group is group and _nodes(self.counts) == _nodes(group.counts)
        return self.group is group and self.counts == group.counts


def _nodes(counts: tuple[decisions.Count, ...]) -> int:
    return sum(count.nodes for count in counts)


class WaitingReasons:
    """Finds reasons, and keeps them while nothing changes; `shown` returns what a pod shows, by uid."""

    def __init__(
        self,
        ledger: Ledger,
        shown: Callable[[str], str],
        *,
        clock: ports.Clock | None = None,
        cpu_clock: ports.Clock | None = None,
    ) -> None:
        self._ledger = ledger
        self._shown_message = shown
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._until = math.inf
        self._given: dict[str, GivenReason] = {}
        self._not_bound: dict[str, str] = {}  # Why a pod that fits is not bound, by uid.
        self._groups: dict[Kind, ReasonGroup] = {}
        # With a new explanation that not all pods may have, and whether the first have it.
        self._to_tell: dict[ReasonGroup, bool] = {}
        self._serials = itertools.count()
        self._explained: dict[str, int] = {}  # The order of the last explanation, by namespace.
        self._explanations_left = EXPLANATIONS_PER_ROUND
        self._next = 0.0
        self._next_turn: float | None = None  # Of pods that are to get a new message; None without any.

    def new_round(self, *, until: float = math.inf) -> None:
        """Allow some explanations again, until this moment, and forget the pods that do not wait any more."""
        self._explanations_left, self._until = EXPLANATIONS_PER_ROUND, until
        if len(self._given) + len(self._not_bound) > 2 * len(self._ledger.backlog) + 64:
            self._forget()

    def last_message(self, pod_info: queued_pods.PodInfo) -> str:
        """Return the last message of a pod; empty if it was not decided for yet."""
        if faults := policy_rules.apply(self._ledger.policy, pod_info).faults:
            return explain.sentence(decisions.Reject(pod_info.uid, faults), pod_info)
        if pod_info.uid in self._not_bound:
            return self._not_bound[pod_info.uid]
        given = self._given.get(pod_info.uid)
        return given.message if given is not None else ""

    def pod_placed(self, uid: str) -> None:
        """Forget why a pod had to wait: it has a place now, and if its bind fails, that is another reason."""
        self._take_back(uid)

    def not_bound(self, uid: str, message: str) -> None:
        """Record why a pod that fits is not bound, until it is given another reason."""
        self._not_bound[uid] = message
        self._take_back(uid)

    def message(self, pod_info: queued_pods.PodInfo, decision: decisions.Wait | decisions.Reject) -> str:
        """Return why a pod does not fit."""
        self._not_bound.pop(pod_info.uid, None)
        if isinstance(decision, decisions.Reject):
            return explain.sentence(decision, pod_info)
        kind = pod_info.kind
        if (group := self._groups.get(kind)) is None:
            group = self._groups[kind] = ReasonGroup(pod_info, next(self._serials))
        if group.counts != decision.counts:
            group.counts, group.version = decision.counts, NEVER
        if not self._is_current(group) and self._may_explain and self._may_change(group):
            self._explain(group)
        message = (
            group.message(pod_info.namespace)
            if self._is_current(group)
            else self._without_explanation(pod_info, group)
        )
        self._give(pod_info.uid, GivenReason(group, pod_info.namespace, message, group.counts))
        return message

    def _give(self, uid: str, given: GivenReason) -> None:
        self._take_back(uid)
        self._given[uid] = given
        given.group.shown.setdefault((given.namespace, given.message), {})[uid] = None

    def _take_back(self, uid: str) -> None:
        if (given := self._given.pop(uid, None)) is not None:
            of_message = given.namespace, given.message
            uids = given.group.shown[of_message]
            del uids[uid]
            if not uids:
                del given.group.shown[of_message]

    # ------------------------------------------------------------ what is renewed

    def next_due(self, now: float) -> float | None:
        """Put off a renewal that has nothing to do; return when the next may be, None if no pod waits."""
        if now >= self._next and not self._has_work(now):
            self._next = now + RENEWAL_SECONDS
        if not self._given:
            return None
        return self._next if self._next_turn is None else min(self._next, self._next_turn)

    def _has_work(self, now: float) -> bool:
        to_explain = any(self._of_older_inventory()) or any(self._cut_short(now))
        return to_explain or any(map(self._has_news, self._to_tell))

    def renewed(
        self, now: float, *, explanations: int = EXPLANATIONS_PER_ROUND
    ) -> list[tuple[queued_pods.PodInfo, str]]:
        """Make some explanations that are due, and return the pods with a new message.

        No more than `MOST_TOLD` at once: the others have their turns soon, whether or not the inventory has
        changed again by then.
        """
        if now >= self._next:
            self._next = now + RENEWAL_SECONDS
            self._forget()
            self._renew_explanations(now, explanations)
        elif self._next_turn is None or now < self._next_turn:
            return []
        told = self._told_now()
        self._next_turn = now + TURN_SECONDS if self._to_tell else None
        return told

    def _renew_explanations(self, now: float, explanations: int) -> None:
        """Make some explanations that are due.

        The oldest explanation comes first, so that new pods do not delay older ones, and the namespaces have
        turns; one that was cut short comes last, one a round.
        """
        due = [one for one in self._of_older_inventory() if one.refill_changes(now)]
        groups = self._first_in_turns(due, explanations, key=lambda one: one.last_serial)
        for group in groups or self._first_in_turns(self._cut_short(now), 1, key=lambda one: one.retry_at):
            if not self._may_explain:
                break
            if self._explain(group, now).fits:
                group.messages = {}  # It is decided for soon, and then it has a place or another reason.

    def _told_now(self) -> list[tuple[queued_pods.PodInfo, str]]:
        """Return the pods whose turn it is, with their new messages: of each group with news equally many."""
        found = list[tuple[queued_pods.PodInfo, str]]()
        groups = [one for one in self._to_tell if self._has_news(one)][:MOST_TOLD]
        for group in groups:
            for uid in list(itertools.islice(group.with_old_message(), MOST_TOLD // len(groups))):
                if (pod_info := self._ledger.backlog.get(uid)) is None:
                    self._take_back(uid)
                else:
                    found.append((pod_info, self._renewed(uid)))
            del self._to_tell[group]
            self._to_tell[group] = True  # Behind those that have not had a turn.
        self._to_tell = {one: begun for one, begun in self._to_tell.items() if self._has_news(one)}
        return found

    def _has_news(self, group: ReasonGroup) -> bool:
        """Whether pods of a group are to get its new message: the first ones only while it is current."""
        may_begin = self._to_tell[group] or group.version == self._version
        return may_begin and next(group.with_old_message(), None) is not None

    def _of_older_inventory(self) -> Iterator[ReasonGroup]:
        version = self._version
        return (one for one in self._groups.values() if one.version != version)

    def _cut_short(self, now: float) -> Iterator[ReasonGroup]:
        """Yield the groups whose explanation is to be repeated."""
        return (one for one in self._groups.values() if one.retry_at <= now)

    def _first_in_turns(
        self, groups: Iterable[ReasonGroup], count: int, *, key: Callable[[ReasonGroup], float]
    ) -> list[ReasonGroup]:
        """Return the first group of each namespace, then the second; first of those longest unexplained.

        There may be tens of thousands, and few are wanted: so they are not all sorted.
        """
        by_namespace = collections.defaultdict[str, list[ReasonGroup]](list)
        for group in groups:
            by_namespace[group.pod_info.namespace].append(group)
        first = (
            (turn, self._explained.get(namespace, NEVER), group.last_serial, group)
            for namespace, there in by_namespace.items()
            for turn, group in enumerate(heapq.nsmallest(count, there, key=key))
        )
        return [group for *_, group in heapq.nsmallest(count, first)]

    def _renewed(self, uid: str) -> str:
        given = self._given[uid]
        message = given.group.message(given.namespace)
        self._give(uid, dataclasses.replace(given, message=message, counts=given.group.counts))
        return message

    def _forget(self) -> None:
        """Forget pods that do not wait any more, and then groups without pods; most times there are none."""
        backlog, unbound = self._ledger.backlog, self._ledger.unbound
        for uid in [uid for uid in self._given if uid not in backlog]:
            self._take_back(uid)
        for uid in [uid for uid in self._not_bound if unbound(uid) is None]:
            del self._not_bound[uid]
        for kind in [kind for kind, one in self._groups.items() if not one.shown]:
            del self._groups[kind]
        namespaces = {one.pod_info.namespace for one in self._groups.values()}
        for name in self._explained.keys() - namespaces:
            del self._explained[name]

    # ------------------------------------------------------------ explanations

    @property
    def _version(self) -> int:
        return self._ledger.inventory.table.version

    def _is_current(self, group: ReasonGroup) -> bool:
        return group.version == self._version and bool(group.messages)

    def _explain(self, group: ReasonGroup, now: float | None = None) -> explain.Explanation:
        """Make an explanation; in a renewal with more time, if it was cut short before."""
        self._explanations_left -= 1
        effort = Effort(
            EXPLANATION_STEPS,
            None
            if self._cpu_clock is None
            else search_effort.timer(self._cpu_clock, self._seconds(group, now)),
        )
        explanation = explain.explain(
            self._ledger.search, group.pod_info, policy=self._ledger.policy, effort=effort
        )
        group.last_serial = self._explained[group.pod_info.namespace] = next(self._serials)
        group.version = self._version
        keeps_complete_one = explanation.cut and group.is_complete and not group.times_cut_short
        if not keeps_complete_one:
            messages = explain.by_namespace(explanation, group.pod_info)
            if group.messages and messages != group.messages:
                group.changes_left -= 1
            group.messages = messages
            group.complete_for = () if explanation.cut else group.counts
        self._to_tell.setdefault(group, False)
        group.times_cut_short = group.times_cut_short + 1 if explanation.cut else 0
        pause = min(RENEWAL_SECONDS * (1 << min(group.times_cut_short, 8)), LONGEST_PAUSE_SECONDS)
        group.retry_at = (self._next if now is None else now) + pause if explanation.cut else math.inf
        return explanation

    def _seconds(self, group: ReasonGroup, now: float | None) -> float:
        """Return how long an explanation may work: in a renewal longer, each time that it was cut short."""
        if self._clock is None or now is None:
            return EXPLANATION_SECONDS
        longer = min(EXPLANATION_SECONDS * (1 << min(group.times_cut_short, 8)), LONGEST_EXPLANATION_SECONDS)
        return max(EXPLANATION_SECONDS, min(longer, self._until - self._clock()))

    def _may_change(self, group: ReasonGroup) -> bool:
        """Whether there may be new messages; always where there is no clock."""
        return self._clock is None or group.refill_changes(self._clock())

    @property
    def _may_explain(self) -> bool:
        """Whether the round has time for another explanation."""
        return self._explanations_left > 0 and (
            self._clock is None or self._clock() + LEAST_SECONDS <= self._until
        )

    def _without_explanation(self, pod_info: queued_pods.PodInfo, group: ReasonGroup) -> str:
        """Return the last message of a pod while it holds, else the counts in words."""
        given = self._given.get(pod_info.uid)
        if given is not None and (given.holds_for(group) or not self._may_change(group)):
            return given.message
        if given is None and (message := self._shown_message(pod_info.uid)):
            return message  # Of an earlier leader.
        known = known_models.instead(group.counts, self._ledger.inventory, pod_info.request.conditions.uuids)
        return explain.brief(group.counts, pod_info, known)
