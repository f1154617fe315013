"""Which nodes, apart from cards: what every scheduler has to know of a pod and of a node."""
