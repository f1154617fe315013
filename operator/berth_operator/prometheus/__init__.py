"""The edge to Prometheus: finds it, asks it for the load of cards, and keeps that up to date."""
