"""MPS: CUDA's service by which several programs share a card at the same time, each within its limits.

`limits` says what its daemon is told, and `daemon` starts it, tells it, and looks whether it answers.
"""
