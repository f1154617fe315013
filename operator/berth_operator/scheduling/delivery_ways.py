"""The ways in which a container gets the cards that its pod was given: those of a node, and those of a pod.

A pod is delivered on a node that has one of the ways that serve the pod. On any other node its containers
would start without their cards, or with others.
"""

import enum
from typing import Final


class Way(enum.IntFlag):
    """One or several ways."""

    ENVIRONMENT = enum.auto()  # The runtime obeys variables, which annotations of the pod feed.
    DEVICE_PLUGIN = enum.auto()  # The kubelet asks the agent, for resources of the agent's plugin.
    NRI = enum.auto()  # The runtime asks the agent about each container.
    UNCHECKED = enum.auto()  # No way, which every node has: for pods that may start anywhere.
    OPENING = (
        enum.auto()
    )  # No way, nor of a node: the pod has devices that only the agent of a runtime opens.
    UNSERVED = enum.auto()  # No way either: the kubelet, served by nobody, fails pods that ask it for cards.


ALL: Final = Way.ENVIRONMENT | Way.DEVICE_PLUGIN | Way.NRI | Way.UNCHECKED
