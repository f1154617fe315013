"""Draws clusters, and pods that ask for their nodes."""

from parity import node_drawing, pod_drawing, scenes
from parity.dice import Dice


def cluster(dice: Dice) -> scenes.Cluster:
    """Return a cluster of a few nodes and the pods on them."""
    names = tuple(f"node-{at}" for at in range(dice.randint(2, 8)))
    nodes = tuple(node_drawing.node(dice, name) for name in names)
    count = dice.randint(0, 14)
    bound = (pod_drawing.bound(dice, f"bound-{at}", dice.choice(names), names) for at in range(count))
    return scenes.Cluster(nodes, tuple(bound))


def question(dice: Dice, cluster: scenes.Cluster, name: str) -> scenes.Question:
    """Return a pod that asks for a node of a cluster."""
    names = tuple(node["metadata"]["name"] for node in cluster.nodes)
    return scenes.Question(cluster, pod_drawing.asking(dice, name, names))
