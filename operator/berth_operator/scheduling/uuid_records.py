"""What is known of one uuid, and what of that is recorded in the Devices.

`uuid_ownership` decides by it which node owns the uuid. The record of a node lists its own uuids,
disputed ones, and for either the node that has or had a better right to it.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple


class Origin(NamedTuple):
    """A node that may come back for a uuid, and when it withdrew the uuid; None while it still claims it."""

    node: str
    since: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """What is recorded in the Device of a node: its own uuids, disputed ones, and their origins."""

    claims: Collection[str] = frozenset()
    disputed: Collection[str] = frozenset()
    origins: Mapping[str, Origin] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class UuidHistory:
    """What is known of one uuid."""

    owner: str = ""
    origin: Origin | None = None
    shared: bool = False  # Whether the origin has no better right than the owner.
    published: tuple[str, ...] = ()  # By these nodes, in the order in which they were seen.
    held: tuple[str, ...] = ()  # By pods on these nodes, which need not publish it.
    late: frozenset[str] = frozenset()  # Nodes that published it while another owned it.
    doubts: frozenset[str] = frozenset()  # Nodes whose pods held it when Berth started.

    @property
    def live(self) -> tuple[str, ...]:
        """The nodes that publish it and are not late."""
        return tuple(node for node in self.published if node not in self.late)

    @property
    def claimants(self) -> tuple[str, ...]:
        """The nodes that publish it, or have pods that hold it."""
        return tuple(dict.fromkeys(self.published + self.held))

    @property
    def keeper(self) -> str:
        """The node that may give it out; none while there are doubts."""
        return "" if self.doubts - {self.owner} else self.owner

    def waits(self) -> frozenset[str]:
        """Return the nodes whose pods keep it from a node that publishes it."""
        back = self.origin is not None and self.origin.node in self.live and self.origin.node != self.owner
        return self.doubts | {self.owner} if back else self.doubts


NOTHING: Final = Record()
UNKNOWN: Final = UuidHistory()


def beside(history: UuidHistory, node: str) -> Origin | None:
    """Return whose a uuid is that a node publishes beside its owner; None where that is unknown."""
    if node in history.doubts or (not history.owner and node not in history.late):
        return None
    if history.origin is not None and history.origin.node == node:
        return history.origin
    first = history.owner or ("" if history.origin is not None else "".join(history.live[:1]))
    return Origin(first) if first else history.origin
