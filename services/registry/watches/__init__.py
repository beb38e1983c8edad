"""Streams that others keep open: channels, clusters, routes."""
