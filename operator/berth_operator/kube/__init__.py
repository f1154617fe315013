"""The edge to the cluster: all that reads from and writes to the API server."""
