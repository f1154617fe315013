"""How a container gets the cards that its pod was given: the methods of a node, and those of a pod.

A pod is delivered on a node that has one of the methods that serve the pod. On any other node its containers
would start without their cards, or with others.
"""

import enum
from typing import Final


class DeliveryMethod(enum.IntFlag):
    """One or several methods."""

    ENVIRONMENT = enum.auto()  # The runtime obeys variables, which annotations of the pod feed.
    DEVICE_PLUGIN = enum.auto()  # The kubelet asks the agent, for resources of the agent's plugin.
    NRI = enum.auto()  # The runtime asks the agent about each container.
    UNCHECKED = enum.auto()  # No method, which every node has: for pods that may start anywhere.
    OPENING = (
        enum.auto()
    )  # No method, nor of a node: the pod has devices that only the agent of a runtime opens.
    UNSERVED = (
        enum.auto()
    )  # No method either: the kubelet, served by nobody, fails pods that ask it for cards.


ALL: Final = (
    DeliveryMethod.ENVIRONMENT | DeliveryMethod.DEVICE_PLUGIN | DeliveryMethod.NRI | DeliveryMethod.UNCHECKED
)
