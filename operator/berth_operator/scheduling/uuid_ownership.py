"""To which node each card belongs, where several publish its uuid.

A uuid names one card of the world, so a second node that publishes it is wrong, or lies. What is
known of a uuid is one of the `titles`: its owner, who publishes it, and from whom it came. No event but
these changes whose it is:

    somebody publishes what nobody has            it is the owner's
    ... what its owner publishes, too             it is late: not given, and it does not inherit
    ... what its owner withdrew, but pods hold    it is the heir: the owner's until they end
    the owner withdraws, and no pod of it holds   the heir's, or nobody's; for a day the owner may
                                                  come back for it: it is the origin
    the origin publishes it again                 it is the origin's, once no pod of the owner has it
    two were there when Berth first looked        nobody's; of who withdraws it is the other's, until
                                                  the first is back: then it is nobody's again

Only the owner is given the card, and nobody is while pods elsewhere hold it that were there when
Berth first looked. All of it is recorded in the Devices, so that the next operator decides the same.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable
from typing import Final

from berth_operator.scheduling.devices import facts
from berth_operator.scheduling.uuid_records import NOTHING, UNKNOWN, Origin, Record, Title, beside

REMEMBERED_SECONDS: Final = 24 * 3600.0  # For which a node that withdrew a card may come back for it.
MOST_LEFT: Final = 1024  # Uuids that a node withdrew and nobody claims.


class Claims:
    """All uuids of GPUs and MIG instances, and the nodes that claim them."""

    def __init__(
        self,
        clock: Callable[[], float] = float,
        holds: Callable[[str], Collection[str]] | None = None,
    ) -> None:
        """Begin with nothing; `holds` tells what pods on a node hold now, or it is what was said last.

        The clock tells the time of day; on the one that is the default no time passes.
        """
        self.ordered = False  # Whether what is published from now on comes later than what is known.
        self.watched: dict[str, set[str]] = {}  # By node, the uuids of which it must be told who holds them.
        self._clock = clock
        self._titles: dict[str, Title] = {}  # By uuid.
        self._published: dict[str, frozenset[str]] = {}  # By node.
        self._held: dict[str, frozenset[str]] = {}  # By node, as was said last.
        self._holding = holds or self._told
        self._records: dict[str, Record] = {}  # By node, as it was when all were read.
        self._own: dict[str, Origin] = {}  # What their origins do not publish now, as is recorded.
        self._vacant: dict[str, None] = {}  # What nobody claims, in the order in which it was withdrawn.
        self._left: dict[str, dict[str, None]] = {}  # The same by the node that may come back for it.
        self._decided: set[str] = set()  # Nodes of whose cards others count than before.

    def _told(self, node: str) -> frozenset[str]:
        return self._held.get(node, frozenset())

    # ------------------------------------------------------------ what happens

    def publish(self, device: facts.Device, record: Record = NOTHING, held: Collection[str] = ()) -> set[str]:
        """Apply what a node publishes and its pods hold; return the nodes whose cards that changes.

        What is recorded counts only until all Devices were read: what was seen since is known better.
        """
        node, uuids = device.node, frozenset(named(device))
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
        before, now = self._told(node), frozenset(held)
        self._held[node] = now
        if not now:
            del self._held[node]
        affected: set[str] = set()
        published = self.of(node)
        for uuid in (before ^ now).union(uuids):
            title = self._titles.get(uuid, UNKNOWN)
            after = self._after(node, uuid, title)
            if after != title:
                self._store(uuid, title, after)
                nodes = {*title.published, *title.held, *after.published, *after.held}
                if title.origin or after.origin:
                    nodes |= self._origins(title, after)
                affected |= nodes if uuid in published else nodes - {node}
                if after.owner != title.owner or after.doubts != title.doubts:
                    self._decided |= nodes
        return affected

    def take_decided(self) -> set[str]:
        """Return the nodes of whose cards others count than before because one has another keeper, once.

        Of a node that publishes anew others may count without that.
        """
        decided, self._decided = self._decided, set()
        return decided

    def _origins(self, *titles: Title) -> set[str]:
        """Name the nodes in whose Devices it is recorded that they may come back."""
        return {one.origin.node for one in titles if one.origin is not None} & self._published.keys()

    def _after(self, node: str, uuid: str, title: Title) -> Title:
        """Return what becomes of a title by what a node now publishes and holds."""
        publishes, was_live = uuid in self.of(node), node in title.live
        if title is UNKNOWN and publishes and not self._records.get(node, NOTHING).origins:
            held = (node,) if uuid in self._told(node) else ()
            return Title(owner=node, published=(node,), held=held)
        new = publishes and node not in title.published
        published = _among(title.published, node, is_one=publishes)
        changed = Title(  # Whole, for that is twice as fast, and a Device may have a thousand uuids.
            owner=title.owner,
            origin=title.origin,
            shared=title.shared,
            published=published,
            held=_among(title.held, node, is_one=uuid in self._told(node)),
            late=title.late | {node}
            if new and self._is_late(node, title)
            else title.late.intersection(published),
            doubts=title.doubts and frozenset(one for one in title.doubts if uuid in self._holding(one)),
        )
        if not self.ordered:
            return self._settled(uuid, self._read(uuid, changed))
        if was_live and not publishes and not title.owner and len(title.live) > 1:
            changed = dataclasses.replace(changed, origin=Origin(node, self._now()), shared=True)
        return self._settled(uuid, changed)

    def _is_late(self, node: str, title: Title) -> bool:
        """Whether a node that publishes a uuid is not the first, and does not come back for it."""
        back = title.origin is not None and title.origin.node == node and self._valid(title.origin)
        return bool(title.live) and not back

    # ------------------------------------------------------------ what becomes of it

    def _settled(self, uuid: str, title: Title) -> Title:
        """Return a title after who may come back has, and who has let go has gone."""
        if title.origin is None and not title.shared and title.owner in title.published:
            return title  # Mostly: it is its owner's, whoever else publishes it.
        return self._given(self._returned(uuid, self._vacated(uuid, title)))

    def _owner_holds(self, uuid: str, title: Title) -> bool:
        return bool(title.owner) and uuid in self._holding(title.owner)

    def _vacated(self, uuid: str, title: Title) -> Title:
        """Return the title without an owner that neither publishes it nor has pods that hold it."""
        if not title.owner or title.owner in title.published or self._owner_holds(uuid, title):
            return title
        first = self._valid(title.origin) and not title.shared
        origin = title.origin if first else Origin(title.owner, self._now())
        return dataclasses.replace(title, owner="", origin=origin)

    def _returned(self, uuid: str, title: Title) -> Title:
        """Return the title with the uuid back at its origin, if that has it and no pod of the owner does."""
        origin, owner = title.origin, title.owner
        if origin is None or origin.node == owner:
            unchanged = origin is None and not title.shared
            return title if unchanged else dataclasses.replace(title, origin=None, shared=False)
        if origin.node not in title.live or not self._valid(origin):
            away = origin if origin.since is not None else Origin(origin.node, self._now())
            return dataclasses.replace(title, origin=away)
        if self._owner_holds(uuid, title):
            return dataclasses.replace(title, origin=Origin(origin.node))
        if title.shared and owner:
            return dataclasses.replace(title, owner="", origin=None, shared=False)
        late = title.late | frozenset(title.live) - {origin.node}
        return dataclasses.replace(title, owner=origin.node, origin=None, shared=False, late=late)

    def _given(self, title: Title) -> Title:
        """Return the title of a uuid that nobody has once the only one who claims it in time has it."""
        if title.owner:
            return title
        alone = title.live or (() if title.published else title.held)
        if len(alone) != 1:
            return title
        origin = None if title.origin is not None and title.origin.node == alone[0] else title.origin
        return dataclasses.replace(title, owner=alone[0], origin=origin)

    # ------------------------------------------------------------ what is recorded

    def _read(self, uuid: str, title: Title) -> Title:
        """Return a title as the records tell it that have been read until now."""
        records = {node: self._records.get(node, NOTHING) for node in title.published}
        claimed = [node for node, one in records.items() if uuid in one.claims]
        late = frozenset(
            node
            for node, one in records.items()
            if node not in claimed
            and uuid in one.disputed
            and one.origins.get(uuid, Origin(node)).node != node
        )
        # A record that names another who has it recorded could not be written since that one came back.
        own = [node for node in claimed if records[node].origins.get(uuid, Origin("")).node not in claimed]
        owner = own[0] if len(own) == 1 else ""
        origin = records[owner].origins.get(uuid) if owner else self._oldest(uuid, title)
        if not claimed and origin is not None and uuid in self._holding(origin.node):
            owner = origin.node
        found = dataclasses.replace(
            title,
            owner=owner,
            origin=origin,
            shared=bool(owner in records and uuid in records[owner].disputed),
            late=late,
            doubts=frozenset(),
        )
        found = self._given(self._returned(uuid, found))
        doubts = {one for one in title.claimants if one not in late and uuid in self._holding(one)} - {
            found.owner
        }
        if found.owner in found.published:
            back = {found.origin.node} if self._valid(found.origin) and found.origin is not None else set()
            late = late.union(found.published) - {found.owner} - back
        return dataclasses.replace(found, late=late, doubts=frozenset(doubts))

    def _oldest(self, uuid: str, title: Title) -> Origin | None:
        """Return the origin that records name, where nobody is recorded as the owner."""
        told = [self._records.get(node, NOTHING).origins.get(uuid) for node in title.published]
        told.append(self._own.get(uuid))
        found = [one for one in told if one is not None and not self._unsure(one.node, uuid)]
        return min(found, key=lambda one: (one.since or 0.0, one.node), default=None)

    def record(self, node: str) -> Record:
        """Return what is to be recorded in the Device of a node."""
        claims, disputed, origins = set(), set(), {}
        for uuid in self.of(node):
            title = self._titles[uuid]
            if title.owner == node:
                claims.add(uuid)
                origin = title.origin if self._valid(title.origin) else None
                if title.shared and origin is not None:
                    disputed.add(uuid)
            else:
                origin = beside(title, node)
                if node in title.late or origin is None:
                    disputed.add(uuid)
            if origin is not None:
                origins[uuid] = origin
        for uuid in self._left.get(node, ()):
            origins[uuid] = self._titles[uuid].origin or Origin(node)
        return Record(claims, disputed, origins)

    def _unsure(self, node: str, uuid: str) -> bool:
        """Whether it is recorded that nobody knows whether a uuid is this node's."""
        record = self._records.get(node, NOTHING)
        return uuid in record.disputed and uuid not in record.origins

    # ------------------------------------------------------------ what is remembered

    def _store(self, uuid: str, before: Title, after: Title) -> None:
        self._watch(uuid, self._waits(before), self._waits(after))
        if uuid in self._vacant:
            self._forget(uuid)
        self._titles.pop(uuid, None)
        if after.published or after.held:
            self._titles[uuid] = after
        elif after.origin is not None and self._valid(after.origin):
            left = self._left.setdefault(after.origin.node, {})
            if len(left) >= MOST_LEFT:
                self._forget(next(iter(left)))
            self._left.setdefault(after.origin.node, {})[uuid] = None
            self._vacant[uuid] = None
            self._titles[uuid] = after

    def _waits(self, title: Title) -> frozenset[str]:
        """Name the nodes of whose pods it must be known when they end; at first, also when they come."""
        contested = not self.ordered and len(title.claimants) > 1
        return title.waits().union(title.claimants) if contested else title.waits()

    def _watch(self, uuid: str, before: frozenset[str], after: frozenset[str]) -> None:
        for node in after:
            self.watched.setdefault(node, set()).add(uuid)
        for node in before - after:
            if uuid in (watched := self.watched.get(node, set())):
                watched.discard(uuid)
                if not watched:
                    del self.watched[node]

    def _prune(self) -> None:
        while self._vacant and not self._valid(self._titles[uuid := next(iter(self._vacant))].origin):
            self._forget(uuid)

    def _forget(self, uuid: str) -> None:
        """Forget what nobody claims."""
        title = self._titles.pop(uuid)
        del self._vacant[uuid]
        if title.origin is not None:
            left = self._left[title.origin.node]
            del left[uuid]
            if not left:
                del self._left[title.origin.node]

    def _now(self) -> float:
        return float(int(self._clock()))  # As it can be recorded.

    def _valid(self, origin: Origin | None) -> bool:
        """Whether somebody may come back for a uuid now."""
        return origin is not None and (
            origin.since is None or self._clock() < origin.since + REMEMBERED_SECONDS
        )

    # ------------------------------------------------------------ what is asked

    def __len__(self) -> int:
        """Count the uuids of which anything is known."""
        return len(self._titles)

    def of(self, node: str) -> frozenset[str]:
        """Return the uuids that a node publishes."""
        return self._published.get(node, frozenset())

    def keeper(self, uuid: str) -> str:
        """Return the node to which a uuid may be given; nothing where that is not known."""
        return self._titles.get(uuid, UNKNOWN).keeper

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
            if len(nodes := self._titles[uuid].claimants) > 1
        }

    def late(self, node: str) -> frozenset[str]:
        """Return the uuids that a node published while they were another's, and nobody else claims now."""
        titles = ((uuid, self._titles[uuid]) for uuid in self.of(node))
        return frozenset(uuid for uuid, one in titles if node in one.late and one.claimants == (node,))


def _among(nodes: tuple[str, ...], node: str, *, is_one: bool) -> tuple[str, ...]:
    """Return these nodes with a node, or without it."""
    if is_one == (node in nodes):
        return nodes
    return (*nodes, node) if is_one else tuple(one for one in nodes if one != node)


def named(device: facts.Device) -> Iterable[str]:
    """Walk over the uuids that a node claims: none of a Device in which that cannot be recorded."""
    return () if device.large else uuids(device)


def uuids(device: facts.Device) -> Iterable[str]:
    """Walk over the uuids that must be unique in the world: those of GPUs, and of their instances."""
    for card in device.cards:
        yield card.uuid
        for instance in card.instances:
            yield instance.uuid
