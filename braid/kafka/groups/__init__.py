"""Committed offsets of groups, and memberships in groups."""
