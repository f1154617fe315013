"""The operator: binds pods to nodes and to chosen cards, and watches over the agents."""
