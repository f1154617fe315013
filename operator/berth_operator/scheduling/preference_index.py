"""What nodes say that forbids nothing, and that only preferences read: soft taints and images."""

from berth_operator.scheduling import image_index
from berth_operator.scheduling.nodes import facts


class PreferenceIndex:
    """The rows whose nodes have PreferNoSchedule taints, and the images of all nodes."""

    def __init__(self) -> None:
        self.soft_tainted: set[int] = set()
        self.images = image_index.ImageIndex()
        self.version = 0  # How often a node has changed.
        self._nodes: dict[int, facts.Node] = {}

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    def update(self, row: int, node: facts.Node | None) -> None:
        """Record the node of a row; None where it has none any more."""
        before = self._nodes.get(row)
        if before is node:
            return
        self.version += 1
        if node is None:
            del self._nodes[row]
        else:
            self._nodes[row] = node
        if node is not None and any(one.effect == facts.Effect.PREFER_NO_SCHEDULE for one in node.taints):
            self.soft_tainted.add(row)
        else:
            self.soft_tainted.discard(row)
        had, has = (one.images if one is not None else () for one in (before, node))
        # How many nodes there are counts, too: it says how far an image has spread.
        if had != has or before is None or node is None:
            self.images.change(row, had, has)
