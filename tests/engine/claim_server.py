"""The claims and volumes of an API server in memory, with revisions, a watch, and answers that are lost."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling.volumes import facts

Answer = ports.Written | ports.Refused | ports.Unknown
LOST = ports.Unknown("no answer in time")


class ClaimServer:
    """Keeps claims and volumes, and answers reads and writes of them.

    `before_write` and `after_write` are called around each write; what they return is answered in its place.
    The watch shows changes at once as long as `watched`.
    """

    def __init__(self, ledger: Ledger, *objects: facts.Claim | facts.Volume, watched: bool = True) -> None:
        self._ledger = ledger
        self._revision = 100
        self.watched = watched
        self.claims: dict[facts.ClaimKey, facts.Claim] = {}
        self.volumes: dict[str, facts.Volume] = {}
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.before_write: Callable[[], Answer | None] = lambda: None
        self.after_write: Callable[[], Answer | None] = lambda: None
        for one in objects:
            self.put(one)

    # ------------------------------------------------------------ what others do

    def put(self, thing: facts.Claim | facts.Volume) -> None:
        """Have somebody write a claim or a volume."""
        self._revision += 1
        thing = dataclasses.replace(thing, version=str(self._revision))
        if isinstance(thing, facts.Claim):
            self.claims[thing.key] = thing
        else:
            self.volumes[thing.name] = thing
        if self.watched:
            self.show(thing)

    def show(self, thing: facts.Claim | facts.Volume) -> None:
        """Have the watch show a claim or a volume."""
        known = self._ledger.inventory.volumes
        if isinstance(thing, facts.Claim):
            known.put_claim(thing)
        else:
            known.put_volume(thing)

    def change(self, name: str = "data", **fields: Any) -> None:
        """Have somebody change a claim."""
        self.put(dataclasses.replace(self.claim(name), **fields))

    def drop(self, name: str = "data") -> None:
        """Have somebody delete a claim."""
        del self.claims["ml", name]
        if self.watched:
            self._ledger.inventory.volumes.drop_claim(("ml", name))

    def claim(self, name: str = "data") -> facts.Claim:
        """Return a claim as it is."""
        return self.claims["ml", name]

    def provision(self, name: str = "data", volume: str = "v", **fields: Any) -> None:
        """Play provisioner and controller: make the volume of a claim, and bind both."""
        claim = self.claim(name)
        made = facts.Volume(name=volume, claim=claim.key, claim_uid=claim.uid, phase="Bound")
        self.put(dataclasses.replace(made, **fields))
        self.change(name, volume=volume, is_bound=True)

    def bind_reserved(self, name: str = "data") -> None:
        """Play the controller: bind a claim to the volume that is meant for it."""
        claim = self.claim(name)
        volume = next(one for one in self.volumes.values() if one.claim_uid == claim.uid)
        self.put(dataclasses.replace(volume, phase="Bound"))
        self.change(name, volume=volume.name, is_bound=True)

    # ------------------------------------------------------------ what the operator asks

    async def read_claim(self, claim: facts.Claim) -> facts.Claim | ports.Gone | ports.Unknown:
        """Read a claim."""
        await asyncio.sleep(0.01)
        self.reads.append(claim.name)
        found = self.claims.get(claim.key)
        return found if found is not None and found.uid == claim.uid else ports.Gone()

    async def read_volume(self, name: str) -> facts.Volume | ports.Gone | ports.Unknown:
        """Read a volume."""
        await asyncio.sleep(0.01)
        self.reads.append(name)
        return self.volumes.get(name, ports.Gone())

    async def select_node(self, claim: facts.Claim, node: str) -> Answer:
        """Select a node for a claim that has not changed."""
        return await self._write(
            f"{claim.name} on {node}",
            lambda: self.claims.get(claim.key),
            claim,
            lambda: self.put(dataclasses.replace(claim, selected_node=node)),
        )

    async def reserve_volume(self, volume: facts.Volume, claim: facts.Claim) -> Answer:
        """Mark a volume that has not changed as meant for a claim."""
        meant = dataclasses.replace(volume, claim=claim.key, claim_uid=claim.uid)
        return await self._write(
            f"{volume.name} for {claim.name}",
            lambda: self.volumes.get(volume.name),
            volume,
            lambda: self.put(meant),
        )

    async def _write(
        self,
        what: str,
        find: Callable[[], facts.Claim | facts.Volume | None],
        read: facts.Claim | facts.Volume,
        write: Callable[[], None],
    ) -> Answer:
        await asyncio.sleep(0.01)
        if (answer := self.before_write()) is not None:
            return answer
        if (now := find()) is None or now.version != read.version:
            return ports.Unknown("409 Conflict")
        self.writes.append(what)
        write()
        return self.after_write() or ports.Written()
