"""The constraints: one file for each reason why a node refuses a pod, with everything about it.

`constraint` says what a constraint consists of, `query` what is asked of it, and `registry` has
all of them in the order in which they are asked. The search walks the registry for the nodes that
are able (`registry.able`), `reasons` for the reason of each node that is not, `explain` for the
words, and `what_if` for the changes that would lift a constraint.

To add a constraint: write a file that ends with its `CONSTRAINT`, and add it to the registry.
`host_ports` is a small and complete one. `asks` and `gaps` are what several of them share.
"""
