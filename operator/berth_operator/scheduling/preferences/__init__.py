"""Preferences: which of the nodes that fit a pod would rather have, beside what the strategy says.

Each is one file here, as each constraint is one in `constraints`, and the registry lists them. A preference
never keeps a pod off a node, and so never makes it wait.

Kube-scheduler makes most preferences comparable by dividing them by the best of all nodes that pass the
filters. So what one node gets depends on the others, while scores are remembered for each node and brought up
to date for the nodes that changed. That is why two steps are kept apart. What is remembered of a node is
its raw score, such as the sum of the weights of the terms that it meets, and whether it passes the filters:
both depend on nothing but the node. When a node is chosen, the raw scores of all that pass are normalised
and added to their scores (`choice`), anew each time: so the sum is always that of the nodes as they are.
Which nodes were searched for devices before, and in vain, or are kept for other pods, changes nothing in it.
"""
