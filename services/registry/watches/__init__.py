"""Streaming RPCs that clients keep open: channels, clusters, routes."""
