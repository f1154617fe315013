"""Leadership: one Lease, taken by compare-and-set, timed by a monotonic clock.

A candidate may take the Lease when it is empty, when its holder released it, or when it
has not changed for its whole duration as *we* watched, so that no two clocks are ever
compared. The leader renews; when it has not managed to for the renew deadline, which is
shorter than the duration, it has lost, and the process must end before it can write
again. Every acquisition changes `leaseTransitions`; holder and transitions together are
the term that each Binding carries.

Each write also carries the declaration: for which pods binds may be under way
(`engine.declaration`). Whoever takes the Lease over learns it from the very revision that
was replaced, so that nothing can be declared in between. What a person changed in the
Lease is put right by the next renewal, or costs the lead.
"""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import logging
import math
from collections.abc import Callable, Collection
from typing import Final, TypeVar

import msgspec

from berth_crds import names, wire
from berth_crds.client import api, errors, history, lease, resources
from berth_operator import settings
from berth_operator.engine import ports

log = logging.getLogger(__name__)

T = TypeVar("T")
Wall = Callable[[], dt.datetime]

# Written by a holder that has ended in order, and by nobody else: a mark, as client-go leaves it.
RELEASED_SECONDS: Final = 1
MOST_TRANSITIONS: Final = 2**31 - 1  # What the field holds.
HUNG_SECONDS: Final = 15.0  # A program that does not turn for so long never will.


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """How long a Lease lasts, how long its renewal may take, how often it is tried: seconds."""

    duration: float = 6.0
    renew_deadline: float = 4.0
    retry: float = 1.0


class Lost(Exception):
    """Leadership is over."""


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """One reign: its name, whether the one before it ended in order, and what that had declared, if so."""

    name: str
    clean: bool
    inherited: str | None = None

    @property
    def transitions(self) -> int:
        """Its number, as the Lease counts."""
        return int(self.name.rpartition("/")[2])


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """A Lease as it was last read, and when it was first seen like this."""

    version: str
    since: float


@dataclasses.dataclass(frozen=True, slots=True)
class Means:
    """What the elector needs of the world.

    `idle` tells for how long the program has done nothing: one that hangs gives the lead up.
    `restored` is told what proves that the server's data were restored from an older copy.
    """

    clock: ports.Clock
    wall: Wall
    idle: Callable[[], float]
    restored: Callable[[str], None]


class Elector:
    """Campaigns for the Lease and keeps it."""

    def __init__(self, session: api.Api, identity: str, timing: Timing, means: Means) -> None:
        self._session = session
        self._identity = identity
        self._timing = timing
        self._clock = means.clock
        self._wall = means.wall
        self._idle = means.idle
        self._restored = means.restored
        self._sight: Sight | None = None
        self._held: lease.Lease | None = None
        self._renewed = 0.0
        self._turn = asyncio.Lock()  # A renewal and the release must not overtake each other.
        self._hurry = asyncio.Event()
        self._wanted: str | None = None  # The declaration that the next write carries.
        self._declared = asyncio.Condition()
        self._doubts = self._settled = 0
        self._failing = False  # Whether the last renewal failed: then nobody is in a hurry for the next.

    def leads(self) -> bool:
        """Whether the lead is surely still ours, by our own clock: what is asked before each bind."""
        return self._held is not None and self._left() > 0

    def steady(self) -> bool:
        """Whether the Lease was also renewed since there was last a doubt of the server."""
        return self.leads() and self._settled == self._doubts

    def doubt(self) -> None:
        """Have the Lease renewed before anything else is taken for granted: the server was not there."""
        self._doubts += 1
        self._hurry.set()

    def _left(self) -> float:
        return self._renewed + self._timing.renew_deadline - self._clock()

    # ------------------------------------------------------------ winning

    async def campaign(self) -> Term:
        """Wait until the Lease is ours."""
        log.info("campaigning for the lead as %s", self._identity)
        while True:
            try:
                async with asyncio.timeout(self._timing.renew_deadline):
                    term = await self._try()
            except (errors.ClientError, TimeoutError) as error:
                log.warning(
                    "the leader's Lease cannot be read or taken: %s", str(error) or "no answer in time"
                )
                term = None
            if term is not None:
                return term
            await asyncio.sleep(self._timing.retry)

    async def _try(self) -> Term | None:
        current = await self._read()
        if current is not None and not self._free(current):
            return None
        sent = self._clock()
        inherited = _declaration(current) if current is not None else None
        self._wanted = inherited  # Until another declaration is made, that of the one before counts.
        try:
            self._held = await self._write(self._taken(current), new=current is None)
        except errors.Conflict:
            return None
        self._renewed = sent
        clean = current is not None and _is_released(current.spec)
        return Term(f"{self._identity}/{self._held.spec.lease_transitions}", clean, inherited)

    def _free(self, current: lease.Lease) -> bool:
        # A Lease that names us is one that we took without hearing the answer: we take it again.
        if current.spec.holder_identity in {None, "", self._identity}:
            return True
        version, now = current.metadata.resource_version, self._clock()
        if self._sight is None or self._sight.version != version:
            if self._sight is not None:
                self._compare(version, self._sight.version)
            self._sight = Sight(version, now)
        # A Lease that promises more was edited; to respect it would leave the cluster without a leader.
        promised = min(current.spec.lease_duration_seconds or 0, settings.LONGEST_LEASE_SECONDS)
        return now - self._sight.since > max(promised, self._timing.duration)

    def _taken(self, current: lease.Lease | None) -> lease.Lease:
        before = (current.spec.lease_transitions or 0) if current is not None else 0
        spec = lease.LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._seconds(),
            acquire_time=lease.stamp(self._wall()),
            renew_time=lease.stamp(self._wall()),
            # What makes a term another one is its holder's name: the number may begin anew.
            lease_transitions=before + 1 if before < MOST_TRANSITIONS else 1,
        )
        return self._lease(spec, current.metadata if current is not None else wire.Meta())

    def _seconds(self) -> int:
        return max(math.ceil(self._timing.duration), RELEASED_SECONDS + 1)

    def _compare(self, version: str, before: str) -> None:
        """Find out whether the server's data were restored: the revisions of one Lease only grow."""
        if history.earlier(version, before):
            self._restored(f"the leader's Lease is at revision {version}, after {before}")

    # ------------------------------------------------------------ keeping

    async def hold(self, renewed: Callable[[], None] = lambda: None) -> None:
        """Renew until released, and tell `renewed` of each; raise Lost as soon as that is too late."""
        while True:
            await self._rest()
            async with self._turn:
                if self._held is None:
                    return
                if self._left() <= 0:
                    raise Lost(f"the Lease was not renewed for {self._timing.renew_deadline:g} s")
                if (idle := self._idle()) > HUNG_SECONDS:
                    raise Lost(f"the program has hung for {idle:.0f} s")
                await self._renew(self._held)
                if not self._failing:
                    renewed()

    async def _rest(self) -> None:
        """Wait until the next renewal is due, or wanted at once; one that took long is followed at once."""
        if self._failing:
            await asyncio.sleep(max(0.0, min(self._timing.retry, self._left())))
        else:
            seconds = max(0.0, self._renewed + self._timing.retry - self._clock())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._hurry.wait()
        self._hurry.clear()

    async def _renew(self, held: lease.Lease) -> None:
        sent, doubts = self._clock(), self._doubts
        spec = msgspec.structs.replace(
            held.spec, renew_time=lease.stamp(self._wall()), lease_duration_seconds=self._seconds()
        )
        thing = self._lease(spec, held.metadata)
        try:
            self._held = await self._insist(thing)
        except errors.Conflict as error:
            self._failed(error)
            await self._reread(thing, sent)
        except errors.NotFound as error:
            if not isinstance(error, errors.AmbiguousNotFound):
                raise Lost("the Lease was deleted") from error
            self._failed(error)
        except (errors.ClientError, TimeoutError) as error:
            self._failed(error)
        else:
            self._compare(self._held.metadata.resource_version, held.metadata.resource_version)
            self._renewed, self._settled, self._failing = sent, doubts, False
            async with self._declared:
                self._declared.notify_all()

    async def _insist(self, thing: lease.Lease) -> lease.Lease:
        """Write within the time that is left, and after half of it once more beside that.

        A server that is slow has all the time, and a connection that died silently costs half of it.
        """
        writes = [asyncio.create_task(self._write(thing))]
        try:
            async with asyncio.timeout(self._left()):
                done, _ = await asyncio.wait(writes, timeout=self._left() / 2)
                if not done:
                    writes.append(asyncio.create_task(self._write(thing)))
                return await _answered(writes)
        finally:
            for write in writes:
                write.cancel()
            await asyncio.gather(*writes, return_exceptions=True)

    def _failed(self, error: Exception) -> None:
        self._doubts += 1
        self._failing = True
        level = logging.INFO if isinstance(error, errors.Conflict) else logging.WARNING
        log.log(level, "the Lease was not renewed: %s", str(error) or "no answer in time")

    async def declare(self, text: str) -> None:
        """Have the Lease say this, and wait until it surely does."""
        self._wanted = text
        self._hurry.set()
        async with self._declared:
            await self._declared.wait_for(lambda: self._held is None or _declaration(self._held) == text)

    async def _reread(self, wanted: lease.Lease, sent: float) -> None:
        """Somebody wrote the Lease: perhaps we did, and the answer was lost or is still to come."""
        with contextlib.suppress(errors.ClientError, TimeoutError):
            async with asyncio.timeout(self._left()):
                current = await self._read()
            holder = current.spec.holder_identity if current is not None else None
            if current is None or holder != self._identity:
                raise Lost(f"{holder or 'nobody'} holds the Lease now")
            if current.spec.lease_transitions != wanted.spec.lease_transitions:
                raise Lost("somebody has changed the term in the Lease")
            self._compare(current.metadata.resource_version, wanted.metadata.resource_version)
            self._held = current
            if current.spec.renew_time == wanted.spec.renew_time:
                self._renewed = sent

    async def release(self) -> None:
        """Release the Lease in order, so that the next leader need not wait."""
        with contextlib.suppress(errors.ClientError, TimeoutError):
            async with asyncio.timeout(self._timing.renew_deadline), self._turn:
                held, self._held = self._held, None
                self._hurry.set()
                if held is not None:
                    await self._give_up(held)
                    log.info("released the Lease")

    async def _give_up(self, held: lease.Lease) -> None:
        try:
            await self._write(self._released(held))
        except errors.Conflict:
            # The answer to our last renewal was lost; a Lease of somebody else is left alone.
            current = await self._read()
            if current is not None and current.spec.holder_identity == self._identity:
                await self._write(self._released(current))

    def _released(self, held: lease.Lease) -> lease.Lease:
        spec = msgspec.structs.replace(held.spec, holder_identity="", lease_duration_seconds=RELEASED_SECONDS)
        return self._lease(spec, held.metadata)

    # ------------------------------------------------------------ writing

    def _lease(self, spec: lease.LeaseSpec, meta: wire.Meta) -> lease.Lease:
        """Make what is written next; labels and annotations of others stay."""
        own = {names.IN_FLIGHT: self._wanted} if self._wanted is not None else {}
        kept = {key: text for key, text in meta.annotations.items() if key != names.IN_FLIGHT}
        return lease.Lease(
            metadata=wire.Meta(
                name=names.LEADER_LEASE,
                namespace=names.SYSTEM_NAMESPACE,
                resource_version=meta.resource_version,
                labels=meta.labels,
                annotations=kept | own,
            ),
            spec=spec,
        )

    async def _read(self) -> lease.Lease | None:
        where = names.SYSTEM_NAMESPACE
        try:
            return await self._session.get(
                resources.LEASES, names.LEADER_LEASE, into=lease.Lease, namespace=where
            )
        except errors.NotFound as error:
            if isinstance(error, errors.AmbiguousNotFound):
                raise
            return None

    async def _write(self, thing: lease.Lease, *, new: bool = False) -> lease.Lease:
        where, name = names.SYSTEM_NAMESPACE, names.LEADER_LEASE
        if new:
            body = await self._session.create(resources.LEASES, thing, namespace=where)
        else:
            body = await self._session.replace(resources.LEASES, name, thing, namespace=where)
        return api.decode(body, lease.Lease, path=resources.LEASES.path(name, namespace=where))


async def _answered(writes: Collection[asyncio.Task[T]]) -> T:
    """Return the first answer to any of these; that one has no clear answer says nothing of the others."""
    left = len(writes)
    for answer in asyncio.as_completed(writes):
        left -= 1
        try:
            return await answer
        except (errors.Unreachable, errors.Unavailable):
            if not left:
                raise
    raise AssertionError("nothing was written")


def _is_released(spec: lease.LeaseSpec) -> bool:
    """Return whether the last holder gave it up in order; a person who only empties its name does not."""
    return not spec.holder_identity and spec.lease_duration_seconds == RELEASED_SECONDS


def _declaration(current: lease.Lease) -> str | None:
    return current.metadata.annotations.get(names.IN_FLIGHT)
