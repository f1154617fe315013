"""What part of something is missing: the measure of how near a node comes."""

import numpy as np

from berth_operator.scheduling import node_table


def gap(free: node_table.Numbers, wanted: node_table.Numbers | int) -> node_table.Scores:
    """Return what part of the wanted is missing, from 0 to 1."""
    missing: node_table.Scores = np.clip(1 - free / np.maximum(wanted, 1), 0, 1)
    return np.where(np.asarray(wanted) > 0, missing, 0.0)
