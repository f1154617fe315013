"""The agent: it publishes the cards of its node, their health, and which pods hold them.

One process for each node samples the cards, writes the node's Device, writes a GpuPod for
each pod that was given cards, and renews a Lease which says that both are current. It decides
nothing about pods and reads no other node.
"""
