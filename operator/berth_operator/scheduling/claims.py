"""To which node each card belongs, where several publish its uuid.

A uuid names one card of the world, so a second node that publishes it is wrong, or lies.
The node that published it first keeps the card. Which one that was is known from having
seen it, or from the record that the operator keeps in the Device of the first. Where
neither tells, nobody gets the card: two nodes were there when Berth first looked.

Who published a card that was another's does not inherit it when that other goes: a node may
be deleted and join anew, and its cards must not be somebody else's then. It has come too
late, and stays so for as long as anybody claims the uuid; a node that comes later has it
before him. Nor does a node lose a card for good by losing it for a while: for a day, the one
to which it belonged has it again as soon as it publishes it, whoever has it by then.

A pod may hold a card that its node publishes no more. As long as it does, that node keeps
its claim, or the card would be given out a second time where it turns up next.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from berth_operator.scheduling.devices import facts

REMEMBERED_SECONDS: Final = 24 * 3600.0  # For which a node that withdrew a card may come back for it.
MOST_LEFT: Final = 1024  # Of these, for one node.


class Origins:
    """Whose the uuids were that were withdrawn lately: the first who did so counts, until he returns."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._of: dict[str, tuple[str, float]] = {}  # By uuid, in the order in which they were withdrawn.
        self._left: dict[str, dict[str, None]] = {}  # By node.

    def __len__(self) -> int:
        """Count them."""
        return len(self._of)

    def add(self, node: str, uuid: str) -> None:
        """Note that a node withdraws what is its own."""
        self._prune()
        if uuid in self._of:
            return
        left = self._left.setdefault(node, {})
        if len(left) >= MOST_LEFT:
            self._forget(next(iter(left)))
        self._left.setdefault(node, {})[uuid] = None
        self._of[uuid] = node, self._clock()

    def take(self, node: str, uuid: str) -> bool:
        """Whether a node comes back for what was its own; from then on that is forgotten."""
        self._prune()
        came_back = uuid in self._left.get(node, ())
        if came_back:
            self._forget(uuid)
        return came_back

    def _prune(self) -> None:
        latest = self._clock() - REMEMBERED_SECONDS
        while self._of and (uuid := next(iter(self._of))) and self._of[uuid][1] <= latest:
            self._forget(uuid)

    def _forget(self, uuid: str) -> None:
        node, _ = self._of.pop(uuid)
        del self._left[node][uuid]
        if not self._left[node]:
            del self._left[node]


class Claims:
    """All uuids of GPUs and MIG instances, and the nodes that claim them."""

    def __init__(self, clock: Callable[[], float] = float) -> None:
        """Begin with nothing; on the clock that is the default no time passes."""
        self.ordered = False  # Whether what is published from now on comes later than what is known.
        self._nodes: dict[str, tuple[str, ...]] = {}  # By uuid, in the order in which they were seen.
        self._published: dict[str, frozenset[str]] = {}  # By node.
        self._claimed: dict[str, frozenset[str]] = {}  # By node: what it publishes, or pods on it hold.
        self._recorded: dict[str, frozenset[str]] = {}  # By node: what is recorded as its own.
        self._unordered: set[str] = set()  # Uuids of which nobody saw who was first.
        self._late: dict[str, set[str]] = {}  # By uuid, the nodes that published it while it was another's.
        self._origins = Origins(clock)

    def of(self, node: str) -> frozenset[str]:
        """Return the uuids that a node publishes."""
        return self._published.get(node, frozenset())

    def recorded(self, node: str, uuids: Iterable[str]) -> bool:
        """Whether it is news that these are recorded as a node's own."""
        return self._recorded.get(node, frozenset()) != self.of(node).intersection(uuids)

    def publish(
        self,
        device: facts.Device,
        recorded: Iterable[str] = (),
        held: Collection[str] = (),
        *,
        disputed: Iterable[str] = (),
    ) -> set[str]:
        """Record what a node publishes and its pods hold; return the nodes whose cards that changes.

        `disputed` is what its Device says it had not surely when it was last looked at: that counts as
        long as nobody has seen who was first.
        """
        node, uuids = device.node, frozenset(named(device))
        known = self.of(node)
        changed = uuids ^ known
        self._part(node, known - uuids)
        self._published[node] = uuids
        affected = {node} | self._claim(node, uuids.union(held))
        self._come_back(node, uuids - known)
        for uuid in (uuids - known).intersection(() if self.ordered else disputed):
            self._late.setdefault(uuid, set()).add(node)
        before, now = self._recorded.get(node, frozenset()), uuids.intersection(recorded)
        self._recorded[node] = now
        for uuid in changed | (before ^ now):
            affected.update(self._nodes.get(uuid, ()))
        return affected

    def withdraw(self, node: str, held: Collection[str] = ()) -> set[str]:
        """Forget a Device whose node's pods hold this; return the other nodes whose cards that changes."""
        self._part(node, self.of(node))
        affected = self._claim(node, frozenset(held))
        for uuid in self._published.pop(node, frozenset()):
            affected.update(self._nodes.get(uuid, ()))
        self._recorded.pop(node, None)
        return affected - {node}

    def hold(self, node: str, held: Collection[str]) -> set[str]:
        """Record which uuids pods on a node hold now; return the nodes whose cards that changes."""
        return self._claim(node, self.of(node).union(held))

    def _part(self, node: str, uuids: Iterable[str]) -> None:
        """Settle whose these are before a node withdraws them: neither it nor another inherits by that."""
        for uuid in uuids:
            keeper = self.keeper(uuid)
            if keeper == node:
                self._origins.add(node, uuid)
            late = {one for one in self._nodes[uuid] if one != keeper and uuid in self.of(one)}
            if late and len(self._nodes[uuid]) > 1:
                self._late.setdefault(uuid, set()).update(late)

    def _come_back(self, node: str, uuids: Iterable[str]) -> None:
        """Make a node the keeper again of what it withdrew and publishes once more."""
        for uuid in uuids:
            if self._origins.take(node, uuid):
                others = {one for one in self._nodes[uuid] if one != node and uuid in self.of(one)}
                late = (self._late.pop(uuid, set()) | others) - {node}
                if late:
                    self._late[uuid] = late

    def _claim(self, node: str, uuids: frozenset[str]) -> set[str]:
        before = self._claimed.pop(node, frozenset())
        if uuids:
            self._claimed[node] = uuids
        affected = self._leave(node, before - uuids)
        for uuid in uuids - before:
            others = self._nodes.get(uuid, ())
            if others and not self.ordered:
                self._unordered.add(uuid)
            self._nodes[uuid] = (*others, node)
            affected.update((*others, node))
        return affected

    def _leave(self, node: str, uuids: Iterable[str]) -> set[str]:
        affected: set[str] = set()
        for uuid in uuids:
            left = tuple(one for one in self._nodes[uuid] if one != node)
            affected.update(left)
            if len(left) < 2:  # noqa: PLR2004  one node alone is in nobody's way
                self._unordered.discard(uuid)
            if left:
                self._nodes[uuid] = left
            else:
                del self._nodes[uuid]
                self._late.pop(uuid, None)
        return affected

    def keeper(self, uuid: str) -> str:
        """Return the node to which a uuid belongs; nothing where that is not known."""
        nodes = self._nodes.get(uuid, ())
        late = self._late.get(uuid)
        if late:
            nodes = tuple(node for node in nodes if node not in late)
        if len(nodes) < 2:  # noqa: PLR2004  there is no choice
            return nodes[0] if nodes else ""
        recorded = [node for node in nodes if uuid in self._recorded.get(node, ())]
        if recorded:
            return recorded[0] if len(recorded) == 1 else ""
        return "" if uuid in self._unordered else nodes[0]

    def kept(self, node: str) -> tuple[str, ...]:
        """Return the uuids that belong to a node, which is what the operator records."""
        return tuple(sorted(uuid for uuid in self.of(node) if self.keeper(uuid) == node))

    def contested(self, node: str) -> dict[str, tuple[str, ...]]:
        """Return the uuids that a node publishes and others claim as well, and those others."""
        return {
            uuid: tuple(one for one in self._nodes[uuid] if one != node)
            for uuid in sorted(self.of(node))
            if len(self._nodes[uuid]) > 1
        }

    def late(self, node: str) -> frozenset[str]:
        """Return the uuids that a node published while they were another's, and nobody else claims now."""
        return frozenset(
            uuid
            for uuid in self.of(node)
            if node in self._late.get(uuid, ()) and self._nodes[uuid] == (node,)
        )

    def lost(self, node: str) -> frozenset[str]:
        """Return the uuids of a node that it must not give out, because they are not surely its own."""
        return frozenset(
            uuid
            for uuid in self.of(node)
            if (uuid in self._late or len(self._nodes[uuid]) > 1) and self.keeper(uuid) != node
        )


def named(device: facts.Device) -> Iterable[str]:
    """Walk over the uuids that must be unique in the world: those of GPUs, and of their instances."""
    for card in device.cards:
        yield card.uuid
        for instance in card.instances:
            yield instance.uuid
