"""Leader election: one Lease, taken by compare-and-set, timed by a monotonic clock.

A candidate may acquire the Lease when it is empty, when its holder released it, or when it has
not changed for its whole duration while *we* watched it, so that no two clocks are ever compared.
The leader renews it. A leader that could not renew within the renew deadline, which is shorter
than the duration, has lost, and the process must end before it can write again. Every acquisition
changes `leaseTransitions`; holder and transitions together are the term that each Binding carries.

Each write also carries what the next leader has to know (`kube.lease_notes`). It reads that from the
very revision that it replaces, so that nothing can be added in between. What a person changed in the
Lease is put right by the next renewal, or ends the leadership. What follows when it is lost is in
`leadership` (`exit_lost`); what else begins and ends with a term, in `app`; the periods, in `settings`.
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

from berth_crds import names, tasks, wire
from berth_crds.client import api, errors, history, lease, resources
from berth_operator import settings
from berth_operator.engine import ports
from berth_operator.kube import lease_notes, terms

log = logging.getLogger(__name__)

T = TypeVar("T")
WallClock = Callable[[], dt.datetime]

# Written only by a holder that has released the Lease and has no bind under way; client-go does the same.
RELEASED_SECONDS: Final = 1
MOST_TRANSITIONS: Final = 2**31 - 1  # What the field holds.
HUNG_SECONDS: Final = 15.0  # A program whose main loop hangs for so long will not recover.
# How often a candidate reads the Lease for each renewal: to see the last one late delays taking over.
READS_PER_RENEWAL: Final = 4
# While a renewal has had no answer for so long, no bind is sent.
LATE_SECONDS: Final = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """How long a Lease lasts, how long its renewal may take, how often it is tried: seconds."""

    duration: float
    renew_deadline: float
    retry: float


class LeadershipLost(Exception):
    """Leadership is over."""


@dataclasses.dataclass(frozen=True, slots=True)
class Observation:
    """The revision of the Lease that was last read, and when it was first seen."""

    version: str
    since: float


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """What the elector needs beside the server.

    `hung_seconds` returns for how long the main loop has hung: a program that hangs gives the Lease up.
    `restored` is called with the evidence that the server's data were restored from an older copy, and
    `lapsing` with the seconds after which the Lease of another holder lapses, once they are few.
    The Lease is in `namespace`. `stale_revision` returns what the next leader is to know of the agents'
    Leases; as long as it is None, that stays what the last leader wrote.
    """

    clock: ports.Clock
    wall: WallClock
    hung_seconds: Callable[[], float]
    restored: Callable[[str], None]
    namespace: str = names.SYSTEM_NAMESPACE
    stale_revision: Callable[[], int | None] = lambda: None
    lapsing: Callable[[float], object] = lambda _seconds: None


class Elector:
    """Acquires the Lease and renews it."""

    def __init__(self, session: api.Api, identity: str, timing: Timing, environment: Environment) -> None:
        self._session = session
        self._identity = identity
        self._timing = timing
        self._environment = environment
        self._clock = environment.clock
        self._observed: Observation | None = None
        self._lapse_announced: Observation | None = None  # The one that `lapsing` was called for.
        self._held: lease.Lease | None = None
        self._acquiring: asyncio.Task[lease.Lease] | None = None
        self._acquired_clean = False  # Whether the last holder had no bind under way.
        self._renewed = 0.0
        self._renewal_sent = math.inf  # Of a renewal without an answer yet.
        self._writing = asyncio.Lock()  # A renewal and the release must not overtake each other.
        self._renew_now = asyncio.Event()
        self._declaration: str | None = None  # The declaration that the next write carries.
        self._declaration_written = asyncio.Condition()
        self._inherited_stale = 0
        self._doubts = self._confirmed_doubts = 0
        self._failing = False  # Whether the last renewal failed: then `_renew_now` does not hasten the next.

    def leads(self) -> bool:
        """Whether we surely lead, by our own clock; asked before each bind."""
        return self._held is not None and self._remaining() > 0

    def confirmed(self) -> bool:
        """Whether we lead, no renewal is late, and the last came after the last call of `doubt`."""
        is_late = self._clock() - self._renewal_sent > LATE_SECONDS
        return self.leads() and not is_late and self._confirmed_doubts == self._doubts

    def doubt(self) -> None:
        """Renew the Lease at once, and lead unconfirmed until then: the server was unavailable."""
        self._doubts += 1
        self._renew_now.set()

    def _remaining(self) -> float:
        return self._renewed + self._timing.renew_deadline - self._clock()

    # ------------------------------------------------------------ winning

    async def campaign(self) -> terms.Term:
        """Acquire the Lease, however long it takes."""
        log.info("campaigning for the lead as %s", self._identity)
        while True:
            try:
                async with asyncio.timeout(self._timing.renew_deadline):
                    term = await self.try_acquire()
            except (errors.ClientError, TimeoutError) as error:
                log.warning(
                    "the leader's Lease cannot be read or taken: %s", str(error) or "no answer in time"
                )
                pause = self._timing.retry
            else:
                if term is not None:
                    return term
                pause = self._timing.retry / READS_PER_RENEWAL
            await asyncio.sleep(pause)

    async def try_acquire(self) -> terms.Term | None:
        """Acquire the Lease if that is possible now; return the new term then."""
        if (current := await self._read()) is not None and not self._may_acquire(current):
            return None
        sent = self._clock()
        inherited = lease_notes.declaration(current.metadata) if current is not None else None
        self._inherited_stale = lease_notes.stale_revision(current.metadata) if current is not None else 0
        self._declaration = inherited  # Until we declare anything, the declaration of the last leader stays.
        self._acquired_clean = current is not None and _is_released(current.spec)
        lapsed = current is not None and current.spec.holder_identity not in {None, "", self._identity}
        write = self._write(self._acquired(current), new=current is None)
        self._acquiring = asyncio.create_task(write, name="acquire the lead")
        # Where the campaign is cut short, perhaps nobody asks how the write ended.
        self._acquiring.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            # A campaign that is cut short leaves the write to `withdraw`.
            self._held = await asyncio.shield(self._acquiring)
        except errors.Conflict:
            return None
        self._renewed = sent
        return terms.Term(
            f"{self._identity}/{self._held.spec.lease_transitions}",
            self._acquired_clean,
            lapsed,
            inherited,
            self._inherited_stale,
        )

    def _may_acquire(self, current: lease.Lease) -> bool:
        # A Lease that names us is one that we acquired without getting the answer: we acquire it again.
        if current.spec.holder_identity in {None, "", self._identity}:
            return True
        version, now = current.metadata.resource_version, self._clock()
        if self._observed is None or self._observed.version != version:
            if self._observed is not None:
                self._check_revisions(version, self._observed.version)
            self._observed = Observation(version, now)
        # A Lease that promises more was edited; to respect it would leave the cluster without a leader.
        promised = min(current.spec.lease_duration_seconds or 0, settings.LONGEST_LEASE_SECONDS)
        remaining = self._observed.since + max(promised, self._timing.duration) - now
        if 0 <= remaining < self._timing.retry and self._lapse_announced is not self._observed:
            self._lapse_announced = self._observed
            self._environment.lapsing(remaining)
        return remaining < 0

    def _acquired(self, current: lease.Lease | None) -> lease.Lease:
        before = (current.spec.lease_transitions or 0) if current is not None else 0
        spec = lease.LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._seconds(),
            acquire_time=lease.micro_time(self._environment.wall()),
            renew_time=lease.micro_time(self._environment.wall()),
            # The holder's name alone makes a term unique: the number may start again.
            lease_transitions=before + 1 if before < MOST_TRANSITIONS else 1,
        )
        return self._lease(spec, current.metadata if current is not None else wire.Meta())

    def _seconds(self) -> int:
        return max(math.ceil(self._timing.duration), RELEASED_SECONDS + 1)

    def _check_revisions(self, version: str, before: str) -> None:
        """Report a restore of the server's data if a revision is older than one before it."""
        if history.is_earlier(version, before):
            self._environment.restored(f"the leader's Lease is at revision {version}, after {before}")

    # ------------------------------------------------------------ keeping

    async def keep_renewing(self, renewed: Callable[[], object] = lambda: None) -> None:
        """Renew until released, and call `renewed` after each; raise LeadershipLost once it is too late."""
        while True:
            await self._wait_for_renewal()
            async with self._writing:
                if self._held is None:
                    return
                if self._remaining() <= 0:
                    raise LeadershipLost(f"the Lease was not renewed for {self._timing.renew_deadline:g} s")
                if (hung := self._environment.hung_seconds()) > HUNG_SECONDS:
                    raise LeadershipLost(f"the program has hung for {hung:.0f} s")
                await self._renew(self._held)
                if not self._failing:
                    renewed()

    async def _wait_for_renewal(self) -> None:
        """Wait until the next renewal is due, or wanted at once."""
        if self._failing:
            await asyncio.sleep(max(0.0, min(self._timing.retry, self._remaining())))
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._renewed + self._timing.retry - self._clock())):
                    await self._renew_now.wait()
        self._renew_now.clear()

    async def _renew(self, held: lease.Lease) -> None:
        sent, doubts = self._clock(), self._doubts
        spec = msgspec.structs.replace(
            held.spec,
            renew_time=lease.micro_time(self._environment.wall()),
            lease_duration_seconds=self._seconds(),
        )
        desired = self._lease(spec, held.metadata)
        try:
            self._held = await self._write_twice(desired)
        except errors.Conflict as error:
            self._renewal_failed(error)
            await self._read_after_conflict(desired, sent)
        except errors.NotFound as error:
            raise LeadershipLost("the Lease was deleted") from error
        except (errors.ClientError, TimeoutError) as error:
            self._renewal_failed(error)
        else:
            self._check_revisions(self._held.metadata.resource_version, held.metadata.resource_version)
            self._renewed, self._confirmed_doubts, self._failing = sent, doubts, False
            async with self._declaration_written:
                self._declaration_written.notify_all()

    async def _write_twice(self, desired: lease.Lease) -> lease.Lease:
        """Write within the remaining time; after half of it, send the same write once more beside the first.

        A slow server has the whole time, and a connection that died silently costs only half of it.
        """
        writes = [asyncio.create_task(self._write(desired))]
        self._renewal_sent = self._clock()
        try:
            async with asyncio.timeout(self._remaining()):
                done, _ = await asyncio.wait(writes, timeout=self._remaining() / 2)
                if not done:
                    writes.append(asyncio.create_task(self._write(desired)))
                return await _first_answer(writes)
        finally:
            self._renewal_sent = math.inf
            await tasks.end(writes)

    def _renewal_failed(self, error: Exception) -> None:
        self._doubts += 1
        self._failing = True
        log.log(
            logging.INFO if isinstance(error, errors.Conflict) else logging.WARNING,
            "the Lease was not renewed: %s",
            str(error) or "no answer in time",
        )

    async def declare(self, text: str) -> None:
        """Write a declaration into the Lease, and wait until it surely is there."""
        self._declaration = text
        self._renew_now.set()
        async with self._declaration_written:
            await self._declaration_written.wait_for(
                lambda: self._held is None or lease_notes.declaration(self._held.metadata) == text
            )

    async def _read_after_conflict(self, wanted: lease.Lease, sent: float) -> None:
        """Read the Lease after a conflict: an earlier write of ours, whose answer was lost, may have won."""
        with contextlib.suppress(errors.ClientError, TimeoutError):
            async with asyncio.timeout(self._remaining()):
                current = await self._read()
            holder = current.spec.holder_identity if current is not None else None
            if current is None or holder != self._identity:
                raise LeadershipLost(f"{holder or 'nobody'} holds the Lease now")
            if current.spec.lease_transitions != wanted.spec.lease_transitions:
                raise LeadershipLost("somebody has changed the term in the Lease")
            self._check_revisions(current.metadata.resource_version, wanted.metadata.resource_version)
            self._held = current
            if current.spec.renew_time == wanted.spec.renew_time:
                self._renewed = sent

    async def withdraw(self) -> None:
        """End a campaign that was cut short; a Lease that it took is released as the last holder left it."""
        if self._acquiring is None:
            return
        with contextlib.suppress(errors.ClientError, TimeoutError):
            async with asyncio.timeout(self._timing.renew_deadline):
                acquired = await self._acquiring
                self._held = self._held or acquired
        await self.release(clean=self._acquired_clean)

    async def release(self, *, clean: bool) -> None:
        """Release the Lease, so that the next leader need not wait until it lapses.

        If binds may still be under way it is not `clean`, and the next leader waits for their end.
        """
        with contextlib.suppress(errors.ClientError, TimeoutError):
            async with asyncio.timeout(self._timing.renew_deadline), self._writing:
                held, self._held = self._held, None
                self._renew_now.set()
                if held is not None:
                    await self._write_released(held, clean=clean)
                    log.info("released the Lease%s", "" if clean else "; binds may still be under way")

    async def _write_released(self, held: lease.Lease, *, clean: bool) -> None:
        try:
            await self._write(self._released(held, clean=clean))
        except errors.Conflict:
            # The answer to our last renewal was lost; another holder's Lease is left alone.
            current = await self._read()
            if current is not None and current.spec.holder_identity == self._identity:
                await self._write(self._released(current, clean=clean))

    def _released(self, held: lease.Lease, *, clean: bool) -> lease.Lease:
        seconds = RELEASED_SECONDS if clean else self._seconds()
        return self._lease(
            msgspec.structs.replace(held.spec, holder_identity="", lease_duration_seconds=seconds),
            held.metadata,
        )

    # ------------------------------------------------------------ writing

    def _lease(self, spec: lease.LeaseSpec, meta: wire.Meta) -> lease.Lease:
        """Return the Lease to write next; labels and annotations of others stay."""
        known = self._environment.stale_revision()
        stale = self._inherited_stale if known is None else known
        return lease.Lease(
            metadata=wire.Meta(
                name=names.LEADER_LEASE,
                namespace=self._environment.namespace,
                resource_version=meta.resource_version,
                labels=meta.labels,
                annotations=lease_notes.annotations(meta.annotations, self._declaration, stale),
            ),
            spec=spec,
        )

    async def _read(self) -> lease.Lease | None:
        namespace = self._environment.namespace
        return await self._session.find(
            resources.LEASES, names.LEADER_LEASE, into=lease.Lease, namespace=namespace
        )

    async def _write(self, desired: lease.Lease, *, new: bool = False) -> lease.Lease:
        namespace, name = self._environment.namespace, names.LEADER_LEASE
        if new:
            body = await self._session.create(resources.LEASES, desired, namespace=namespace)
        else:
            body = await self._session.replace(resources.LEASES, name, desired, namespace=namespace)
        return api.decode(body, lease.Lease, path=resources.LEASES.path(name, namespace=namespace))


async def _first_answer(writes: Collection[asyncio.Task[T]]) -> T:
    """Return the first clear answer to any of these writes."""
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
    """Whether the last holder released the Lease and had no bind under way; an emptied name is no proof."""
    return not spec.holder_identity and spec.lease_duration_seconds == RELEASED_SECONDS
