"""Renews the Lease that says: what you read in this Device is true now.

Others judge the agent by the moments at which they see this Lease change, so all that
matters is that it changes in time, and only after a tick whose findings the API took.
When that is, the loop decides. A Lease that is found in an earlier revision than we wrote
shows that the server's data were restored: then the Device has to be looked at first.
"""

import datetime as dt
import logging
from collections.abc import Callable

from berth_crds import names, wire
from berth_crds.client import api, errors, history, lease, resources

log = logging.getLogger(__name__)


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

    async def beat(self, owner: wire.OwnerReference) -> None:
        """Renew. An agent that finds another one alive says so and goes on: both tell the truth."""
        try:
            await self._apply(owner, version=self._version)
        except (errors.Conflict, errors.NotFound):
            await self._look()
            await self._apply(owner, version="")

    async def _apply(self, owner: wire.OwnerReference, *, version: str) -> None:
        now = lease.stamp(self._clock())
        self._acquired = self._acquired or now
        # Naming the revision of our last write makes the server tell when somebody else wrote since.
        expected = {"resourceVersion": version} if version else {}
        metadata = {"name": self._node, "namespace": names.NODES_NAMESPACE, "ownerReferences": [owner]}
        spec = lease.LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._seconds,
            acquire_time=self._acquired,
            renew_time=now,
        )
        thing = {"metadata": metadata | expected, "spec": spec}
        body = await self._session.apply(resources.LEASES, thing, manager=names.AGENT_MANAGER)
        written = api.decode(body, lease.Lease, path=str(resources.LEASES))
        self._version = written.metadata.resource_version

    async def _look(self) -> None:
        try:
            found = await self._session.get(
                resources.LEASES, self._node, into=lease.Lease, namespace=names.NODES_NAMESPACE
            )
        except errors.NotFound:
            return
        self._compare(found.metadata.resource_version)
        holder = found.spec.holder_identity or ""
        if holder != self._identity and holder not in self._rivals:
            self._rivals.add(holder)
            log.warning(
                "node %s: another live agent, %s, renews the same Lease; run one for each node",
                self._node,
                holder,
            )

    def _compare(self, version: str) -> None:
        """Renew nothing on the word of a Device that may be of an earlier state."""
        known, self._version = self._version, version
        if history.earlier(version, known):
            evidence = f"the Lease of {self._node} is at revision {version}, after {known}"
            self._session.history.restored(evidence)
            raise errors.Unreachable(f"{evidence}; the Device is published anew first", ambiguous=False)
