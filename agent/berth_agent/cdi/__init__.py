"""CDI: a file on the node that tells container runtimes what opens each card.

`specs` says what stands in it, and `writer` keeps it true. Whoever names a device of it gets the card: this
agent by way of NRI, or `docker run --device berth.dev/gpu=GPU-…`.
"""
