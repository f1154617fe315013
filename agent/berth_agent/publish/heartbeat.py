"""Renews the Lease that says: what you read in this Device is true now.

Others judge the agent by when they see this Lease change. So it must change in time, and only
after a tick that was published; when that is, the loop decides. A Lease in an earlier revision
than the one we wrote shows that the server's data were restored: then the Device comes first.

The measured load of the cards travels along. Where the server refuses that, because its policies are those
of an earlier version, the Lease is renewed as that version would: that the agent is alive matters more. These
policies let an agent change no annotation. So the load belongs to another manager of fields, and an agent
that applies the Lease under its usual name, as one of an earlier version does, leaves it as it is.
"""

import datetime as dt
import logging
from collections.abc import Callable
from typing import Final

from berth_crds import card_load, names, wire
from berth_crds.client import api, errors, history, lease, resources

log = logging.getLogger(__name__)

RENEWALS_WITHOUT_LOAD: Final = 30  # After the server has refused it.


class Heartbeat:
    """Renews the Lease of one node."""

    def __init__(
        self, session: api.Api, node: str, *, identity: str, seconds: int, clock: Callable[[], dt.datetime]
    ) -> None:
        self._session = session
        self._node = node
        self._identity = identity
        self._seconds = seconds
        self._clock = clock
        self._acquired = ""
        self._version = ""
        self._rivals: set[str] = set()
        self._without_load = 0  # So many renewals more.

    async def renew(self, owner: wire.OwnerReference, load: str = "") -> None:
        """Renew the Lease, with the load of the cards as its annotation.

        Another agent that renews it as well is only logged: both publish the truth.
        """
        self._without_load = max(0, self._without_load - 1)
        try:
            await self._renew(owner, None if self._without_load else load)
        except errors.Forbidden as error:
            if self._without_load:
                raise
            await self._renew(owner, None)
            self._without_load = RENEWALS_WITHOUT_LOAD
            log.warning("node %s: the load of its cards is not published for now: %s", self._node, error)

    async def _renew(self, owner: wire.OwnerReference, load: str | None) -> None:
        """Renew the Lease with a load, which may be empty; with None what it has of one stays."""
        try:
            await self._apply(owner, load, version=self._version)
        except (errors.Conflict, errors.NotFound):
            await self._read_again()
            await self._apply(owner, load, version="")

    async def _apply(self, owner: wire.OwnerReference, load: str | None, *, version: str) -> None:
        now = lease.micro_time(self._clock())
        self._acquired = self._acquired or now
        # With the revision of our last write, the server refuses if somebody else has written since.
        expected = {"resourceVersion": version} if version else {}
        metadata: dict[str, object] = {
            "name": self._node,
            "namespace": names.NODES_NAMESPACE,
            "ownerReferences": [owner],
        }
        if load:
            metadata["annotations"] = {names.LOAD: card_load.signed(load, self._identity)}
        spec = lease.LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._seconds,
            acquire_time=self._acquired,
            renew_time=now,
        )
        item = {"metadata": metadata | expected, "spec": spec}
        manager = names.AGENT_MANAGER if load is None else names.AGENT_LOAD_MANAGER
        body = await self._session.apply(resources.LEASES, item, manager=manager)
        self._version = api.decode(body, lease.Lease, path=str(resources.LEASES)).metadata.resource_version

    async def _read_again(self) -> None:
        try:
            found = await self._session.get(
                resources.LEASES, self._node, into=lease.Lease, namespace=names.NODES_NAMESPACE
            )
        except errors.NotFound:
            return
        self._check_revision(found.metadata.resource_version)
        holder = found.spec.holder_identity or ""
        if holder != self._identity and holder not in self._rivals:
            self._rivals.add(holder)
            log.warning(
                "node %s: another agent, %s, renews the same Lease; run exactly one for each node",
                self._node,
                holder,
            )

    def _check_revision(self, version: str) -> None:
        """Raise if the server was restored: the Device may be in an earlier state, too."""
        known, self._version = self._version, version
        if history.is_earlier(version, known):
            evidence = f"the Lease of {self._node} is at revision {version}, after {known}"
            self._session.history.restored(evidence)
            raise errors.Unreachable(f"{evidence}; the Device is published again first", ambiguous=False)
