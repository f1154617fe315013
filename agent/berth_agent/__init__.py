"""The agent: on each node with cards, it says what is there and how it fares.

One process for each node looks at the cards, writes the node's Device, writes a GpuPod
for each pod that was given cards, and renews a Lease that vouches for both. It decides
nothing about pods and reads nobody else's nodes.
"""
