"""What would make a pod fit: single changes, the cheapest first, or else two, found by trying them.

What a change is, and the scenario to which it is applied, is told in `scheduling.changes`: read that first.
`advice` combines what the constraints propose into sets. A change of the pod is tried on all nodes
(`feasibility`), one of a node is tried on a copy of the node (`trials`). `victims` finds the pods whose end
would make room. `node_survey` has why each node refuses the pod, and which of them need the least
change (the nearest); `explanation_budget` bounds the work of all this together. `explain` puts it in words,
and diagnoses the nearest nodes: what is short on them, device by device.

A gap is what part of a requirement a node misses, as the filters see it. A `Shortfall` is what the allocator
says of a node that it has searched in vain.

To propose something new, add a `Change` to the file of the constraint that it lifts, and yield it there: from
the relaxations if the pod changes, from the remedies if a node does.
"""
