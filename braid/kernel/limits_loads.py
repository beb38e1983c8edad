"""Bounds of how clusters' loads are measured. A part of `limits.py`, which would be too long with them."""

from typing import Final

# --- loads of clusters
LOAD_LOOK_SECONDS: Final = 10.0  # between two looks at a cluster's disks: they fill slowly, and answers are large
LOAD_LOOKS: Final = 6  # over which bytes a second are averaged: a minute; a burst moves no traffic
LOAD_KEPT_SECONDS: Final = 60.0  # what is older counts as not measured: several looks have failed
LOAD_BROKERS_AT_ONCE: Final = 4  # asked for their disks: some that hang delay the others little
LOAD_PARTITIONS_MAX: Final = 50_000  # of one cluster whose growth is followed, in 15 MB; the rest adds to no rate
TOPICS_READ_MAX: Final = 500  # whose settings are asked for at once
