"""The cliques of a topology: the largest sets of cards in which every pair is joined by NVLink.

Hardware has few of them. Behind an NVLink switch all cards are one clique, a cube mesh has
six, a torus as many as links. A graph of links that was made up can have more of
them than can be listed, so the walk over it has an end, and a topology beyond that is
called tangled: nothing is known of its cliques.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final

from berth_operator.scheduling.devices import node_topology

# In how many cliques each card may be on an average, and some more on small topologies: eight cards and
# fewer are never too many. A torus has six for each card.
RINGS_A_CARD: Final = 6
RINGS_MORE: Final = 16
# How many cards are visited in one walk, for each pair of cards, and some more on small topologies.
LOOKS_A_PAIR: Final = 4
LOOKS_MORE: Final = 512


class TangledError(Exception):
    """There are more cliques than on any hardware."""


@node_topology.remembered(1 << 10)
def find(topology: node_topology.NodeTopology) -> tuple[int, ...] | None:
    """Return the cliques as masks of slots, lowest first; None where they are too many."""
    if not topology.size:
        return ()
    try:
        return tuple(sorted(_Walk(topology.peers).cliques()))
    except TangledError:
        return None


@dataclasses.dataclass(slots=True)
class _Walk:
    """A walk over the maximal cliques of a graph, after Bron and Kerbosch, with a pivot."""

    peers: tuple[int, ...]
    looks: int = 0
    cards: int = 0

    def cliques(self) -> Iterator[int]:
        everything = (1 << len(self.peers)) - 1
        return self._from(0, everything, 0)

    def _from(self, chosen: int, able: int, done: int) -> Iterator[int]:
        size = len(self.peers)
        if not able and not done:
            self.cards += chosen.bit_count()
            if self.cards > RINGS_A_CARD * size + RINGS_MORE:
                raise TangledError
            yield chosen
            return
        # Not by `slots`, which remembers: each of these masks is met once.
        around = [at for at in range(size) if (able | done) >> at & 1]
        self.looks += len(around)
        if self.looks > LOOKS_A_PAIR * size * size + LOOKS_MORE:
            raise TangledError
        pivot = max(around, key=lambda at: (self.peers[at] & able).bit_count())
        for at in around:
            bit = 1 << at
            if able & bit & ~self.peers[pivot]:
                yield from self._from(chosen | bit, able & self.peers[at], done & self.peers[at])
                able &= ~bit
                done |= bit
