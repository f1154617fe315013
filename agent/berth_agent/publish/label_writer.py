"""Keeps our labels on the Node as they should be.

They are written when they change, and checked now and then, since somebody may have removed them.
Only an existing Node is written: the apply names its uid, since it would create a Node otherwise.
A failure here does not keep the Lease from being renewed. Which labels there are, `node_labels` says.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from berth_agent import backoff
from berth_crds import names
from berth_crds.client import api, errors, resources

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 600.0
MOST_PAUSE_SECONDS: Final = 60.0


class LabelWriter:
    """Writes the labels of one Node; `ours` says whether a label is the agent's."""

    def __init__(self, session: api.Api, node: str, *, ours: Callable[[str], bool]) -> None:
        self._session = session
        self._node = node
        self._ours = ours
        self._wanted: Mapping[str, str] | None = None
        self._changed = asyncio.Event()
        self._failure_log = backoff.FailureLog(log, f"node {node} is not labelled")

    def set_labels(self, labels: Mapping[str, str]) -> None:
        """Set the labels that the Node should have; others of ours are removed."""
        if labels != self._wanted:
            self._wanted = labels
            self._changed.set()

    async def run(self) -> None:
        """Write labels for ever."""
        await self._changed.wait()
        while True:
            self._changed.clear()
            seconds = await self._write_or_back_off()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    async def _write_or_back_off(self) -> float:
        """Write labels once, and return how long to rest."""
        try:
            await self._write(self._wanted or {})
        except errors.ClientError as error:
            return self._failure_log.failed(error, most=MOST_PAUSE_SECONDS)
        self._failure_log.succeeded()
        return CHECK_SECONDS

    async def _write(self, wanted: Mapping[str, str]) -> None:
        node = await self._session.get(resources.NODES, self._node, into=api.WithMetadata)
        if self._our_labels(node) == wanted:
            return
        metadata = {"name": self._node, "uid": node.metadata.uid, "labels": dict(wanted)}
        # An apply removes the labels of our last apply that it does not name.
        body = await self._session.apply(resources.NODES, {"metadata": metadata}, manager=names.AGENT_MANAGER)
        left = self._our_labels(
            api.decode(body, api.WithMetadata, path=resources.NODES.path(self._node))
        ).keys()
        if foreign := sorted(left - wanted.keys()):
            await self._remove(node.metadata.uid, foreign)
        log.info("node %s: labels are updated", self._node)

    def _our_labels(self, node: api.WithMetadata) -> Mapping[str, str]:
        return {key: text for key, text in node.metadata.labels.items() if self._ours(key)}

    async def _remove(self, uid: str, keys: Sequence[str]) -> None:
        """Remove labels with our names that somebody else wrote: nothing keeps them up to date."""
        body = msgspec.json.encode({"metadata": {"uid": uid, "labels": dict.fromkeys(keys)}})
        path, params = resources.NODES.path(self._node), {"fieldManager": names.AGENT_MANAGER}
        await self._session.send("PATCH", path, params=params, body=body, content=api.MERGE_PATCH)
