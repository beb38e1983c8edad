"""Copies of partitions in topics that are in use: how many there are to be, where they go, who brings them there."""
