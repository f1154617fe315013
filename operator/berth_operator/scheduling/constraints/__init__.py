"""The constraints: one file for each check that a node must pass, with everything about it.

A check has one or several reasons for which a node refuses a pod. `constraint` says what a constraint
consists of, `query` what it is asked, and `registry` has all of them in order. The search walks the registry
for the nodes that pass (`registry.feasible`), `reason_counts` for the reason of each node that does not,
`explain` for the words, and `what_if` for the changes that would lift a constraint.

`registry` tells how to add one; `host_ports` is a small and complete example. `asks` and `gaps` are what
several constraints share.
"""
