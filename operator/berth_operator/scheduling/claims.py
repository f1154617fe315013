"""To which node each card belongs, where several publish its uuid.

A uuid names one card of the world, so a second node that publishes it is wrong, or lies.
The node that published it first keeps the card. Which one that was is known from having
seen it, or from the record that the operator keeps in the Device of the first. Where
neither tells, nobody gets the card: two nodes were there when Berth first looked.
"""

from collections.abc import Iterable

from berth_operator.scheduling.devices import facts


class Claims:
    """All uuids of GPUs and MIG instances, and the nodes that publish them."""

    def __init__(self) -> None:
        self.ordered = False  # Whether what is published from now on comes later than what is known.
        self._nodes: dict[str, tuple[str, ...]] = {}  # By uuid, in the order in which they were seen.
        self._uuids: dict[str, frozenset[str]] = {}  # By node.
        self._recorded: dict[str, frozenset[str]] = {}  # By node: what is recorded as its own.
        self._unordered: set[str] = set()  # Uuids of which nobody saw who was first.

    def of(self, node: str) -> frozenset[str]:
        """Return the uuids that a node publishes."""
        return self._uuids.get(node, frozenset())

    def recorded(self, node: str, uuids: Iterable[str]) -> bool:
        """Whether it is news that these are recorded as a node's own."""
        return self._recorded.get(node, frozenset()) != self.of(node).intersection(uuids)

    def publish(self, device: facts.Device, recorded: Iterable[str] = ()) -> set[str]:
        """Record what a node publishes; return the nodes whose cards that changes, itself included."""
        node, uuids = device.node, frozenset(named(device))
        affected = {node} | self._leave(node, self.of(node) - uuids)
        for uuid in uuids - self.of(node):
            others = self._nodes.get(uuid, ())
            if others and not self.ordered:
                self._unordered.add(uuid)
            self._nodes[uuid] = (*others, node)
            affected.update(others)
        self._uuids[node] = uuids
        before, now = self._recorded.get(node, frozenset()), uuids.intersection(recorded)
        self._recorded[node] = now
        for uuid in before ^ now:
            affected.update(self._nodes.get(uuid, ()))
        return affected

    def withdraw(self, node: str) -> set[str]:
        """Forget a node's Device; return the other nodes for which that changes something."""
        affected = self._leave(node, self.of(node))
        self._uuids.pop(node, None)
        self._recorded.pop(node, None)
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
        """Return the uuids of a node that others publish as well, and those others."""
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
