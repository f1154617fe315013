"""Objects that could not be read when they came, because somebody writes too many that take long to be read.

An agent may write thousands of GpuPods, each of a megabyte, and whoever may edit pods as many pods. So none
of them is kept: only their names are, and each is read again from the API server when its time has come.
Those who wrote them take turns: nodes, or namespaces.
"""

from collections import OrderedDict

Place = tuple[str, str]  # Namespace and name.


class LateObjects:
    """The places of objects that are to be read again, by a key: the uid of a pod, the title of a GpuPod."""

    def __init__(self) -> None:
        # By writer, in turn; an ordinary dict is slow to find its first after many moves.
        self._places: OrderedDict[str, OrderedDict[str, Place]] = OrderedDict()
        self._writers: dict[str, str] = {}  # By key.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<LateObjects: {len(self._writers)} of {len(self._places)} writers>"

    def __contains__(self, key: str) -> bool:
        """Whether an object is to be read again."""
        return key in self._writers

    def add(self, writer: str, key: str, place: Place) -> None:
        """Add an object."""
        self.remove(key)
        self._writers[key] = writer
        self._places.setdefault(writer, OrderedDict())[key] = place

    def remove(self, key: str) -> None:
        """Forget an object that has come again, or is gone."""
        if (writer := self._writers.pop(key, None)) is not None:
            del self._places[writer][key]
            if not self._places[writer]:
                del self._places[writer]

    def next(self) -> Place | None:
        """Return where the next one is; it stays, the last of its writer, until it is removed."""
        for writer, places in self._places.items():
            key, place = next(iter(places.items()))
            places.move_to_end(key)
            self._places.move_to_end(writer)
            return place
        return None
