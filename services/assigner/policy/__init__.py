"""Algorithms that place leases. Pure."""
