"""To which node each card belongs, where several publish its uuid.

A uuid names one card of the world, so a second node that publishes it is in error, or forged. What is
known of a uuid is its history: its owner, which nodes publish it, and from which node it came. Only
these events change the owner:

    a node publishes a uuid without an owner        the node becomes the owner
    ... that its owner publishes, too               the node is late: it gets no card and is no successor
    ... that its owner withdrew, but its pods hold  the node is the successor once these pods end
    the owner withdraws it, and its pods end        the successor becomes the owner, if there is one; for
                                                    a day the old owner may come back: it is the origin
    the origin publishes it again                   the origin becomes the owner once no pod of the
                                                    present owner holds the card
    two nodes published it when Berth started       no node is the owner; when one of them withdraws it
                                                    the other becomes the owner, until the first is back

No node becomes the owner within ten minutes after another has withdrawn a uuid, as long as that one's Node
exists: a card does not move so fast, but may be lost for a while.

Only the owner may give the card out, and no node may while pods elsewhere hold it that were there
when Berth started. All of it is recorded in the Devices, so that the next operator decides the same.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable
from typing import Final

from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.uuid_records import NOTHING, UNKNOWN, Origin, Record, UuidHistory, beside

REMEMBERED_SECONDS: Final = 24 * 3600.0  # For which a node that withdrew a card may come back for it.
MOVING_SECONDS: Final = 600.0  # A card is not believed to be in another node before.
MOST_LEFT: Final = 1024  # Uuids that a node withdrew and no node claims.


class UuidOwnership:
    """All uuids of GPUs and MIG instances, and the nodes that claim them."""

    def __init__(
        self,
        clock: Callable[[], float] = float,
        holds: Callable[[str], Collection[str]] | None = None,
        exists: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Begin with nothing; `holds` returns what pods on a node hold now, by default what `hold` recorded.

        The clock returns the time of day; by default no time passes. `exists` tells whether there is a Node.
        """
        self.ordered = False  # Whether what is published from now on comes later than what is known.
        self.watched: dict[str, set[str]] = {}  # By node, the uuids for which `hold` must be called.
        self._clock = clock
        self._exists = exists
        self._histories: dict[str, UuidHistory] = {}  # By uuid.
        self._published: dict[str, frozenset[str]] = {}  # By node.
        self._held: dict[str, frozenset[str]] = {}  # By node, as it was recorded last.
        self._holding = holds or self._recorded
        self._records: dict[str, Record] = {}  # By node, as it was when all were read.
        self._own: dict[str, Origin] = {}  # Recorded origins that do not publish the uuid now.
        self._vacant: dict[str, None] = {}  # What no node claims, in the order in which it was withdrawn.
        self._left: dict[str, dict[str, None]] = {}  # The same by the node that may come back for it.
        self._moving: dict[str, None] = {}  # What nobody owns, as its origin may only have lost it.
        self._decided: set[str] = set()  # Nodes of which other cards count than before.

    def _recorded(self, node: str) -> frozenset[str]:
        return self._held.get(node, frozenset())

    # ------------------------------------------------------------ what happens

    def publish(
        self, device: device_facts.Device, record: Record = NOTHING, held: Collection[str] = ()
    ) -> set[str]:
        """Apply what a node publishes and its pods hold; return the nodes whose cards that changes.

        What is recorded counts only until all Devices were read: what was seen since is known better.
        """
        node, uuids = device.node, frozenset(device_facts.claimed_uuids(device))
        changed = set(self.of(node) ^ uuids)
        self._published[node] = uuids
        if not self.ordered:
            self._records[node] = record
            self._own |= {uuid: one for uuid, one in record.origins.items() if one.node == node}
            changed |= uuids | record.origins.keys()
        return {node} | self._change(node, changed, held)

    def withdraw(self, node: str, held: Collection[str] = ()) -> set[str]:
        """Forget a Device whose node's pods hold this; return the other nodes whose cards that changes."""
        self._records.pop(node, None)
        return self._change(node, self._published.pop(node, frozenset()), held) - {node}

    def hold(self, node: str, held: Collection[str]) -> set[str]:
        """Record which uuids pods on a node hold now; return the nodes whose cards that changes."""
        return self._change(node, self.watched.get(node, ()), held)

    def _change(self, node: str, uuids: Iterable[str], held: Collection[str]) -> set[str]:
        self._prune()
        before, now = self._recorded(node), frozenset(held)
        self._held[node] = now
        if not now:
            del self._held[node]
        affected: set[str] = set()
        published = self.of(node)
        for uuid in (before ^ now).union(uuids):
            history = self._histories.get(uuid, UNKNOWN)
            after = self._after(node, uuid, history)
            if after != history:
                self._store(uuid, history, after)
                nodes = {*history.published, *history.held, *after.published, *after.held}
                if history.origin or after.origin:
                    nodes |= self._origins(history, after)
                affected |= nodes if uuid in published else nodes - {node}
                if after.owner != history.owner or after.doubts != history.doubts:
                    self._decided |= nodes
        return affected

    def take_decided(self) -> set[str]:
        """Return, once, the nodes of which other cards count than before, because a card changed hands."""
        decided, self._decided = self._decided, set()
        return decided

    def _origins(self, *histories: UuidHistory) -> set[str]:
        """Return the nodes in whose Devices it is recorded that they may come back."""
        return {one.origin.node for one in histories if one.origin is not None} & self._published.keys()

    def _after(self, node: str, uuid: str, history: UuidHistory) -> UuidHistory:
        """Return the history of a uuid after what a node now publishes and holds."""
        publishes, was_live = uuid in self.of(node), node in history.live
        if history is UNKNOWN and publishes and not self._records.get(node, NOTHING).origins:
            held = (node,) if uuid in self._recorded(node) else ()
            return UuidHistory(owner=node, published=(node,), held=held)
        new = publishes and node not in history.published
        published = _among(history.published, node, is_one=publishes)
        changed = UuidHistory(  # Whole, for that is twice as fast, and a Device may have a thousand uuids.
            owner=history.owner,
            origin=history.origin,
            shared=history.shared,
            published=published,
            held=_among(history.held, node, is_one=uuid in self._recorded(node)),
            late=history.late | {node}
            if new and self._is_late(node, history)
            else history.late.intersection(published),
            doubts=history.doubts and frozenset(one for one in history.doubts if uuid in self._holding(one)),
        )
        if not self.ordered:
            return self._settled(uuid, self._read(uuid, changed))
        if was_live and not publishes and not history.owner and len(history.live) > 1:
            changed = dataclasses.replace(changed, origin=Origin(node, self._now()), shared=True)
        return self._settled(uuid, changed)

    def _is_late(self, node: str, history: UuidHistory) -> bool:
        """Whether a node that publishes a uuid is not the first, and does not come back for it."""
        back = history.origin is not None and history.origin.node == node and self._valid(history.origin)
        return bool(history.live) and not back

    # ------------------------------------------------------------ what becomes of it

    def _settled(self, uuid: str, history: UuidHistory) -> UuidHistory:
        """Return a history after the origin has come back, and after an owner without a claim is gone."""
        if history.origin is None and not history.shared and history.owner in history.published:
            return history  # Mostly: the owner publishes it, and whether others do does not matter.
        return self._given(self._returned(uuid, self._vacated(uuid, history)))

    def _owner_holds(self, uuid: str, history: UuidHistory) -> bool:
        return bool(history.owner) and uuid in self._holding(history.owner)

    def _vacated(self, uuid: str, history: UuidHistory) -> UuidHistory:
        """Return the history without an owner that neither publishes the uuid nor has pods that hold it."""
        if not history.owner or history.owner in history.published or self._owner_holds(uuid, history):
            return history
        first = self._valid(history.origin) and not history.shared
        origin = history.origin if first else Origin(history.owner, self._now())
        return dataclasses.replace(history, owner="", origin=origin)

    def _returned(self, uuid: str, history: UuidHistory) -> UuidHistory:
        """Return the history with the origin as owner, if it is back and the pods of the owner have ended."""
        origin, owner = history.origin, history.owner
        if origin is None or origin.node == owner:
            unchanged = origin is None and not history.shared
            return history if unchanged else dataclasses.replace(history, origin=None, shared=False)
        if origin.node not in history.live or not self._valid(origin):
            away = origin if origin.since is not None else Origin(origin.node, self._now())
            return dataclasses.replace(history, origin=away)
        if self._owner_holds(uuid, history):
            return dataclasses.replace(history, origin=Origin(origin.node))
        if history.shared:
            return dataclasses.replace(history, owner="", origin=None, shared=False)
        late = history.late | frozenset(history.live) - {origin.node}
        return dataclasses.replace(history, owner=origin.node, origin=None, shared=False, late=late)

    def _given(self, history: UuidHistory) -> UuidHistory:
        """Return the history with the only node that claims a uuid in time as owner, if there is none."""
        if history.owner:
            return history
        alone = history.live or (() if history.published else history.held)
        if len(alone) != 1 or self._may_be_moving(history, alone[0]):
            return history
        origin = None if history.origin is not None and history.origin.node == alone[0] else history.origin
        return dataclasses.replace(history, owner=alone[0], origin=origin)

    def _may_be_moving(self, history: UuidHistory, node: str) -> bool:
        """Whether another node withdrew a uuid so short a time ago that the card will still be there."""
        origin = history.origin
        return (
            origin is not None
            and origin.since is not None
            and node not in {origin.node, *history.held}
            and self._is_recent(origin.since, MOVING_SECONDS)
            and self._exists(origin.node)
        )

    def settle_moved(self) -> set[str]:
        """Let nodes own the cards that have surely moved to them; return the nodes that this changes."""
        affected: set[str] = set()
        for uuid in list(self._moving):
            for node in self._histories[uuid].live[:1]:
                affected |= self._change(node, (uuid,), self._recorded(node))
        return affected

    # ------------------------------------------------------------ what is recorded

    def _read(self, uuid: str, history: UuidHistory) -> UuidHistory:
        """Return the history according to the records that were read so far."""
        records = {node: self._records.get(node, NOTHING) for node in history.published}
        claimed = [node for node, one in records.items() if uuid in one.claims]
        late = frozenset(
            node
            for node, one in records.items()
            if node not in claimed
            and uuid in one.disputed
            and one.origins.get(uuid, Origin(node)).node != node
        )
        # A record that names a node as origin that claims the uuid was not renewed since that node came back.
        own = [node for node in claimed if records[node].origins.get(uuid, Origin("")).node not in claimed]
        owner = own[0] if len(own) == 1 else ""
        origin = records[owner].origins.get(uuid) if owner else self._oldest(uuid, history)
        if not claimed and origin is not None and uuid in self._holding(origin.node):
            owner = origin.node
        found = dataclasses.replace(
            history,
            owner=owner,
            origin=origin,
            shared=bool(owner in records and uuid in records[owner].disputed)
            or (not owner and any(self._unsure(node, uuid) for node in history.published)),
            late=late,
            doubts=frozenset(),
        )
        found = self._given(self._returned(uuid, found))
        doubts = {one for one in history.claimants if one not in late and uuid in self._holding(one)} - {
            found.owner
        }
        if found.owner in found.published:
            back = {found.origin.node} if self._valid(found.origin) and found.origin is not None else set()
            late = late.union(found.published) - {found.owner} - back
        return dataclasses.replace(found, late=late, doubts=frozenset(doubts))

    def _oldest(self, uuid: str, history: UuidHistory) -> Origin | None:
        """Return the origin that records name, where no record names an owner."""
        origins = [self._records.get(node, NOTHING).origins.get(uuid) for node in history.published]
        origins.append(self._own.get(uuid))
        found = [one for one in origins if one is not None and not self._unsure(one.node, uuid)]
        return min(found, key=lambda one: (one.since or 0.0, one.node), default=None)

    def record(self, node: str) -> Record:
        """Return what is to be recorded in the Device of a node."""
        claims, disputed, origins = set(), set(), {}
        for uuid in self.of(node):
            history = self._histories[uuid]
            if history.owner == node:
                claims.add(uuid)
                origin = history.origin if self._valid(history.origin) else None
                if history.shared and origin is not None:
                    disputed.add(uuid)
            else:
                origin = self._better_claim(uuid, history, node)
                if node in history.late or origin is None:
                    disputed.add(uuid)
            if origin is not None:
                origins[uuid] = origin
        moving = (uuid for uuid in self._moving if self._origins(self._histories[uuid]) == {node})
        for uuid in (*self._left.get(node, ()), *moving):
            origins[uuid] = self._histories[uuid].origin or Origin(node)
        return Record(claims, disputed, origins)

    def _better_claim(self, uuid: str, history: UuidHistory, node: str) -> Origin | None:
        """Return whose a uuid is that a node publishes, but may not give out; None where that is unknown."""
        if uuid in self._moving and node not in history.late and not history.shared:
            return history.origin
        return beside(history, node)

    def _unsure(self, node: str, uuid: str) -> bool:
        """Whether it is recorded that it is not known whether a uuid is this node's."""
        record = self._records.get(node, NOTHING)
        return uuid in record.disputed and uuid not in record.origins

    # ------------------------------------------------------------ what is remembered

    def _store(self, uuid: str, before: UuidHistory, after: UuidHistory) -> None:
        self._watch(uuid, self._waits(before), self._waits(after))
        if uuid in self._vacant:
            self._forget(uuid)
        self._histories.pop(uuid, None)
        self._moving.pop(uuid, None)
        if not after.owner and any(self._may_be_moving(after, node) for node in after.live):
            self._moving[uuid] = None
        if after.published or after.held:
            self._histories[uuid] = after
        elif after.origin is not None and self._valid(after.origin):
            left = self._left.setdefault(after.origin.node, {})
            if len(left) >= MOST_LEFT:
                self._forget(next(iter(left)))
            self._left.setdefault(after.origin.node, {})[uuid] = None
            self._vacant[uuid] = None
            self._histories[uuid] = after

    def _waits(self, history: UuidHistory) -> frozenset[str]:
        """Return the nodes of whose pods it must be known when they end; at first, also when they come."""
        contested = not self.ordered and len(history.claimants) > 1
        return history.waits().union(history.claimants) if contested else history.waits()

    def _watch(self, uuid: str, before: frozenset[str], after: frozenset[str]) -> None:
        for node in after:
            self.watched.setdefault(node, set()).add(uuid)
        for node in before - after:
            if uuid in (watched := self.watched.get(node, set())):
                watched.discard(uuid)
                if not watched:
                    del self.watched[node]

    def _prune(self) -> None:
        while self._vacant and not self._valid(self._histories[uuid := next(iter(self._vacant))].origin):
            self._forget(uuid)

    def _forget(self, uuid: str) -> None:
        """Forget a uuid that no node claims."""
        history = self._histories.pop(uuid)
        del self._vacant[uuid]
        if history.origin is not None:
            left = self._left[history.origin.node]
            del left[uuid]
            if not left:
                del self._left[history.origin.node]

    def _now(self) -> float:
        return float(int(self._clock()))  # As it can be recorded.

    def _valid(self, origin: Origin | None) -> bool:
        """Whether a node may come back for a uuid now."""
        return origin is not None and (
            origin.since is None or self._is_recent(origin.since, REMEMBERED_SECONDS)
        )

    def _is_recent(self, since: float, seconds: float) -> bool:
        """Whether so many seconds have not passed; a clock that was put back may name a time to come."""
        return abs(self._clock() - since) < seconds

    # ------------------------------------------------------------ what is asked

    def __len__(self) -> int:
        """Count the uuids of which anything is known."""
        return len(self._histories)

    def of(self, node: str) -> frozenset[str]:
        """Return the uuids that a node publishes."""
        return self._published.get(node, frozenset())

    def keeper(self, uuid: str) -> str:
        """Return the node to which a uuid may be given; nothing where that is not known."""
        return self._histories.get(uuid, UNKNOWN).keeper

    def kept(self, node: str) -> tuple[str, ...]:
        """Return the uuids that a node publishes and may give out."""
        return tuple(sorted(uuid for uuid in self.of(node) if self.keeper(uuid) == node))

    def lost(self, node: str) -> frozenset[str]:
        """Return the uuids of a node that it must not give out, because they are not surely its own."""
        return frozenset(uuid for uuid in self.of(node) if self.keeper(uuid) != node)

    def contested(self, node: str) -> dict[str, tuple[str, ...]]:
        """Return the uuids that a node publishes and others claim as well, and those others."""
        return {
            uuid: tuple(one for one in nodes if one != node)
            for uuid in sorted(self.of(node))
            if len(nodes := self._histories[uuid].claimants) > 1
        }

    def late(self, node: str) -> frozenset[str]:
        """Return the uuids that no other node claims now, and that are still not this node's."""
        histories = ((uuid, self._histories[uuid]) for uuid in self.of(node))
        return frozenset(
            uuid
            for uuid, one in histories
            if one.claimants == (node,) and (node in one.late or uuid in self._moving)
        )


def _among(nodes: tuple[str, ...], node: str, *, is_one: bool) -> tuple[str, ...]:
    """Return these nodes with a node, or without it."""
    if is_one == (node in nodes):
        return nodes
    return (*nodes, node) if is_one else tuple(one for one in nodes if one != node)
