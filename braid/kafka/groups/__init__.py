"""Offsets of groups, and membership in them."""
