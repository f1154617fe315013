"""Keeps our labels on the Node as they should be.

They are written when they should be others, and looked at again now and then, for somebody
may have taken them away. Only an existing Node is written to: its uid goes along, since an
apply would make what is not there. Trouble here keeps nobody from vouching for the Device.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from berth_agent import backoff
from berth_crds import names, wire
from berth_crds.client import api, errors, resources

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS: Final = 600.0
MOST_PAUSE_SECONDS: Final = 60.0


class Labelled(wire.Struct, frozen=True):
    """A Node, of which only the labels matter here."""

    metadata: wire.Meta


class Labeller:
    """Labels one Node; `ours` tells which labels are the agent's."""

    def __init__(
        self, session: api.Api, node: str, *, ours: Callable[[str], bool], chance: Callable[[], float]
    ) -> None:
        self._session = session
        self._node = node
        self._ours = ours
        self._chance = chance
        self._wanted: Mapping[str, str] | None = None
        self._changed = asyncio.Event()
        self._complaint = backoff.Complaint(log, f"node {node} is not labelled")

    def want(self, labels: Mapping[str, str]) -> None:
        """Have the Node bear these labels, and none of ours beside them."""
        if labels != self._wanted:
            self._wanted = labels
            self._changed.set()

    async def run(self) -> None:
        """Label for ever."""
        await self._changed.wait()
        while True:
            self._changed.clear()
            rest = await self._try()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._changed.wait()

    async def _try(self) -> float:
        """Label once, and give how long to rest."""
        try:
            await self._make_so(self._wanted or {})
        except errors.ClientError as error:
            self._complaint.failed(error)
            failures, chance = self._complaint.failures, self._chance()
            return backoff.pause(error, failures, most=MOST_PAUSE_SECONDS, chance=chance)
        self._complaint.succeeded()
        return LOOK_AGAIN_SECONDS

    async def _make_so(self, wanted: Mapping[str, str]) -> None:
        node = await self._session.get(resources.NODES, self._node, into=Labelled)
        if self._said(node) == wanted:
            return
        metadata = {"name": self._node, "uid": node.metadata.uid, "labels": dict(wanted)}
        # What is left out of an apply is taken away where we had written it.
        body = await self._session.apply(resources.NODES, {"metadata": metadata}, manager=names.AGENT_MANAGER)
        left = self._said(api.decode(body, Labelled, path=resources.NODES.path(self._node))).keys()
        if foreign := sorted(left - wanted.keys()):
            await self._take_away(node.metadata.uid, foreign)
        log.info("node %s: labelled", self._node)

    def _said(self, node: Labelled) -> Mapping[str, str]:
        return {key: text for key, text in node.metadata.labels.items() if self._ours(key)}

    async def _take_away(self, uid: str, keys: Sequence[str]) -> None:
        """Take away labels under our names that somebody else has written: nobody would keep them true."""
        body = msgspec.json.encode({"metadata": {"uid": uid, "labels": dict.fromkeys(keys)}})
        path, params = resources.NODES.path(self._node), {"fieldManager": names.AGENT_MANAGER}
        await self._session.send("PATCH", path, params=params, body=body, content=api.MERGE_PATCH)
