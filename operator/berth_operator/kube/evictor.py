"""Evicts pods from silent nodes and from sick or cordoned cards, by the policy (`engine.evictions`).

By the Eviction API, so that PodDisruptionBudgets hold: what one forbids is tried again later, and holds up
no other pod. Each pod is read before: one that ends anyway is left alone, and so is one that would come
back to the same node at once, as those of DaemonSets and of files on the node do.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from typing import Final

from berth_crds import logs, wire
from berth_crds.client import api, errors, resources
from berth_operator import metrics
from berth_operator.engine import evictions, ports, rate_limiter
from berth_operator.engine.evictions import Eviction
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import events
from berth_operator.scheduling.policy import Policy

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
FULL_PASS_SECONDS: Final = 300.0
LEARNED_AT_ONCE: Final = 500  # Nodes between two awaits.
EVICTIONS_PER_SECOND: Final = 1.0  # Evictions, at most.
RETRY_SECONDS: Final = 10.0  # The least until a refused eviction is sent again.
REASON: Final = "EvictedByBerth"
MIRROR: Final = "kubernetes.io/config.mirror"
STAYING_OWNERS: Final = frozenset({"DaemonSet", "Node"})


class HolderSpec(wire.Struct, frozen=True):
    """On which node a pod is."""

    node_name: str = ""


class HolderPod(wire.Struct, frozen=True):
    """A pod that holds cards."""

    metadata: wire.Meta
    spec: HolderSpec = HolderSpec()


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What the evictor has beside session and ledger: the clock, and whom it tells."""

    clock: ports.Clock
    record: Callable[[events.Event], None]
    metrics: metrics.Consequences
    leads: Callable[[], bool] = lambda: True
    is_ready: Callable[[str], bool] = lambda _node: True  # Whether its agent has reported since we began.


class Evictor:
    """Evicts the pods that are due, one after the other."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        limiter: rate_limiter.RateLimiter,
        surroundings: Surroundings,
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._changes = ledger.changes.reader()
        self._rate_limiter = limiter
        self._around = surroundings
        self._plan = evictions.EvictionPlan(surroundings.is_ready)
        self._policy: Policy | None = None
        self._next_full_pass = 0.0
        self._refused: set[str] = set()  # Uids of pods of which the log has said so.
        self._breaker_open = False

    async def run(self) -> None:
        """Evict for ever."""
        while True:
            await self.catch_up()
            await asyncio.sleep(LOOK_SECONDS)

    async def catch_up(self) -> None:
        """Evict all pods that may be evicted by now, and examine one that the breaker keeps back."""
        if self._plan_is_stale():
            await self._learn_all()
        while self._next() is not None:
            await self._rate_limiter.acquire()
            if (one := self._next()) is not None and self._around.leads():
                await self._settle(one)
        one = self._plan.to_examine(self._around.clock(), suspects=self._ledger.suspects)
        if one is not None and self._around.leads():
            await self._settle(one, only_examine=True)

    def _plan_is_stale(self) -> bool:
        """Whether all nodes are to be looked at: the policy has changed, or it is time."""
        return self._ledger.policy is not self._policy or self._around.clock() >= self._next_full_pass

    async def _learn_all(self) -> None:
        """Have the plan learn how all nodes are; other tasks run in between."""
        self._refused &= self._plan.uids
        self._changes.read()  # Who changes from now on is read after this.
        policy = self._policy = self._ledger.policy
        self._next_full_pass = self._around.clock() + FULL_PASS_SECONDS
        inventory = self._ledger.inventory
        nodes = sorted(self._plan.known.union(inventory.index))
        for at in range(0, len(nodes), LEARNED_AT_ONCE):
            self._plan.update(inventory, nodes[at : at + LEARNED_AT_ONCE], policy, self._around.clock())
            await asyncio.sleep(0)

    def _next(self) -> Eviction | None:
        """Return the eviction to send now, given how everything is; none while the plan is stale."""
        changed, now = self._changes.read(), self._around.clock()
        if changed is None:
            self._next_full_pass = now
        if self._plan_is_stale():
            return None
        self._plan.update(self._ledger.inventory, changed or (), self._ledger.policy, now)
        self._report_breaker()
        return self._plan.next(now, suspects=self._ledger.suspects)

    def _report_breaker(self) -> None:
        """Log when the circuit breaker opens and when it closes."""
        is_open = self._plan.breaker_open
        if is_open and not self._breaker_open:
            log.error(
                "pods of %d of %d nodes would be evicted at once, more than %d: evictions are suspended",
                len(self._plan.drained),
                self._plan.nodes,
                self._plan.most_drained,
            )
        elif self._breaker_open and not is_open:
            log.warning("evictions are resumed; nodes with pods to evict: %d", len(self._plan.drained))
        self._breaker_open = is_open
        self._around.metrics.breaker_open.set(is_open)

    async def _settle(self, one: Eviction, *, only_examine: bool = False) -> None:
        """Evict a pod, or learn why not; `only_examine` learns whether it would be evicted."""
        try:
            if await self._may_be_evicted(one):
                if only_examine:
                    self._plan.examined(one.uid)
                else:
                    await self._evict(one)
        except errors.NotFound:
            self._plan.asked(one.uid)
            self._refused.discard(one.uid)
        except errors.ClientError as error:
            self._refuse(one, error)
        else:
            self._refused.discard(one.uid)

    async def _may_be_evicted(self, one: Eviction) -> bool:
        """Read a pod, and return whether its eviction would change anything."""
        namespace, name = one.namespace_and_name
        pod = await self._session.get(resources.PODS, name, into=HolderPod, namespace=namespace)
        if pod.metadata.uid != one.uid or pod.metadata.deletion_timestamp:
            self._plan.asked(one.uid)
            return False
        if pod.spec.node_name != one.node:  # Its bind is under way.
            self._plan.retry(one.uid, self._around.clock() + RETRY_SECONDS)
            return False
        if not comes_back(pod.metadata):
            return True
        self._plan.spare(one.uid)
        log.info(
            "pod %s is not evicted although %s: it would be created again on the same node",
            one.title,
            one.why,
            extra=_about(one),
        )
        return False

    async def _evict(self, one: Eviction) -> None:
        namespace, name = one.namespace_and_name
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": one.uid}},
        }
        await self._session.create(resources.PODS, eviction, namespace=namespace, sub="eviction")
        self._plan.asked(one.uid)
        self._around.metrics.evicted(one.cause)
        pod = events.InvolvedObject(namespace, name, one.uid)
        self._around.record(events.Event(pod, REASON, f"Evicted by Berth: {one.why}.", warning=True))
        log.warning("pod %s is evicted: %s", one.title, one.why, extra=_about(one))

    def _refuse(self, one: Eviction, error: errors.ClientError) -> None:
        """Have an eviction sent again later."""
        pause = max(error.pause, RETRY_SECONDS) if isinstance(error, errors.Throttled) else RETRY_SECONDS
        self._plan.retry(one.uid, self._around.clock() + pause)
        self._around.metrics.evictions_refused.inc()
        level = logging.DEBUG if one.uid in self._refused else logging.WARNING
        self._refused.add(one.uid)
        log.log(level, "pod %s is not evicted yet: %s", one.title, error, extra=_about(one))


def comes_back(meta: wire.Meta) -> bool:
    """Whether whoever made a pod would put it on the same node again."""
    return MIRROR in meta.annotations or any(one.kind in STAYING_OWNERS for one in meta.owner_references)


def _about(one: Eviction) -> dict[str, object]:
    return logs.pod(one.title)
