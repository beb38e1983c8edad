"""The algorithms that place leases. Pure."""
