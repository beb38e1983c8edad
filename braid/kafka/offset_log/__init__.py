"""Reads the log of committed offsets (`__consumer_offsets`) without joining a group."""
