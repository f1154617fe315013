"""The engine: events in, decisions made, writes out. Asynchronous, still without Kubernetes."""
