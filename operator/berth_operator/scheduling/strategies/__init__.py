"""Strategies: how good each node is for a pod that fits there.

A strategy is a plain function from a ScoreInput, which has the numbers of some nodes and of one
signature, to a score of 0 to 100 for each node, the higher the better. It also says which
card a simple share should come from. Adding one is a file here, a word in the vocabulary
and a line in `registry`.
"""
