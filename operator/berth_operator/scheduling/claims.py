"""To which node each card belongs, where several publish its uuid.

A uuid names one card of the world, so a second node that publishes it is wrong, or lies.
The node that published it first keeps the card. Which one that was is known from having
seen it, or from the record that the operator keeps in the Device of the first. Where
neither tells, nobody gets the card: two nodes were there when Berth first looked.

A pod may hold a card that its node publishes no more. As long as it does, that node keeps
its claim, or the card would be given out a second time where it turns up next.
"""

from collections.abc import Collection, Iterable

from berth_operator.scheduling.devices import facts


class Claims:
    """All uuids of GPUs and MIG instances, and the nodes that claim them."""

    def __init__(self) -> None:
        self.ordered = False  # Whether what is published from now on comes later than what is known.
        self._nodes: dict[str, tuple[str, ...]] = {}  # By uuid, in the order in which they were seen.
        self._published: dict[str, frozenset[str]] = {}  # By node.
        self._claimed: dict[str, frozenset[str]] = {}  # By node: what it publishes, or pods on it hold.
        self._recorded: dict[str, frozenset[str]] = {}  # By node: what is recorded as its own.
        self._unordered: set[str] = set()  # Uuids of which nobody saw who was first.

    def of(self, node: str) -> frozenset[str]:
        """Return the uuids that a node publishes."""
        return self._published.get(node, frozenset())

    def recorded(self, node: str, uuids: Iterable[str]) -> bool:
        """Whether it is news that these are recorded as a node's own."""
        return self._recorded.get(node, frozenset()) != self.of(node).intersection(uuids)

    def publish(
        self, device: facts.Device, recorded: Iterable[str] = (), held: Collection[str] = ()
    ) -> set[str]:
        """Record what a node publishes and its pods hold; return the nodes whose cards that changes."""
        node, uuids = device.node, frozenset(named(device))
        changed = uuids ^ self.of(node)
        self._published[node] = uuids
        affected = {node} | self._claim(node, uuids.union(held))
        before, now = self._recorded.get(node, frozenset()), uuids.intersection(recorded)
        self._recorded[node] = now
        for uuid in changed | (before ^ now):
            affected.update(self._nodes.get(uuid, ()))
        return affected

    def withdraw(self, node: str, held: Collection[str] = ()) -> set[str]:
        """Forget a Device whose node's pods hold this; return the other nodes whose cards that changes."""
        affected = self._claim(node, frozenset(held))
        for uuid in self._published.pop(node, frozenset()):
            affected.update(self._nodes.get(uuid, ()))
        self._recorded.pop(node, None)
        return affected - {node}

    def hold(self, node: str, held: Collection[str]) -> set[str]:
        """Record which uuids pods on a node hold now; return the nodes whose cards that changes."""
        return self._claim(node, self.of(node).union(held))

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
        return affected

    def keeper(self, uuid: str) -> str:
        """Return the node to which a uuid belongs; nothing where that is not known."""
        nodes = self._nodes.get(uuid, ())
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

    def lost(self, node: str) -> frozenset[str]:
        """Return the uuids of a node that it must not give out, because they are not surely its own."""
        return frozenset(uuid for uuid in self.contested(node) if self.keeper(uuid) != node)


def named(device: facts.Device) -> Iterable[str]:
    """Walk over the uuids that must be unique in the world: those of GPUs, and of their instances."""
    for card in device.cards:
        yield card.uuid
        for instance in card.instances:
            yield instance.uuid
