"""Leadership: one Lease, taken by compare-and-set, timed by a monotonic clock.

A candidate may take the Lease when it is empty, when its holder released it, or when it
has not changed for its whole duration as *we* watched, so that no two clocks are ever
compared. The leader renews; when it has not managed to for the renew deadline, which is
shorter than the duration, it has lost, and the process must end before it can write
again. Every acquisition raises `leaseTransitions`; holder and transitions together are
the term that each Binding carries.
"""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import logging
import math
from collections.abc import Callable
from typing import Final

import msgspec

from berth_crds import names, wire
from berth_crds.client import api, errors, lease, resources
from berth_operator.engine import ports

log = logging.getLogger(__name__)

Wall = Callable[[], dt.datetime]

# Written by a holder that has ended in order, and by nobody else: a mark, as client-go leaves it.
RELEASED_SECONDS: Final = 1


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
    """One reign: its name, and whether the one before it ended in order."""

    name: str
    clean: bool

    @property
    def transitions(self) -> int:
        """Its number, as the Lease counts."""
        return int(self.name.rpartition("/")[2])


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """A Lease as it was last read, and when it was first seen like this."""

    version: str
    since: float


class Elector:
    """Campaigns for the Lease and keeps it."""

    def __init__(
        self, session: api.Api, identity: str, *, clock: ports.Clock, wall: Wall, timing: Timing
    ) -> None:
        self._session = session
        self._identity = identity
        self._clock = clock
        self._wall = wall
        self._timing = timing
        self._sight: Sight | None = None
        self._held: lease.Lease | None = None
        self._renewed = 0.0
        self._turn = asyncio.Lock()  # A renewal and the release must not overtake each other.

    def leads(self) -> bool:
        """Tell whether the lead is surely still ours, by our own clock: what is asked before each bind."""
        return self._held is not None and self._left() > 0

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
        try:
            self._held = await self._write(self._taken(current), new=current is None)
        except errors.Conflict:
            return None
        self._renewed = sent
        clean = current is not None and _is_released(current.spec)
        return Term(f"{self._identity}/{self._held.spec.lease_transitions}", clean)

    def _free(self, current: lease.Lease) -> bool:
        # A Lease that names us is one that we took without hearing the answer: we take it again.
        if current.spec.holder_identity in {None, "", self._identity}:
            return True
        version, now = current.metadata.resource_version, self._clock()
        if self._sight is None or self._sight.version != version:
            self._sight = Sight(version, now)
        duration = max(current.spec.lease_duration_seconds or 0, self._timing.duration)
        return now - self._sight.since > duration

    def _taken(self, current: lease.Lease | None) -> lease.Lease:
        spec = lease.LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=max(math.ceil(self._timing.duration), RELEASED_SECONDS + 1),
            acquire_time=lease.stamp(self._wall()),
            renew_time=lease.stamp(self._wall()),
            lease_transitions=((current.spec.lease_transitions or 0) + 1) if current is not None else 1,
        )
        version = current.metadata.resource_version if current is not None else ""
        return _lease(spec, version)

    # ------------------------------------------------------------ keeping

    async def hold(self) -> None:
        """Renew until released; raise Lost as soon as the renew deadline has passed without success."""
        while True:
            await asyncio.sleep(max(0.0, min(self._timing.retry, self._left())))
            async with self._turn:
                if self._held is None:
                    return
                if self._left() <= 0:
                    raise Lost(f"the Lease was not renewed for {self._timing.renew_deadline:g} s")
                await self._renew(self._held)

    async def _renew(self, held: lease.Lease) -> None:
        sent = self._clock()
        spec = msgspec.structs.replace(held.spec, renew_time=lease.stamp(self._wall()))
        try:
            # Half the time at most: a connection that died silently must not cost the lead.
            async with asyncio.timeout(min(self._left(), self._timing.renew_deadline / 2)):
                self._held = await self._write(_lease(spec, held.metadata.resource_version))
        except errors.Conflict:
            await self._reread(held)
        except errors.NotFound as error:
            if not isinstance(error, errors.Astray):
                raise Lost("the Lease was deleted") from error
            log.warning("the Lease was not renewed: %s", error)
        except (errors.ClientError, TimeoutError) as error:
            log.warning("the Lease was not renewed: %s", str(error) or "no answer in time")
        else:
            self._renewed = sent

    async def _reread(self, held: lease.Lease) -> None:
        """Somebody wrote the Lease: perhaps we did, and the answer was lost."""
        with contextlib.suppress(errors.ClientError, TimeoutError):
            async with asyncio.timeout(self._left()):
                current = await self._read()
            holder = current.spec.holder_identity if current is not None else None
            if current is None or holder != self._identity:
                raise Lost(f"{holder or 'nobody'} holds the Lease now")
            if current.spec.lease_transitions != held.spec.lease_transitions:
                raise Lost("somebody has changed the term in the Lease")
            self._held = current

    async def release(self) -> None:
        """Give the Lease up in order, so that the next leader need not wait."""
        with contextlib.suppress(errors.ClientError, TimeoutError):
            async with asyncio.timeout(self._timing.renew_deadline), self._turn:
                held, self._held = self._held, None
                if held is not None:
                    await self._give_up(held)
                    log.info("released the Lease")

    async def _give_up(self, held: lease.Lease) -> None:
        try:
            await self._write(_released(held))
        except errors.Conflict:
            # The answer to our last renewal was lost; a Lease of somebody else is left alone.
            current = await self._read()
            if current is not None and current.spec.holder_identity == self._identity:
                await self._write(_released(current))

    # ------------------------------------------------------------ asking

    async def _read(self) -> lease.Lease | None:
        where = names.SYSTEM_NAMESPACE
        try:
            return await self._session.get(
                resources.LEASES, names.LEADER_LEASE, into=lease.Lease, namespace=where
            )
        except errors.NotFound as error:
            if isinstance(error, errors.Astray):
                raise
            return None

    async def _write(self, thing: lease.Lease, *, new: bool = False) -> lease.Lease:
        where, name = names.SYSTEM_NAMESPACE, names.LEADER_LEASE
        if new:
            body = await self._session.create(resources.LEASES, thing, namespace=where)
        else:
            body = await self._session.replace(resources.LEASES, name, thing, namespace=where)
        return api.decode(body, lease.Lease, path=resources.LEASES.path(name, namespace=where))


def _is_released(spec: lease.LeaseSpec) -> bool:
    """Tell whether the last holder gave it up in order; a person who only empties its name does not."""
    return not spec.holder_identity and spec.lease_duration_seconds == RELEASED_SECONDS


def _released(held: lease.Lease) -> lease.Lease:
    spec = msgspec.structs.replace(held.spec, holder_identity="", lease_duration_seconds=RELEASED_SECONDS)
    return _lease(spec, held.metadata.resource_version)


def _lease(spec: lease.LeaseSpec, version: str) -> lease.Lease:
    meta = wire.Meta(name=names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE, resource_version=version)
    return lease.Lease(metadata=meta, spec=spec)
