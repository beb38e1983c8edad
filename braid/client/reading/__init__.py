"""Reads offset ranges and streams without a group."""
