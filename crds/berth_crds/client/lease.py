"""Leases: how a program shows that it is alive.

The holder writes; others judge by the moments at which they *saw* it change, on their
own monotonic clock, because the clocks of two machines never agree.
"""

import datetime as dt

from berth_crds import wire


class LeaseSpec(wire.Struct, frozen=True):
    """The holder of the Lease, and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(wire.Struct, frozen=True):
    """One coordination.k8s.io Lease."""

    metadata: wire.Meta
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


def wall() -> dt.datetime:
    """Return the time of day, for timestamps."""
    return dt.datetime.now(dt.UTC)


def micro_time(moment: dt.datetime) -> str:
    """Write a MicroTime, which Leases take in UTC with exactly six decimals."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc3339(moment: dt.datetime) -> str:
    """Write a Time, as conditions and events carry it."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
