"""Algorithms that even out load between clusters: loads, searches, disks that fill, and what to do now. Pure."""
