"""Security profiles: files that say how to connect to a cluster."""
