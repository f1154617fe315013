"""Reads claims and PersistentVolumes, and writes the one field of each that a scheduler writes.

Each write names the revision that was read, so the server compares and writes in one step: a claim or a
volume that has changed since, or that is another one of the same name, is left as it is. Server policies hold
the operator's account to these fields.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from berth_crds import names
from berth_crds.client import api, errors, resources
from berth_operator.engine import ports
from berth_operator.scheduling.volumes import facts
from berth_operator.translate import raw_volumes, volumes

log = logging.getLogger(__name__)

MANAGER: Final = f"{names.OPERATOR_MANAGER}-volumes"
WRITE_SECONDS: Final = 5.0
DEPOSED: Final = "this replica is no longer the leader; the new leader will bind the pod"
REFUSALS: Final = (errors.BadRequest, errors.Forbidden, errors.Unauthorized, errors.Invalid, errors.Oversized)


class VolumeWriter:
    """Reads and writes claims and volumes; it writes only while `leads` says so."""

    def __init__(self, session: api.Api, leads: Callable[[], bool]) -> None:
        self._session = session
        self._leads = leads

    async def read_claim(self, claim: facts.Claim) -> facts.Claim | ports.Gone | ports.Unknown:
        """Read a claim as it is now."""
        try:
            found = await self._session.find(
                resources.CLAIMS, claim.name, into=raw_volumes.Claim, namespace=claim.namespace
            )
        except (errors.ClientError, msgspec.DecodeError) as error:
            return ports.Unknown(str(error))
        if found is None or found.metadata.uid != claim.uid:
            return ports.Gone()
        return volumes.read_claim(found)

    async def read_volume(self, name: str) -> facts.Volume | ports.Gone | ports.Unknown:
        """Read a PersistentVolume as it is now."""
        try:
            found = await self._session.find(resources.VOLUMES, name, into=raw_volumes.Volume)
        except (errors.ClientError, msgspec.DecodeError) as error:
            return ports.Unknown(str(error))
        return volumes.read_volume(found) if found is not None else ports.Gone()

    async def select_node(
        self, claim: facts.Claim, node: str
    ) -> ports.Written | ports.Refused | ports.Unknown:
        """Write for which node the volume of a claim is to be made."""
        path = resources.CLAIMS.path(claim.name, namespace=claim.namespace)
        log.info("claim %s/%s: node %s is selected for its volume", claim.namespace, claim.name, node)
        return await self._patch(path, selection(claim, node))

    async def reserve_volume(
        self, volume: facts.Volume, claim: facts.Claim
    ) -> ports.Written | ports.Refused | ports.Unknown:
        """Write for which claim a volume is meant."""
        log.info("volume %s is meant for claim %s/%s", volume.name, claim.namespace, claim.name)
        return await self._patch(resources.VOLUMES.path(volume.name), reservation(volume, claim))

    async def _patch(self, path: str, patch: dict[str, Any]) -> ports.Written | ports.Refused | ports.Unknown:
        if not self._leads():
            # A process that was suspended must not go on with its writes when it wakes up.
            return ports.Refused(DEPOSED)
        try:
            await self._session.send(
                "PATCH",
                path,
                params={"fieldManager": MANAGER},
                body=msgspec.json.encode(patch),
                content=api.MERGE_PATCH,
                deadline=WRITE_SECONDS,
            )
        except errors.ClientError as error:
            if isinstance(error, REFUSALS):
                return ports.Refused(str(error))
            return ports.Unknown(str(error))
        return ports.Written()


def selection(claim: facts.Claim, node: str) -> dict[str, Any]:
    """Return the merge patch that selects a node for a claim which is as it was read."""
    annotations = {volumes.SELECTED_NODE: node}
    return {"metadata": {"resourceVersion": claim.version, "annotations": annotations}}


def reservation(volume: facts.Volume, claim: facts.Claim) -> dict[str, Any]:
    """Return the merge patch that marks a volume which is as it was read as meant for a claim."""
    reference = {
        "apiVersion": resources.CLAIMS.api_version,
        "kind": resources.CLAIMS.kind,
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.version,
    }
    return {"metadata": {"resourceVersion": volume.version}, "spec": {"claimRef": reference}}
