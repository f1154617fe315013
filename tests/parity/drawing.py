"""Draws clusters, and pods that ask for their nodes.

Each cluster may have a theme: a group of fields that its pods use often, so that they meet.
"""

from collections.abc import Sequence

from parity import node_drawing, pod_drawing, scenes
from parity.dice import Dice
from parity.scenes import Object


def cluster(dice: Dice, theme: str) -> scenes.Cluster:
    """Return a cluster of a few nodes and the pods on them."""
    names = tuple(f"node-{at}" for at in range(dice.randint(2, 8)))
    nodes = tuple(node_drawing.node(dice, name, theme) for name in names)
    bound = (pod_drawing.bound(dice, f"bound-{at}", names, theme) for at in range(dice.randint(0, 12)))
    return scenes.Cluster(nodes, tuple(bound))


def asking(dice: Dice, cluster: scenes.Cluster, count: int, theme: str) -> Sequence[Object]:
    """Return so many pods that ask for a node of a cluster."""
    names = tuple(node["metadata"]["name"] for node in cluster.nodes)
    return [pod_drawing.asking(dice, f"asking-{at}", names, theme) for at in range(count)]


def theme(dice: Dice) -> str:
    """Return the theme of a cluster; empty if it has none."""
    return dice.choice(pod_drawing.THEMES)
