"""The pure core: which pod goes to which node and cards, or why not.

Nothing here awaits, reads a clock, logs or knows Kubernetes' objects. Values go in,
values come out; the engine calls, the edges act.
"""
