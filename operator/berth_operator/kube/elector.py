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
from collections.abc import Callable
from typing import Final

import msgspec

from berth_crds import names, wire
from berth_crds.client import api, errors, lease, resources
from berth_operator.engine import ports

log = logging.getLogger(__name__)

Wall = Callable[[], dt.datetime]


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

    # ------------------------------------------------------------ winning

    async def campaign(self) -> Term:
        """Wait until the Lease is ours."""
        log.info("campaigning for the lead as %s", self._identity)
        while True:
            try:
                async with asyncio.timeout(self._timing.renew_deadline):
                    term = await self._try()
            except (errors.ClientError, TimeoutError) as error:
                log.warning("the leader's Lease cannot be read or taken: %s", error or "no answer in time")
                term = None
            if term is not None:
                return term
            await asyncio.sleep(self._timing.retry)

    async def _try(self) -> Term | None:
        sent = self._clock()
        try:
            current = await self._session.get(
                resources.LEASES, names.LEADER_LEASE, into=lease.Lease, namespace=names.SYSTEM_NAMESPACE
            )
        except errors.NotFound:
            current = None
        if current is not None and not self._free(current):
            return None
        try:
            self._held = await self._write(self._taken(current), new=current is None)
        except errors.Conflict:
            return None
        self._renewed = sent
        clean = current is not None and not current.spec.holder_identity
        return Term(f"{self._identity}/{self._held.spec.lease_transitions}", clean)

    def _free(self, current: lease.Lease) -> bool:
        if not current.spec.holder_identity:
            return True
        version, now = current.metadata.resource_version, self._clock()
        if self._sight is None or self._sight.version != version:
            self._sight = Sight(version, now)
        duration = max(current.spec.lease_duration_seconds or 0, self._timing.duration)
        return now - self._sight.since > duration

    def _taken(self, current: lease.Lease | None) -> lease.Lease:
        spec = lease.LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=max(1, round(self._timing.duration)),
            acquire_time=lease.stamp(self._wall()),
            renew_time=lease.stamp(self._wall()),
            lease_transitions=((current.spec.lease_transitions or 0) + 1) if current is not None else 1,
        )
        version = current.metadata.resource_version if current is not None else ""
        return _lease(spec, version)

    # ------------------------------------------------------------ keeping

    async def hold(self) -> None:
        """Renew for ever; raise Lost as soon as the renew deadline has passed without success."""
        while True:
            await asyncio.sleep(self._timing.retry)
            left = self._renewed + self._timing.renew_deadline - self._clock()
            if left <= 0:
                raise Lost(f"the Lease was not renewed for {self._timing.renew_deadline:g} s")
            await self._renew(left)

    async def _renew(self, left: float) -> None:
        assert self._held is not None, "renewed only while held"  # noqa: S101
        sent = self._clock()
        spec = msgspec.structs.replace(self._held.spec, renew_time=lease.stamp(self._wall()))
        try:
            async with asyncio.timeout(left):
                self._held = await self._write(_lease(spec, self._held.metadata.resource_version))
        except errors.Conflict:
            await self._reread(left)
        except errors.NotFound as error:
            raise Lost("the Lease was deleted") from error
        except (errors.ClientError, TimeoutError) as error:
            log.warning("the Lease was not renewed: %s", error or "no answer in time")
        else:
            self._renewed = sent

    async def _reread(self, left: float) -> None:
        """Somebody wrote the Lease: perhaps we did, and the answer was lost."""
        with contextlib.suppress(errors.Unreachable, errors.Unavailable, errors.Throttled, TimeoutError):
            async with asyncio.timeout(left):
                current = await self._session.get(
                    resources.LEASES, names.LEADER_LEASE, into=lease.Lease, namespace=names.SYSTEM_NAMESPACE
                )
            if current.spec.holder_identity != self._identity:
                raise Lost(f"{current.spec.holder_identity or 'nobody'} holds the Lease now")
            self._held = current

    async def release(self) -> None:
        """Give the Lease up in order, so that the next leader need not wait."""
        if self._held is None:
            return
        spec = msgspec.structs.replace(self._held.spec, holder_identity="")
        with contextlib.suppress(errors.ClientError, TimeoutError):
            async with asyncio.timeout(self._timing.retry):
                await self._write(_lease(spec, self._held.metadata.resource_version))
                log.info("released the Lease")
        self._held = None

    async def _write(self, thing: lease.Lease, *, new: bool = False) -> lease.Lease:
        where = names.SYSTEM_NAMESPACE
        if new:
            body = await self._session.create(resources.LEASES, thing, namespace=where)
        else:
            body = await self._session.replace(resources.LEASES, names.LEADER_LEASE, thing, namespace=where)
        return _decoder.decode(body)


_decoder: Final = msgspec.json.Decoder(lease.Lease)


def _lease(spec: lease.LeaseSpec, version: str) -> lease.Lease:
    meta = wire.Meta(name=names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE, resource_version=version)
    return lease.Lease(metadata=meta, spec=spec)
