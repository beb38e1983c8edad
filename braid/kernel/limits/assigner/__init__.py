"""Bounds of what the assigner leases, places, scales and answers."""
