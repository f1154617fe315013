"""How the devices that are no cards count: NICs, FPGAs, and those of packages.

They count only for a pod that asks for them, each type alike, by the percent of its devices that pods have.
Where the pod asks for cards as well, these come first, and the other devices decide between nodes whose cards
are equally good. Where it does not, the other devices come first, and what is said of a pod without cards
decides between nodes that are equally good for them. `fragmentation` puts them behind what the pod's cpu and
memory would cost the cards, and makes room for them in its own number.
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.strategies import score_inputs

LEVELS: Final = 1 << 10  # Nodes whose devices differ by less are equally good for them.
TIE: Final = 1e-6  # Of a score, what the other devices decide where cards come first.
# Devices of a type. With a constant, the score of a node does not depend on other nodes.
MANY: Final = 64


def fullness(score_input: score_inputs.ScoreInput) -> node_table.Scores:
    """Return what part of the devices that the pod asks for pods have afterwards, from 0 to 1."""
    parts = [1 - (free - taken) / np.maximum(total, 1) for total, free, taken in score_input.other_devices()]
    mean: node_table.Scores = np.clip(sum(parts) / len(parts), 0, 1)
    return mean


def plenty(score_input: score_inputs.ScoreInput) -> node_table.Scores:
    """Return how many of them there are, which counts once, and are left, which counts twice, from 0 to 1."""
    sums = [total + 2 * free for total, free, _ in score_input.other_devices()]
    mean: node_table.Scores = np.clip(sum(sums) / (len(sums) * 3 * MANY * requests.WHOLE), 0, 1)
    return mean


def mixed(
    score_input: score_inputs.ScoreInput, score: node_table.Scores, others: node_table.Scores
) -> node_table.Scores:
    """Return a score, from 0 to 100, in which it also counts how good the other devices are, from 0 to 1."""
    if score_input.need.cards:
        return (1 - TIE) * score + TIE * score_inputs.BEST * others
    level = np.rint(others * (LEVELS - 1))
    # Half of a level at most: the best score by all else stays below the next level.
    ranked: node_table.Scores = (level * score_inputs.BEST + score / 2) / LEVELS
    return ranked
