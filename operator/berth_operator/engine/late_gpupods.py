"""GpuPods that could not be read when they came, because their agent writes too much.

Such an agent may write thousands of them, each of a megabyte. So none is kept: only their titles are, and
each is read again from the API server when its time has come. Nodes take turns.
"""

from collections import OrderedDict


class LateGpuPods:
    """The titles of GpuPods that are to be read again."""

    def __init__(self) -> None:
        # By node, in turn; an ordinary dict is slow to find its first after many moves.
        self._titles: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        self._nodes: dict[str, str] = {}  # By title.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<LateGpuPods: {len(self._nodes)} of {len(self._titles)} nodes>"

    def __contains__(self, title: str) -> bool:
        """Whether a GpuPod is to be read again."""
        return title in self._nodes

    def add(self, node: str, title: str) -> None:
        """Add a GpuPod of a node."""
        self.remove(title)
        self._nodes[title] = node
        self._titles.setdefault(node, OrderedDict())[title] = None

    def remove(self, title: str) -> None:
        """Forget a GpuPod that has come again, or is gone."""
        if (node := self._nodes.pop(title, None)) is not None:
            del self._titles[node][title]
            if not self._titles[node]:
                del self._titles[node]

    def next(self) -> tuple[str, str] | None:
        """Return namespace and name of the next one; it stays, the last of its node, until it is removed."""
        for node, titles in self._titles.items():
            title = next(iter(titles))
            titles.move_to_end(title)
            self._titles.move_to_end(node)
            namespace, _, name = title.partition("/")
            return namespace, name
        return None
