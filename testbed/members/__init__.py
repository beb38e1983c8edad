"""Processes that are members of groups, and groups of them."""
