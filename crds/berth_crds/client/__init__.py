"""The one small Kubernetes client of agent and operator.

It speaks HTTP through aiohttp and decodes with msgspec, and knows no more than the two
programs need: a connection, typed errors, list and watch, an informer that never loses
a delete, server-side apply, Leases and Events. kubernetes-asyncio stays out of it, so
that the agent's image does not carry it.
"""
